"""The hallways: a gambler's ruin on 2n + 1 states, with the odds of the behaviour."""

import itertools

import numpy as np
import pytest

from emphatic import oracle, problems
from emphatic.agents import over_states
from emphatic.problems import ACTOR_FEATURES, hallway_actor_features

LENGTHS = [1, 2, 3, 5, 8]


def ruin(n):
    """The probabilities to leave by the left and the right end, and the steps of an episode."""
    right = 1.0 / (1.0 + 3.0**-n)
    return 1.0 - right, right, 2 * n * (2 * right - 1) + 1


def ends(problem, weight):
    """What a step along a gradient with these weights of states does to action 0 at the ends."""
    q = oracle.action_values(problem)
    return weight[-2:] @ (q[-2:, 0] - q[-2:, 1])


@pytest.mark.parametrize("continuing", [False, True])
def test_a_hallway_of_one_step_is_the_counterexample(continuing):
    arguments = {"continuing": continuing, "discount": 0.8, "first": 0.7}
    short, known = problems.hallway(1, **arguments), problems.counterexample(**arguments)
    assert problems.digest(short) == problems.digest(known)
    np.testing.assert_array_equal(hallway_actor_features(1), ACTOR_FEATURES)


def test_the_steps_of_a_hallway_are_those_of_a_row():
    """From left to right the states are 5, 3, 1, 0, 2, 4, 6."""
    problem = problems.hallway(3)
    row, expected = [5, 3, 1, 0, 2, 4, 6], np.zeros((7, 2, 7))
    for left, right in itertools.pairwise(row):
        expected[right, 0, left] = expected[left, 1, right] = 1.0
    expected[5:] = np.eye(7)[0]
    kernel = problem.mdp.kernel.reshape(7, 2, 7)
    np.testing.assert_array_equal(kernel, expected)
    expected[5:] = 0.0
    np.testing.assert_array_equal(problem.mdp.dense_discounted(), expected)
    continuing = problems.hallway(3, continuing=True, discount=0.7)
    np.testing.assert_array_equal(continuing.mdp.dense_discounted(), 0.7 * kernel)
    reward = np.zeros((7, 2))
    reward[5, 0], reward[6, 1] = 2.0, 1.0
    np.testing.assert_array_equal(problem.mdp.mean_reward, reward)
    np.testing.assert_array_equal(problem.start, np.eye(7)[0])
    np.testing.assert_allclose(problem.target, np.tile([0.9, 0.1], (7, 1)))
    np.testing.assert_array_equal(problem.x, np.eye(7))
    np.testing.assert_array_equal(hallway_actor_features(3)[:-1], np.eye(6))
    np.testing.assert_array_equal(hallway_actor_features(3)[-1], np.eye(6)[-1])


@pytest.mark.parametrize("n", LENGTHS)
def test_the_ends_are_visited_as_the_gamblers_ruin_says(n):
    left, right, steps = ruin(n)
    d = problems.hallway(n).stationary
    np.testing.assert_allclose(d[-2:], [left / steps, right / steps], rtol=1e-11)
    assert d[-1] / d[-2] == pytest.approx(3.0**n)


@pytest.mark.parametrize("n", LENGTHS)
def test_the_objectives_of_the_deterministic_policies_are_exact(n):
    """Always left is worth 2, but 0 at the right end; always right is worth 1, but 0 at the left;
    left up to ends where action 1 is taken, and right up to ends with action 0, pay 1 or 2 at the
    other end only."""
    problem, (left, right, steps) = problems.hallway(n), ruin(n)
    first, last = np.eye(2)
    objectives = {
        name: oracle.objective(problem, np.array([*[way] * (2 * n - 1), end, end]))
        for name, way, end in (
            ("left", first, first),
            ("right", last, last),
            ("left, 1", first, last),
            ("right, 0", last, first),
        )
    }
    expected = {
        "left": 2 - 2 * right / steps,
        "right": 1 - left / steps,
        "left, 1": right / steps,
        "right, 0": 2 * left / steps,
    }
    assert objectives == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("n", LENGTHS)
def test_off_pac_is_wrong_about_the_ends_and_the_gradient_is_right(n):
    """At the ends Off-PAC weighs 2 by d(left) and 1 by d(right), of which the second wins. The
    gradient weighs them by how often the target, which goes left with 0.9, leaves there."""
    problem = problems.hallway(n)
    d, (left, right, steps) = problem.stationary, ruin(n)
    assert ends(problem, d) == pytest.approx((2 * left - right) / steps, rel=1e-11)
    assert ends(problem, d) < 0
    position = np.r_[0, np.arange(1, n + 1).repeat(2) * np.tile([-1, 1], n)]
    odds = 9.0  # of left against right, for the target
    to_right = (odds ** (position + n) - 1) / (odds ** (2 * n) - 1)
    # At position n, and only there, an episode is at the right end already.
    leaves_right = d @ to_right
    expected = 2 * (1 - leaves_right) - leaves_right
    assert ends(problem, d * oracle.emphasis(problem)) == pytest.approx(expected, rel=1e-10)
    assert expected > 0


def test_the_aliased_actor_is_sent_the_same_ways():
    """The preference for action 0 at both ends rises along the gradient and falls by Off-PAC."""
    problem, policy = problems.hallway(3), over_states(hallway_actor_features(3), 2)
    theta = np.log([*[9.0] * 6, *[1.0] * 6])
    gradient = oracle.policy_gradient(problem, policy, theta).reshape(2, 6)
    weight = problem.stationary[:, None] * oracle.action_values(problem)
    off_pac = oracle.weighted_gradient(policy, theta, weight).reshape(2, 6)
    spread = 0.9 * 0.1  # the derivative of pi(0) in its preference
    emphatic = problem.stationary * oracle.emphasis(problem)
    assert gradient[0, -1] == pytest.approx(spread * ends(problem, emphatic), rel=1e-6)
    assert off_pac[0, -1] == pytest.approx(spread * ends(problem, problem.stationary), rel=1e-6)
    assert gradient[0, -1] > 0 > off_pac[0, -1]


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 5])
def test_the_gradient_reaches_the_optimum_of_a_hallway_and_off_pac_does_not(n):
    problem, policy = problems.hallway(n), over_states(hallway_actor_features(n), 2)
    theta = np.log([*[9.0] * (2 * n), *[1.0] * (2 * n)])
    np.testing.assert_allclose(oracle.probabilities(policy, theta), problem.target)
    left, right, steps = ruin(n)
    best, fooled = 2 - 2 * right / steps, 1 - left / steps
    end = oracle.follow(problem, policy, theta, "exact-gradient", 1e5)[-1]
    assert oracle.objective(problem, oracle.probabilities(policy, end)) > best - 0.01
    end = oracle.follow(problem, policy, theta, "off-pac", 1e5)[-1]
    assert oracle.objective(problem, oracle.probabilities(policy, end)) < fooled + 0.01


@pytest.mark.parametrize("function", [problems.hallway, hallway_actor_features])
def test_a_hallway_has_a_step(function):
    with pytest.raises(ValueError, match="middle_steps: got 0; at least 1 is required"):
        function(0)
