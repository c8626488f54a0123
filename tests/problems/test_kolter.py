"""Kolter's example: the closed form of its paper, and what it says about fixed points."""

import numpy as np
import pytest

from emphatic import oracle, problems


def singular_point(epsilon):
    """The behaviour at which Kolter's fixed point does not exist, as his paper states it."""
    return (2961 + 45240 * epsilon + 40400 * epsilon**2) / (
        4141 + 84840 * epsilon + 40400 * epsilon**2
    )


def error_of(problem, system):
    """RMSVE of the limit of a learner with one weight."""
    error = problem.x @ system(problem).solution()[-1:] - oracle.values(problem)
    return np.sqrt(problem.stationary @ error**2)


@pytest.mark.parametrize("first", [0.2, 0.7])
def test_kolters_values_are_1_and_1_05_and_the_behaviour_is_the_distribution(first):
    problem = problems.kolter(first)
    np.testing.assert_allclose(problem.stationary, [first, 1 - first], rtol=1e-13)
    np.testing.assert_allclose(oracle.values(problem), [1.0, 1.05], rtol=1e-12)
    np.testing.assert_allclose(oracle.values(problems.kolter(first, discount=0.5)), [1.0, 1.05])
    np.testing.assert_allclose(problem.mdp.mean_reward[:, 0], [-0.01475, 0.03525], rtol=1e-12)
    np.testing.assert_allclose(problem.mdp.mean_reward[:, 1], [-0.01475, 0.03525], rtol=1e-12)
    np.testing.assert_array_equal(problem.target, 0.5)
    np.testing.assert_array_equal(problem.x, [[1.0], [1.051]])
    assert problem.mdp.discount == 0.99


@pytest.mark.parametrize("epsilon", [0.0, 0.001, 0.01, 0.3])
def test_the_key_matrix_vanishes_where_kolter_says(epsilon):
    critical = singular_point(epsilon)
    keys = [
        oracle.td_system(problems.kolter(first, epsilon)).matrix.item()
        for first in (critical - 1e-3, critical, critical + 1e-3)
    ]
    assert keys[0] > 1e-6
    assert abs(keys[1]) < 1e-14
    assert keys[2] < -1e-6


def test_the_error_of_the_fixed_point_is_unbounded_but_that_of_the_features_is_not():
    """The error grows like the inverse of the distance; that of ETD stays with the features'."""
    critical, distances = singular_point(0.001), np.array([1e-2, 1e-4, 1e-6, 1e-8])
    near = [problems.kolter(critical - distance) for distance in distances]
    errors = [error_of(problem, oracle.td_system) for problem in near]
    np.testing.assert_allclose(np.array(errors[1:]) * distances[1:], 4.2e-3, rtol=0.1)
    assert error_of(near[1], oracle.gtd2_system) == pytest.approx(errors[1], rel=1e-6)
    for problem in (*near, problems.kolter(0.05), problems.kolter(0.95)):
        v = oracle.values(problem)
        best = v - oracle.projection(problem) @ v
        assert np.sqrt(problem.stationary @ best**2) < 0.001
        assert error_of(problem, oracle.etd_system) < 0.002


def test_without_epsilon_the_features_are_the_values_and_the_fixed_point_is_right():
    for first in (0.1, 0.7, 0.9):
        problem = problems.kolter(first, epsilon=0.0)
        np.testing.assert_allclose(oracle.td_system(problem).solution(), [1.0], rtol=1e-10)


@pytest.mark.parametrize("first", [0.0, 1.0, -0.1, float("nan")])
def test_a_behaviour_that_skips_an_action_of_kolters_target_is_refused(first):
    with pytest.raises(ValueError, match=r"behavior_first: got .*; a probability in \(0, 1\)"):
        problems.kolter(first)


def test_kolters_epsilon_is_a_number():
    with pytest.raises(ValueError, match="epsilon: got inf; a finite number is required"):
        problems.kolter(epsilon=float("inf"))
