"""Initial weights."""

import zlib

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ..types import Array, Key


def standard_normal(key: Key, name: str, like: Float[Array, " k"]) -> Float[Array, " k"]:
    """Returns standard normal weights that depend on the key and their name only.

    Thus learners of one seed that have these weights start alike, alone or inside another learner,
    and in every precision.
    """
    weight_key = jax.random.fold_in(key, zlib.crc32(name.encode()))
    return jax.random.normal(weight_key, like.shape, jnp.float32).astype(like.dtype)
