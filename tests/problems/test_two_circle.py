"""The two circles: rounds of eight steps, summed by hand."""

import numpy as np
import pytest

from emphatic import oracle, problems


@pytest.mark.parametrize(("first", "discount"), [(0.9, 0.6), (0.0, 0.6), (1.0, 0.9), (0.3, 0.0)])
def test_the_value_of_a_state_is_its_first_round_and_what_follows(first, discount):
    """A round takes eight steps; the rewards come three steps and one step after state 0."""
    problem, g = problems.two_circle(first, discount), discount
    start = (10 * first * g**3 + 5 * (1 - first) * g) / (1 - g**8)
    tens = [10 * g**2, 10 * g, 10.0]  # from 1, 2 and 3
    rounds = g ** np.array([7, 6, 5, 7, 6, 5, 4, 3, 2, 1])  # from 1 to 10
    expected = [start, *(np.array([*tens, 5, *[0] * 6]) + rounds * start)]
    np.testing.assert_allclose(oracle.values(problem), expected, rtol=1e-12, atol=1e-15)


def test_the_circles_are_walked_at_the_same_pace():
    problem = problems.two_circle()
    d = np.array([2, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]) / 16
    np.testing.assert_allclose(problem.stationary, d, rtol=1e-13)
    np.testing.assert_allclose(problem.behavior, 0.5)
    np.testing.assert_allclose(problem.target[0], [0.9, 0.1])
    np.testing.assert_array_equal(problem.target[1:], 0.5)
    # The target's own circles: its emphasis for a discount near 1 is its density ratio.
    ratio = oracle.density_ratio(problems.two_circle(discount=0.99999))
    np.testing.assert_allclose(d * ratio * 80, [10, *[9] * 3, *[1] * 3, *[10] * 4], rtol=1e-3)


@pytest.mark.parametrize("discount", [0.6, 0.7, 0.71, 0.9])
def test_the_objective_prefers_the_lesser_reward_below_one_over_root_two(discount):
    """10 g^3 < 5 g for 2 g^2 < 1, though a round with the ten is always worth more."""
    objectives = [oracle.objective(problems.two_circle(first, discount)) for first in (0.0, 1.0)]
    assert (objectives[0] > objectives[1]) == (2 * discount**2 < 1)
    per_round = [
        8
        * oracle.stationary(problem, problem.target)
        @ (problem.target * problem.mdp.mean_reward).sum(1)
        for problem in (problems.two_circle(0.01), problems.two_circle(0.99))
    ]
    np.testing.assert_allclose(per_round, [5.05, 9.95], rtol=1e-12)


def test_the_target_of_the_circles_is_a_probability():
    with pytest.raises(ValueError, match=r"first: got 2.0; a probability in \[0, 1\]"):
        problems.two_circle(2.0)
