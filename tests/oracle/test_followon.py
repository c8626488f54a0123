"""The moments of the followon trace, and of its truncations."""

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy import sparse

from emphatic import MDP, oracle, Problem, problems
from emphatic.oracle import followon

from ..plainly import moment_matrix, plainly
from ..strategies import as_sparse, build, problems_and_targets, SEEDS


@given(problems_and_targets())
def test_followon_moments_are_the_limits_of_their_recursion(pair):
    """Iterated from M_0 = i(S_0); where the second moment explodes, infinity is reported."""
    problem, target = pair
    is_ = plainly(problem, target)
    B1, B2 = (moment_matrix(problem, target, power) for power in (1, 2))
    first = is_.d * is_.i
    second = is_.d * is_.i**2
    for _ in range(6000):
        # E[(i + F)^2] with F = gamma rho M, summed over what leads here
        second = is_.d * is_.i**2 + 2 * is_.i * (B1.T @ first) + B2.T @ second
        first = is_.d * is_.i + B1.T @ first
        if second.max() > 1e250:
            break
    variance = oracle.followon_variance(problem, target)
    radius = oracle.followon_radius(problem, target)
    assume(abs(radius - 1.0) > 0.01)
    assert np.isinf(variance).any() == (radius > 1)
    finite = np.isfinite(variance)
    np.testing.assert_array_equal(finite, second < 1e30)
    expected = second[finite] / is_.d[finite] - oracle.emphasis(problem, target)[finite] ** 2
    np.testing.assert_allclose(variance[finite], expected, rtol=1e-5, atol=1e-7)


def _chain_of_classes():
    """Two closed-off rings: what starts in the first never returns from the second."""
    p = np.zeros((4, 2, 4))
    p[0, 0, 1] = p[1, 0, 0] = 1.0  # ring of 0 and 1
    p[:2, 1, 2] = 1.0
    p[2, 0, 3] = p[3, 0, 2] = 1.0  # ring of 2 and 3
    p[2:, 1, 0] = 1.0
    discount = np.full((4, 2), 0.95)
    discount[2:, 1] = 0.0  # the way back ends the episode
    return p, discount


@pytest.mark.parametrize(
    ("ring", "infinite"),
    [((0.9, 0.3), [1, 1, 1, 1]), ((0.3, 0.9), [0, 0, 1, 1]), ((0.3, 0.3), [0, 0, 0, 0])],
)
def test_variance_is_infinite_only_behind_a_class_that_explodes(ring, infinite):
    p, discount = _chain_of_classes()
    pi = np.repeat(ring, 2)
    problem = Problem(
        MDP(p, 0.0, discount),
        behavior=np.full((4, 2), 0.5),
        interest=1.0,
        x=np.eye(4),
        target=np.stack([pi, 1 - pi], axis=1),
    )
    for which in (problem, as_sparse(dataclasses.replace(problem, mdp=MDP(p, 0.0, discount)))):
        variance = oracle.followon_variance(which)
        np.testing.assert_array_equal(np.isinf(variance), np.array(infinite, bool))
    # Without interest in the first ring nothing explodes there, and nothing comes from it.
    elsewhere = dataclasses.replace(problem, interest=np.array([0.0, 0.0, 1.0, 1.0]))
    variance = oracle.followon_variance(elsewhere)
    np.testing.assert_array_equal(variance[:2], 0.0)
    assert np.isinf(variance[2]) == (ring[1] == 0.9)


@pytest.mark.parametrize(
    ("solid", "finite", "radius"),
    [(0.05, False, 1.0491), (0.1, True, 0.9948), (0.3, False, 1.1778)],
)
def test_baird_trace_has_finite_variance_only_for_one_target(solid, finite, radius):
    problem = problems.baird(solid=solid)
    assert round(oracle.followon_radius(problem), 4) == radius
    assert np.isfinite(oracle.followon_variance(problem)).all() == finite
    np.testing.assert_allclose(
        oracle.followon_radius(problem), 0.99**2 * (solid**2 * 7 + (1 - solid) ** 2 * 7 / 6)
    )


def _simulated_trace(problem, target, num_chains, num_steps, seed):
    """Mean and standard error of M^2 at each state, from independent chains."""
    rng = np.random.default_rng(seed)
    p, mu = problem.mdp.transition, problem.behavior
    gamma = np.broadcast_to(problem.mdp.discount, p.shape)
    states, actions, _ = p.shape
    flat = p.reshape(-1, states).cumsum(1)
    s = rng.choice(states, num_chains, p=oracle.stationary(problem))
    followon = np.zeros(num_chains)
    for _ in range(num_steps):
        trace = problem.interest[s] + followon
        a = (rng.random(num_chains)[:, None] > mu.cumsum(1)[s]).sum(1).clip(max=actions - 1)
        row = flat[s * actions + a]
        s_next = (rng.random(num_chains)[:, None] > row).sum(1).clip(max=states - 1)
        followon = gamma[s, a, s_next] * target[s, a] / mu[s, a] * trace
        s = s_next
    trace = problem.interest[s] + followon
    return [
        (
            trace[s == k].mean(),
            trace[s == k].std() / np.sqrt((s == k).sum()),
            (trace[s == k] ** 2).mean(),
            (trace[s == k] ** 2).std() / np.sqrt((s == k).sum()),
        )
        for k in range(states)
    ]


def _check_simulation(seed, varying, num_chains, tolerance):
    problem, target = build((5, 3, 5, 4), seed, varying)
    fourth = np.abs(np.linalg.eigvals(moment_matrix(problem, target, 4))).max()
    assert fourth < 0.9, "choose a seed whose fourth moment exists"
    m, variance = oracle.emphasis(problem, target), oracle.followon_variance(problem, target)
    for k, (mean, mean_error, square, square_error) in enumerate(
        _simulated_trace(problem, target, num_chains, 300, seed)
    ):
        assert abs(mean - m[k]) <= tolerance * mean_error + 1e-9
        assert abs(square - (variance[k] + m[k] ** 2)) <= tolerance * square_error + 1e-9


SIMULATED = [(34, False), (3, True), (33, True)]


@pytest.mark.parametrize(("seed", "varying"), SIMULATED)
def test_followon_variance_agrees_with_simulation(seed, varying):
    """Where the fourth moment exists, so that the sample variance has an error."""
    _check_simulation(seed, varying, num_chains=20_000, tolerance=4.5)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "varying"), SIMULATED)
def test_followon_variance_agrees_with_a_long_simulation(seed, varying):
    _check_simulation(seed, varying, num_chains=2_000_000, tolerance=4.5)


@given(problems_and_targets(), st.integers(0, 5))
def test_truncated_emphasis_is_the_partial_sum(pair, length):
    problem, target = pair
    is_ = plainly(problem, target)
    operator = (is_.gP.T * is_.d) / is_.d[:, None]
    expected = sum(np.linalg.matrix_power(operator, k) @ is_.i for k in range(length + 1))
    np.testing.assert_allclose(oracle.truncated_emphasis(problem, target, length), expected)


def test_truncated_emphasis_refuses_a_negative_length():
    with pytest.raises(ValueError, match="length: got -1"):
        oracle.truncated_emphasis(problems.two_state(), length=-1)


def _is_stable(problem, target, length):
    is_ = plainly(problem, target)
    m = oracle.truncated_emphasis(problem, target, length)
    G = is_.x.T @ np.diag(is_.d * m) @ (np.eye(len(m)) - is_.gP) @ is_.x
    return np.linalg.eigvalsh(G + G.T)[0] > 0


@pytest.mark.parametrize(
    "problem",
    [
        problems.two_state(),
        problems.two_state(0.9),
        problems.baird("aliased", 0.9),
        problems.baird("zero-hot", 0.6),
        problems.baird("one-hot", 0.95),
        *(
            problems.garnet(8, 3, 2, 6, discount=0.97, greediness=6.0, seed=seed)
            for seed in (4, 8, 20, 37)
        ),
    ],
)
def test_truncation_length_is_where_stability_begins_for_good(problem):
    length = oracle.truncation_length(problem)
    assert length is not None
    stable = [_is_stable(problem, problem.target, n) for n in range(length + 60)]
    assert all(stable[length:])
    assert length == 0 or not stable[length - 1]


def test_truncation_length_is_none_where_no_length_is_stable():
    assert oracle.truncation_length(problems.baird("original")) is None
    unseen = dataclasses.replace(problems.baird("one-hot"), interest=np.eye(7)[0])
    target = np.tile([1.0, 0.0], (7, 1))  # from state 1 to 7: the others have no emphasis
    assert oracle.truncation_length(unseen, target) is None


def test_a_key_matrix_that_vanishes_is_not_stable():
    """With no ratio kept it is (5 - 6 gamma)/2, which is 0 at gamma = 5/6."""
    assert oracle.truncation_length(problems.two_state(0.83)) == 0
    assert oracle.truncation_length(problems.two_state(5 / 6)) == 1


def test_a_state_without_emphasis_does_not_delay_stability():
    """Interest in the second state only, which the target never leaves."""
    problem = dataclasses.replace(problems.two_state(), interest=np.array([0.0, 1.0]))
    assert oracle.truncation_length(problem) == 0


def test_a_lone_state_of_radius_one_explodes():
    """State 0 returns to itself with (pi^2/mu) gamma^2 = 1, and is then left for state 1."""
    p = np.zeros((2, 2, 2))
    p[0, 0, 0] = p[0, 1, 1] = p[1, :, 0] = 1.0
    discount = np.array([[1.0, 0.5], [0.0, 0.0]])
    problem = Problem(
        MDP(p, 0.0, discount),
        behavior=np.array([[0.25, 0.75], [0.5, 0.5]]),
        interest=np.array([1.0, 0.0]),
        x=np.eye(2),
        target=np.full((2, 2), 0.5),
    )
    assert oracle.followon_radius(problem) == 1.0
    np.testing.assert_array_equal(oracle.followon_variance(problem), np.inf)
    # Interest in what lies behind does not lead back to it.
    behind = dataclasses.replace(problem, interest=np.array([0.0, 1.0]))
    assert oracle.followon_radius(behind) == 0.0
    np.testing.assert_array_equal(oracle.followon_variance(behind), 0.0)


def test_a_trace_that_does_not_vary_has_variance_zero():
    problem = problems.baird("one-hot")
    variance = oracle.followon_variance(problem, problem.behavior)
    np.testing.assert_allclose(variance, 0.0, atol=1e-20)


def test_a_chain_that_hardly_ends_is_refused():
    """What leaves the chain is below rounding: the radius is 1 as far as numbers go."""
    p = np.ones((1, 2, 1))
    for mdp in (MDP(p, 1.0, [[1.0, 0.0]]), MDP(sparse.csr_array(p[0]), 1.0, [[1.0, 0.0]])):
        problem = Problem(mdp, [[0.5, 0.5]], 1.0, [[1.0]], target=[[1.0, 1e-17]])
        with pytest.raises(ValueError, match="spectral radius 1 to rounding"):
            oracle.values(problem)


def test_a_state_too_rare_for_a_number_is_refused():
    p = np.zeros((3, 1, 3))
    p[0, 0, 1] = p[1, 0, 2] = 1e-200
    p[0, 0, 0] = p[1, 0, 0] = p[2, 0, 0] = 1.0
    one = np.ones((3, 1))
    with pytest.raises(ValueError, match="stationary probability of state 2 is too small"):
        Problem(MDP(p, 1.0, 0.9), one, 1.0, np.eye(3), target=one)


@given(SEEDS)
def test_the_bound_on_what_a_tail_takes_away_is_the_sum_of_positive_parts(seed):
    rng = np.random.default_rng(seed)
    x, y, weight = rng.normal(size=(6, 3)), rng.normal(size=(6, 3)), rng.uniform(0.1, 2.0, 6)
    x[0] = 0.0
    y[1] = -x[1]
    total = np.zeros((3, 3))
    for row, other, factor in zip(x, y, weight, strict=True):
        values, vectors = np.linalg.eigh(np.outer(row, other) + np.outer(other, row))
        total += factor / 2 * (vectors * np.maximum(values, 0.0)) @ vectors.T
    bound = followon._largest_positive_part(x, y, weight)
    np.testing.assert_allclose(bound, np.linalg.eigvalsh(total)[-1], rtol=1e-12)
    part = rng.uniform(0.0, weight)  # no part of the weights takes away more
    gram = x.T @ (part[:, None] * y)
    assert np.linalg.eigvalsh(gram + gram.T)[-1] / 2 <= bound + 1e-12
