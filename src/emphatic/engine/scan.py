"""Lanes as a batch axis of JAX: `vmap` of `lax.scan`, for anything and on any device."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Integer, PyTree, UInt32

from .batch import Batch, Observation, TABLE_BYTES
from .experience import History, Lengths, States, Sums
from .stream import Stream, Tables, Word, Words

Pairs: TypeAlias = UInt32[jax.Array, " seeds"]
Rows: TypeAlias = UInt32[jax.Array, "seeds steps"]
BATCH = 4096  # learners that one call advances together
MIN_TASKS = 2  # if there are seeds enough: a number that no machine changes


class Experience:
    """The streams of several seeds."""

    def __init__(self, stream: Stream):
        self.tables = jax.tree.map(jnp.asarray, stream.tables)
        self._begin = jax.jit(jax.vmap(stream.begin, in_axes=(None, 0)))

        def advance(tables: Tables, key: Words, pair: Word, times: Word) -> Words:
            return jax.lax.scan(partial(stream.advance, tables, key), pair, times)

        self._advance = jax.jit(jax.vmap(advance, in_axes=(None, 0, 0, None)))

    @staticmethod
    def _keys(seeds: Sequence[int]) -> Words:
        words = np.array([(seed & 0xFFFFFFFF, seed >> 32) for seed in seeds], np.uint32)
        return jnp.asarray(words[:, 0]), jnp.asarray(words[:, 1])

    def begin(self, seeds: Sequence[int]) -> Pairs:
        """Returns the first pair of each seed."""
        return self._begin(self.tables, self._keys(seeds))

    def advance(
        self, seeds: Sequence[int], time: int, position: Pairs, num_steps: int
    ) -> tuple[Pairs, Rows]:
        """Returns the pairs after the next steps, and the rows of these steps."""
        times = jnp.arange(num_steps, dtype=jnp.uint32) + jnp.uint32(time)
        return self._advance(self.tables, self._keys(seeds), position, times)

    def seeds_per_task(self, num_lanes: int, num_seeds: int) -> int:
        """Returns as many seeds as make a batch, on a CPU fewer if that would leave one task."""
        if jax.default_backend() != "cpu":
            return num_seeds
        return min(max(1, BATCH // num_lanes), -(-num_seeds // MIN_TASKS))


class Program:
    """A batch as one compiled scan over the steps of a chunk."""

    def __init__(self, batch: Batch, stream: Stream):
        self.batch, self.stream = batch, stream
        with jax.enable_x64(batch.dtype == np.float64):
            self.lanes, self.shared = jax.tree.map(jnp.asarray, (batch.lanes, batch.shared))
            self.table = None
            if stream.num_rows * batch.row_bytes <= TABLE_BYTES:
                rows = np.arange(stream.num_rows)
                self.table = jax.tree.map(jnp.asarray, self._observe(rows, 0))
        self._advance_chunk = jax.jit(self._run_chunk)

    def _observe(
        self, rows: Integer[np.ndarray, "*axes"], time: int | Integer[np.ndarray, "..."]
    ) -> Observation:
        times = np.broadcast_to(time, rows.shape).ravel()
        flat = self.batch.observe(self.stream.sample(rows.ravel(), times))
        return jax.tree.map(lambda leaf: leaf.reshape(*rows.shape, *leaf.shape[1:]), flat)

    def _run_chunk(
        self, states: States, ys: Observation, time: Int[jax.Array, ""], rows: Rows
    ) -> tuple[States, list[Float[jax.Array, "seeds lanes"]]]:
        """Learns from observations of axes (step, seed), or from rows of the table if it exists."""
        batch = self.batch
        if self.table is not None:
            ys = jax.tree.map(lambda leaf: leaf[rows.T], self.table)
            times = time + jnp.arange(rows.shape[1], dtype=ys.time.dtype)
            ys = dataclasses.replace(ys, time=jnp.broadcast_to(times[:, None], ys.time.shape))
        over_lanes = jax.vmap(batch.step, in_axes=(0, 0, None, None), axis_size=batch.num_lanes)
        over_seeds = jax.vmap(over_lanes, in_axes=(None, 0, None, 0))

        def body(carry: PyTree, y: Observation) -> tuple[PyTree, None]:
            states, sums = carry
            states, numbers = over_seeds(self.lanes, states, self.shared, y)
            return (states, jax.tree.map(jnp.add, sums, numbers)), None

        sums = [jnp.zeros((len(rows), batch.num_lanes), batch.dtype) for _ in batch.measures]
        return jax.lax.scan(body, (states, sums), ys)[0]

    def begin(self, seeds: Sequence[int]) -> States:
        """Returns the first states, with the axes (seed, lane)."""
        initial = [self.batch.initial(seed) for seed in seeds]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *initial)

    def advance(
        self, rows: Rows, time: int, lengths: Lengths, states: States
    ) -> tuple[States, Sums, History]:
        """Learns from chunks of rows; see [emphatic.engine.experience.Program]."""
        totals, history, first = list[np.ndarray](), list[np.ndarray](), 0
        shape = (rows.shape[0], self.batch.num_lanes, -1)
        with jax.enable_x64(self.batch.dtype == np.float64):
            for length in lengths.tolist():
                chunk = jax.lax.dynamic_slice_in_dim(rows, first, length, axis=1)
                ys = None
                if self.table is None:
                    times = time + first + np.arange(length)
                    ys = self._observe(np.asarray(chunk).T, times[:, None])
                states, sums = self._advance_chunk(states, ys, time + first, chunk)
                totals.append(np.array(sums, np.float64).reshape(-1, *shape[:2]))
                leaves = [np.asarray(leaf).reshape(shape) for leaf in jax.tree.leaves(states)]
                flat = np.concatenate([np.zeros((*shape[:2], 0), self.batch.dtype), *leaves], -1)
                history.append(np.moveaxis(flat, -1, 0))
                first += length
        return states, np.stack(totals), np.stack(history)
