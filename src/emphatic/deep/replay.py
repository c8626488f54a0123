"""The last iterations, kept in a ring: pure functions on a pytree."""

from typing import Any

import jax
import jax.numpy as jnp

Replay = Any
"""A pytree like one iteration's, each array with the ring as its first axis."""


def empty(example: Any, capacity: int) -> Replay:
    """A ring for so many iterations.

    **Arguments:**

    - `example`: One iteration, or the shapes and types of its arrays.
    - `capacity`: How many iterations are kept.
    """
    return jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), example)


def add(replay: Replay, iteration: Any, time: Any) -> Replay:
    """The ring with one more iteration, in the place of the oldest where it is full.

    **Arguments:**

    - `replay`: The ring.
    - `iteration`: What is added.
    - `time`: How many iterations were added before. One number for all runs of a `vmap`, so that
      the ring is updated in place.
    """

    def put(ring, leaf):
        return jax.lax.dynamic_update_index_in_dim(ring, leaf, time % len(ring), 0)

    return jax.tree.map(put, replay, iteration)


def sample(replay: Replay, key: Any, time: Any, num: int) -> Any:
    """Iterations drawn uniformly, with replacement, from those that are kept.

    **Arguments:**

    - `replay`: The ring.
    - `key`: A random key.
    - `time`: How many iterations have been added, at least one.
    - `num`: How many are drawn.

    **Returns:**

    Arrays whose first axis runs over all that the iterations hold: workers side by side.
    """
    drawn = jax.random.randint(key, (num,), 0, jnp.minimum(time, _capacity(replay)))

    def take(ring):
        taken = ring.at[drawn].get(mode="promise_in_bounds")
        return taken.reshape(num * ring.shape[1], *ring.shape[2:])

    return jax.tree.map(take, replay)


def sample_transitions(replay: Replay, key: Any, time: Any, num: int) -> Any:
    """Transitions drawn uniformly, with replacement, each with its own iteration and worker.

    The arguments are those of [sample], but for `num`, which counts transitions.
    """
    of_iteration, of_worker = jax.random.split(key)
    workers = jax.tree.leaves(replay)[0].shape[1]
    drawn = jax.random.randint(of_iteration, (num,), 0, jnp.minimum(time, _capacity(replay)))
    worker = jax.random.randint(of_worker, (num,), 0, workers)
    return jax.tree.map(lambda ring: ring.at[drawn, worker].get(mode="promise_in_bounds"), replay)


def _capacity(replay: Replay) -> int:
    return len(jax.tree.leaves(replay)[0])
