"""Lanes as a batch axis of JAX: `vmap` of `lax.scan`, for anything and on any device."""

import dataclasses
import math
import operator
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Integer, PyTree, UInt32

from ..types import Array
from .batch import Batch, Lane, Observation, TABLE_BYTES
from .experience import Chunks, Diverged, History, Load, States, Sums
from .stream import Stream, Tables, Word, Words

Pairs: TypeAlias = UInt32[jax.Array, " seeds"]
Rows: TypeAlias = UInt32[jax.Array, "seeds steps"]
TILE, TILE_NUMBERS = 64, 4096  # cells that are computed together on a CPU, and their numbers
BATCH = 4096  # learners that one call advances together
MIN_TASKS = 2  # if there are seeds enough: a number that no machine changes


class Cells(NamedTuple):
    """Lanes of seeds, which are computed together; every leaf has the axis of cells first."""

    seed: Int[Array, " cells"]  # its number
    lane: Lane
    number: Int[Array, " cells"]  # of the lane


class Experience:
    """The streams of several seeds."""

    step_bytes, memory_bytes = 4, None

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

    def seeds_per_task(self, num_seeds: int, load: Load) -> int:
        """Returns as many seeds as make a batch, on a CPU fewer if that would leave one task."""
        if jax.default_backend() != "cpu":
            return num_seeds
        return min(max(1, BATCH // load.num_lanes), -(-num_seeds // MIN_TASKS))


def tile_size(num_numbers: int) -> int:
    """Returns how many cells are computed together: it depends on the size of a state only."""
    if jax.default_backend() != "cpu":
        return BATCH
    size = min(TILE, max(1, TILE_NUMBERS // max(1, num_numbers)))
    return 1 << (size.bit_length() - 1)


class Program:
    """A batch as one compiled scan over the steps of a chunk, in tiles of cells of one size.

    XLA rounds differently in arrays of other shapes: with one size the bits of a cell, a lane of
    a seed, do not depend on which others are computed with it.
    """

    step_seconds, step_bytes = 0.0, 0

    def __init__(self, batch: Batch, stream: Stream):
        self.batch, self.stream = batch, stream
        self.tile = tile_size(batch.num_state)
        with jax.enable_x64(batch.dtype == np.float64):
            self.shared = jax.tree.map(jnp.asarray, batch.shared)
            self.table = None
            if stream.num_rows * batch.row_bytes <= TABLE_BYTES:
                rows = np.arange(stream.num_rows)
                self.table = jax.tree.map(jnp.asarray, self._observe(rows, 0))
        self._advance_tile = jax.jit(self._run_tile)

    def _observe(
        self, rows: Integer[np.ndarray, "*axes"], time: int | Integer[np.ndarray, "..."]
    ) -> Observation:
        times = np.broadcast_to(time, rows.shape).ravel()
        flat = self.batch.observe(self.stream.sample(rows.ravel(), times))
        return jax.tree.map(lambda leaf: leaf.reshape(*rows.shape, *leaf.shape[1:]), flat)

    def _run_tile(
        self, cells: Cells, states: States, ys: Observation, time: Int[jax.Array, ""], rows: Rows
    ) -> tuple[States, list[Float[jax.Array, " cells"]]]:
        """Learns from observations of axes (step, seed), or from rows of the table if it exists."""
        over_cells = jax.vmap(self.batch.step, in_axes=(0, 0, None, 0))

        def observe(y: PyTree) -> Observation:
            """Returns what each cell sees of a step."""
            if self.table is None:
                return jax.tree.map(lambda leaf: leaf[cells.seed], y)
            row, time = y
            y = jax.tree.map(lambda leaf: leaf[row[cells.seed]], self.table)
            return dataclasses.replace(y, time=jnp.broadcast_to(time, y.time.shape))

        def body(carry: PyTree, y: PyTree) -> tuple[PyTree, None]:
            states, sums = carry
            states, numbers = over_cells(cells.lane, states, self.shared, observe(y))
            return (states, jax.tree.map(jnp.add, sums, numbers)), None

        sums = [jnp.zeros(self.tile, self.batch.dtype) for _ in self.batch.measures]
        if self.table is not None:
            ys = rows.T, time + jnp.arange(rows.shape[1], dtype=self.table.time.dtype)
        return jax.lax.scan(body, (states, sums), ys)[0]

    def _cut(self, num_seeds: int) -> list[Cells]:
        """Cuts the cells of some seeds into tiles; the last is filled up with the first cell."""
        num_cells = num_seeds * self.batch.num_lanes
        numbers = np.arange(-(-num_cells // self.tile) * self.tile)
        seeds, lanes = np.divmod(np.where(numbers < num_cells, numbers, 0), self.batch.num_lanes)
        return [
            Cells(seed, jax.tree.map(lambda leaf, lane=lane: leaf[lane], self.batch.lanes), lane)
            for seed, lane in zip(*(n.reshape(-1, self.tile) for n in (seeds, lanes)), strict=True)
        ]

    def _join(self, tiles: Sequence[PyTree], num_seeds: int) -> Float[np.ndarray, "n seeds lanes"]:
        """Joins the numbers of all cells."""
        shape = num_seeds, self.batch.num_lanes
        leaves = [np.concatenate(leaf) for leaf in zip(*map(jax.tree.leaves, tiles), strict=True)]
        flat = [leaf[: math.prod(shape)].reshape(*shape, -1) for leaf in leaves]
        numbers = np.concatenate([np.zeros((*shape, 0), self.batch.dtype), *flat], axis=-1)
        return np.moveaxis(numbers, -1, 0)

    def begin(self, seeds: Sequence[int]) -> States:
        """Returns the first states of each tile, with the axis of cells first."""
        initial = [self.batch.initial(seed) for seed in seeds]
        stacked = jax.tree.map(lambda *leaves: np.stack(list(map(np.asarray, leaves))), *initial)
        positions = [(cells.seed, cells.number) for cells in self._cut(len(seeds))]
        return [jax.tree.map(operator.itemgetter(position), stacked) for position in positions]

    def advance(
        self, rows: Rows, time: int, chunks: Chunks, states: States, sums: Sums
    ) -> tuple[States, Sums, Diverged, History]:
        """Learns from chunks of rows; see [emphatic.engine.experience.Program]."""
        totals, history, first = sums.copy(), dict[int, np.ndarray](), 0
        tiles = self._cut(len(rows))
        with jax.enable_x64(self.batch.dtype == np.float64):
            for length, window in zip(
                chunks.lengths.tolist(), chunks.windows.tolist(), strict=True
            ):
                chunk = jax.lax.dynamic_slice_in_dim(rows, first, length, axis=1)
                ys = None
                if self.table is None:
                    times = time + first + np.arange(length)
                    ys = self._observe(np.asarray(chunk).T, times[:, None])
                advanced = [
                    self._advance_tile(cells, state, ys, time + first, chunk)
                    for cells, state in zip(tiles, states, strict=True)
                ]
                states = [state for state, _ in advanced]
                totals[window] += self._join([total for _, total in advanced], len(rows))
                history[window] = self._join(states, len(rows))
                first += length
        after = np.stack(list(history.values()))
        diverged = np.asarray(~np.isfinite(after).all(axis=1))
        return states, totals, diverged, after[: len(after) * chunks.keeps_states]
