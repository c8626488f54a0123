"""Measures are their definitions, written out in plain NumPy on the recorded weights."""

from functools import cache
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from emphatic import Learner, learners, oracle, problems, schedules
from emphatic.engine import MEASURES, run
from emphatic.engine.measures import example_transition, is_linear, mean_fields

from .. import transcriptions as plain
from ..learners.test_learners import AFFINE, CONTRACT
from ..plainly import plainly
from ..strategies import as_sparse, build, of_anything, SHAPES
from ..transcriptions import BETA, GAMMA, LAMBDA

STEPS = 40
OF_STATES = ["emphasis_error", "rmsve", "emphasis_projected_error", "value_projected_error"]
OF_ACTIONS = ["rmsqe", "action_value_projected_error"]


@cache
def small():
    """Three states with two features."""
    return build(SHAPES[0], 1, varying=True)


PROBLEMS = {
    "small": small,
    "dependent features": lambda: (problems.baird("original"), problems.baird(solid=0.3).target),
    "episodes": lambda: (problems.random_walk("dependent"), problems.random_walk().target),
}


@cache
def recorded(name: str, engine: str = "fused") -> SimpleNamespace:
    """GEM, TD and GQ2 on one problem, every step recorded: weights before and the measures."""
    problem, target = PROBLEMS[name]()
    arguments: Any = {
        "num_steps": STEPS,
        "record_every": 1,
        "seeds": [5],
        "target": target,
        "dtype": "float64",
        "engine": engine,
    }
    makes = {"gem": of_anything(learners.gem(0.05, 0.1)), "td": of_anything(learners.td(0.05))}
    states = run(problem, makes, measures=[*OF_STATES, "weights"], **arguments).isel(seed=0)
    of_actions = {"gq2": learners.gq2(0.05, 0.1)}
    actions = run(problem, of_actions, measures=[*OF_ACTIONS, "weights"], **arguments).isel(seed=0)
    before = {}
    for learner, weight in (("gem", "w"), ("td", "nu"), ("gq2", "u")):
        found = (actions if learner == "gq2" else states)[f"{learner}_weights"]
        mine = [label.startswith(weight) for label in found[f"{learner}_weight"].values]
        after = found.values[:, mine]
        before[learner] = np.stack([plain.initial(5, weight, after.shape[1]), *after[:-1]])
    path = plain.experience(problem, 5, STEPS)
    return SimpleNamespace(
        problem=problem,
        before=before,
        states=states,
        actions=actions,
        plain=plainly(problem, target),
        m=plain.emphasis(problem, target),
        visited=[y.s for y in path],
    )


def projected(x: np.ndarray, d: np.ndarray, y: np.ndarray) -> np.ndarray:
    r"""$\Pi y$, the point of the span of X that is closest in $\|\cdot\|_D$."""
    root = np.sqrt(d)
    return x @ np.linalg.lstsq(root[:, None] * x, root * y, rcond=1e-10)[0]


def norm(d: np.ndarray, y: np.ndarray) -> float:
    r"""$\|y\|_D$."""
    return float(np.sqrt(d @ y**2))


@pytest.mark.parametrize("learner", ["gem", "td"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_measures_of_states_are_their_definitions(name, learner):
    """Each at the weights before the step, for predictions of either kind."""
    here = recorded(name)
    x, d, gP, i = here.plain.x, here.plain.d, here.plain.gP, here.plain.i
    v = np.linalg.solve(np.eye(len(d)) - gP, here.plain.r)
    found = here.states.sel(learner=learner)
    for t, w in enumerate(here.before[learner]):
        y, s = x @ w, here.visited[t]
        backward = i + (gP.T @ (d * y)) / d - y
        forward = here.plain.r + gP @ y - y
        expected = {
            "emphasis_error": abs(y[s] - here.m[s]),
            "rmsve": norm(d, y - v),
            "emphasis_projected_error": norm(d, projected(x, d, backward)) ** 2,
            "value_projected_error": norm(d, projected(x, d, forward)) ** 2,
        }
        assert set(expected) == set(OF_STATES)
        for measure, value in expected.items():
            np.testing.assert_allclose(
                found[measure].values[t], value, rtol=1e-7, atol=1e-9, err_msg=f"{measure} at {t}"
            )


@pytest.mark.parametrize("name", PROBLEMS)
def test_measures_of_actions_are_their_definitions(name):
    here = recorded(name)
    x, d, gP, r = (
        here.plain.xa,
        np.diag(here.plain.D_actions),
        here.plain.gP_actions,
        here.plain.r_actions,
    )
    q = np.linalg.solve(np.eye(len(d)) - gP, r)
    found = here.actions.sel(learner="gq2")
    for t, u in enumerate(here.before["gq2"]):
        y = x @ u
        error = norm(d, projected(x, d, r + gP @ y - y)) ** 2
        np.testing.assert_allclose(found.rmsqe.values[t], norm(d, y - q), rtol=1e-7)
        one = found.action_value_projected_error.values[t]
        np.testing.assert_allclose(one, error, rtol=1e-7, atol=1e-9)


def test_both_engines_measure_the_same():
    fused, scanned = (recorded("small", engine) for engine in ("fused", "scan"))
    for one, other, names in (
        (fused.states, scanned.states, OF_STATES),
        (fused.actions, scanned.actions, OF_ACTIONS),
    ):
        for name in names:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12)


def test_the_projected_error_vanishes_where_the_mean_field_does():
    """At the fixed points of reversed TD, TD and GQ2."""
    problem, target = small()
    for system, measure, features in (
        (oracle.reverse_td_system, "emphasis_projected_error", "x"),
        (oracle.td_system, "value_projected_error", "x"),
        (oracle.gq2_system, "action_value_projected_error", "xa"),
    ):
        at = system(problem, target).solution()
        w = at[-getattr(problem, features).shape[-1] :]

        def predict(state, y, features=features):
            return getattr(y, features) @ state

        still = Learner(lambda key, y, w=w: jnp.asarray(w, y.x.dtype), lambda w, y: w, predict)
        arguments: Any = {"num_steps": 1, "target": target, "dtype": "float64"}
        found = run(problem, {"still": still}, measures=[measure], **arguments)
        assert found[measure].item() < 1e-20


# The learner's own fixed point


def swept(name: str, problem, target) -> Any:
    """A learner of the contract table as a function of its step size."""
    m = oracle.emphasis(problem, target)
    return {
        "gem": lambda step_size: learners.gem(step_size, 0.3),
        "gq2": lambda step_size: learners.gq2(step_size, 0.3),
        "etd-exact": lambda step_size: learners.etd(learners.exact(m), step_size),
        "gem-decay": lambda step_size: learners.gem(step_size, 0.3, BETA),
        "tderc": lambda step_size: learners.tderc(step_size, 0.3),
        "cop_td": lambda step_size: learners.cop_td(step_size, GAMMA),
        "gradient_cop_td": lambda step_size: learners.gradient_cop_td(step_size, GAMMA, 0.3),
        "gradient_dice": lambda step_size: learners.gradient_dice(step_size, GAMMA, 0.3, LAMBDA),
    }.get(name) or getattr(learners, name)


@pytest.mark.parametrize("name", AFFINE)
def test_mean_fields_are_the_systems_of_the_oracle_times_the_step_size(name):
    r"""$\mathbb E[d_{t+1}] - d_t = \alpha(h - Gd_t)$, found from the step itself."""
    problem, target = small()
    alphas = np.array([0.1, 0.003])
    ridge = (0.3,) if name in ("gem", "gq2") else ()
    system = CONTRACT[name][2](problem, target, *ridge)
    make = swept(name, problem, target)
    found = list(mean_fields(problem, target, make, {"step_size": alphas}))
    assert len(found) == 2
    for alpha, (G, h) in zip(alphas, found, strict=True):
        np.testing.assert_allclose(G, alpha * system.matrix, atol=1e-14)
        np.testing.assert_allclose(h, alpha * system.vector, atol=1e-14)


def distances(problem, target, makes: Any, **other: Any) -> Any:
    """Distances to the fixed points, with all weights, every step recorded."""
    return run(
        problem,
        makes,
        num_steps=20,
        record_every=1,
        seeds=[2],
        target=target,
        measures=["fixed_point_distance", "weights"],
        **{"dtype": "float64", **other},
    ).isel(seed=0)


def test_the_distance_to_a_unique_fixed_point_is_that_of_the_oracle():
    r"""$\|d_t - G^{-1}h\|$ before each step."""
    problem, target = small()
    makes = {name: swept(name, problem, target) for name in ("gem", "gq2", "tdc", "td")}
    found = distances(problem, target, makes, grid={"step_size": [0.1, 0.02]})
    for name in makes:
        ridge = (0.3,) if name in ("gem", "gq2") else ()
        at = CONTRACT[name][2](problem, target, *ridge).solution()
        after = found[f"{name}_weights"].values
        expected = np.linalg.norm(after - at, axis=-1)[:, :-1]
        one = found.fixed_point_distance.sel(learner=name).values[:, 1:]
        np.testing.assert_allclose(one, expected, rtol=1e-7)


@pytest.mark.parametrize("name", ["gem", "td"])
def test_where_fixed_points_are_many_the_distance_is_to_the_nearest(name):
    """Baird's features are dependent; steps as small as those of Figure 3 know it too."""
    problem = problems.baird("original", solid=0.05)
    target = problem.target
    steps = {"step_size": [0.02, 0.1 * 2.0**-19]}
    found = distances(problem, target, {name: getattr(learners, name)}, grid=steps)
    system = CONTRACT[name][2](problem, target)
    free = scipy.linalg.null_space(system.matrix, rcond=1e-10)
    assert free.shape[1] == (1 if name == "td" else 2)
    apart = found[f"{name}_weights"].values[:, :-1] - system.least_norm_solution()
    apart = apart - apart @ free @ free.T
    one = found.fixed_point_distance.values[0, :, 1:]
    np.testing.assert_allclose(one, np.linalg.norm(apart, axis=-1), rtol=1e-5)


def leaking(leak: Any) -> Learner[Any, Any]:
    r"""$d_{t+1} = d_t + 0.1(1 - (d_1 + d_2) - \ell d_t)$, whose root is unique iff $\ell > 0$."""
    return Learner(
        init=lambda key, y: jnp.asarray([0.3, -1.1], y.x.dtype),
        step=lambda d, y: d + 0.1 * (1.0 - jnp.sum(d) - leak * d),
        predict=lambda d, y: jnp.sum(d),
    )


def test_the_distance_of_a_lane_does_not_depend_on_lanes_whose_fixed_points_are_many():
    makes, (problem, target) = {"it": leaking}, small()
    both = distances(problem, target, makes, grid={"leak": [0.0, 0.5]})
    alone = distances(problem, target, makes, grid={"leak": [0.5]}).fixed_point_distance
    np.testing.assert_array_equal(both.fixed_point_distance.sel(leak=[0.5]), alone)
    d, found = both.it_weights.values[:, :-1], both.fixed_point_distance.values[0, :, 1:]
    np.testing.assert_allclose(found[0], np.abs(d[0].sum(1) - 1.0) / np.sqrt(2.0), atol=1e-12)
    np.testing.assert_allclose(found[1], np.linalg.norm(d[1] - 0.4, axis=1), rtol=1e-9)


def test_a_ridge_makes_the_fixed_point_unique_where_values_cancel():
    """At discount 5/6 the matrix A is 0: without a ridge GEM may keep any w."""
    problem = problems.two_state(discount=5.0 / 6.0)
    make = {"gem": lambda ridge: learners.gem(0.05, ridge)}
    both = distances(problem, None, make, grid={"ridge": [0.0, 0.5]})
    found, weights = both.fixed_point_distance.values[0, :, 1:], both.gem_weights.values[:, :-1]
    root = oracle.gem_system(problem, None).least_norm_solution()[0]
    np.testing.assert_allclose(found[0], np.abs(weights[0, :, 0] - root), rtol=1e-9)
    at = oracle.gem_system(problem, None, 0.5).solution()
    np.testing.assert_allclose(found[1], np.linalg.norm(weights[1] - at, axis=1), rtol=1e-9)


def test_a_schedule_has_the_fixed_point_of_its_first_step():
    problem, target = small()
    makes = {
        "fixed": learners.gem(0.1, 0.3),
        "decaying": learners.gem(schedules.polynomial(0.1, 0.5), 0.3),
    }
    found = distances(problem, target, makes)
    at = oracle.gem_system(problem, target, 0.3).solution()
    for name in makes:
        expected = np.linalg.norm(found[f"{name}_weights"].values[:-1] - at, axis=1)
        one = found.fixed_point_distance.sel(learner=name).values[1:]
        np.testing.assert_allclose(one, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("learner", "reason"),
    [
        (learners.followon(), "a trace moves with the chain"),
        (learners.followon(length=3), "a trace moves with the chain"),
        (learners.expected_trace(0.1, 3), "a trace moves with the chain"),
        (learners.periodic_etd(0.1, 3), "a trace moves with the chain"),
        (learners.lsgem(1.0), "its step is not affine"),
        (learners.etd(learners.followon(), 0.1), "a trace moves with the chain"),
        (learners.td(0.1, 0.5), "a trace moves with the chain"),
        (learners.lstd(), "its step is not affine"),
        (learners.etd(learners.gem(0.1), 0.1), "its step is not affine"),
        (learners.etd(learners.gem(1e-10), 1e-10), "its step is not affine"),
        (learners.constant(1.0), "it has no weights"),
    ],
)
def test_what_has_no_mean_field_of_its_own_says_why(learner, reason):
    problem, target = small()
    with pytest.raises(ValueError, match=reason):
        list(mean_fields(problem, target, lambda: learner, {}))


def test_a_lane_whose_decay_is_0_has_a_trace_as_the_others_have():
    problem, target = small()
    grid = {"step_size": [0.1], "trace_decay": [0.0, 0.5]}
    with pytest.raises(ValueError, match="learner 'td': a trace moves with the chain"):
        distances(problem, target, {"td": learners.td}, grid=grid)


def test_a_product_of_weights_is_found_where_one_of_them_starts_at_0():
    problem, target = small()

    def step(d, y):
        return d + 0.1 * jnp.stack([d[0] * d[1], y.reward - d[1]])

    product = Learner(lambda key, y: jnp.zeros(2, y.x.dtype), step, lambda d, y: d[0])
    with pytest.raises(ValueError, match="its step is not affine"):
        list(mean_fields(problem, target, lambda: product, {}))


def test_a_mean_field_without_a_root_is_no_fixed_point():
    """Reversed TD at discount 5/6 drifts with $h \\neq 0$ and $G = 0$."""
    problem = problems.two_state(discount=5.0 / 6.0)
    with pytest.raises(ValueError, match="learner 'it': its mean field has no root"):
        distances(problem, None, {"it": learners.reverse_td(0.1)})


# Which predictions are linear


@pytest.mark.parametrize(
    ("learner", "features"),
    [
        (learners.gem(0.1), "x"),
        (learners.td(0.1), "x"),
        (learners.etd(learners.followon(), 0.1), "x"),
        (learners.gq2(0.1), "xa"),
        (learners.followon(), None),
        (learners.constant(1.0), None),
        (learners.constant(0.0), None),
        (learners.exact(np.zeros(5)), None),
    ],
)
def test_weights_are_asked_only_of_predictions_that_are_linear(learner, features):
    problem, _ = build(SHAPES[1], 7, varying=True)
    example = example_transition(problem, np.float32)
    for each in ("x", "xa"):
        assert is_linear(learner, example, each) == (each == features)


def test_a_curved_prediction_is_not_linear_even_if_it_starts_from_zero():
    curved: Learner[Any, Any] = Learner(
        init=lambda key, y: jnp.zeros_like(y.x),
        step=lambda state, y: state,
        predict=lambda state, y: jnp.square(y.x @ state),
    )
    problem, _ = build(SHAPES[1], 7, varying=True)
    assert not is_linear(curved, example_transition(problem, np.float32), "x")


def test_sparse_problems_have_the_measures_of_their_dense_ones():
    problem, target = build(SHAPES[2], 5, varying=True)
    arguments: Any = {"num_steps": 3, "record_every": 1, "target": target, "dtype": "float64"}
    makes = {"gem": of_anything(learners.gem(0.1, 0.2))}
    names = [*OF_STATES, "fixed_point_distance"]
    dense, stored = (
        run(p, makes, measures=names, **arguments) for p in (problem, as_sparse(problem))
    )
    for name in names:
        np.testing.assert_allclose(dense[name], stored[name], rtol=1e-9)


def test_every_measure_is_documented_and_tested():
    assert set(MEASURES) == {*OF_STATES, *OF_ACTIONS, "ratio_error", "fixed_point_distance"}
