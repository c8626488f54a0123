"""The named problems are those of the literature: every number here is derived by hand."""

import inspect
import itertools
import sys
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from scipy import sparse, stats

from emphatic import oracle, problems
from emphatic.mdp import policy_matrix
from emphatic.problems import ACTOR_FEATURES


def chain(problem, policy=None):
    """The dense transition matrix of a policy, by default the behaviour."""
    policy = problem.behavior if policy is None else policy
    product = policy_matrix(policy) @ problem.mdp.kernel
    return product.toarray() if sparse.issparse(product) else product


def kernel(problem):
    """p(s'|s,a) as a dense (s, a, s') array."""
    rows = problem.mdp.kernel
    rows = rows.toarray() if sparse.issparse(rows) else rows
    return rows.reshape(*problem.behavior.shape, -1)


def without_checks(function):
    """A function without the types that the tests check, as its users call it."""
    return inspect.unwrap(function)


# Names.


@pytest.mark.parametrize("name", problems.NAMED)
def test_every_named_problem_builds_and_has_a_proper_target(name):
    problem = problems.make(name)
    assert problem.target is not None
    np.testing.assert_allclose(problem.stationary @ chain(problem), problem.stationary, atol=1e-14)
    discounted = policy_matrix(problem.target) @ problem.mdp.discounted()
    dense = discounted.toarray() if sparse.issparse(discounted) else discounted
    assert np.abs(np.linalg.eigvals(dense)).max() < 1.0


@pytest.mark.parametrize("name", problems.NAMED)
def test_every_named_problem_documents_its_arguments(name):
    function = problems.NAMED[name]
    text = inspect.getdoc(function)
    assert text
    assert "**Arguments:**" in text
    arguments = text.partition("**Arguments:**")[2]
    for parameter in inspect.signature(function).parameters:
        assert f"`{parameter}`" in arguments


def test_the_names_are_the_functions():
    for name, function in problems.NAMED.items():
        assert function.__name__ == name
        assert problems.builder(name) is function
    assert problems.builder("random-walk") is problems.random_walk
    assert problems.builder("two-state") is problems.two_state


@pytest.mark.parametrize(
    ("name", "expected"),
    [("bairrd", "baird"), ("gridd", "grid"), ("randomwalk", "random_walk"), ("Boyan", "boyan")],
)
def test_an_unknown_name_suggests_the_nearest(name, expected):
    with pytest.raises(
        ValueError, match=f"problem: unknown name '{name}'; did you mean '{expected}'"
    ):
        problems.make(name)


def test_a_name_like_no_other_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown name 'xyzzy'; known: baird, .*, two_state$"):
        problems.builder("xyzzy")


def test_a_name_may_be_a_file(tmp_path):
    path = tmp_path / "walk.npz"
    problems.save(problems.random_walk(), path)
    np.testing.assert_array_equal(problems.make(str(path)).x, np.eye(5))
    with pytest.raises(ValueError, match=r"path: .*none\.npz does not exist"):
        problems.make(str(tmp_path / "none.npz"))


def test_arguments_reach_the_problem():
    assert problems.make("two_state", discount=0.5).mdp.discount == 0.5


def test_what_is_not_given_has_its_default():
    assert problems.two_state().mdp.discount == 0.99
    assert problems.counterexample(continuing=True).mdp.discount == 0.9
    assert problems.garnet().mdp.discount == 0.9
    slips = kernel(problems.grid(3, 3))[4]  # in the middle, where no wall hides a move
    np.testing.assert_allclose(slips[range(4), [5, 7, 3, 1]], 0.9 + 0.1 / 4, rtol=1e-14)


# Baird's counterexample.

BAIRD = {  # pi(solid): m of states 1 to 6, m of state 7, v, gamma^2 E[rho^2]
    0.05: (110.725, 35.65, 95.0, 1.0491),
    0.1: (104.95, 70.3, 90.0, 0.9948),
    0.3: (81.85, 208.9, 70.0, 1.1778),
}


@pytest.mark.parametrize("solid", BAIRD)
def test_bairds_emphasis_and_values_are_those_of_the_table(solid):
    upper, lower, value, radius = BAIRD[solid]
    for features in ("original", "one-hot", "zero-hot", "aliased"):
        problem = problems.baird(features, solid)
        np.testing.assert_allclose(oracle.emphasis(problem), [upper] * 6 + [lower], rtol=1e-12)
        np.testing.assert_allclose(oracle.values(problem), value, rtol=1e-12)
        assert round(oracle.followon_radius(problem), 4) == radius


def test_bairds_transitions_and_rewards():
    problem = problems.baird()
    p = kernel(problem)
    np.testing.assert_array_equal(p[:, 0], np.tile(np.eye(7)[6], (7, 1)))
    np.testing.assert_allclose(p[:, 1], np.tile([1 / 6] * 6 + [0.0], (7, 1)))
    np.testing.assert_allclose(problem.mdp.mean_reward, np.tile([0.0, 1.0], (7, 1)), rtol=1e-15)
    np.testing.assert_allclose(problem.behavior, np.tile([1 / 7, 6 / 7], (7, 1)))
    np.testing.assert_allclose(problem.stationary, 1 / 7, rtol=1e-14)
    np.testing.assert_allclose(problem.start, 1 / 7)
    np.testing.assert_array_equal(problem.interest, 1.0)
    np.testing.assert_array_equal(problem.labels, [1, 2, 3, 4, 5, 6, 7])
    assert problem.mdp.discount == 0.99
    np.testing.assert_allclose(problem.target, np.tile([0.1, 0.9], (7, 1)))


def test_bairds_features():
    original = [
        [2, 0, 0, 0, 0, 0, 0, 1],
        [0, 2, 0, 0, 0, 0, 0, 1],
        [0, 0, 2, 0, 0, 0, 0, 1],
        [0, 0, 0, 2, 0, 0, 0, 1],
        [0, 0, 0, 0, 2, 0, 0, 1],
        [0, 0, 0, 0, 0, 2, 0, 1],
        [0, 0, 0, 0, 0, 0, 1, 2],
    ]
    aliased = [[2.0 * (column == min(row, 5)) for column in range(6)] for row in range(7)]
    np.testing.assert_array_equal(problems.baird("original").x, original)
    np.testing.assert_array_equal(problems.baird("one-hot").x, np.eye(7))
    np.testing.assert_array_equal(problems.baird("zero-hot").x, 1 - np.eye(7))
    np.testing.assert_array_equal(problems.baird("aliased").x, aliased)


@pytest.mark.parametrize(
    ("features", "rank", "size"),
    [("original", 7, 8), ("one-hot", 7, 7), ("zero-hot", 7, 7), ("aliased", 6, 6)],
)
def test_only_bairds_original_features_are_dependent(features, rank, size):
    problem = problems.baird(features)
    C = problem.x.T @ np.diag(problem.stationary) @ problem.x
    assert C.shape == (size, size)
    assert np.linalg.matrix_rank(C) == rank


@pytest.mark.parametrize("function", [problems.baird, problems.random_walk])
def test_unknown_features_are_refused_with_the_known_ones(function):
    with pytest.raises(ValueError, match=r"features: got 'fourier'; one of .*, .* is required"):
        without_checks(function)("fourier")


# Small problems.


@pytest.mark.parametrize("discount", [0.0, 0.5, 5 / 6, 0.99])
def test_the_two_states_have_the_key_matrix_of_the_book(discount):
    """(1/2) 1 (1 - 2g) + (1/2) 2 (2 - 2g) = (5 - 6g)/2: the target always goes to feature 2."""
    problem = problems.two_state(discount)
    np.testing.assert_allclose(problem.stationary, [0.5, 0.5], rtol=1e-15)
    np.testing.assert_array_equal(problem.x, [[1.0], [2.0]])
    np.testing.assert_array_equal(chain(problem, problem.target), [[0.0, 1.0], [0.0, 1.0]])
    key = oracle.td_system(problem).matrix
    np.testing.assert_allclose(key, [[(5 - 6 * discount) / 2]], atol=1e-15)
    np.testing.assert_array_equal(oracle.values(problem), [0.0, 0.0])


def test_the_two_states_have_the_emphasis_of_geometric_visits():
    """Nothing leads to the first state, and everything to the second: m = (1, (1 + g)/(1 - g))."""
    problem = problems.two_state(0.5)
    np.testing.assert_allclose(oracle.emphasis(problem), [1.0, 3.0], rtol=1e-14)


def test_the_random_walk_has_the_values_and_distribution_of_the_book():
    problem = problems.random_walk()
    np.testing.assert_allclose(
        oracle.values(problem, problem.behavior), [1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6], rtol=1e-13
    )
    np.testing.assert_allclose(problem.stationary, np.array([1, 2, 3, 2, 1]) / 9, rtol=1e-13)
    np.testing.assert_array_equal(problem.start, [0, 0, 1, 0, 0])


@pytest.mark.parametrize("right", [0.3, 0.6, 0.9])
def test_the_random_walk_is_the_gamblers_ruin(right):
    problem = problems.random_walk(right=right)
    odds = (1 - right) / right
    expected = [(1 - odds**s) / (1 - odds**6) for s in range(1, 6)]
    np.testing.assert_allclose(oracle.values(problem), expected, rtol=1e-12)


def test_the_random_walk_ends_at_both_ends():
    problem = problems.random_walk()
    p, gamma = kernel(problem), problem.mdp.discounted().reshape(5, 2, 5)
    for s, a, s_next in [(0, 0, 2), (0, 1, 1), (2, 0, 1), (2, 1, 3), (4, 0, 3), (4, 1, 2)]:
        assert p[s, a, s_next] == 1.0
        assert gamma[s, a].sum() == (0.0 if (s, a) in ((0, 0), (4, 1)) else 1.0)
    np.testing.assert_array_equal(np.argwhere(problem.mdp.mean_reward), [[4, 1]])
    np.testing.assert_allclose(problem.target, np.tile([0.4, 0.6], (5, 1)))


def test_the_random_walks_features():
    np.testing.assert_array_equal(problems.random_walk().x, np.eye(5))
    inverted = problems.random_walk("inverted").x
    np.testing.assert_array_equal(inverted[1], [0.5, 0.0, 0.5, 0.5, 0.5])
    np.testing.assert_array_equal(inverted, (1 - np.eye(5)) / 2)
    a, b = np.sqrt(1 / 2), np.sqrt(1 / 3)
    np.testing.assert_allclose(
        problems.random_walk("dependent").x,
        [[1, 0, 0], [a, a, 0], [b, b, b], [0, a, a], [0, 0, 1]],
        rtol=1e-15,
    )


def test_boyans_chain_costs_two_per_state_when_both_moves_are_as_likely():
    problem = problems.boyan(one_down=0.5)
    np.testing.assert_allclose(oracle.values(problem), -2.0 * np.arange(13), atol=1e-12)


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_boyans_values_follow_their_recursion(discount):
    v = [0.0, -2.0]
    for _ in range(2, 13):
        v.append(-3.0 + discount * (0.1 * v[-1] + 0.9 * v[-2]))
    np.testing.assert_allclose(oracle.values(problems.boyan(discount)), v, rtol=1e-13)


def test_boyans_stationary_distribution_counts_the_visits_of_an_episode():
    visits = np.zeros(13)
    visits[12] = 1 / 13
    visits[11] = 1 / 13 + visits[12] / 2
    for s in range(10, 0, -1):
        visits[s] = 1 / 13 + (visits[s + 1] + visits[s + 2]) / 2
    visits[0] = 1 / 13 + visits[1] + visits[2] / 2
    assert visits[0] == pytest.approx(1.0)  # an episode passes state 0 once
    problem = problems.boyan()
    np.testing.assert_allclose(problem.stationary, visits / visits.sum(), rtol=1e-13)
    np.testing.assert_allclose(problem.start, 1 / 13)


def test_boyans_features_interpolate():
    x = problems.boyan().x
    np.testing.assert_array_equal(x[[12, 8, 4, 0]], np.eye(4))
    np.testing.assert_array_equal(x[11], [0.75, 0.25, 0.0, 0.0])
    np.testing.assert_array_equal(x[6], [0.0, 0.5, 0.5, 0.0])
    np.testing.assert_array_equal(x[1], [0.0, 0.0, 0.25, 0.75])


def test_boyans_transitions():
    problem = problems.boyan()
    p, gamma = kernel(problem), problem.mdp.discounted().reshape(13, 2, 13)
    np.testing.assert_allclose(p[0], 1 / 13)
    np.testing.assert_array_equal(gamma[0], 0.0)
    for s in range(1, 13):
        assert p[s, 0, s - 1] == p[s, 1, max(s - 2, 0)] == 1.0
        np.testing.assert_array_equal(gamma[s], p[s])
    np.testing.assert_array_equal(problem.mdp.mean_reward[:, 0], [0, -2] + [-3] * 11)
    np.testing.assert_array_equal(problem.mdp.mean_reward[:, 1], [0, -2] + [-3] * 11)


def test_the_collision_task_has_the_distribution_and_values_of_its_paper():
    problem = problems.collision()
    np.testing.assert_allclose(
        problem.stationary, np.array([2, 4, 6, 8, 8, 4, 2, 1]) / 35, rtol=1e-13
    )
    np.testing.assert_allclose(
        oracle.values(problem), 0.9 ** np.arange(7.0, -1.0, -1.0), rtol=1e-13
    )


def test_the_collision_task_ends_by_a_turn_or_at_the_end():
    problem = problems.collision()
    p, gamma = kernel(problem), problem.mdp.discounted().reshape(8, 2, 8)
    starts = np.repeat([0.25, 0.0], 4)
    for s in range(8):
        np.testing.assert_array_equal(p[s, 0], np.eye(8)[s + 1] if s < 7 else starts)
        np.testing.assert_array_equal(p[s, 1], starts)
        assert gamma[s, 0].sum() == (0.9 if s < 7 else 0.0)
        assert gamma[s, 1].sum() == 0.0
    np.testing.assert_array_equal(np.argwhere(problem.mdp.mean_reward), [[7, 0]])
    np.testing.assert_array_equal(problem.behavior, [[1.0, 0.0]] * 4 + [[0.5, 0.5]] * 4)
    np.testing.assert_array_equal(problem.start, starts)
    np.testing.assert_array_equal(problem.target[:, 0], 1.0)


def test_the_collision_tasks_features_are_six_bits_with_three_on():
    features = [problems.collision(seed).x for seed in range(5)]
    for x in features:
        assert x.shape == (8, 6)
        assert set(np.unique(x)) == {0.0, 1.0}
        np.testing.assert_array_equal(x.sum(1), 3.0)
        assert len(np.unique(x, axis=0)) == 8
    assert len({x.tobytes() for x in features}) == 5
    np.testing.assert_array_equal(problems.collision(3).x, features[3])


# The aliasing counterexample.


def aliased_policies():
    """The deterministic policies that act alike in states 1 and 2."""
    for first, later in itertools.product(range(2), repeat=2):
        yield (first, later), np.eye(2)[[first, later, later]]


def test_the_counterexample_has_the_objective_values_of_the_paper():
    problem = problems.counterexample()
    np.testing.assert_allclose(problem.stationary, [1 / 2, 1 / 8, 3 / 8], rtol=1e-14)
    objectives = {name: oracle.objective(problem, policy) for name, policy in aliased_policies()}
    # J = v(0)/2 + v(1)/8 + 3 v(2)/8 with v(1) = 2 or 0 and v(2) = 0 or 1
    assert objectives == pytest.approx({(0, 0): 1.25, (0, 1): 0.375, (1, 0): 0.25, (1, 1): 0.875})
    for q, p in itertools.product(np.linspace(0.0, 1.0, 21), repeat=2):
        value = oracle.objective(problem, [[q, 1 - q], [p, 1 - p], [p, 1 - p]])
        assert value <= 1.25 + 1e-12


def test_the_counterexample_aliases_the_last_two_states_of_its_actor_only():
    np.testing.assert_array_equal(ACTOR_FEATURES, [[1, 0], [0, 1], [0, 1]])
    problem = problems.counterexample()
    np.testing.assert_array_equal(problem.x, np.eye(3))
    np.testing.assert_allclose(problem.target, np.tile([0.9, 0.1], (3, 1)))
    np.testing.assert_array_equal(problem.start, [1, 0, 0])
    np.testing.assert_allclose(problem.behavior, np.tile([0.25, 0.75], (3, 1)))


def test_the_continuing_counterexample_pays_every_second_step():
    """Always 2 on the way round: v(0) = 2g/(1 - g^2), v(1) = 2/(1 - g^2) and v(2) = g v(0)."""
    problem = problems.counterexample(continuing=True, discount=0.5)
    assert problem.mdp.discount == 0.5
    np.testing.assert_allclose(problem.stationary, [1 / 2, 1 / 8, 3 / 8], rtol=1e-14)
    always = np.eye(2)[[0, 0, 0]]
    np.testing.assert_allclose(oracle.values(problem, always), [4 / 3, 8 / 3, 2 / 3], rtol=1e-14)


# Random problems.

GARNETS = [
    {},
    {"num_states": 1, "num_actions": 1, "branching": 1},
    {"num_states": 2, "num_actions": 1, "branching": 2},
    {"num_states": 2, "num_actions": 2, "branching": 1},
    {"num_states": 7, "num_actions": 2, "branching": 1},
    {"num_states": 9, "num_actions": 1, "branching": 2},
    {"num_states": 6, "num_actions": 4, "branching": 6},
]


@pytest.mark.parametrize("sizes", GARNETS, ids=str)
def test_every_garnet_is_irreducible_and_aperiodic(sizes):
    """A power of its behaviour's matrix is positive: Wielandt's n^2 - 2n + 2 suffices."""
    for seed in range(25):
        problem = problems.garnet(**sizes, seed=seed)
        num_states = problem.mdp.num_states
        possible = chain(problem) > 0
        power = np.eye(num_states)
        for _ in range(num_states**2 - 2 * num_states + 2):
            power = ((power @ possible) > 0).astype(float)
        assert power.all()


@pytest.mark.parametrize("sizes", GARNETS, ids=str)
def test_every_action_of_a_garnet_leads_to_as_many_states_as_it_branches(sizes):
    branching = sizes.get("branching", 3)
    for seed in range(5):
        p = kernel(problems.garnet(**sizes, seed=seed))
        np.testing.assert_array_equal((p > 0).sum(2), branching)
        assert p[p > 0].min() >= 0.1 / branching - 1e-15


def test_a_garnet_is_drawn_by_its_seed():
    first, again, other = (problems.garnet(seed=seed) for seed in (1, 1, 2))
    for name in ("behavior", "target", "interest", "x"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        assert (getattr(first, name) != getattr(other, name)).any()
    np.testing.assert_array_equal(first.mdp.transition, again.mdp.transition)
    assert (first.mdp.transition != other.mdp.transition).any()
    assert (first.mdp.reward != other.mdp.reward).any()
    assert (first.behavior != first.target).any()


def test_a_garnets_policies_interest_and_features():
    problem = problems.garnet(num_states=30, num_actions=4, num_features=6, discount=0.7)
    assert problem.mdp.discount == 0.7
    assert problem.x.shape == (30, 6)
    for policy in (problem.behavior, problem.target):
        assert policy.min() > 0.1 / 4
    assert 0.5 <= problem.interest.min() < problem.interest.max() <= 1.5
    lazy = problems.garnet(greediness=0.0)
    np.testing.assert_allclose(lazy.behavior, 1 / 3)
    np.testing.assert_allclose(lazy.target, 1 / 3)


def test_a_garnet_draws_from_the_distributions_it_documents():
    """Each sample is so large that its distribution cannot be mistaken for another."""
    problem = problems.garnet(900, 4, 2, 3, greediness=2.0)
    for policy in (problem.behavior, problem.target):
        preference = np.log((policy - 0.1 / 4) / 0.9)  # up to a constant of each state
        difference = (preference[:, 0] - preference[:, 1]) / np.sqrt(2.0 * 2.0**2)
        assert stats.kstest(difference, "norm").pvalue > 1e-3
    assert stats.kstest(problem.mdp.reward.ravel(), "norm").pvalue > 1e-3
    assert stats.kstest(problem.x.ravel(), "norm").pvalue > 1e-3
    assert stats.kstest(problem.interest - 0.5, "uniform").pvalue > 1e-3
    p = problem.mdp.transition
    part = (p[p > 0] - 0.1 / 2) / 0.9  # of a uniform point on a segment
    assert stats.kstest(part, "uniform").pvalue > 1e-3


def test_a_large_garnet_is_sparse():
    assert not problems.garnet(num_states=999, num_actions=2).mdp.is_sparse
    large = problems.garnet(num_states=1000, num_actions=2)
    assert large.mdp.is_sparse
    assert large.mdp.transition.nnz == 1000 * 2 * 3
    assert sparse.issparse(large.x)
    np.testing.assert_array_equal(np.diff(large.x.indptr), 1)


@pytest.mark.parametrize("name", ["num_states", "num_actions", "branching", "num_features"])
def test_a_garnet_of_size_zero_is_refused(name):
    with pytest.raises(ValueError, match=f"^{name}: got 0; at least 1 is required"):
        problems.garnet(**{name: 0})


def test_a_garnet_cannot_branch_to_more_states_than_there_are():
    with pytest.raises(ValueError, match="branching: got 6; at most num_states = 5 is possible"):
        problems.garnet(num_states=5, branching=6)


def test_a_garnet_with_one_way_on_is_refused_because_it_is_periodic():
    with pytest.raises(ValueError, match=r"branching: got 1 with a single action;.*aperiodic"):
        problems.garnet(num_actions=1, branching=1)


# Grids.


@pytest.mark.parametrize(("width", "height", "slip"), [(3, 4, 0.1), (5, 1, 0.0), (1, 2, 1.0)])
def test_a_grid_without_a_goal_is_visited_uniformly(width, height, slip):
    problem = problems.grid(width, height, goal=False, slip=slip)
    np.testing.assert_allclose(problem.stationary, 1 / (width * height), rtol=1e-12)
    assert problem.mdp.discount == 0.99
    np.testing.assert_array_equal(problem.mdp.mean_reward, 0.0)


def step(column, row, move, width, height):
    """Returns where a move leads: right, down, left, up, and walls."""
    to_column, to_row = {
        0: (column + 1, row),
        1: (column, row + 1),
        2: (column - 1, row),
        3: (column, row - 1),
    }[move]
    inside = 0 <= to_column < width and 0 <= to_row < height
    return (to_column, to_row) if inside else (column, row)


@pytest.mark.parametrize("goal", [True, False])
@pytest.mark.parametrize(("width", "height", "slip"), [(3, 4, 0.1), (4, 2, 0.0), (2, 2, 1.0)])
def test_the_moves_of_a_grid(width, height, slip, goal):
    problem = problems.grid(width, height, goal, slip)
    num_states = width * height
    expected = np.zeros((num_states, 4, num_states))
    for row, column, action in itertools.product(range(height), range(width), range(4)):
        s = row * width + column
        for move in range(4):
            to_column, to_row = step(column, row, move, width, height)
            probability = (1 - slip) * (move == action) + slip / 4
            expected[s, action, to_row * width + to_column] += probability
    if goal:
        expected[-1] = np.eye(num_states)[0]
    np.testing.assert_allclose(kernel(problem), expected, atol=1e-15)


def test_the_goal_of_a_grid_pays_and_ends_the_episode():
    problem = problems.grid(3, 2, discount=0.8)
    reward = np.zeros((6, 4))
    reward[5] = 1.0
    np.testing.assert_array_equal(problem.mdp.mean_reward, reward)
    gamma = problem.mdp.discounted().sum(1).reshape(6, 4)
    np.testing.assert_allclose(gamma, 0.8 * (1 - reward), rtol=1e-14)
    np.testing.assert_array_equal(problem.start, np.eye(6)[0])
    np.testing.assert_array_equal(problem.target, np.tile([0.4, 0.4, 0.1, 0.1], (6, 1)))
    np.testing.assert_array_equal(problem.behavior, 0.25)


def test_the_value_of_a_corridor_is_the_discount_of_the_way():
    """Without slip, always right: k steps to the goal are worth discount^k."""
    problem = problems.grid(6, 1, slip=0.0, discount=0.9)
    always_right = np.tile([1.0, 0.0, 0.0, 0.0], (6, 1))
    np.testing.assert_allclose(
        oracle.values(problem, always_right), 0.9 ** np.arange(5.0, -1.0, -1.0), rtol=1e-13
    )


def test_the_features_of_a_grid_are_its_tiles():
    x = problems.grid(4, 6, tiles=2).x.toarray()
    blocks = [0, 0, 1, 1] * 3 + [2, 2, 3, 3] * 3
    np.testing.assert_array_equal(x, np.eye(4)[blocks])
    np.testing.assert_array_equal(problems.grid(3, 2).x.toarray(), np.eye(6))
    assert problems.grid(20, 10).x.shape == (200, 64)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 0}, "width: got 0; at least 1"),
        ({"height": -3}, "height: got -3; at least 1"),
        ({"tiles": 0}, "tiles: got 0; at least 1"),
        ({"width": 1, "height": 1}, "at least 2 cells"),
        ({"slip": 1.5}, r"slip: got 1.5; a probability in \[0, 1\]"),
        ({"slip": -0.1}, r"slip: got -0.1; a probability in \[0, 1\]"),
        ({"slip": float("nan")}, "slip: got nan"),
    ],
)
def test_impossible_grids_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        problems.grid(**arguments)


# Gymnasium.

FROZEN_LAKE = [0, 1, 2, 3, 4, 6, 8, 9, 10, 13, 14]  # 16 cells without four holes and the goal


@pytest.mark.parametrize(
    ("name", "num_states"), [("FrozenLake-v1", 11), ("CliffWalking-v1", 37), ("Taxi-v4", 400)]
)
def test_an_environments_values_are_those_of_its_table(name, num_states):
    """Plain value iteration of the uniform policy on the raw table, ends included."""
    problem = problems.gymnasium(name, 0.8)
    assert problem.mdp.num_states == num_states == len(problem.labels)
    table = gymnasium.make(name).unwrapped.P  # pyright: ignore[reportAttributeAccessIssue]
    v = dict.fromkeys(table, 0.0)
    for _ in range(150):
        v = {
            s: sum(
                p * (r + (0.0 if ended else 0.8 * v[t]))
                for branch in actions.values()
                for p, t, r, ended in branch
            )
            / len(actions)
            for s, actions in table.items()
        }
    expected = [v[s] for s in problem.labels.tolist()]
    np.testing.assert_allclose(oracle.values(problem), expected, atol=1e-10, rtol=1e-10)


def test_the_frozen_lake_keeps_the_cells_one_can_stand_on():
    problem = problems.gymnasium()
    np.testing.assert_array_equal(problem.labels, FROZEN_LAKE)
    np.testing.assert_array_equal(problem.start, np.eye(11)[0])
    assert problems.gymnasium("FrozenLake8x8-v1").mdp.num_states == 64 - 10 - 1


def test_walking_to_the_start_is_not_being_restarted_there():
    """From cell 4, up reaches the start and slipping right falls into a hole, each with 1/3."""
    problem = problems.gymnasium(discount=0.9)
    row = FROZEN_LAKE.index(4) * 4 + 3
    start = FROZEN_LAKE.index(0)
    assert problem.mdp.kernel[[row]].toarray()[0, start] == pytest.approx(2 / 3)
    assert problem.mdp.discounted()[[row]].toarray()[0, start] == pytest.approx(0.9 / 3)
    assert problem.mdp.mean_reward[FROZEN_LAKE.index(14), 2] == pytest.approx(1 / 3)


def make_table_environment(**branches):
    """An environment of one action with two start states, 0 and 2."""
    table = {s: {0: branches[f"s{s}"]} for s in range(5)}
    env = SimpleNamespace(P=table, initial_state_distrib=np.array([3.0, 0.0, 1.0, 0.0, 0.0]))
    env.unwrapped = env
    return env


STUB = {
    "s0": [(0.5, 2, 1.0, False), (0.5, 4, 5.0, True)],
    "s1": [(1.0, 0, 0.0, False)],  # never reached
    "s2": [(0.75, 0, 2.0, False), (0.0, 1, 9.0, False), (0.25, 0, 7.0, True)],
    "s3": [(1.0, 3, 0.0, False)],  # never reached
    "s4": [(1.0, 4, 0.0, True)],  # a terminal state
}


def test_an_end_leads_to_every_start_by_its_probability_and_unreached_states_are_dropped():
    problem = problems.from_gymnasium(make_table_environment(**STUB), discount=0.8)
    np.testing.assert_array_equal(problem.labels, [0, 2])
    np.testing.assert_allclose(problem.start, [0.75, 0.25])
    # An end restarts at 0 with 3/4 and at 2 with 1/4.
    np.testing.assert_allclose(
        kernel(problem)[:, 0], [[0.375, 0.625], [0.75 + 0.1875, 0.0625]], rtol=1e-14
    )
    np.testing.assert_allclose(
        problem.mdp.discounted().toarray(), [[0.0, 0.4], [0.6, 0.0]], rtol=1e-14
    )
    np.testing.assert_allclose(problem.mdp.mean_reward[:, 0], [0.5 + 2.5, 1.5 + 1.75], rtol=1e-14)


def test_policies_are_given_over_the_original_states():
    env = gymnasium.make("FrozenLake-v1")
    target = np.random.default_rng(0).dirichlet(np.ones(4), 16)
    behavior = np.random.default_rng(1).dirichlet(np.ones(4), 16)
    problem = problems.from_gymnasium(env, behavior=behavior, target=target)
    np.testing.assert_array_equal(problem.target, target[FROZEN_LAKE])
    np.testing.assert_array_equal(problem.behavior, behavior[FROZEN_LAKE])
    with pytest.raises(ValueError, match=r"got shape \(11, 4\); \(16, 4\) \(original states"):
        problems.from_gymnasium(env, target=target[FROZEN_LAKE])


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(ValueError, match="env: BlackjackEnv publishes no transition table"):
        problems.from_gymnasium(gymnasium.make("Blackjack-v1"))


@pytest.mark.parametrize("name", ["this:FrozenLake-v1", "FrozenLake", "", "../x", "a:b:Taxi-v4"])
def test_only_what_gymnasium_has_registered_is_made_and_no_module_imported(name):
    was_imported = "this" in sys.modules
    with pytest.raises(ValueError, match=r"^env: unknown name '.*'; .*known: FrozenLake-v1, "):
        inspect.unwrap(problems.gymnasium)(name)
    assert ("this" in sys.modules) == was_imported


def test_gymnasium_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ValueError, match=r"Gymnasium is not installed; install .*'gymnasium'"):
        problems.gymnasium()
