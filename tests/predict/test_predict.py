"""Exact curves agree with all paths, with closed forms and with simulation."""

import dataclasses
import itertools
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from emphatic import _work, learners, MDP, oracle, predict, Problem, problems, schedules, Softmax
from emphatic.agents import actor_critic
from emphatic.engine import Measure, run
from emphatic.predict import moments
from emphatic.predict.affine import affine_maps
from emphatic.predict.curve import error_form
from emphatic.predict.stability import find_thresholds

from .. import transcriptions
from ..learners.test_learners import CONTRACT
from ..plainly import plainly
from ..strategies import build, of_anything

ALPHA, ETA = 0.1, 0.3
TRACED = (
    "td-trace",
    "gtd2-trace",
    "tdc-trace",
    "etd-trace",
    "htd",
    "vtrace",
    "tree_backup",
    "abtd",
)
TRACED += ("true_online_etd", "lstd", "elstd")
REMEMBERING = ("expected_trace", "lsgem", "restarting", "periodic_etd")
CURVED = ("etd", "gem-etd", "etq", *TRACED, *REMEMBERING)
AFFINE = [name for name in CONTRACT if name not in CURVED]
OF_VALUES = ("gq2", "gtd2", "tdc", "tdrc", "pgtd2", "td", "etd-exact")
FEATURES = ("original", "one-hot", "zero-hot", "aliased")


def make_learner(name, problem, target):
    """Returns a learner of the contract table, with the step size and the ridge given there."""
    return of_anything(CONTRACT[name][0](transcriptions.emphasis(problem, target)))


def steps(problem, target, s, a):
    """Yields what can happen after a state and an action: its probability, and what is seen."""
    outcomes, actions = transcriptions.outcomes(problem), problem.behavior.shape[1]
    for _, s_next, p, r, gamma in outcomes[s * actions + a]:
        for a_next in range(actions):
            y = SimpleNamespace(t=0, s=s, a=a, r=r, gamma=gamma, s_next=s_next, a_next=a_next)
            yield p * problem.behavior[s_next, a_next], *transcriptions.seen(problem, target, [y])


def squared_error(problem, target, name, measure):
    """The square of the error, a function of the weights and the transition, written out."""
    plain, m = plainly(problem, target), transcriptions.emphasis(problem, target)
    v = np.linalg.solve(np.eye(len(plain.d)) - plain.gP, plain.r)
    q = np.linalg.solve(np.eye(len(plain.r_actions)) - plain.gP_actions, plain.r_actions)
    if measure == "emphasis":
        predicted = transcriptions.LEARNERS[name][2]
        return lambda d, y, p: (predicted(d, y, p) - m[y.s]) ** 2
    if name == "gq2":
        return lambda d, y, p: np.diag(plain.D_actions) @ (plain.xa @ d["u"] - q) ** 2
    return lambda d, y, p: plain.d @ (plain.x @ d["nu"] - v) ** 2


def enumerate_moments(problem, target, name, measure, labels, points, num_steps):
    """Mean, second moments and mean squared error at each time, by a walk along all paths."""
    update, size = transcriptions.LEARNERS[name][1], len(labels)
    error = squared_error(problem, target, name, measure)
    p = SimpleNamespace(
        alpha=ALPHA, eta=ETA, value=100.0, m=transcriptions.emphasis(problem, target)
    )
    first, square = np.zeros((num_steps + 1, size)), np.zeros(num_steps + 1)
    second = np.zeros((num_steps + 1, size, size))
    pairs = itertools.product(*map(range, problem.behavior.shape))
    follow = {(s, a): list(steps(problem, target, s, a)) for s, a in pairs}

    def walk(chance, d, s, a, t):
        now = np.concatenate([np.zeros(0), *d.values()])
        first[t] += chance * now
        second[t] += chance * np.outer(now, now)
        for share, y in follow[s, a]:
            square[t] += chance * share * error(d, y, p)
            if t < num_steps:
                walk(chance * share, update(d, y, p), y.s_next, y.a_next, t + 1)

    for point in points:
        d = {}
        for label, number in zip(labels, point, strict=True):
            d.setdefault(label.split("[")[0], []).append(number)
        d = {weight: np.array(numbers) for weight, numbers in d.items()}
        for s, a in follow:
            walk(problem.start[s] * problem.behavior[s, a] / len(points), d, s, a, 0)
    return first, second, square


def weight_labels(problem, name):
    """Returns the names of the weights of a learner, in the order of its state."""
    labels = []
    for weight, kind in transcriptions.LEARNERS[name][0].items():
        if callable(kind):
            shape = np.asarray(kind(problem.x.shape[1])).shape
            labels += [weight + "".join(f"[{n}]" for n in index) for index in np.ndindex(shape)]
            continue
        size = kind[1] if isinstance(kind, tuple) else "x"
        size = size if isinstance(size, int) else getattr(problem, size).shape[-1]
        labels += [f"{weight}[{number}]" for number in range(size)]
    return labels


FAMILY = ("tdrc", "pgtd2", "gem-decay", "tdec", "tderc")  # affine as those before are
FAMILY += ("cop_td", "gradient_cop_td", "gradient_dice")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in FAMILY else ()) for n in AFFINE]
)
def test_the_recursion_is_the_enumeration_of_all_paths(name):
    """With a discount that varies, and a start that is not stationary, to 1e-12."""
    problem, target = build((2, 2, 2, 3), 11, varying=True)
    learner, rng = make_learner(name, problem, target), np.random.default_rng(5)
    labels = weight_labels(problem, name)
    size, num_steps = len(labels), 2
    center, root = rng.normal(size=size), 0.5 * rng.normal(size=(size, size))
    # A distribution on 2n points that has this mean, and the covariance root root'.
    points = [center + sign * np.sqrt(size) * column for column in root.T for sign in (-1.0, 1.0)]
    measure = "value" if name in OF_VALUES else "emphasis"
    first, second, square = enumerate_moments(
        problem, target, name, measure, labels, points or [center], num_steps
    )
    curve = predict.learning_curve(
        problem,
        learner,
        np.arange(num_steps + 1),
        target=target,
        measure=measure,
        initial=(center, root @ root.T),
    )
    assert list(curve.names) == labels
    covariance = second - first[:, :, None] * first[:, None, :]
    scale = 1 + np.abs(second).max(initial=0.0)
    np.testing.assert_allclose(curve.mean, first, atol=1e-12)
    np.testing.assert_allclose(curve.covariance, covariance, atol=1e-12 * scale)
    np.testing.assert_allclose(curve.rmse**2, square, rtol=1e-12, atol=1e-20)


def kronecker(affine, size):
    r"""$\sum_y\Pr(y|z)B(y)\otimes B(y)$ from $z$ to $z'$ (or $B$ alone), on whole matrices."""
    count, width = len(affine.start), affine.matrix.shape[1] ** size
    operator = np.zeros((count, width, count, width))
    for B, p, z, z_next in zip(
        affine.matrix, affine.probability, affine.source, affine.destination, strict=True
    ):
        operator[z_next, :, z] += p * (np.kron(B, B) if size == 2 else B)
    return operator.reshape(count * width, count * width)


def radius(matrix):
    return np.abs(np.linalg.eigvals(matrix)).max()


def test_powers_by_squaring_are_steps_one_by_one_and_a_krylov_space_says_the_same(monkeypatch):
    problem = problems.baird("aliased", solid=0.3)
    affine = predict.affine_map(problem, learners.gem(0.025))
    operator, start = moments.recursion(affine), moments.initial_moments(affine)
    stepped, every = operator.pack(start), []
    for _ in range(301):
        every.append(stepped)
        stepped = operator(stepped)
    times = np.array([300, 0, 1, 7, 256])
    dense = moments.path(operator, start, times)
    np.testing.assert_allclose(dense.moments(times), np.array(every)[times], rtol=1e-11, atol=1e-11)
    row = np.random.default_rng(0).normal(size=operator.size)
    summed = np.concatenate([[0.0], np.cumsum(every @ row)])
    np.testing.assert_allclose(dense.totals(row, times), summed[times], rtol=1e-9)
    monkeypatch.setattr(moments, "DENSE", 10)
    far = np.array([0, 1000, 10**6, 10**9])
    krylov = moments.path(operator, start, far, moments.weight_scale(affine))
    assert krylov.basis is not None
    assert len(krylov.matrix) < operator.size
    np.testing.assert_allclose(krylov.moments(far), dense.moments(far), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(krylov.limit(), dense.limit(), rtol=1e-5, atol=1e-5)


def test_a_krylov_space_that_is_too_small_is_not_believed(monkeypatch):
    """With 32 vectors this learner seems to grow: larger spaces find that it settles."""
    problem, stable, unstable = problems.baird("aliased"), learners.tdc(0.1), learners.tdc(1.0)
    far = [10**9]
    expected = predict.limit(problem, stable, measure="value").rmse
    monkeypatch.setattr(moments, "DENSE", 10)
    monkeypatch.setattr(moments, "MIN_VECTORS", 32)
    affine = predict.affine_map(problem, stable)
    operator = moments.recursion(affine)
    start, scale = moments.initial_moments(affine), moments.weight_scale(affine)
    path = moments.path(operator, start, np.array(far), scale)
    assert len(path.matrix) > 32
    curve = predict.learning_curve(problem, stable, far, measure="value")
    np.testing.assert_allclose(curve.rmse, expected, rtol=1e-6)
    settled = predict.limit(problem, stable, measure="value")
    np.testing.assert_allclose(settled.rmse, expected, rtol=1e-6)
    assert predict.learning_curve(problem, unstable, far, measure="value").rmse[0] == np.inf


def test_the_mass_is_one_after_a_thousand_million_steps():
    affine = predict.affine_map(problems.baird("aliased"), learners.td(0.1))
    operator, times = moments.recursion(affine), np.array([10**9])
    path = moments.path(operator, moments.initial_moments(affine), times)
    np.testing.assert_allclose(path.values(moments.mass(operator), times), 1.0, rtol=1e-9)


def test_what_a_step_reads_is_found():
    problem, target = build((3, 2, 2, 5), 2, varying=True)
    for name in ("gem", "gq2", "td", "lms"):
        affine = predict.affine_map(problem, make_learner(name, problem, target), target)
        assert affine.reads_next_action == (name == "gq2")
        assert len(affine.start) == (6 if name == "gq2" else 3)
        np.testing.assert_allclose(np.bincount(affine.source, affine.probability), 1.0)
    gem = learners.gem(ALPHA)
    after = dataclasses.replace(gem, predict=lambda d, y: gem.predict(gem.step(d, y), y))
    assert not predict.affine_map(problem, after).reads_next_action
    late = dataclasses.replace(gem, predict=lambda d, y: y.rho_next * gem.predict(d, y))
    assert predict.affine_map(problem, late).reads_next_action


def test_weights_start_as_the_learner_starts_them():
    problem = problems.baird()
    affine = predict.affine_map(problem, learners.gem(ALPHA))
    normal = np.array([name.startswith("w") for name in affine.names], float)
    np.testing.assert_array_equal(affine.covariance, np.diag(normal))
    np.testing.assert_array_equal(affine.mean, 0.0)
    shifted = predict.affine_map(problem, learners.gem(ALPHA), initial=np.arange(16.0))
    np.testing.assert_array_equal(shifted.mean, np.arange(16.0))
    assert not shifted.covariance.any()


def test_directions_that_no_prediction_sees_are_left_out():
    r"""With the original features: $X u = 0$ for one $u$, in $\kappa$ and in $w$."""
    problem = problems.baird("original", solid=0.1)
    affine = predict.affine_map(problem, learners.gem(0.025))
    observable = affine.observable()
    assert (affine.matrix.shape[1], observable.matrix.shape[1]) == (16, 14)
    assert radius(kronecker(affine, 1)) >= 1 - 1e-12
    assert radius(kronecker(observable, 1)) < 1 - 1e-6
    lost = np.linalg.svd(problem.x)[2][-1]
    for unseen in (np.r_[lost, 0 * lost], np.r_[0 * lost, lost]):
        np.testing.assert_allclose(unseen @ observable.basis, 0.0, atol=1e-12)
    times = np.array([0, 10, 1000])
    rmse = predict.learning_curve(problem, learners.gem(0.025), times).rmse
    operator = moments.recursion(observable)
    row = operator.functional(error_form(problem, None, observable, "emphasis"))
    path = moments.path(operator, moments.initial_moments(observable), times)
    np.testing.assert_allclose(path.values(row, times), rmse**2, rtol=1e-10)


@pytest.mark.parametrize("solid", [0.1, 0.3])
def test_the_trace_settles_at_its_exact_variance(solid):
    """The oracle knows it from another recursion; at 0.3 it is infinite."""
    problem = problems.baird(solid=solid)
    variance = problem.stationary @ oracle.followon_variance(problem)
    limit = predict.limit(problem, learners.followon())
    np.testing.assert_allclose(limit.rmse, np.sqrt(variance), rtol=1e-9)


@pytest.mark.parametrize("name", ["gem", "gq2", "tdc"])
def test_the_limit_is_where_the_curve_goes_and_near_the_fixed_point(name):
    problem, target = build((3, 2, 2, 5), 5, varying=True)
    make = {"gem": learners.gem, "gq2": learners.gq2, "tdc": learners.tdc}[name]
    measure = "emphasis" if name == "gem" else "value"
    limit = predict.limit(problem, make(0.1), target=target, measure=measure)
    curve = predict.learning_curve(problem, make(0.1), [10**8], target=target, measure=measure)
    np.testing.assert_allclose(limit.rmse, curve.rmse[0], rtol=1e-6)
    for one, other in ((limit.mean, curve.mean[0]), (limit.covariance, curve.covariance[0])):
        assert one is not None
        np.testing.assert_allclose(one, other, atol=1e-6)
    limit = predict.limit(problem, make(1e-4), target=target, measure=measure)
    assert limit.mean is not None
    system = getattr(oracle, f"{name}_system")(problem, target)
    np.testing.assert_allclose(limit.mean, system.solution(), rtol=0.01, atol=0.01)


def one_state(behavior, target, discount=0.5):
    """One state with one feature, where all that is random is the ratio."""
    mdp = MDP(np.ones((1, 2, 1)), reward=1.0, discount=discount)
    return Problem(mdp, np.array([behavior]), 1.0, np.ones((1, 1)), target=np.array([target]))


def test_the_three_thresholds_of_one_state_are_their_closed_forms():
    r"""TD there is $e_{t+1} = (1 - \alpha\rho_t(1 - \gamma))e_t$ with independent ratios."""
    mu, pi = np.array([0.9, 0.1]), np.array([0.4, 0.6])
    problem, rho = one_state(mu, pi), pi / mu
    thresholds = predict.thresholds(problem, learners.td)
    np.testing.assert_allclose(thresholds.mean, 2 / 0.5, rtol=1e-5)
    np.testing.assert_allclose(thresholds.mean_square, 2 / (mu @ rho**2) / 0.5, rtol=1e-5)
    for size in (0.5, 3.0, 5.0):
        exponent = mu @ np.log(np.abs(1 - size * rho * 0.5))
        estimate = predict.lyapunov(
            problem, learners.td(size), num_steps=2000, num_chains=200, confidence=0.999
        )
        assert estimate.low < exponent < estimate.high
        assert estimate.high - estimate.low < 0.02


@pytest.mark.parametrize("name", ["gem", "gq2", pytest.param("tdc", marks=pytest.mark.slow)])
def test_at_a_threshold_the_spectral_radius_is_one(name, monkeypatch):
    """On whole matrices, by all eigenvalues; by a matrix and in a Krylov space."""
    problem, target = build((3, 2, 2, 2), 4, varying=True)
    factory = getattr(learners, name)
    thresholds = predict.thresholds(problem, factory, target=target)
    maps = affine_maps(problem, factory, ALPHA, target)
    for size, threshold in ((1, thresholds.mean), (2, thresholds.mean_square)):
        for factor in (0.999, 1.001):
            affine = maps(factor * threshold).observable()
            assert (radius(kronecker(affine, size)) < 1) == (factor < 1)
    monkeypatch.setattr(moments, "DENSE", 10)
    again = find_thresholds(maps)
    np.testing.assert_allclose(again.mean_square, thresholds.mean_square, rtol=1e-5)


def test_what_learns_nothing_is_stable_and_its_error_does_not_change():
    problem = problems.baird()
    guess = learners.constant(100.0)
    error = np.sqrt(problem.stationary @ (100.0 - oracle.emphasis(problem)) ** 2)
    curve = predict.learning_curve(problem, guess, [0, 10**6], measure="emphasis")
    np.testing.assert_allclose(curve.rmse, error)
    np.testing.assert_allclose(predict.limit(problem, guess, measure="emphasis").rmse, error)
    thresholds = predict.thresholds(problem, lambda size: guess)
    assert (thresholds.mean, thresholds.mean_square) == (np.inf, np.inf)
    assert predict.lyapunov(problem, guess).high == -np.inf
    with pytest.raises(ValueError, match="no step size changes"):
        predict.best_step_size(problem, lambda size: guess, 10, measure="emphasis")


def test_small_steps_are_not_noise():
    """Directions are lost for what they are, not for the rounding of a step of 1e-9."""
    for size in (1e-9, 1e-3):
        affine = predict.affine_map(problems.baird("original"), learners.gem(size))
        assert affine.observable().matrix.shape[1] == 14


def test_where_the_mean_field_is_unstable_no_step_size_is_stable():
    thresholds = predict.thresholds(problems.two_state(), learners.td)
    assert (thresholds.mean, thresholds.mean_square) == (0.0, 0.0)
    assert predict.limit(problems.two_state(), learners.td(0.1), measure="value").rmse == np.inf
    curve = predict.learning_curve(
        problems.two_state(), learners.td(0.1), [0, 10**9], measure="value"
    )
    assert np.isfinite(curve.rmse[0])
    assert curve.rmse[1] == np.inf


def diverged_share(problem, size, num_steps=10_000):
    """The share of 20 simulated runs whose weights grow beyond all that is reasonable."""
    dataset = run(
        problem,
        {"gem": learners.gem(size)},
        num_steps=num_steps,
        seeds=20,
        record_every=num_steps,
        measures=["weights"],
        dtype="float64",
    )
    last = np.abs(dataset["gem_weights"].values[:, -1]).max(axis=-1)
    return (~(last < 1e6)).mean()


def test_stable_in_mean_and_almost_surely_is_not_stable_in_mean_square():
    """Baird's counterexample, pi(solid) = 0.3, aliased: and simulation sees the exponent."""
    problem = problems.baird("aliased", solid=0.3)
    thresholds = predict.thresholds(problem, learners.gem)
    assert thresholds.mean_square < 0.1 < thresholds.mean
    stable = predict.lyapunov(problem, learners.gem(0.1), num_steps=20_000)
    unstable = predict.lyapunov(problem, learners.gem(0.15), num_steps=2000)
    assert stable.high < 0 < unstable.low
    assert diverged_share(problem, 0.1) == 0.0
    assert diverged_share(problem, 0.15) == 1.0
    curve = predict.learning_curve(problem, learners.gem(0.1), [10**5])
    assert curve.rmse[0] > 1e9  # carried by paths that no simulation sees


def test_the_best_step_size_is_the_best_and_its_area_is_the_mean_square_over_steps():
    problem, num_steps = problems.random_walk(), 200

    def final(size):
        curve = predict.learning_curve(problem, learners.td(size), [num_steps], measure="value")
        return float(curve.rmse[0])

    def area(size):
        times = np.arange(num_steps)
        curve = predict.learning_curve(problem, learners.td(size), times, measure="value")
        return float(np.sqrt((curve.rmse**2).mean()))

    cases: list[tuple[Any, Any]] = [("final", final), ("area", area)]
    for by, error in cases:
        best = predict.best_step_size(problem, learners.td, num_steps, by=by, measure="value")
        np.testing.assert_allclose(best.rmse, error(best.step_size), rtol=1e-9)
        assert all(best.rmse <= error(factor * best.step_size) for factor in (0.9, 1.1))


@pytest.mark.slow
@pytest.mark.parametrize(("solid", "num_steps"), [(0.1, 10**6), (0.3, 2 * 10**6)])
def test_the_best_step_sizes_are_those_of_figure_2(solid, num_steps):
    """The exact error is smallest at the published member of the sweep, and near it without."""
    published = {0.1: (-2, 1, -3, -1), 0.3: (-4, -1, -3, -3)}[solid]
    for features, power in zip(FEATURES, published, strict=True):
        problem = problems.baird(features, solid)
        best = predict.best_step_size(problem, learners.gem, num_steps)
        assert abs(np.log2(best.step_size / 0.1) - power) < 0.5
        errors = [
            predict.learning_curve(problem, learners.gem(0.1 * 2.0**p), [num_steps]).rmse[0]
            for p in (power - 1, power, power + 1)
        ]
        assert np.argmin(errors) == 1


def test_what_is_not_affine_is_refused_and_its_affine_part_is_named():
    problem = problems.two_state()
    with pytest.raises(ValueError, match=r"nu is multiplied.*emphasis.kappa, emphasis.w is"):
        predict.affine_map(problem, learners.etd(learners.gem(0.1), 0.1))
    policy = Softmax(problem.xa)
    agent: Any = actor_critic(problem, policy, learners.gem(0.1), learners.gq2(0.1), 0.1)
    with pytest.raises(ValueError, match=r"an agent changes its own target.*gem and gq2"):
        predict.affine_map(problem, agent)
    gem = learners.gem(0.1)
    curved = dataclasses.replace(gem, predict=lambda d, y: gem.predict(d, y) ** 2)
    with pytest.raises(ValueError, match="what gem predicts is not affine"):
        predict.affine_map(problem, curved)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"learner": learners.gem(schedules.polynomial(0.1, 0.7))}, "changes with the time"),
        ({"learner": learners.gem(0.1, schedules.polynomial(0.1, 1.0))}, "changes with the time"),
        ({"times": [0.5]}, "whole numbers of steps"),
        ({"times": [-1]}, "times: got -1"),
        ({"times": [10**13]}, "times: got 1e"),
        ({"initial": np.zeros(3)}, "initial: got shape"),
        ({"initial": (np.zeros(2), np.diag([1.0, -1.0]))}, "negative eigenvalue"),
        ({"initial": (np.zeros(2), np.tri(2))}, "not symmetric"),
        ({"target": np.ones((2, 2))}, "target"),
    ],
)
def test_what_cannot_be_predicted_is_refused(arguments, message):
    settings = {"problem": problems.two_state(), "learner": learners.gem(0.1), "times": [1]}
    with pytest.raises(ValueError, match=message):
        predict.learning_curve(**{**settings, **arguments})


def test_weights_that_do_not_start_normal_must_be_given():
    gem = learners.gem(0.1)
    wide = dataclasses.replace(
        gem, init=lambda key, y: jax.tree.map(lambda w: 2 * w, gem.init(key, y))
    )
    with pytest.raises(ValueError, match="initial: not given, and the learner starts"):
        predict.affine_map(problems.two_state(), wide)
    assert predict.affine_map(problems.two_state(), wide, initial=np.zeros(2)).covariance.shape == (
        2,
        2,
    )


def test_what_does_not_fit_is_refused_with_the_memory_it_would_need(monkeypatch):
    with monkeypatch.context() as small:
        small.setattr(_work, "available_memory", lambda: 2.0**32)
        problem = problems.garnet(300, 2, 3, 60)
        with pytest.raises(ValueError, match=r"\d+ GiB of memory, and 4 GiB are available"):
            predict.learning_curve(problem, learners.gem(0.01), [10])
    monkeypatch.setattr(moments, "DENSE", 10)
    monkeypatch.setattr(moments, "MIN_VECTORS", 8)
    monkeypatch.setattr(moments, "MAX_VECTORS", 16)
    with pytest.raises(ValueError, match=r"with 16 vectors .* are known at 5 steps"):
        predict.learning_curve(problems.random_walk(), learners.gem(0.01), [5, 10**6])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_chains": 1}, "num_chains: got 1"),
        ({"num_steps": 0}, "num_steps: got 0"),
        ({"confidence": 1.0}, "confidence: got 1"),
        ({"seed": -1}, "seed: got -1"),
    ],
)
def test_an_exponent_needs_chains(arguments, message):
    with pytest.raises(ValueError, match=message):
        predict.lyapunov(problems.two_state(), learners.gem(0.1), **arguments)


def test_curves_are_exact_without_x64():
    script = """
import jax
from emphatic import predict, problems
from emphatic.learners import gem
assert not jax.config.jax_enable_x64
print(*predict.learning_curve(problems.two_state(), gem(0.02), [10, 10**5]).rmse.tolist())
assert not jax.config.jax_enable_x64
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_ENABLE_X64": "0"},
    )
    assert process.returncode == 0, process.stderr
    curve = predict.learning_curve(problems.two_state(), learners.gem(0.02), [10, 10**5])
    np.testing.assert_allclose([float(x) for x in process.stdout.split()], curve.rmse, rtol=1e-10)


SQUARE = Measure(
    lambda m, lane, learner, state, y: (learner.predict(state, y) - m[y.state]) ** 2,
    oracle.emphasis,
)
LEARNED = {
    "gem": (learners.gem, "emphasis"),
    "reverse_td": (learners.reverse_td, "emphasis"),
    "gq2": (learners.gq2, "value"),
    "gtd2": (learners.gtd2, "value"),
    "tdc": (learners.tdc, "value"),
    "td": (learners.td, "value"),
    "etd-exact": (None, "value"),
}


def interval(samples, rng, tail=1e-3):
    """A bootstrap interval of the mean over the first axis, by independent Poisson counts."""
    counts = rng.poisson(1.0, (2000, len(samples))).astype(np.float64)
    means = counts @ samples / counts.sum(1, keepdims=True)
    return np.quantile(means, [tail, 1 - tail], axis=0)


def compute_squares(problem, learner, measure, weights, settings):
    """Simulated squared errors of each run, and their exact means, at four times or windows."""
    if measure == "value":
        actions = learner.name == "gq2"
        x, d = (
            (problem.xa_rows, problem.stationary_actions.ravel())
            if actions
            else (problem.x, problem.stationary)
        )
        truth = oracle.action_values(problem).ravel() if actions else oracle.values(problem)
        squared_errors = (weights[..., -x.shape[1] :] @ x.T - truth) ** 2 @ d
        times = settings["record_every"] * np.arange(1, 5)
        curve = predict.learning_curve(problem, learner, times, measure="value")
        return squared_errors, curve.rmse**2
    dataset = run(problem, {"one": learner}, measures={"square": SQUARE}, **settings)
    affine = predict.affine_map(problem, learner)
    operator, times = moments.recursion(affine), settings["record_every"] * np.arange(5)
    row = operator.functional(error_form(problem, None, affine, "emphasis"))
    totals = moments.path(operator, moments.initial_moments(affine), times).totals(row, times)
    squared_errors = dataset["square"].sel(learner="one").values
    return squared_errors, np.diff(totals) / settings["record_every"]


def factory_and_measure(problem, name):
    """Returns what makes a learner from a step size, and the measure of its error."""
    if name == "etd-exact":
        m = oracle.emphasis(problem)
        return lambda size: learners.etd(learners.exact(m), size), "value"
    return LEARNED[name]


def require_agreement(problem, name, step_size, num_runs, num_steps):
    """Simulated means within five deviations, and mean squares in a bootstrap interval."""
    make, measure = factory_and_measure(problem, name)
    learner, window = make(step_size), num_steps // 4
    settings = {
        "num_steps": num_steps,
        "seeds": num_runs,
        "record_every": window,
        "dtype": "float64",
    }
    dataset = run(problem, {"one": learner}, measures=["weights"], engine="fused", **settings)
    weights = dataset["one_weights"].values
    curve = predict.learning_curve(problem, learner, window * np.arange(1, 5), measure=measure)
    variance = np.diagonal(curve.covariance, axis1=1, axis2=2)
    far = np.abs(weights.mean(0) - curve.mean) - 5.0 * np.sqrt(variance / num_runs)
    assert (far <= 1e-9).all(), (name, far.max())
    squared_errors, exact = compute_squares(problem, learner, measure, weights, settings)
    low, high = interval(squared_errors, np.random.default_rng(0))
    assert ((low <= exact) & (exact <= high)).all(), (name, low, exact, high)


@pytest.mark.parametrize(
    ("problem", "name", "step_size"),
    [
        (problems.baird("aliased", solid=0.3), "gem", 0.01),
        (problems.garnet(3, 2, 2, 2, seed=1), "gq2", 0.1),
        (problems.random_walk(), "etd-exact", 0.05),
    ],
)
def test_simulation_agrees_with_the_exact_curve(problem, name, step_size):
    require_agreement(problem, name, step_size, num_runs=1000, num_steps=100)


@pytest.mark.slow
def test_simulation_agrees_from_the_first_step_on_where_the_start_is_not_stationary():
    problem, _ = build((3, 2, 2, 5), 11, varying=True)
    assert np.abs(problem.start - problem.stationary).max() > 0.2
    require_agreement(problem, "gem", ALPHA, num_runs=2000, num_steps=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize(
    "problem",
    [
        *(problems.baird(features, solid=0.3) for features in FEATURES),
        *(problems.garnet(6, 2, 3, 3, seed=seed) for seed in range(2)),
    ],
)
def test_ten_thousand_runs_agree_with_the_exact_curve(problem, name):
    """At half the threshold; where no step size is stable, at a small one."""
    threshold = predict.thresholds(problem, factory_and_measure(problem, name)[0]).mean_square
    require_agreement(problem, name, threshold / 2 or 0.01, num_runs=10_000, num_steps=1000)
