"""What the ridge costs."""

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from emphatic import oracle, problems, Softmax

from ..strategies import COMPILED, problems_and_targets, random_softmax, SEEDS


@given(problems_and_targets(), st.floats(1e-4, 1.0))
def test_ridge_cost_is_the_distance_of_the_limits(pair, ridge):
    problem, target = pair
    systems = [make(problem, target) for make in (oracle.gem_system, oracle.gq2_system)]
    assume(max(np.linalg.cond(system.matrix) for system in systems) < 1e7)
    cost = oracle.ridge_cost(problem, target, ridge)
    for make, distance, norm in (
        (oracle.gem_system, cost.emphasis_distance, cost.emphasis_norm),
        (oracle.gq2_system, cost.value_distance, cost.value_norm),
    ):
        with_, without = (
            np.split(make(problem, target, eta).solution(), 2)[1] for eta in (ridge, 0.0)
        )
        np.testing.assert_allclose(norm, np.linalg.norm(without), rtol=1e-6)
        np.testing.assert_allclose(distance, np.linalg.norm(with_ - without), rtol=1e-5, atol=1e-8)


@COMPILED
@given(problems_and_targets(), SEEDS, st.floats(1e-4, 1.0))
def test_ridge_biases_the_gradient_by_the_change_of_the_limiting_update(pair, seed, ridge):
    problem, _ = pair
    policy, theta = random_softmax(problem, seed)
    target = np.asarray(policy(theta))
    assume(np.linalg.cond(oracle.gem_system(problem, target).matrix) < 1e7)
    assume(np.linalg.cond(oracle.gq2_system(problem, target).matrix) < 1e7)
    cost = oracle.ridge_cost(problem, policy, ridge, theta)
    with_, without = (oracle.limiting_update(problem, policy, theta, eta) for eta in (ridge, 0.0))
    scale = 1.0 + np.linalg.norm(without)
    expected = np.linalg.norm(with_ - without)
    np.testing.assert_allclose(cost.gradient_bias / scale, expected / scale, atol=1e-7)
    np.testing.assert_allclose(cost.gradient_norm / scale, (scale - 1.0) / scale, atol=1e-7)


def test_ridge_bias_of_a_fixed_target_is_that_of_its_logits():
    problem = problems.baird("aliased", 0.3)
    eye = np.eye(14).reshape(7, 2, 14)
    logits = np.log(problem.target).ravel()
    fixed = oracle.ridge_cost(problem, ridge=1e-4)
    softmax = oracle.ridge_cost(problem, Softmax(eye), 1e-4, logits)
    np.testing.assert_allclose(fixed.gradient_bias, softmax.gradient_bias, rtol=1e-9)


@pytest.mark.parametrize("tolerance", [1e-3, 0.1, 1.0])
def test_largest_ridge_meets_the_tolerance_and_no_larger_one_does(tolerance):
    problem = problems.baird("zero-hot", 0.3)

    def cost(ridge):
        return oracle.ridge_cost(problem, ridge=ridge, tolerance=tolerance)

    found = cost(0.0)
    parts = {
        "emphasis_distance": found.largest_emphasis_ridge,
        "value_distance": found.largest_value_ridge,
        "gradient_bias": found.largest_gradient_ridge,
    }
    assert found.largest_ridge == min(ridge for ridge in parts.values() if ridge is not None)
    for name, largest in parts.items():
        assert largest is not None
        for ridge in largest * np.array([1e-6, 1e-3, 0.5, 0.9, 0.999]):
            assert getattr(cost(ridge), name) <= tolerance
        assert getattr(cost(largest * 1.001), name) > tolerance


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_largest_ridge_takes_that_part_of_the_estimate_away(part):
    """A tolerance close to the whole estimate, which no ridge may exceed."""
    problem = problems.baird("one-hot", 0.3)
    norm = oracle.ridge_cost(problem).emphasis_norm
    largest = oracle.ridge_cost(problem, tolerance=part * norm).largest_emphasis_ridge
    assert largest is not None
    with_, without = (
        np.split(oracle.gem_system(problem, ridge=eta).solution(), 2)[1] for eta in (largest, 0.0)
    )
    np.testing.assert_allclose(np.linalg.norm(with_ - without), part * norm, rtol=1e-6)


def test_largest_ridge_is_infinite_where_even_no_estimate_is_close_enough():
    cost = oracle.ridge_cost(problems.baird("one-hot"), ridge=1.0, tolerance=1e6)
    assert cost.largest_ridge == np.inf
    assert oracle.ridge_cost(problems.baird("one-hot")).largest_ridge is None


def test_a_small_ridge_destroys_the_estimate_on_baird():
    """At gamma = 0.99 already eta = 1e-3 takes nearly all of w away."""
    cost = oracle.ridge_cost(problems.baird("one-hot"), ridge=1e-3)
    assert cost.emphasis_distance > 0.98 * cost.emphasis_norm


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ridge": -1.0}, "ridge: got -1"),
        ({"ridge": np.nan}, "ridge: got nan"),
        ({"tolerance": 0.0}, "tolerance: got 0"),
        ({"target": lambda theta: theta}, "theta: not given"),
    ],
)
def test_ridge_cost_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        oracle.ridge_cost(problems.baird("one-hot"), **arguments)


def test_ridge_cost_needs_independent_features():
    with pytest.raises(ValueError, match="x: the features are linearly dependent"):
        oracle.ridge_cost(problems.baird("original"), ridge=0.1)


def test_ridge_cost_needs_a_limit_without_a_ridge():
    """The key matrix of the two states, (5 - 6 gamma)/2, vanishes at gamma = 5/6."""
    with pytest.raises(ValueError, match="x: A is singular"):
        oracle.ridge_cost(problems.two_state(5 / 6), ridge=0.1)
