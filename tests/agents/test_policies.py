"""The softmax policy, and the constants that the paper's assumptions need of it."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st

from emphatic import Softmax
from emphatic.agents import linear, NetworkSoftmax, over_states, tabular

from ..strategies import build

SHAPES = st.sampled_from([(3, 2, 2), (4, 3, 5)])
seeds = st.integers(0, 2**32 - 1)


def drawn(shape, seed):
    """A policy and parameters of a random size, from flat to nearly deterministic."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=shape) * 10.0 ** rng.uniform(-1, 1)
    return Softmax(features), rng.normal(size=shape[2]) * 10.0 ** rng.uniform(-2, 1)


@given(SHAPES, seeds)
def test_probabilities_are_proportional_to_the_exponential_of_the_preference(shape, seed):
    policy, theta = drawn(shape, seed)
    probabilities = np.asarray(policy(theta))
    assert probabilities.shape == shape[:2]
    assert probabilities.dtype == np.float64
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-14)
    for s, a in itertools.product(range(shape[0]), range(shape[1])):
        rivals = [(policy.features[s, b] - policy.features[s, a]) @ theta for b in range(shape[1])]
        with np.errstate(over="ignore"):
            expected = 1.0 / np.exp(rivals).sum()
        np.testing.assert_allclose(probabilities[s, a], expected, rtol=1e-9, atol=1e-300)


def test_large_preferences_do_not_overflow():
    policy = Softmax([[[1.0], [0.0]]])
    np.testing.assert_allclose(policy(jnp.array([1e4])), [[1.0, 0.0]])


@given(SHAPES, seeds)
def test_the_spread_is_the_largest_distance_between_actions_of_one_state(shape, seed):
    policy, _ = drawn(shape, seed)
    distances = [
        np.linalg.norm(policy.features[s, a] - policy.features[s, b])
        for s in range(shape[0])
        for a in range(shape[1])
        for b in range(shape[1])
    ]
    assert policy.spread == pytest.approx(max(distances), rel=1e-13)


def test_the_spread_does_not_compare_different_states():
    assert Softmax([[[0.0], [1.0]], [[100.0], [102.0]]]).spread == 2.0
    assert Softmax([[[3.0]]]).spread == 0.0


@given(SHAPES, seeds)
def test_the_gradient_of_a_probability_is_at_most_a_quarter_of_the_spread(shape, seed):
    policy, theta = drawn(shape, seed)
    gradients = np.asarray(jax.jacobian(policy)(jnp.asarray(theta)))
    assert np.linalg.norm(gradients, axis=-1).max() <= policy.spread / 4 * (1 + 1e-12)


@given(SHAPES, seeds)
def test_the_hessian_of_a_probability_is_at_most_a_quarter_of_the_squared_spread(shape, seed):
    policy, theta = drawn(shape, seed)
    hessians = np.asarray(jax.hessian(policy)(jnp.asarray(theta)))
    assert np.linalg.norm(hessians, 2, axis=(-2, -1)).max() <= policy.spread**2 / 4 * (1 + 1e-12)


def test_the_bound_of_the_gradient_is_attained():
    """Two actions that are as likely: no smaller constant would do."""
    policy = Softmax([[[1.0, 2.0], [4.0, 6.0]]])
    assert policy.spread == 5.0
    gradient = np.asarray(jax.jacobian(policy)(jnp.zeros(2)))
    np.testing.assert_allclose(np.linalg.norm(gradient, axis=-1), 5.0 / 4)


def test_the_features_are_a_read_only_copy():
    features = np.ones((1, 2, 1))
    policy = Softmax(features)
    features[:] = 5.0
    np.testing.assert_array_equal(policy.features, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        policy.features[:] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.features = features  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "features", [np.ones((2, 3)), np.full((1, 2, 1), np.nan), np.full((1, 2, 1), np.inf)]
)
def test_features_that_are_no_finite_array_of_actions_are_refused(features):
    with pytest.raises(ValueError, match=r"features: got .*a finite \(states, actions, n\) array"):
        Softmax(features)


# The policies that a problem suggests


def policies():
    problem, _ = build((5, 3, 5, 4), 7, varying=False)
    return {
        "linear": linear(problem),
        "tabular": tabular(problem),
        "over_states": over_states(problem.x[:, :2], 3),
        "network": NetworkSoftmax(problem.x, 3, (4, 3)),
    }


@pytest.mark.parametrize("name", ["linear", "tabular", "over_states", "network"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_state_is_that_of_all_and_scores_are_gradients(name, dtype):
    policy, digits = policies()[name], {np.float32: 1e-5, np.float64: 1e-11}[dtype]
    assert policy.shape == (5, 3)
    theta = jnp.asarray(np.random.default_rng(1).normal(size=policy.num_parameters), dtype)
    every = policy(theta)
    np.testing.assert_allclose(every.sum(1), 1.0, rtol=digits)
    scores = jax.jacfwd(lambda t: jnp.log(policy(t)))(theta)
    for s, a in itertools.product(range(5), range(3)):
        pi, score = policy.probabilities(theta, s), policy.score(theta, s, a)
        assert pi.dtype == score.dtype == dtype
        np.testing.assert_allclose(pi, every[s], rtol=digits)
        np.testing.assert_allclose(score, scores[s, a], rtol=digits, atol=10 * digits)


@pytest.mark.parametrize("name", ["linear", "tabular", "over_states", "network"])
def test_policies_start_uniform_and_can_move(name):
    policy = policies()[name]
    theta = policy.init(jax.random.key(0))
    assert theta.shape == (policy.num_parameters,)
    np.testing.assert_allclose(policy(theta), 1.0 / 3.0, rtol=1e-6)
    assert np.abs(policy.score(theta, 0, 0)).max() > 1e-3
    with pytest.raises(ValueError, match=r"theta: got shape \(1,\)"):
        policy(np.zeros(1))


def test_preferences_are_those_of_the_features():
    problem, _ = build((5, 3, 5, 4), 7, varying=False)
    rng = np.random.default_rng(0)
    theta, table, mixed = rng.normal(size=4), rng.normal(size=(5, 3)), rng.normal(size=(3, 5))
    for policy, parameters, preferences in (
        (linear(problem), theta, problem.xa @ theta),
        (tabular(problem), table.ravel(), table),
        (over_states(problem.x, 3), mixed.ravel(), problem.x @ mixed.T),
    ):
        expected = np.exp(preferences) / np.exp(preferences).sum(1, keepdims=True)
        np.testing.assert_allclose(policy(parameters), expected, rtol=1e-12)


def test_hidden_weights_start_with_a_variance_of_one_over_their_inputs():
    policy = NetworkSoftmax(np.ones((1, 400)), 2, (400, 50))
    first, second = (np.asarray(policy.init(jax.random.key(key))) for key in (0, 1))
    assert abs(first[:160_000].std() * 20.0 - 1.0) < 0.02
    assert abs(first[160_400:180_400].std() * 20.0 - 1.0) < 0.05
    assert not first[160_000:160_400].any()
    assert (first[:1000] != second[:1000]).all()
    assert (first[:1000] != first[160_400:161_400]).all()


@given(SHAPES, seeds)
def test_the_bound_bounds_psi_its_gradient_and_their_differences(shape, seed):
    policy, theta = drawn(shape, seed)
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.ones(shape[1]), size=shape[0])
    bound = policy.bound(mu) * (1 + 1e-9)
    other = theta + rng.normal(size=shape[2]) * 10.0 ** rng.uniform(-2, 1)
    apart = np.linalg.norm(theta - other)
    one, two = (
        np.asarray(jax.jacfwd(policy)(jnp.asarray(t))) / mu[..., None] for t in (theta, other)
    )
    assert np.linalg.norm(one, axis=-1).max() <= bound
    assert np.linalg.norm(one - two, axis=-1).max() <= bound * apart
    assert np.abs(policy(theta) - policy(other)).max() <= bound * apart
    slopes = np.asarray(jax.hessian(policy)(jnp.asarray(theta))) / mu[..., None, None]
    assert np.linalg.norm(slopes, 2, axis=(-2, -1)).max() <= bound


def test_the_bound_is_attained_and_infinite_where_the_behaviour_is_zero():
    policy = Softmax([[[0.0], [0.5]]])
    assert policy.bound(np.array([[0.5, 0.5]])) == 0.5 / 4 / 0.5
    assert policy.bound(np.array([[0.25, 0.75]])) == 0.5
    assert Softmax([[[0.0], [2.0]]]).bound(np.array([[0.5, 0.5]])) == 2.0
    assert policy.bound(np.array([[0.0, 1.0]])) == np.inf
    assert NetworkSoftmax([[1.0]], 2).bound(np.array([[0.5, 0.5]])) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: over_states(np.ones(3), 2), r"x: got shape \(3,\)"),
        (lambda: over_states([[np.nan]], 2), "a finite"),
        (lambda: NetworkSoftmax(np.ones(3), 2), r"x: got shape \(3,\)"),
        (lambda: NetworkSoftmax([[1.0]], 0), "num_actions: got 0"),
        (lambda: NetworkSoftmax([[1.0]], 2, (3, 0)), "hidden: got 0"),
    ],
)
def test_sizes_and_features_of_policies_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()
