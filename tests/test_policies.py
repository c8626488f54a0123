"""The softmax policy, and the constants that the paper's assumptions need of it."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emphatic import Softmax

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
