"""A batch's step as instructions and tables, and the loop around it: what no machine changes."""

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
from .llvm import Function, I32, I64, Value, Vector
from .lowering import Lowering
from .schedule import emit, order_nodes, Recorder, STATE
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
SIZES = ("groups", "padded", "chunks", "row_width", "step_width")
ARRAYS = ("lengths", "rows", *TABLES, "lanes", "states", "sums")

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
        self._needs_sample = any(leaf in find_inputs(nodes) for leaf in observed if not leaf.timed)

        def evaluate_row(leaves: list[jax.Array]) -> jax.Array:
            values = evaluate(nodes, fixed | dict(zip(observed, leaves, strict=True)))
            columns = [jnp.ravel(value).astype(self.batch.dtype) for value in values]
            return jnp.concatenate(columns)[order]

        self._evaluate_rows = jax.jit(jax.vmap(evaluate_row))
        self._cache: dict[int, Rows] = {}
        self._lock = Lock()

    def evaluate_steps(self, rows: RowNumbers, time: int) -> Rows:
        """Returns the table from a time on; what depends on time alone is cached for all seeds."""
        if self._needs_sample or not self.num_columns:
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
            if self._needs_sample:
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

    def pack(self, tree: PyTree, num_lanes: int) -> Float[np.ndarray, "numbers {num_lanes}"]:
        """Returns leaves with lanes first as rows of lanes, the last lane repeated to fill them."""
        lanes = self.batch.num_lanes
        rows = [np.asarray(leaf).reshape(lanes, -1).T for leaf in jax.tree.leaves(tree)]
        packed = np.concatenate([np.zeros((0, lanes), self.batch.dtype), *rows])
        return np.pad(packed, ((0, 0), (0, num_lanes - lanes)), mode="edge")


def emit_group(program: StepProgram, f: Function, machine: Vector, group: Value) -> list[Value]:
    """Emits all chunks of steps of one group of lanes, whose state stays in registers.

    The function has the arguments [SIZES] and [ARRAYS]. In rows of `padded` lanes, `lanes` holds
    the lanes' values, `states` the states before the first and after every chunk, and `sums` each
    chunk's sums of the measures. `lengths` are those of the chunks, and `rows` the stream's.
    """
    batch, b, width = program.batch, f.builder, machine.width
    num_state, num_measures = batch.num_state, len(batch.measures)
    arrays = {name: f.pointer(name) for name in ARRAYS}
    machine.rows["fixed"] = arrays["fixed"]

    def lane_index(row: Value) -> Value:  # where the group begins in a row of lanes
        return b.add(b.mul(group, I64(width)), b.mul(f.arguments["padded"], row))

    def chunk_index(chunk: Value, count: int, number: int) -> Value:
        return lane_index(b.add(b.mul(chunk, I64(count)), I64(number)))

    num_lane_values = sum(map(_size, jax.tree.leaves(batch.lane)))
    lanes = [machine.read(arrays["lanes"], lane_index(I64(n))) for n in range(num_lane_values)]

    def emit_chunk(chunk: Value, carried: list[Value]) -> list[Value]:
        (offset,) = carried
        num_steps = b.load(machine.address(arrays["lengths"], chunk, np.int64), typ=I64)
        state = [
            machine.read(arrays["states"], chunk_index(chunk, num_state, n))
            for n in range(num_state)
        ]
        zeros = [machine.constant(0.0, batch.dtype) for _ in range(num_measures)]

        def emit_step(step: Value, carried: list[Value]) -> list[Value]:
            index = b.add(offset, step)
            address = machine.address(arrays["rows"], index, np.uint32)
            row = b.zext(b.load(address, typ=I32), I64)
            for table, number in (("row", row), ("step", index)):
                first = b.mul(number, f.arguments[f"{table}_width"])
                machine.rows[table] = machine.address(arrays[table], first, batch.dtype)
            state, sums = carried[:num_state], carried[num_state:]
            inputs = dict(zip(program.inputs, [*lanes, *state], strict=True))
            outputs = emit(program.order, program.outputs, machine, inputs)
            measures = zip(sums, outputs[num_state:], strict=True)
            return [*outputs[:num_state], *(b.fadd(total, value) for total, value in measures)]

        carried_last = f.loop(num_steps, [*state, *zeros], emit_step)
        next_chunk = b.add(chunk, I64(1))
        for n, number in enumerate(carried_last[:num_state]):
            index = chunk_index(next_chunk, num_state, n)
            machine.write(number, arrays["states"], index, batch.dtype)
        for n, total in enumerate(carried_last[num_state:]):
            index = chunk_index(chunk, num_measures, n)
            if batch.dtype != np.float64:
                total = b.fpext(total, machine.type(np.float64))
            machine.write(total, arrays["sums"], index, np.float64)
        return [b.add(offset, num_steps)]

    f.loop(f.arguments["chunks"], [I64(0)], emit_chunk)
    return []  # nothing is carried from group to group
