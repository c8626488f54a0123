"""The loops around a step, of the stream and of learners: the same lines for every machine.

A machine says which seed and which lanes are its own, and where the tables lie.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from jax.extend.core import ClosedJaxpr

from .llvm import Function, I32, I64, Value, Vector
from .lowering import Lowering
from .program import lane_array, StepProgram, TABLES
from .schedule import emit
from .values import IndexedArray

UINT32 = np.dtype(np.uint32)
SIZES = ("groups", "padded", "seeds", "steps", "step_stride", "chunks", "kept")
ARRAYS = ("lengths", "windows", "rows", *TABLES, "lanes", "states", "sums", "diverged")

Pointers: TypeAlias = Mapping[str, Value]
"""Where the arrays of a function lie, by name."""


def emit_words(machine: Vector, closed: ClosedJaxpr, words: Sequence[Value]) -> list[Value]:
    """Emits a function of the machine's arrays and of words, and returns the words it makes."""
    shapes = [variable.aval.shape for variable in closed.jaxpr.invars[: len(machine.arrays)]]
    tables = [IndexedArray(n, shape, UINT32) for n, shape in enumerate(shapes)]
    arguments = [*tables, *(lane_array([word], UINT32) for word in words)]
    lowering = Lowering(machine, UINT32)
    results = lowering.run(closed.jaxpr, closed.consts, arguments)
    return [lowering.to_lanes(result).item().raw for result in results]


def emit_walk(
    f: Function, emit_step: Callable[[Value, Value], list[Value]], pair: Value, rows: Value
) -> None:
    """Emits the steps of one seed, one after the other: from a step and a pair to pair and row.

    The function has the argument `steps`; `pair` and `rows` are pointers.
    """
    b = f.builder

    def emit_next(step: Value, carried: list[Value]) -> list[Value]:
        pair_next, row = emit_step(step, *carried)
        b.store(row, b.gep(rows, [step], source_etype=I32))
        return [pair_next]

    (last,) = f.loop(f.arguments["steps"], [b.load(pair, typ=I32)], emit_next)
    b.store(last, pair)


def emit_group(
    program: StepProgram, f: Function, machine: Vector, arrays: Pointers, group: Value, seed: Value
) -> None:
    """Emits all chunks of steps of one group of lanes of one seed, whose state stays in registers.

    The function has the arguments [SIZES], and the machine has the table `fixed`. A row of cells
    has `padded` lanes for each of `seeds` seeds. `lanes` holds the lanes' values; `lengths` are
    those of the chunks, and `windows` their windows, counted from 0. `states` holds the states
    before the first chunk, and after each window where `kept` is their number of rows; where it is
    0, they change in place. `sums` holds each window's sums of the measures, to which those of its
    chunks are added, and `diverged` whether a number of the state after it is not finite. `rows`
    are the stream's, `steps` of each seed, and those of the table `step` begin `step_stride` later
    for every seed.
    """
    batch, b, sizes = program.batch, f.builder, f.arguments
    num_state, num_measures = batch.num_state, len(batch.measures)
    widths = {table: program.table_width(table, machine.columns) for table in TABLES}
    lane = b.mul(group, I64(machine.width))
    cell = b.add(lane, b.mul(seed, sizes["padded"]))
    row_cells = b.mul(sizes["seeds"], sizes["padded"])
    rows = machine.address(arrays["rows"], b.mul(seed, sizes["steps"]), UINT32)
    first_step = b.mul(seed, sizes["step_stride"])

    def cell_index(first: Value, number: int) -> Value:  # where the group begins in a row of cells
        return b.add(cell, b.mul(row_cells, b.add(first, I64(number))))

    def entry(name: str, index: Value) -> Value:
        return b.load(machine.address(arrays[name], index, np.int64), typ=I64)

    lanes = [
        machine.read(arrays["lanes"], b.add(lane, b.mul(sizes["padded"], I64(n))))
        for n in range(program.num_lane_values)
    ]

    def emit_chunk(chunk: Value, carried: list[Value]) -> list[Value]:
        offset, place = carried
        num_steps, window = entry("lengths", chunk), entry("windows", chunk)
        state = [machine.read(arrays["states"], cell_index(place, n)) for n in range(num_state)]
        zeros = [machine.constant(0.0, batch.dtype) for _ in range(num_measures)]

        def emit_step(step: Value, carried: list[Value]) -> list[Value]:
            index = b.add(offset, step)
            row = b.zext(b.load(machine.address(rows, index, UINT32), typ=I32), I64)
            for table, number in (("row", row), ("step", b.add(first_step, index))):
                first = b.mul(number, I64(widths[table]))
                machine.rows[table] = machine.address(arrays[table], first, batch.dtype)
            state, sums = carried[:num_state], carried[num_state:]
            inputs = dict(zip(program.inputs, [*lanes, *state], strict=True))
            outputs = emit(program.order, program.outputs, machine, inputs)
            measures = zip(sums, outputs[num_state:], strict=True)
            return [*outputs[:num_state], *(b.fadd(total, value) for total, value in measures)]

        last = f.loop(num_steps, [*state, *zeros], emit_step)
        place_next = b.mul(b.add(window, I64(1)), sizes["kept"])
        for n, number in enumerate(last[:num_state]):
            machine.write(number, arrays["states"], cell_index(place_next, n), batch.dtype)
        first = b.mul(window, I64(num_measures))
        for n, total in enumerate(last[num_state:]):
            _add_to_sum(machine, total, arrays["sums"], cell_index(first, n))
        flags = _emit_diverged(machine, last[:num_state])
        machine.write(flags, arrays["diverged"], cell_index(window, 0), np.uint8)
        return [b.add(offset, num_steps), place_next]

    f.loop(sizes["chunks"], [I64(0), I64(0)], emit_chunk)


def _add_to_sum(machine: Vector, total: Value, sums: Value, index: Value) -> None:
    """Emits the sum of a chunk, added to that of its window in double precision."""
    if machine.dtype != np.float64:
        total = machine.builder.fpext(total, machine.type(np.float64))
    before = machine.read(sums, index, np.float64)
    machine.write(machine.builder.fadd(before, total), sums, index, np.float64)


def _emit_diverged(machine: Vector, state: list[Value]) -> Value:
    """Emits 1 where a number of the state is not finite, and 0 elsewhere."""
    total = machine.constant(0.0, machine.dtype)
    for number in state:  # x - x is NaN unless x is finite
        total = machine.builder.fadd(total, machine.builder.fsub(number, number))
    is_nan = machine.apply("ne", machine.dtype, total, total)
    return machine.convert(is_nan, np.dtype(bool), np.dtype(np.uint8))


def emit_copy_of_rows(
    f: Function, machine: Vector, source: Value, copy: Value, thread: Value, threads: Value
) -> None:
    """Emits a thread's part of copying the table of rows to where all threads of a block read it.

    The function has the argument `row_blocks`: so many times `machine.columns` numbers there are.
    """
    b, block = f.builder, Vector(f.builder, machine.dtype, machine.columns, machine.columns)
    left = b.sub(b.add(f.arguments["row_blocks"], b.sub(threads, I64(1))), thread)

    def emit_block(number: Value, _: list[Value]) -> list[Value]:
        index = b.mul(b.add(thread, b.mul(number, threads)), I64(machine.columns))
        block.write(block.read(source, index), copy, index, machine.dtype)
        return []

    f.loop(b.udiv(left, threads), [], emit_block)
