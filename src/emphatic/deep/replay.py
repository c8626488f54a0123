"""A ring of the last iterations: pure functions on a pytree."""

from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Integer

from ..types import Array, Key

Count: TypeAlias = int | Integer[Array, ""]
"""A number of iterations, which may be traced."""
Batch = TypeVar("Batch")  # one iteration; in a ring each array has the ring as its first axis


def empty(example: Batch, capacity: int) -> Batch:
    """Makes an empty ring for iterations like an example, or like its shapes and types."""
    return jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), example)


def add(replay: Batch, iteration: Batch, time: Count) -> Batch:
    """Adds an iteration to the ring, in place of the oldest one where it is full.

    `time` is how many were added before: one number for all runs of a `vmap`, so that the ring is
    updated in place.
    """

    def put(ring: jax.Array, leaf: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_index_in_dim(ring, leaf, time % len(ring), 0)

    return jax.tree.map(put, replay, iteration)


def sample(replay: Batch, key: Key, time: Count, num: int) -> Batch:
    """Draws iterations uniformly, with replacement, from those in the ring.

    `time` is how many iterations have been added, at least one, and `num` how many are drawn. The
    first axis of the result runs over all workers of all drawn iterations, side by side.
    """
    indices = jax.random.randint(key, (num,), 0, jnp.minimum(time, _capacity(replay)))

    def take(ring: jax.Array) -> jax.Array:
        iterations = ring.at[indices].get(mode="promise_in_bounds")
        return iterations.reshape(num * ring.shape[1], *ring.shape[2:])

    return jax.tree.map(take, replay)


def sample_transitions(replay: Batch, key: Key, time: Count, num: int) -> Batch:
    """Draws transitions uniformly, with replacement, each from its own iteration and worker.

    The arguments are those of [sample], but for `num`, which counts transitions.
    """
    iteration_key, worker_key = jax.random.split(key)
    num_workers = jax.tree.leaves(replay)[0].shape[1]
    iteration = jax.random.randint(iteration_key, (num,), 0, jnp.minimum(time, _capacity(replay)))
    index = iteration, jax.random.randint(worker_key, (num,), 0, num_workers)
    return jax.tree.map(lambda ring: ring.at[index].get(mode="promise_in_bounds"), replay)


def _capacity(replay: object) -> int:
    return len(jax.tree.leaves(replay)[0])
