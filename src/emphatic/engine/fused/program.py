"""A batch's step as instructions and tables: what no machine changes."""

import dataclasses
from collections.abc import Sequence
from threading import Lock
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr
from jaxtyping import Float, Int32, PyTree, UInt32

from ..batch import Batch, TABLE_BYTES
from ..stream import Stream
from .lowering import Lowering
from .schedule import order_nodes, Recorder, STATE
from .values import (
    evaluate,
    find_inputs,
    FusionError,
    identity,
    JaxValue,
    Lane,
    LaneArray,
    MachineValue,
    Slot,
    Uniform,
)

MAX_STATE = 160  # numbers of a state: beyond, a step is all loads and stores
MAX_INSTRUCTIONS = 40_000  # of a step: beyond, compilation takes minutes
TABLES = ("fixed", "row", "step")
NUM_ROWS = 4096  # rows of a table that are evaluated at once
NUM_CACHED = 512  # such blocks of times in the cache

RowNumbers: TypeAlias = UInt32[np.ndarray, " t"]
Rows: TypeAlias = Float[np.ndarray, "t columns"]


def lane_array(
    values: Sequence[MachineValue], dtype: np.dtype, shape: Sequence[int] = ()
) -> LaneArray:
    """Returns values of a machine as an array of lane values."""
    out = np.empty(tuple(shape), object)
    for index, value in enumerate(values):
        out.flat[index] = Lane(value, dtype)
    return out


def _size(array: Uniform | jax.ShapeDtypeStruct) -> int:
    return int(np.prod(array.shape))


class UniformTable:
    """Uniform values, a row for each sample and time; equal blocks of rows are compiled once."""

    def __init__(self, program: "StepProgram", slots: Sequence[Slot]):
        self.batch, self.stream, self.num_columns = program.batch, program.stream, len(slots)
        nodes = list(dict.fromkeys(node for node, _ in slots))
        offsets = dict(zip(nodes, np.cumsum([0, *map(_size, nodes)]), strict=False))
        order = np.array([offsets[node] + index for node, index in slots], int)
        fixed, observed = program.fixed_arrays, program.observed_inputs
        self.needs_sample = any(leaf in find_inputs(nodes) for leaf in observed if not leaf.timed)

        def evaluate_row(leaves: list[jax.Array]) -> jax.Array:
            values = evaluate(nodes, fixed | dict(zip(observed, leaves, strict=True)))
            columns = [jnp.ravel(value).astype(self.batch.dtype) for value in values]
            return jnp.concatenate(columns)[order]

        self._evaluate_rows = jax.jit(jax.vmap(evaluate_row))
        self._cache: dict[int, Rows] = {}
        self._lock = Lock()

    def evaluate_steps(self, rows: RowNumbers, time: int) -> Rows:
        """Returns the table from a time on; what depends on time alone is cached for all seeds."""
        if self.needs_sample or not self.num_columns:
            return self.evaluate(rows, (time + np.arange(len(rows))).astype(np.int32))
        first, last = time // NUM_ROWS, (time + len(rows) - 1) // NUM_ROWS
        blocks = np.concatenate([self._evaluate_times(block) for block in range(first, last + 1)])
        return blocks[time - first * NUM_ROWS :][: len(rows)]

    def _evaluate_times(self, block: int) -> Rows:
        with self._lock:
            if block not in self._cache:
                times = (block * NUM_ROWS + np.arange(NUM_ROWS)).astype(np.int32)
                self._cache[block] = self.evaluate(np.zeros(NUM_ROWS, np.uint32), times)
                if len(self._cache) > NUM_CACHED:  # the oldest
                    del self._cache[next(iter(self._cache))]
            return self._cache[block]

    def evaluate(self, rows: RowNumbers, times: Int32[np.ndarray, " t"]) -> Rows:
        """Returns the table at samples, by their rows of the stream, and times."""
        out = np.empty((len(rows), self.num_columns), self.batch.dtype)
        if not self.num_columns:
            return out
        size = min(NUM_ROWS, len(rows))
        for first in range(0, len(rows), size):
            block = slice(first, first + size)
            row, time = (np.resize(values[block], size) for values in (rows, times))
            if self.needs_sample:
                y = self.batch.observe(self.stream.sample(row, time))
            else:
                y = jax.tree.map(lambda a: np.broadcast_to(a, (size, *a.shape)), self.batch.example)
                y = dataclasses.replace(y, time=time)
            with jax.enable_x64(self.batch.dtype == np.float64):
                out[block] = self._evaluate_rows(jax.tree.leaves(y))[: len(rows[block])]
        return out


class StepProgram:
    """A batch's step as instructions on lanes, in their order, and the tables that they read.

    What is uniform is read from a table: `fixed` has one row, `row` one for each row of the
    stream, and `step` one for each step, where the time itself matters or rows are too many.
    """

    def __init__(self, batch: Batch, stream: Stream):
        if batch.num_state > MAX_STATE:
            raise FusionError(f"a state has {batch.num_state} numbers, more than {MAX_STATE}")
        for leaf in jax.tree.leaves(batch.state):
            if leaf.dtype != batch.dtype:
                raise FusionError(f"a state has numbers of type {leaf.dtype}, not {batch.dtype}")
        self.batch, self.stream = batch, stream
        with jax.enable_x64(batch.dtype == np.float64):
            arguments = batch.lane, batch.state, batch.shared, batch.example
            closed = jax.make_jaxpr(batch.step)(*arguments)
        arrays: list[JaxValue] = [*jax.tree.leaves(batch.shared), *closed.consts]
        nodes: dict[object, Uniform] = {}
        fixed = [
            nodes.setdefault(identity(a), Uniform(np.shape(a), a.dtype, False, False))
            for a in arrays
        ]
        self.fixed_arrays = dict(zip(fixed, arrays, strict=True))
        self.observed_inputs = [
            Uniform(np.shape(leaf), leaf.dtype, True, leaf is batch.example.time)
            for leaf in jax.tree.leaves(batch.example)
        ]
        self._has_row_table = stream.num_rows * batch.row_bytes <= TABLE_BYTES
        slots = self._record(closed, fixed)
        self.tables = {name: UniformTable(self, slots.get(name, [])) for name in TABLES}
        zero = np.zeros(1, np.uint32), np.zeros(1, np.int32)
        self.fixed_table = self.tables["fixed"].evaluate(*zero)
        self.row_table = np.zeros((0, 0), batch.dtype)
        if self._has_row_table:
            rows = np.arange(stream.num_rows, dtype=np.uint32)
            self.row_table = self.tables["row"].evaluate(rows, np.zeros(len(rows), np.int32))

    def _choose_table(self, node: Uniform) -> str:
        if not node.varies:
            return "fixed"
        return "row" if self._has_row_table and not node.timed else "step"

    def _record(self, closed: ClosedJaxpr, fixed: Sequence[Uniform]) -> dict[str, list[Slot]]:
        """Records one step, and returns the uniform values that it reads."""
        batch, recorder = self.batch, Recorder()

        def input_arrays(name: str, tree: PyTree) -> list[LaneArray]:
            return [
                lane_array(recorder.inputs(f"{name}{n}", _size(leaf)), batch.dtype, leaf.shape)
                for n, leaf in enumerate(jax.tree.leaves(tree))
            ]

        lanes, state = input_arrays("lane", batch.lane), input_arrays(STATE, batch.state)
        self.num_lane_values = sum(array.size for array in lanes)
        num_shared = len(jax.tree.leaves(batch.shared))
        lowering = Lowering(recorder, batch.dtype, self._choose_table)
        arguments = [*lanes, *state, *fixed[:num_shared], *self.observed_inputs]
        results = lowering.run(closed.jaxpr, fixed[num_shared:], arguments)
        self.inputs = [lane.raw for array in (*lanes, *state) for lane in array.flat]
        self.outputs = [lane.raw for array in results for lane in lowering.to_lanes(array).flat]
        self.order = order_nodes(self.outputs)
        if len(self.order) > MAX_INSTRUCTIONS:
            raise FusionError(f"a step has more than {MAX_INSTRUCTIONS} instructions")
        return lowering.slots

    def table_width(self, table: str, columns: int = 1) -> int:
        """Returns how many numbers a row of a table has, filled up to a multiple of `columns`."""
        return -(-self.tables[table].num_columns // columns) * columns

    def pack(self, tree: PyTree, num_lanes: int) -> Float[np.ndarray, "numbers {num_lanes}"]:
        """Returns leaves with lanes first as rows of lanes, the last lane repeated to fill them."""
        lanes = self.batch.num_lanes
        rows = [np.asarray(leaf).reshape(lanes, -1).T for leaf in jax.tree.leaves(tree)]
        packed = np.concatenate([np.zeros((0, lanes), self.batch.dtype), *rows])
        return np.pad(packed, ((0, 0), (0, num_lanes - lanes)), mode="edge")
