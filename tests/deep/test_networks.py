"""Networks are what they say, and policies are the distributions of SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from emphatic.deep.networks import (
    Gaussian,
    network,
    orthogonal,
    outputs,
    positive,
    Softmax,
    TruncatedGaussian,
    value,
)

LOW, HIGH = np.array([-1.0, -2.0]), np.array([1.0, 4.0])
OBSERVATION = jnp.array([0.3, -1.2, 0.7])


def theta_of(policy, sigma, seed=0):
    """Parameters with an output layer that is not small."""
    layers, _ = policy.init(jax.random.key(seed), 3, float)
    *hidden, (weight, bias) = layers
    return (*hidden, (1e3 * weight, bias + 0.2)), jnp.asarray(sigma)


@pytest.mark.parametrize("shape", [(5, 5), (11, 4), (4, 11)])
def test_weights_are_orthogonal(shape):
    w = np.asarray(orthogonal(jax.random.key(1), shape, float))
    gram = w.T @ w if shape[0] >= shape[1] else w @ w.T
    np.testing.assert_allclose(gram, np.eye(min(shape)), atol=1e-14)


def test_orthogonal_weights_have_no_preferred_direction():
    draw = jax.vmap(lambda key: orthogonal(key, (3, 3), float))
    w = np.asarray(draw(jax.random.split(jax.random.key(2), 4000)))
    np.testing.assert_allclose(w.mean(0), 0.0, atol=0.05)
    np.testing.assert_allclose((w**2).mean(0), 1 / 3, atol=0.03)


def test_output_layers_are_small_and_biases_are_zero():
    layers = network(jax.random.key(0), (3, 5, 4, 2), last=1e-3, dtype=float)
    assert [w.shape for w, _ in layers] == [(3, 5), (5, 4), (4, 2)]
    assert all((b == 0).all() for _, b in layers)
    scales = [np.linalg.svd(w, compute_uv=False) for w, _ in layers]
    for found, expected in zip(scales, (1.0, 1.0, 1e-3), strict=True):
        np.testing.assert_allclose(found, expected)


def test_networks_are_relu_layers():
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(i, o)), rng.normal(size=o)) for i, o in ((3, 4), (4, 5), (5, 1))]
    x = np.asarray(OBSERVATION)
    for w, b in layers[:-1]:
        x = np.maximum(x @ w + b, 0.0)
    z = (x @ layers[-1][0] + layers[-1][1])[0]
    tree = tuple((jnp.asarray(w), jnp.asarray(b)) for w, b in layers)
    np.testing.assert_allclose(outputs(tree, OBSERVATION), [z])
    np.testing.assert_allclose(value(tree, OBSERVATION), z)
    np.testing.assert_allclose(positive(tree, OBSERVATION), np.log1p(np.exp(z)))


def test_a_gaussian_has_its_mean_in_the_box_and_a_scale_of_its_own():
    policy = Gaussian(LOW, HIGH, hidden=(4,))
    mean, scale = policy.at(policy.init(jax.random.key(0), 3, float), OBSERVATION)
    half = (HIGH - LOW) / 2
    np.testing.assert_allclose(mean, (LOW + HIGH) / 2, atol=1e-2)
    np.testing.assert_allclose(scale, half * np.log(2.0))
    theta = theta_of(policy, [0.5, -1.0])
    mean, scale = policy.at(theta, OBSERVATION)
    f = outputs(theta[0], OBSERVATION)
    np.testing.assert_allclose(mean, (LOW + HIGH) / 2 + half * np.tanh(f))
    np.testing.assert_allclose(scale, half * np.log1p(np.exp([0.5, -1.0])))
    np.testing.assert_array_equal(policy.mode((mean, scale)), mean)


def test_the_gaussian_is_scipys():
    policy = Gaussian(LOW, HIGH, hidden=(4,))
    law = policy.at(theta_of(policy, [0.5, -1.0]), OBSERVATION)
    law, action = (np.asarray(law[0]), np.asarray(law[1])), jnp.array([1.7, -2.5])
    expected = stats.norm(*law)
    np.testing.assert_allclose(policy.log_density(law, action), expected.logpdf(action).sum())
    np.testing.assert_allclose(policy.entropy(law), expected.entropy().sum())
    drawn = jax.vmap(lambda key: policy.sample(law, key))(jax.random.split(jax.random.key(3), 4000))
    for j in range(2):
        assert stats.kstest(drawn[:, j], stats.norm(law[0][j], law[1][j]).cdf).pvalue > 1e-3


def test_the_truncated_gaussian_is_scipys():
    policy = TruncatedGaussian(LOW, HIGH, hidden=(4,))
    mean, scale = map(np.asarray, policy.at(theta_of(policy, [0.5, -1.0]), OBSERVATION))
    law = stats.truncnorm((LOW - mean) / scale, (HIGH - mean) / scale, mean, scale)
    action = jnp.array([0.9, -1.5])
    found = policy.log_density((mean, scale), action)
    np.testing.assert_allclose(found, law.logpdf(action).sum())
    np.testing.assert_allclose(policy.entropy((mean, scale)), law.entropy().sum())
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
        law = policy.at(theta_of(policy, [1.0]), OBSERVATION)
        return integrate.quad(lambda a: np.exp(policy.log_density(law, jnp.array([a]))), -1, 1)[0]

    policy = Gaussian([-1.0], [1.0], hidden=(4,))
    mean, scale = policy.at(theta_of(policy, [1.0]), OBSERVATION)
    box = np.diff(stats.norm.cdf([-1.0, 1.0], mean, scale))[0]
    assert box < 0.8
    np.testing.assert_allclose(mean_ratio(policy), box)
    np.testing.assert_allclose(mean_ratio(TruncatedGaussian([-1.0], [1.0], hidden=(4,))), 1.0)


def test_a_softmax_is_a_distribution_over_numbers():
    policy = Softmax(3, hidden=())
    theta = ((jnp.arange(9.0).reshape(3, 3) / 5, jnp.array([0.1, 0.0, -0.3])),)
    h = np.asarray(OBSERVATION @ theta[0][0] + theta[0][1])
    pi = np.exp(h) / np.exp(h).sum()
    law = policy.at(theta, OBSERVATION)
    np.testing.assert_allclose([policy.log_density(law, a) for a in range(3)], np.log(pi))
    np.testing.assert_allclose(policy.entropy(law), stats.entropy(pi))
    assert policy.mode(law) == pi.argmax()
    drawn = jax.vmap(lambda key: policy.sample(law, key))(jax.random.split(jax.random.key(5), 4000))
    np.testing.assert_allclose(np.bincount(drawn) / 4000, pi, atol=0.03)
    first = policy.init(jax.random.key(0), 3, float)
    np.testing.assert_allclose(np.exp(policy.at(first, OBSERVATION)), 1 / 3, atol=1e-3)


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
