"""Policies are the distributions of SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from emphatic.deep.networks import outputs
from emphatic.deep.policies import Gaussian, Softmax, TruncatedGaussian

LOW, HIGH = np.array([-1.0, -2.0]), np.array([1.0, 4.0])
OBSERVATION = jnp.array([0.3, -1.2, 0.7])


def theta_of(policy, sigma, seed=0):
    """Parameters with an output layer that is not small."""
    layers, _ = policy.init(jax.random.key(seed), 3, float)
    *hidden, (weight, bias) = layers
    return (*hidden, (1e3 * weight, bias + 0.2)), jnp.asarray(sigma)


def test_a_gaussian_has_its_mean_in_the_box_and_a_scale_of_its_own():
    policy = Gaussian(LOW, HIGH, hidden=(4,))
    mean, scale = policy.distribution(policy.init(jax.random.key(0), 3, float), OBSERVATION)
    half = (HIGH - LOW) / 2
    np.testing.assert_allclose(mean, (LOW + HIGH) / 2, atol=1e-2)
    np.testing.assert_allclose(scale, half * np.log(2.0))
    theta = theta_of(policy, [0.5, -1.0])
    mean, scale = policy.distribution(theta, OBSERVATION)
    f = outputs(theta[0], OBSERVATION)
    np.testing.assert_allclose(mean, (LOW + HIGH) / 2 + half * np.tanh(f))
    np.testing.assert_allclose(scale, half * np.log1p(np.exp([0.5, -1.0])))


def test_the_gaussian_is_scipys():
    policy = Gaussian(LOW, HIGH, hidden=(4,))
    distribution = policy.distribution(theta_of(policy, [0.5, -1.0]), OBSERVATION)
    distribution, action = (
        (np.asarray(distribution[0]), np.asarray(distribution[1])),
        jnp.array([1.7, -2.5]),
    )
    expected = stats.norm(*distribution)
    np.testing.assert_allclose(
        policy.log_density(distribution, action), expected.logpdf(action).sum()
    )
    np.testing.assert_allclose(policy.entropy(distribution), expected.entropy().sum())
    drawn = jax.vmap(lambda key: policy.sample(distribution, key))(
        jax.random.split(jax.random.key(3), 4000)
    )
    for j in range(2):
        assert (
            stats.kstest(drawn[:, j], stats.norm(distribution[0][j], distribution[1][j]).cdf).pvalue
            > 1e-3
        )


def test_the_truncated_gaussian_is_scipys():
    policy = TruncatedGaussian(LOW, HIGH, hidden=(4,))
    mean, scale = map(np.asarray, policy.distribution(theta_of(policy, [0.5, -1.0]), OBSERVATION))
    distribution = stats.truncnorm((LOW - mean) / scale, (HIGH - mean) / scale, mean, scale)
    action = jnp.array([0.9, -1.5])
    found = policy.log_density((mean, scale), action)
    np.testing.assert_allclose(found, distribution.logpdf(action).sum())
    np.testing.assert_allclose(policy.entropy((mean, scale)), distribution.entropy().sum())
    assert policy.log_density((mean, scale), jnp.array([1.1, 0.0])) == -np.inf
    keys = jax.random.split(jax.random.key(4), 4000)
    drawn = np.asarray(jax.vmap(lambda key: policy.sample((mean, scale), key))(keys))
    assert (drawn >= LOW).all()
    assert (drawn <= HIGH).all()
    for j in range(2):
        one = stats.truncnorm(
            *(np.array([LOW[j], HIGH[j]]) - mean[j]) / scale[j], mean[j], scale[j]
        )
        assert stats.kstest(drawn[:, j], one.cdf).pvalue > 1e-3


def test_the_mean_ratio_is_the_probability_of_the_box():
    """With uniform behaviour: below 1 for a Gaussian, 1 where it is truncated."""

    def mean_ratio(policy):
        distribution = policy.distribution(theta_of(policy, [1.0]), OBSERVATION)
        return integrate.quad(
            lambda a: np.exp(policy.log_density(distribution, jnp.array([a]))), -1, 1
        )[0]

    policy = Gaussian([-1.0], [1.0], hidden=(4,))
    mean, scale = policy.distribution(theta_of(policy, [1.0]), OBSERVATION)
    box = np.diff(stats.norm.cdf([-1.0, 1.0], mean, scale))[0]
    assert box < 0.8
    np.testing.assert_allclose(mean_ratio(policy), box)
    np.testing.assert_allclose(mean_ratio(TruncatedGaussian([-1.0], [1.0], hidden=(4,))), 1.0)


def test_a_softmax_is_a_distribution_over_numbers():
    policy = Softmax(3, hidden=())
    theta = ((jnp.arange(9.0).reshape(3, 3) / 5, jnp.array([0.1, 0.0, -0.3])),)
    h = np.asarray(OBSERVATION @ theta[0][0] + theta[0][1])
    pi = np.exp(h) / np.exp(h).sum()
    distribution = policy.distribution(theta, OBSERVATION)
    np.testing.assert_allclose(
        [policy.log_density(distribution, a) for a in jnp.arange(3)], np.log(pi)
    )
    np.testing.assert_allclose(policy.entropy(distribution), stats.entropy(pi))
    drawn = jax.vmap(lambda key: policy.sample(distribution, key))(
        jax.random.split(jax.random.key(5), 4000)
    )
    np.testing.assert_allclose(np.bincount(drawn) / 4000, pi, atol=0.03)
    first = policy.init(jax.random.key(0), 3, float)
    np.testing.assert_allclose(np.exp(policy.distribution(first, OBSERVATION)), 1 / 3, atol=1e-3)


@pytest.mark.parametrize("make", [Gaussian, TruncatedGaussian])
@pytest.mark.parametrize(
    ("low", "high", "why"),
    [
        ([-np.inf], [1.0], "finite"),
        ([1.0], [1.0], "below its high"),
        ([-1.0, -1.0], [1.0], "two finite vectors"),
    ],
)
def test_a_policy_needs_a_box(make, low, high, why):
    with pytest.raises(ValueError, match=why):
        make(low, high)
