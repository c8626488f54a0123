"""Networks are orthogonal at first, and ReLU layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.deep.networks import init_network, orthogonal, outputs, positive, value

OBSERVATION = jnp.array([0.3, -1.2, 0.7])


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
    layers = init_network(jax.random.key(0), (3, 5, 4, 2), last_scale=1e-3, dtype=float)
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
