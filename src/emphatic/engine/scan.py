"""Lanes as a batch axis of JAX: `vmap` of `lax.scan`, for anything and on any device."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .stream import Stream
from .sweep import Sweep, TABLE_BYTES

BATCH = 4096  # learners that one call advances together
TASKS = 2  # as many at least, if there are seeds enough: a number that no machine changes


class Experience:
    """The streams of several seeds."""

    def __init__(self, stream: Stream):
        self.tables = jax.tree.map(jnp.asarray, stream.tables)
        self._begin = jax.jit(jax.vmap(stream.begin, in_axes=(None, 0)))

        def steps(tables: Any, key: Any, pair: Any, times: Any) -> Any:
            return jax.lax.scan(partial(stream.advance, tables, key), pair, times)

        self._advance = jax.jit(jax.vmap(steps, in_axes=(None, 0, 0, None)))

    @staticmethod
    def _keys(seeds: Sequence[int]) -> Any:
        words = np.array([(seed & 0xFFFFFFFF, seed >> 32) for seed in seeds], np.uint32)
        return jnp.asarray(words[:, 0]), jnp.asarray(words[:, 1])

    def begin(self, seeds: Sequence[int]) -> Any:
        """The first pair of each seed."""
        return self._begin(self.tables, self._keys(seeds))

    def advance(self, seeds: Sequence[int], time: int, pair: Any, steps: int) -> tuple[Any, Any]:
        """The pairs after the next steps, and their rows, seeds first."""
        times = jnp.arange(steps, dtype=jnp.uint32) + jnp.uint32(time)
        return self._advance(self.tables, self._keys(seeds), pair, times)


class Program:
    """A sweep as one compiled scan over the steps of a chunk."""

    def __init__(self, sweep: Sweep, stream: Stream):
        self.sweep, self.stream = sweep, stream
        with jax.enable_x64(sweep.dtype == np.float64):
            self.lanes, self.exact = jax.tree.map(jnp.asarray, (sweep.lanes, sweep.exact))
            self.table = None
            if stream.num_rows * sweep.row_bytes <= TABLE_BYTES:
                rows = np.arange(stream.num_rows)
                self.table = jax.tree.map(jnp.asarray, self._transitions(rows, 0))
        self._chunk = jax.jit(self._run)

    def _transitions(self, rows: np.ndarray, time: Any) -> Any:
        time = np.broadcast_to(time, rows.shape).ravel()
        flat = self.sweep.seen(self.stream.sample(rows.ravel(), time))
        return jax.tree.map(lambda leaf: leaf.reshape(*rows.shape, *leaf.shape[1:]), flat)

    def _run(self, states: Any, ys: Any, time: Any, rows: Any) -> Any:
        """Learners of axes (seed, lane) on transitions of axes (step, seed), or on rows of them."""
        sweep = self.sweep
        if self.table is not None:
            ys = jax.tree.map(lambda leaf: leaf[rows.T], self.table)
            times = time + jnp.arange(rows.shape[1], dtype=ys.time.dtype)
            ys = dataclasses.replace(ys, time=jnp.broadcast_to(times[:, None], ys.time.shape))
        over_lanes = jax.vmap(sweep.step, in_axes=(0, 0, None, None), axis_size=sweep.num_lanes)
        over_seeds = jax.vmap(over_lanes, in_axes=(None, 0, None, 0))

        def body(carry: Any, y: Any) -> Any:
            states, sums = carry
            states, numbers = over_seeds(self.lanes, states, self.exact, y)
            return (states, jax.tree.map(jnp.add, sums, numbers)), None

        shape = (rows.shape[0], sweep.num_lanes)
        sums = [jnp.zeros(shape, sweep.dtype) for _ in sweep.measures]
        return jax.lax.scan(body, (states, sums), ys)[0]

    def begin(self, seeds: Sequence[int]) -> Any:
        """The first states, with axes (seed, lane)."""
        every = [self.sweep.initial(seed) for seed in seeds]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *every)

    def advance(
        self, rows: Any, time: int, lengths: np.ndarray, states: Any
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """The states after the chunks, each chunk's sums, and the states after each chunk.

        Sums have axes (chunk, measure, seed, lane), states (chunk, number, seed, lane).
        """
        totals, every, first = [], [], 0
        shape = (rows.shape[0], self.sweep.num_lanes, -1)
        with jax.enable_x64(self.sweep.dtype == np.float64):
            for length in lengths.tolist():
                part = jax.lax.dynamic_slice_in_dim(rows, first, length, axis=1)
                ys = None
                if self.table is None:
                    times = time + first + np.arange(length)
                    ys = self._transitions(np.asarray(part).T, times[:, None])
                states, sums = self._chunk(states, ys, time + first, part)
                totals.append(np.array(sums, np.float64).reshape(-1, *shape[:2]))
                leaves = [np.asarray(leaf).reshape(shape) for leaf in jax.tree.leaves(states)]
                flat = np.concatenate([np.zeros((*shape[:2], 0), self.sweep.dtype), *leaves], -1)
                every.append(np.moveaxis(flat, -1, 0))
                first += length
        return states, np.stack(totals), np.stack(every)
