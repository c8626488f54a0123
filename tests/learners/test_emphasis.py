"""Learners of the emphasis with a memory, and of the density ratio, from their definitions."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emphatic import Learner, learners, oracle, problems
from emphatic.engine import run as run_engine
from emphatic.learners.restarting import Periods

from ..plainly import plainly
from ..strategies import build, problems_and_targets, SEEDS
from ..transcriptions import period_of
from .test_learners import ALPHA, run, stream, viewer


def started(learner, ys):
    return learner.init(jax.random.key(0), jax.tree.map(lambda leaf: leaf[0], ys))


def with_discount(problem, discount, interest=None):
    """The same problem with another discount, and perhaps another interest."""
    mdp = dataclasses.replace(problem.mdp, discount=discount)
    interest = problem.interest if interest is None else interest
    return dataclasses.replace(problem, mdp=mdp, interest=interest)


DECAYING: dict[str, Callable[..., Learner]] = {
    "reverse_td": lambda **decay: learners.reverse_td(ALPHA, **decay),
    "gem": lambda **decay: learners.gem(ALPHA, **decay),
    "tdec": lambda **decay: learners.tdec(ALPHA, **decay),
    "tderc": lambda **decay: learners.tderc(ALPHA, **decay),
    "lsgem": lambda **decay: learners.lsgem(**decay),
    "expected_trace": lambda **decay: learners.expected_trace(ALPHA, 3, **decay),
    "restarting": lambda **decay: learners.restarting(3, **decay),
}


@pytest.mark.parametrize("name", DECAYING)
def test_a_decay_makes_another_discount_of_those_that_are_positive(name):
    """What it learns is what it would learn from these; an end of an episode is one."""
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    ys = stream(problem, target, 30, seed=1)
    assert (np.asarray(ys.discount) == 0).any()
    other = dataclasses.replace(ys, discount=jnp.where(ys.discount > 0, 0.4, 0.0))
    decaying, plain = DECAYING[name](decay=0.4), DECAYING[name]()
    found, expected = (
        run(one, started(plain, ys), y) for one, y in ((decaying, ys), (plain, other))
    )
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_a_decay_makes_another_trace_of_periodic_etd_and_leaves_the_values_their_discount():
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    ys = stream(problem, target, 30, seed=1)
    other = dataclasses.replace(ys, discount=jnp.where(ys.discount > 0, 0.4, 0.0))
    learner, trace = learners.periodic_etd(ALPHA, 2, 1, 0.4), learners.restarting(2, 1)
    emphasis, _ = run(trace, started(trace, ys), other)
    state = started(learner, ys)
    nu = np.asarray(state.nu)
    _, states = run(learner, state, ys)
    for t in range(30):
        y = jax.tree.map(lambda leaf, t=t: np.asarray(leaf[t]), ys)
        long, passed = period_of(t, 2, 1)
        if passed == long - 1:
            delta = y.reward + y.discount * y.x_next @ nu - y.x @ nu
            nu = nu + ALPHA * emphasis[t] * y.rho * delta * y.x
        np.testing.assert_allclose(states.nu[t], nu, rtol=1e-9)


@pytest.mark.parametrize("make", [learners.tdec, learners.tderc])
def test_the_correction_has_a_step_size_of_its_own(make):
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    y = jax.tree.map(lambda leaf: leaf[0], stream(problem, target, 1, seed=2))
    state = learners.TDERCState(jnp.ones(5), jnp.linspace(-1.0, 1.0, 5))
    both = make(0.1).step(state, y)
    apart = make(0.1, correction_step_size=0.4).step(state, y)
    np.testing.assert_allclose(apart.w, both.w)
    np.testing.assert_allclose(apart.kappa - state.kappa, 4.0 * (both.kappa - state.kappa))


# The expected trace


def memory_of(problem, target, length, decay=None):
    """What the expected trace remembers, given the state, in the mean: from powers of the chain."""
    is_, eye = plainly(problem, target), np.eye(len(problem.interest))
    gP = is_.gP if decay is None else np.asarray(decayed_chain(problem, target, decay))
    back = [np.linalg.matrix_power(gP.T, k) for k in range(1, length)]
    interests = np.stack([power @ (is_.d * is_.i) / is_.d for power in back] or [eye[:0]], axis=-1)
    features = np.stack([power @ is_.D @ is_.x / is_.d[:, None] for power in back] or [], axis=1)
    return interests, features


def decayed_chain(problem, target, decay):
    p = problem.mdp.transition
    goes_on = np.broadcast_to(
        problem.mdp.outcome(problem.mdp.discount).reshape(p.shape) > 0, p.shape
    )
    return decay * np.einsum("sa,sat,sat->st", target, p, goes_on)


@pytest.mark.parametrize(("length", "decay"), [(2, None), (3, 0.7)])
@settings(max_examples=4)
@given(pair=problems_and_targets(varying=True), seed=SEEDS)
def test_the_expected_trace_moves_as_its_mean_field_does(length, decay, pair, seed):
    """Given memories of the right conditional mean, which one more step leaves as they are."""
    problem, target = pair
    interests, features = map(jnp.asarray, memory_of(problem, target, length, decay))
    view, learner = viewer(problem, target), learners.expected_trace(ALPHA, length, decay)
    w = np.random.default_rng(seed).normal(size=problem.x.shape[1])

    def moved(sample):
        s, earlier = sample.state, learners.FollowonState(interests[sample.state])
        state = learners.ExpectedTraceState(earlier, features[s], jnp.asarray(w))
        after = learner.step(state, view(sample))
        arrived = jax.nn.one_hot(sample.state_next, len(interests))
        terms = arrived[:, None] * after.interests.terms[None]
        return after.w, terms, arrived[:, None, None] * after.trace[None]

    w_after, interests_after, features_after = oracle.expectation(problem, moved)
    system = oracle.expected_trace_system(problem, target, length, decay)
    expected = ALPHA * system.drift(w)
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose((w_after - w) / scale, expected / scale, atol=1e-12)
    d = problem.stationary[:, None]
    np.testing.assert_allclose(interests_after, d * np.asarray(interests), atol=1e-11)
    np.testing.assert_allclose(features_after, d[..., None] * np.asarray(features), atol=1e-11)


@pytest.mark.parametrize("length", [1, 4])
def test_the_expected_trace_learns_from_what_its_target_says(length):
    """The target of every step, from the whole past; with n = 1 it is reversed TD."""
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    ys, learner = stream(problem, target, 30, seed=4), learners.expected_trace(ALPHA, length)
    state = started(learner, ys)
    _, states = run(learner, state, ys)
    weights = np.vstack([np.asarray(state.w), np.asarray(states.w)])
    factor = np.asarray(ys.discount * ys.rho)
    i = np.append(ys.interest, ys.interest_next[-1])
    x = np.vstack([ys.x, ys.x_next[-1:]])
    for t in range(30):
        first = max(0, t + 2 - length)  # of the interests that are kept
        G = sum(i[j] * factor[j : t + 1].prod() for j in range(first, t + 2))
        if t + 1 >= length:
            G += x[t + 1 - length] @ weights[t] * factor[t + 1 - length : t + 1].prod()
        expected = weights[t] + ALPHA * (G - x[t + 1] @ weights[t]) * x[t + 1]
        np.testing.assert_allclose(weights[t + 1], expected, rtol=1e-9)
    if length == 1:
        plain = learners.reverse_td(ALPHA)
        same = run(plain, started(plain, ys), ys)[1]
        np.testing.assert_allclose(states.w, same.w, rtol=1e-12)


# The trace that restarts


@pytest.mark.parametrize(("length", "growth"), [(1, 0), (3, 0), (1, 1), (2, 3)])
def test_periods_are_as_long_as_they_are_said_to_be(length, growth):
    periods, number, begin = Periods(length, growth), -1, 0
    for time in range(70):
        long, passed = period_of(time, length, growth)
        number += passed == 0
        found = [f(time) for f in (periods.number, periods.begins, periods.ends)]
        assert found == [number, passed == 0, passed == long - 1]
    late = 2**31 - 2  # the sum of all lengths before is no accident: it is that of the last period
    number = int(Periods(length, growth).number(late))
    doublings = [(k, min(2**k, number + 1 - (2**k - 1))) for k in range((number + 1).bit_length())]
    begin = sum(count * (length + growth * k) for k, count in doublings)
    long = length + growth * ((number + 1).bit_length() - 1)
    assert begin - long <= late < begin + long


@pytest.mark.parametrize(("length", "growth", "decay"), [(1, 0, None), (3, 0, None), (2, 1, 0.5)])
def test_a_restarting_trace_is_its_definition(length, growth, decay):
    r"""$\sum_j i(S_j)\prod\gamma_{k+1}\rho_k$ over the period so far, written out."""
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    ys, learner = stream(problem, target, 40, seed=1), learners.restarting(length, growth, decay)
    predicted, _ = run(learner, started(learner, ys), ys)
    gamma, interest = np.asarray(ys.discount), np.asarray(ys.interest)
    factor = np.asarray(ys.rho) * (gamma if decay is None else decay * (gamma > 0))
    for t in range(40):
        kept = range(t - period_of(t, length, growth)[1], t + 1)
        expected = sum(interest[j] * factor[j:t].prod() for j in kept)
        np.testing.assert_allclose(predicted[t], expected, rtol=1e-9)


@settings(max_examples=4)
@given(pair=problems_and_targets(varying=True), seed=SEEDS)
def test_periodic_etd_moves_once_a_period_as_truncated_etd_does(pair, seed):
    """Its last moment has a trace of two ratios here; at the others it does not move."""
    problem, target = pair
    means = [oracle.truncated_emphasis(problem, target, n) for n in range(3)]
    learner, view = learners.periodic_etd(ALPHA, 3, 0), viewer(problem, target)
    nu = np.random.default_rng(seed).normal(size=problem.x.shape[1])
    carried = [jnp.asarray(m - problem.interest)[:, None] for m in (means[0] + 9.9, *means[1:])]

    def moved(sample):
        after = []
        for time, trace in enumerate(carried):  # what is left from before a restart is forgotten
            state = learners.ETDState(learners.FollowonState(trace[sample.state]), jnp.asarray(nu))
            after.append(
                learner.step(state, view(dataclasses.replace(sample, time=np.asarray(time))))
            )
        arrived = jax.nn.one_hot(sample.state_next, len(means[0]))
        return [state.nu for state in after], [arrived * state.emphasis.terms for state in after]

    after, terms = oracle.expectation(problem, moved)
    np.testing.assert_allclose(after[:2], [nu, nu], rtol=1e-12)
    expected = ALPHA * oracle.etd_system(problem, target, means[2]).drift(nu)
    np.testing.assert_allclose(after[2] - nu, expected, atol=1e-12 * (1 + np.abs(expected).max()))
    for n in range(2):
        mean = problem.stationary * (means[n + 1] - problem.interest)
        np.testing.assert_allclose(terms[n], mean, rtol=1e-9, atol=1e-12)


def test_the_step_sizes_of_periodic_etd_are_those_of_its_periods():
    learner = learners.periodic_etd(lambda k: 1.0 / (k + 1.0), 2, 1)
    assert learner.step_size is not None
    sizes = [float(learner.step_size(t)) for t in range(8)]
    np.testing.assert_allclose(sizes, [0, 1, 0, 0, 1 / 2, 0, 0, 1 / 3], rtol=1e-6)


# Least squares


@pytest.mark.parametrize("decay", [None, 0.4])
def test_least_squares_solve_the_equations_of_all_that_was_seen(decay):
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    ys, learner = stream(problem, target, 200, seed=5), learners.lsgem(0.2, decay)
    _, states = run(learner, started(learner, ys), ys)
    gamma = np.asarray(ys.discount)
    back = np.asarray(ys.rho) * (gamma if decay is None else decay * (gamma > 0))
    x, x_next = np.asarray(ys.x), np.asarray(ys.x_next)
    for n in (1, 7, 200):
        A = 0.2 * np.eye(5) + x_next[:n].T @ (x_next[:n] - back[:n, None] * x[:n])
        b = x_next[:n].T @ np.asarray(ys.interest_next)[:n]
        np.testing.assert_allclose(states.w[n - 1], np.linalg.solve(A, b), rtol=1e-8)
        inverse = np.asarray(states.inverse[n - 1])
        np.testing.assert_allclose(inverse @ A, np.eye(5), atol=1e-8)


def test_least_squares_reach_the_limit_of_gem_where_reversed_td_diverges():
    problem = problems.two_state()
    limit = oracle.reverse_td_system(problem)
    assert (limit.slowest_mode() or 0) < 0
    found = run_engine(
        problem, ["lsgem(1e-3)"], num_steps=40_000, measures=["weights"], seeds=4, dtype="float64"
    )
    last = found["lsgem(1e-3)_weights"].isel(time=-1).values[..., -1]
    np.testing.assert_allclose(last.mean(), limit.solution()[0], rtol=0.05)


# Density ratios


@settings(max_examples=2)
@given(pair=problems_and_targets(varying=True), gamma=st.floats(0.0, 0.95), seed=SEEDS)
def test_a_learner_of_the_emphasis_learns_the_ratio_of_a_chain_that_has_no_ends(pair, gamma, seed):
    """On a problem with this discount everywhere and the interest 1 - gamma it does the same."""
    problem, target = pair
    ys = stream(problem, target, 20, seed)
    other = with_discount(problem, gamma, 1.0 - gamma if gamma < 1 else 1.0)
    same = stream(other, target, 20, seed)
    np.testing.assert_array_equal(ys.x, same.x)
    sources: list[Learner] = [
        learners.followon(),
        learners.tderc(0.1),
        learners.expected_trace(0.1, 3),
    ]
    for plain in sources:
        ratio = learners.ratio(plain, gamma)
        found, expected = (
            run(one, started(one, ys), y)[0] for one, y in ((ratio, ys), (plain, same))
        )
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        assert (ratio.estimates, ratio.discount, plain.discount) == ("ratio", gamma, None)


def test_the_discount_of_a_ratio_and_the_decay_of_a_trace_are_lanes():
    """Each lane is the learner with its number, and its error that of its own ratio."""
    problem = problems.random_walk("dependent")
    for text, axis in (
        ("gradient_dice(0.1, discount)", "discount"),
        ("ratio(gem(0.1), discount)", "discount"),
        ("gem(0.1, 0.0, decay)", "decay"),
    ):
        measure = "ratio_error" if axis == "discount" else "emphasis_error"
        some = {"num_steps": 50, "record_every": 50, "measures": [measure, "weights"]}
        lanes = run_engine(problem, {"it": text}, {axis: [0.0, 0.5, 0.9]}, dtype="float64", **some)
        assert lanes.engine.item() == "fused"
        alone = run_engine(problem, {"it": text.replace(axis, "0.5")}, dtype="float64", **some)
        for variable in (measure, "it_weights"):
            inside = lanes[variable].sel({axis: 0.5})
            np.testing.assert_allclose(inside, alone[variable], rtol=1e-10, atol=1e-14)


def test_the_error_of_a_ratio_is_its_distance_from_the_ratio_of_its_own_discount():
    problem = problems.random_walk("dependent")
    found = run_engine(
        problem,
        {"cop_td": lambda discount: learners.cop_td(0.1, discount)},
        {"discount": [0.2, 0.9]},
        num_steps=2,
        record_every=1,
        measures=["ratio_error", "weights"],
        dtype="float64",
    )
    for gamma in (0.2, 0.9):
        one = found.sel(discount=gamma, seed=0)
        w = one.cop_td_weights.values[0]  # after one step, and before the second
        is_ = plainly(problem, np.asarray(problem.target))
        truth = np.linalg.solve(np.eye(5) - gamma * is_.P.T, (1 - gamma) * is_.d) / is_.d
        error = np.sqrt(is_.d @ (is_.x @ w - truth) ** 2)
        np.testing.assert_allclose(one.ratio_error.values[0, 1], error, rtol=1e-9)
