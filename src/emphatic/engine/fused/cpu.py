"""The fused engine: simulation, update and measurement of all lanes in native loops."""

import dataclasses
from collections.abc import Sequence
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .llvm import Function, I32, I64, Vector, vector_bytes
from .lower import evaluate, FusionError, identity, inputs, Lane, Lowering, Table, Uniform
from .order import give, Notes, ordered, STATE
from .stream import Stream
from .sweep import Sweep, TABLE_BYTES

MOST_NUMBERS = 160  # of a state: beyond, a step is all loads and stores
MOST_INSTRUCTIONS = 40_000  # of a step: beyond, compilation takes minutes
UINT32 = np.dtype(np.uint32)
PLACES = ("fixed", "row", "step")
BATCH = 4096  # rows evaluated at once
KEPT = 512  # batches of times that are kept


def _entries(raws: Sequence[Any], dtype: np.dtype, shape: Sequence[int] = ()) -> np.ndarray:
    out = np.empty(tuple(shape), object)
    for index, raw in enumerate(raws):
        out.flat[index] = Lane(raw, dtype)
    return out


def _size(leaf: Any) -> int:
    return int(np.prod(leaf.shape))


class Experience:
    """The stream of a problem, compiled: one step after the other, in scalars."""

    def __init__(self, stream: Stream):
        self.arrays = [np.ascontiguousarray(table) for table in jax.tree.leaves(stream.tables)]
        word = jax.ShapeDtypeStruct((), UINT32)
        tables = jax.tree.map(lambda t: jax.ShapeDtypeStruct(t.shape, t.dtype), stream.tables)

        def begin(tables: Any, key: Any, pair: Any, time: Any) -> Any:
            return stream.begin(tables, key), pair

        arguments = tables, (word, word), word, word
        self._begin = self._compile("begin", jax.make_jaxpr(begin)(*arguments))
        self._advance = self._compile("advance", jax.make_jaxpr(stream.advance)(*arguments))

    def _compile(self, name: str, closed: Any) -> Any:
        tables = [Table(n, array.shape, UINT32) for n, array in enumerate(self.arrays)]
        addresses = [f"table{table.number}" for table in tables]
        f = Function(name, ["steps", "low", "high", "time", "pair", "rows", *addresses])
        b, machine = f.builder, Vector(f.builder, UINT32, 1)
        machine.tables = [f.pointer(address) for address in addresses]
        pair, rows = f.pointer("pair"), f.pointer("rows")
        key = [b.trunc(f.number(part), I32) for part in ("low", "high")]

        def step(number: Any, carried: list[Any]) -> list[Any]:
            time = b.trunc(b.add(f.number("time"), number), I32)
            words = [_entries([raw], UINT32) for raw in (*key, *carried, time)]
            found = Lowering(machine, UINT32).run(closed.jaxpr, closed.consts, [*tables, *words])
            pair_next, row = (value[()].raw for value in found)
            b.store(row, machine.at(rows, number, UINT32))
            return [pair_next]

        (last,) = f.loop(f.number("steps"), [b.load(pair, typ=I32)], step)
        b.store(last, pair)
        return f.compile()

    def _call(self, function: Any, steps: int, seed: int, time: int, *arrays: np.ndarray) -> None:
        addresses = [array.ctypes.data for array in (*arrays, *self.arrays)]
        function(steps, seed & 0xFFFFFFFF, seed >> 32, time, *addresses)

    def begin(self, seeds: Sequence[int]) -> np.ndarray:
        """The first pair of each seed."""
        pairs = np.zeros((len(seeds), 1), UINT32)
        for seed, pair in zip(seeds, pairs, strict=True):
            self._call(self._begin, 1, seed, 0, pair, np.zeros(1, UINT32))
        return pairs

    def advance(
        self, seeds: Sequence[int], time: int, pairs: np.ndarray, steps: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The pairs after the next steps, and their rows, seeds first."""
        rows, pairs = np.empty((len(seeds), steps), UINT32), pairs.copy()
        for number, seed in enumerate(seeds):
            self._call(self._advance, steps, seed, time, pairs[number], rows[number])
        return pairs, rows


class Columns:
    """Uniform values of one table, evaluated for rows and times in batches of one size."""

    def __init__(self, program: "Program", slots: Sequence[tuple[Uniform, int]]):
        self.sweep, self.stream, self.count = program.sweep, program.stream, len(slots)
        nodes = list(dict.fromkeys(node for node, _ in slots))
        first = dict(zip(nodes, np.cumsum([0, *map(_size, nodes)]), strict=False))
        order = np.array([first[node] + index for node, index in slots], int)
        known, varying = program._fixed, program._varying
        self.sees = any(leaf in inputs(nodes) for leaf in varying if not leaf.timed)

        def columns(leaves: list[Any]) -> Any:
            values = evaluate(nodes, known | dict(zip(varying, leaves, strict=True)))
            values = [jnp.ravel(value).astype(self.sweep.dtype) for value in values]
            return jnp.concatenate(values)[order]

        self._columns = jax.jit(jax.vmap(columns))
        self._kept: dict[int, np.ndarray] = {}
        self._lock = Lock()

    def over(self, rows: np.ndarray, time: int) -> np.ndarray:
        """One line of columns for each of the steps from a time on.

        What depends on the time alone is the same for all seeds: it is kept, in whole batches.
        """
        if self.sees or not self.count:
            return self.evaluate(rows, (time + np.arange(len(rows))).astype(np.int32))
        first, last = time // BATCH, (time + len(rows) - 1) // BATCH
        lines = np.concatenate([self._timed(number) for number in range(first, last + 1)])
        return lines[time - first * BATCH :][: len(rows)]

    def _timed(self, number: int) -> np.ndarray:
        """The columns over one batch of times."""
        with self._lock:
            if number not in self._kept:
                times = (number * BATCH + np.arange(BATCH)).astype(np.int32)
                self._kept[number] = self.evaluate(np.zeros(BATCH, UINT32), times)
                if len(self._kept) > KEPT:  # the oldest
                    del self._kept[next(iter(self._kept))]
            return self._kept[number]

    def evaluate(self, rows: np.ndarray, times: np.ndarray) -> np.ndarray:
        """One line of columns for each row and time."""
        out = np.empty((len(rows), self.count), self.sweep.dtype)
        if not self.count:
            return out
        size = min(BATCH, len(rows))
        for first in range(0, len(rows), size):
            here = slice(first, first + size)
            count = len(rows[here])
            row, time = (np.resize(values[here], size) for values in (rows, times))
            if self.sees:
                y = self.sweep.seen(self.stream.sample(row, time))
            else:
                y = jax.tree.map(lambda a: np.broadcast_to(a, (size, *a.shape)), self.sweep.example)
                y = dataclasses.replace(y, time=time)
            with jax.enable_x64(self.sweep.dtype == np.float64):
                out[here] = self._columns(jax.tree.leaves(y))[:count]
        return out


class Program:
    """A sweep as vector code: all its lanes on the rows of one seed.

    A group of `width` lanes goes through all steps of a chunk with its state in registers. What
    is uniform is read from tables: one entry that is fixed, one for each row of the stream, and
    one for each step where the time itself matters or there are too many rows.
    """

    def __init__(self, sweep: Sweep, stream: Stream, width: int | None = None):
        if sweep.num_state > MOST_NUMBERS:
            raise FusionError(f"a state has {sweep.num_state} numbers, more than {MOST_NUMBERS}")
        for leaf in jax.tree.leaves(sweep.state):
            if leaf.dtype != sweep.dtype:
                raise FusionError(f"a state has numbers of type {leaf.dtype}, not {sweep.dtype}")
        self.sweep, self.stream = sweep, stream
        with jax.enable_x64(sweep.dtype == np.float64):
            arguments = sweep.lane, sweep.state, sweep.exact, sweep.example
            self._closed = jax.make_jaxpr(sweep.step)(*arguments)
        fixed, nodes = [*jax.tree.leaves(sweep.exact), *self._closed.consts], {}
        self._known = [
            nodes.setdefault(identity(a), Uniform(np.shape(a), a.dtype, False, False))
            for a in fixed
        ]
        self._fixed = dict(zip(self._known, fixed, strict=True))
        self._varying = [
            Uniform(np.shape(leaf), leaf.dtype, True, leaf is sweep.example.time)
            for leaf in jax.tree.leaves(sweep.example)
        ]
        self._tabulated = stream.num_rows * sweep.row_bytes <= TABLE_BYTES
        slots = self._note()
        self.width = width or self._width()
        self.padded = -(-sweep.num_lanes // self.width) * self.width
        self.lanes = self._packed(sweep.lanes)
        self._learn = self._compile()
        self.columns = {place: Columns(self, slots.get(place, [])) for place in PLACES}
        self.fixed = self.columns["fixed"].evaluate(np.zeros(1, UINT32), np.zeros(1, np.int32))
        self.table = np.zeros((0, 0), sweep.dtype)
        if self._tabulated:
            rows = np.arange(stream.num_rows, dtype=UINT32)
            self.table = self.columns["row"].evaluate(rows, np.zeros(len(rows), np.int32))

    def _place(self, node: Uniform) -> str:
        """The table that holds a uniform value."""
        if not node.varies:
            return "fixed"
        return "row" if self._tabulated and not node.timed else "step"

    def _width(self) -> int:
        """Vectors that fill about half of the registers, and leave few lanes empty.

        Two at least for a step of much arithmetic: one is worked on while the other waits.
        """
        sweep, vector = self.sweep, vector_bytes() // self.sweep.dtype.itemsize
        least = 2 * vector if len(self._order) > 8 * sweep.num_state else vector
        most = min(4 * vector, max(least, 16 * vector // max(1, sweep.num_state)))
        widths = [width for width in (vector // 2, vector, 2 * vector, 4 * vector) if width <= most]

        def cost(width: int) -> float:  # half a vector is not half the work
            return -(-sweep.num_lanes // width) * max(float(width), 0.6 * vector)

        return min(reversed(widths), key=cost)

    def _packed(self, tree: Any) -> np.ndarray:
        """Leaves with lanes first as rows of lanes, the last lane repeated to fill the vectors."""
        lanes = self.sweep.num_lanes
        rows = [np.asarray(leaf).reshape(lanes, -1).T for leaf in jax.tree.leaves(tree)]
        rows = np.concatenate([np.zeros((0, lanes), self.sweep.dtype), *rows])
        return np.pad(rows, ((0, 0), (0, self.padded - lanes)), mode="edge")

    def _note(self) -> dict[str, list[tuple[Uniform, int]]]:
        """One step in the order of its instructions; returns the uniform values that it reads."""
        sweep, notes = self.sweep, Notes()

        def arrays(name: str, tree: Any) -> list[np.ndarray]:
            leaves = jax.tree.leaves(tree)
            return [
                _entries(notes.outside(f"{name}{n}", _size(leaf)), sweep.dtype, leaf.shape)
                for n, leaf in enumerate(leaves)
            ]

        lanes, state = arrays("lane", sweep.lane), arrays(STATE, sweep.state)
        known, exact = self._known, len(jax.tree.leaves(sweep.exact))
        lowering = Lowering(notes, sweep.dtype, self._place)
        arguments = [*lanes, *state, *known[:exact], *self._varying]
        found = lowering.run(self._closed.jaxpr, known[exact:], arguments)
        self._outside = [lane.raw for array in (*lanes, *state) for lane in array.flat]
        self._outputs = [lane.raw for out in found for lane in lowering.lanes(out).flat]
        self._order = ordered(self._outputs)
        if len(self._order) > MOST_INSTRUCTIONS:
            raise FusionError(f"a step has more than {MOST_INSTRUCTIONS} instructions")
        return lowering.slots

    def _compile(self) -> Any:
        sweep, width = self.sweep, self.width
        addresses = ["lengths", "rows", "fixed", "row", "step", "lanes", "states", "sums"]
        f = Function("learn", ["groups", "padded", "chunks", "in_row", "in_step", *addresses])
        b, machine = f.builder, Vector(f.builder, sweep.dtype, width)
        at = {name: f.pointer(name) for name in addresses}
        machine.columns["fixed"] = at["fixed"]

        def place(group: Any, row: Any) -> Any:
            """Where a group begins in a row of lanes."""
            return b.add(b.mul(group, I64(width)), b.mul(f.number("padded"), row))

        def of_chunk(chunk: Any, count: int, number: int) -> Any:
            return b.add(b.mul(chunk, I64(count)), I64(number))

        def group(group: Any, _: Any) -> list[Any]:
            lanes = [
                machine.read(at["lanes"], place(group, I64(row))) for row in range(len(self.lanes))
            ]

            def chunk(chunk: Any, carried: list[Any]) -> list[Any]:
                numbers, measures = range(sweep.num_state), range(len(sweep.measures))
                (offset,) = carried
                steps = b.load(machine.at(at["lengths"], chunk, np.int64), typ=I64)
                state = [
                    machine.read(at["states"], place(group, of_chunk(chunk, len(numbers), n)))
                    for n in numbers
                ]
                zeros = [machine.constant(0.0, sweep.dtype) for _ in measures]

                def step(step: Any, carried: list[Any]) -> list[Any]:
                    here = b.add(offset, step)
                    row = b.zext(b.load(machine.at(at["rows"], here, UINT32), typ=I32), I64)
                    for place, index in (("row", row), ("step", here)):
                        first = b.mul(index, f.number(f"in_{place}"))
                        machine.columns[place] = machine.at(at[place], first, sweep.dtype)
                    state, sums = carried[: len(numbers)], carried[len(numbers) :]
                    known = dict(zip(self._outside, [*lanes, *state], strict=True))
                    after = give(self._order, self._outputs, machine, known)
                    found = zip(sums, after[len(numbers) :], strict=True)
                    return [*after[: len(numbers)], *(b.fadd(*pair) for pair in found)]

                last = f.loop(steps, [*state, *zeros], step)
                following = b.add(chunk, I64(1))
                for n in numbers:
                    index = place(group, of_chunk(following, len(numbers), n))
                    machine.write(last[n], at["states"], index, sweep.dtype)
                for n in measures:
                    index = place(group, of_chunk(chunk, len(measures), n))
                    machine.write_double(last[len(numbers) + n], at["sums"], index)
                return [b.add(offset, steps)]

            f.loop(f.number("chunks"), [I64(0)], chunk)
            return []

        f.loop(f.number("groups"), [], group)
        return f.compile()

    def begin(self, seeds: Sequence[int]) -> np.ndarray:
        """The first states, with axes (number, lane); seeds are taken one at a time."""
        (seed,) = seeds
        return self._packed(self.sweep.initial(seed))

    def advance(
        self, rows: np.ndarray, time: int, lengths: np.ndarray, states: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The states after the chunks, each chunk's sums, and the states after each chunk.

        Sums have axes (chunk, measure, seed, lane), states (chunk, number, seed, lane).
        """
        (steps,) = rows
        in_steps = self.columns["step"].over(steps, time)
        every = np.empty((len(lengths) + 1, *states.shape), self.sweep.dtype)
        every[0] = states
        sums = np.empty((len(lengths), len(self.sweep.measures), self.padded))
        arrays = (lengths, steps, self.fixed, self.table, in_steps, self.lanes, every, sums)
        widths = self.table.shape[1], in_steps.shape[1]
        sizes = self.padded // self.width, self.padded, len(lengths), *widths
        self._learn(*sizes, *(array.ctypes.data for array in arrays))
        kept = slice(self.sweep.num_lanes)
        return every[-1], sums[:, :, None, kept], every[1:, :, None, kept]
