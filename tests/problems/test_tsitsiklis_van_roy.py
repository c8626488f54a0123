"""The counterexample of Tsitsiklis and Van Roy, with the formulas of the textbook."""

import numpy as np
import pytest

from emphatic import oracle, problems

SETTINGS = [(0.0, 0.99), (0.05, 0.99), (0.3, 0.9), (1.0, 0.7), (0.2, 1.0)]


@pytest.mark.parametrize(("epsilon", "discount"), SETTINGS)
def test_both_states_are_visited_alike_and_are_worth_nothing(epsilon, discount):
    problem = problems.tsitsiklis_van_roy(epsilon, discount)
    np.testing.assert_allclose(problem.stationary, [0.5, 0.5], rtol=1e-14)
    np.testing.assert_array_equal(oracle.values(problem), [0.0, 0.0])
    np.testing.assert_array_equal(problem.x, [[1.0], [2.0]])
    ratios = problem.target[:, 1] / problem.behavior[:, 1]
    np.testing.assert_allclose(ratios, [2.0 / (1.0 + epsilon), 2.0], rtol=1e-14)


@pytest.mark.parametrize(("epsilon", "discount"), SETTINGS)
def test_a_least_squares_fit_turns_w_into_that_of_the_textbook(epsilon, discount):
    """Minimise (w' - 2gw)^2 + (2w' - 2g(1 - e)w)^2 over w': the projection of the update."""
    problem = problems.tsitsiklis_van_roy(epsilon, discount)
    backup = discount * np.array([2.0, 2.0 * (1.0 - epsilon)])
    fitted = oracle.projection(problem) @ backup
    factor = discount * (6.0 - 4.0 * epsilon) / 5.0
    np.testing.assert_allclose(fitted, factor * problem.x[:, 0], rtol=1e-13)
    # The key matrix of TD is C (1 - factor), with C = (1 + 4)/2: it says the same.
    key = oracle.td_system(problem).matrix.item()
    assert key == pytest.approx(2.5 * (1.0 - factor), abs=1e-14)
    assert key == pytest.approx((5.0 - (6.0 - 4.0 * epsilon) * discount) / 2.0, abs=1e-14)


@pytest.mark.parametrize(("epsilon", "discount"), SETTINGS)
def test_etd_converges_on_it_and_as_fast_with_any_probability_of_ends(epsilon, discount):
    """d m = (1/2, (1 + g)/2 / (1 - g (1 - e))): the ends cancel in the key matrix."""
    problem = problems.tsitsiklis_van_roy(epsilon, discount)
    m = [1.0, (1.0 + discount) / (1.0 - discount * (1.0 - epsilon))]
    np.testing.assert_allclose(oracle.emphasis(problem), m, rtol=1e-12)
    key = oracle.etd_system(problem).matrix.item()
    assert key == pytest.approx((5.0 + 2.0 * discount) / 2.0, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.2])
def test_td_diverges_exactly_beyond_the_discount_of_the_textbook(epsilon):
    critical = 5.0 / (6.0 - 4.0 * epsilon)
    for discount, sign in ((critical - 1e-3, 1.0), (critical + 1e-3, -1.0)):
        problem = problems.tsitsiklis_van_roy(epsilon, discount)
        assert np.sign(oracle.td_system(problem).matrix.item()) == sign


def test_without_ends_it_is_the_two_states():
    problem, two_state = problems.tsitsiklis_van_roy(0.0, 0.9), problems.two_state(0.9)
    np.testing.assert_array_equal(problem.behavior, two_state.behavior)
    np.testing.assert_array_equal(problem.target, two_state.target)
    np.testing.assert_array_equal(problem.mdp.kernel, two_state.mdp.kernel)
    # What is possible is discounted; a discount of 0 is left only on what never happens.
    np.testing.assert_array_equal(problem.mdp.discounted(), two_state.mdp.discounted())


def test_an_end_is_a_restart_in_state_0_and_going_back_is_none():
    problem = problems.tsitsiklis_van_roy(0.25, 0.8)
    discounted = problem.mdp.dense_discounted()
    np.testing.assert_allclose(discounted[1], [[0.8, 0.0], [0.0, 0.6]], rtol=1e-14)
    np.testing.assert_allclose(problem.mdp.kernel[3], [0.25, 0.75], rtol=1e-14)
    np.testing.assert_array_equal(discounted[0], [[0.8, 0.0], [0.0, 0.8]])
    np.testing.assert_array_equal(problem.start, [1.0, 0.0])


def test_the_probability_of_an_end_is_one():
    with pytest.raises(ValueError, match=r"epsilon: got 1.5; a probability in \[0, 1\]"):
        problems.tsitsiklis_van_roy(1.5)
