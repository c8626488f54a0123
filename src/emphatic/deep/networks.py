"""Small networks as plain pytrees of arrays."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Float, Integer

from ..types import Array, Key, Scalar

HIDDEN = (64, 64)
"""The default sizes of the hidden layers."""
LAST_SCALE = 1e-3  # of the weights of output layers

Layers: TypeAlias = tuple[tuple[Float[Array, "_ _"], Float[Array, " _"]], ...]
"""Weights and biases of a network, one pair for each layer."""


def init_network(
    key: Key, sizes: Sequence[int], last_scale: float = LAST_SCALE, dtype: DTypeLike = jnp.float32
) -> Layers:
    r"""Initialises the layers $(W_l, b_l)$: orthogonal $W_l$, the last one scaled, and $b_l = 0$.

    The sizes are the numbers of inputs, of hidden units of each layer, and of outputs.
    """
    keys = jax.random.split(key, len(sizes) - 1)
    scales = [1.0] * (len(sizes) - 2) + [last_scale]
    return tuple(
        (scale * orthogonal(k, shape, dtype), jnp.zeros(shape[1], dtype))
        for k, scale, shape in zip(keys, scales, pairwise(sizes), strict=True)
    )


def orthogonal(key: Key, shape: tuple[int, int], dtype: DTypeLike) -> Float[Array, "i o"]:
    """Draws a uniform matrix with orthonormal columns, or rows where it has more columns.

    It is computed by Gram-Schmidt, twice for each column: LAPACK is not safe to call from several
    devices of one processor at a time.
    """
    long, short = max(shape), min(shape)
    normals = jax.random.normal(key, (short, long), dtype)

    def orthonormalise(j: Integer[Array, ""], q: Float[jax.Array, "n m"]) -> Float[Array, "n m"]:
        row = normals[j]
        for _ in range(2):
            row = row - (q @ row) @ q
        return q.at[j].set(row / jnp.sqrt(row @ row))

    q = jax.lax.fori_loop(0, short, orthonormalise, jnp.zeros_like(normals))
    return q if shape == (short, long) else q.T


def outputs(layers: Layers, x: Float[Array, " i"]) -> Float[Array, " o"]:
    r"""The outputs of a network for one input, $W_n\sigma(\cdots\sigma(W_1x + b_1)\cdots) + b_n$.

    The units are $\sigma(z) = \max(z, 0)$.
    """
    *hidden, (weight, bias) = layers
    for w, b in hidden:
        x = jax.nn.relu(x @ w + b)
    return x @ weight + bias


def value(layers: Layers, observation: Float[Array, " o"]) -> Scalar:
    r"""$v(s)$, the only output."""
    return outputs(layers, observation)[0]


def positive(layers: Layers, observation: Float[Array, " o"]) -> Scalar:
    r"""$m(s) = \log(1 + e^z)$ of the only output $z$: an emphasis is positive."""
    return jax.nn.softplus(outputs(layers, observation)[0])
