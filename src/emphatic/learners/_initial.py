"""Initial weights."""

import zlib

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ..types import Array, Key


def standard_normal(key: Key, name: str, like: Float[Array, " k"]) -> Float[Array, " k"]:
    """Standard normal weights that depend on the key and the name of the weights only.

    So learners of one seed that have these weights start alike, alone or inside another learner,
    and in every precision.
    """
    named = jax.random.fold_in(key, zlib.crc32(name.encode()))
    return jax.random.normal(named, like.shape, jnp.float32).astype(like.dtype)
