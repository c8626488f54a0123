"""The fused engine on a CPU: vector code for the stream and for all lanes, compiled and called."""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

import jax
import llvmlite.binding as llvm
import numpy as np
from jax.extend.core import ClosedJaxpr
from jaxtyping import Float, PyTree, UInt32

from ..batch import Batch
from ..experience import Chunks, Diverged, History, Load, Sums
from ..stream import Stream, Tables
from .llvm import Function, I32, I64, Value, Vector
from .loops import ARRAYS, emit_group, emit_walk, emit_words, SIZES, UINT32
from .program import StepProgram

Pairs: TypeAlias = UInt32[np.ndarray, "seeds 1"]
Packed: TypeAlias = Float[np.ndarray, "numbers padded"]
NativeFunction: TypeAlias = Callable[..., None]
"""Machine code, called with 64-bit numbers and addresses; other threads run meanwhile."""


@cache
def _target() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )


@cache
def vector_bytes() -> int:
    """Returns how wide the vectors of this CPU are."""
    _target()
    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


def compile_function(f: Function) -> NativeFunction:
    """Ends a function, and compiles it for this CPU."""
    f.builder.ret_void()
    f.module.triple = llvm.get_default_triple()
    return _compile_module(str(f.module), f.module.name, len(f.arguments))


@cache
def _compile_module(text: str, name: str, num_arguments: int) -> NativeFunction:
    module = llvm.parse_assembly(text)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(_target(), options)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, _target())
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * num_arguments)
    function = prototype(engine.get_function_address(name))
    vars(function)["engine"] = engine  # the code lives as long as the function
    return function


class Experience:
    """The stream of a problem, compiled: one step after the other, in scalars."""

    step_bytes, memory_bytes = UINT32.itemsize, None

    def __init__(self, stream: Stream):
        self.arrays = [np.ascontiguousarray(table) for table in jax.tree.leaves(stream.tables)]
        self._addresses = [array.ctypes.data for array in self.arrays]
        word = jax.ShapeDtypeStruct((), UINT32)
        tables = jax.tree.map(lambda t: jax.ShapeDtypeStruct(t.shape, t.dtype), stream.tables)

        def begin(tables: Tables, key: PyTree, pair: jax.Array, time: jax.Array) -> PyTree:
            return stream.begin(tables, key), pair

        arguments = tables, (word, word), word, word
        self._begin = self._compile("begin", jax.make_jaxpr(begin)(*arguments))
        self._advance = self._compile("advance", jax.make_jaxpr(stream.advance)(*arguments))

    def _compile(self, name: str, closed: ClosedJaxpr) -> NativeFunction:
        addresses = [f"table{n}" for n in range(len(self.arrays))]
        f = Function(name, ["steps", "low", "high", "time", "pair", "rows", *addresses])
        machine = Vector(f.builder, UINT32, 1)
        machine.arrays = [f.pointer(address) for address in addresses]
        low, high = (f.builder.trunc(f.arguments[half], I32) for half in ("low", "high"))

        def emit_step(step: Value, pair: Value) -> list[Value]:
            time = f.builder.trunc(f.builder.add(f.arguments["time"], step), I32)
            return emit_words(machine, closed, [low, high, pair, time])

        emit_walk(f, emit_step, f.pointer("pair"), f.pointer("rows"))
        return compile_function(f)

    def _call(
        self, function: NativeFunction, num_steps: int, seed: int, time: int, *arrays: np.ndarray
    ) -> None:
        addresses = [array.ctypes.data for array in arrays]
        words = seed & 0xFFFFFFFF, seed >> 32
        function(num_steps, *words, time, *addresses, *self._addresses)

    def begin(self, seeds: Sequence[int]) -> Pairs:
        """Returns the first pair of each seed."""
        pairs = np.zeros((len(seeds), 1), UINT32)
        for seed, pair in zip(seeds, pairs, strict=True):
            self._call(self._begin, 1, seed, 0, pair, np.zeros(1, UINT32))
        return pairs

    def advance(
        self, seeds: Sequence[int], time: int, position: Pairs, num_steps: int
    ) -> tuple[Pairs, UInt32[np.ndarray, "seeds steps"]]:
        """Returns the pairs after the next steps, and the rows of these steps."""
        rows, pairs = np.empty((len(seeds), num_steps), UINT32), position.copy()
        for number, seed in enumerate(seeds):
            self._call(self._advance, num_steps, seed, time, pairs[number], rows[number])
        return pairs, rows

    def seeds_per_task(self, num_seeds: int, load: Load) -> int:
        """Returns 1: a program runs the lanes of one seed."""
        return 1


class Program:
    """A batch as vector code: groups of `width` lanes, one after the other, on one seed's rows."""

    step_seconds, step_bytes = 0.0, 0

    def __init__(self, batch: Batch, stream: Stream, width: int | None = None):
        self.batch, self.step = batch, StepProgram(batch, stream)
        self.width = width or self._choose_width()
        self.padded = -(-batch.num_lanes // self.width) * self.width
        self.lanes = self.step.pack(batch.lanes, self.padded)
        f = Function("learn", [*SIZES, *ARRAYS])
        machine = Vector(f.builder, batch.dtype, self.width)
        arrays = {name: f.pointer(name) for name in ARRAYS}
        machine.rows["fixed"] = arrays["fixed"]

        def emit_lanes(group: Value, _: list[Value]) -> list[Value]:
            emit_group(self.step, f, machine, arrays, group, I64(0))
            return []

        f.loop(f.arguments["groups"], [], emit_lanes)
        self._learn = compile_function(f)

    def _choose_width(self) -> int:
        """Returns a width that fills about half of the registers, and leaves few lanes empty."""
        batch, vector = self.batch, vector_bytes() // self.batch.dtype.itemsize
        # much arithmetic takes two vectors at least: one is worked on while the other waits
        lower = 2 * vector if len(self.step.order) > 8 * batch.num_state else vector
        upper = min(4 * vector, max(lower, 16 * vector // max(1, batch.num_state)))
        widths = [n for n in (vector // 2, vector, 2 * vector, 4 * vector) if n <= upper]

        def cost(width: int) -> float:  # half a vector is not half the work
            return -(-batch.num_lanes // width) * max(float(width), 0.6 * vector)

        return min(reversed(widths), key=cost)

    def begin(self, seeds: Sequence[int]) -> Packed:
        """Returns the first states; seeds are taken one at a time."""
        (seed,) = seeds
        return self.step.pack(self.batch.initial(seed), self.padded)

    def advance(
        self,
        rows: UInt32[np.ndarray, "1 steps"],
        time: int,
        chunks: Chunks,
        states: Packed,
        sums: Sums,
    ) -> tuple[Packed, Sums, Diverged, History]:
        """Learns from chunks of rows; see [emphatic.engine.experience.Program]."""
        (steps,) = rows
        fixed_table, row_table = self.step.fixed_table, self.step.row_table
        step_table = self.step.tables["step"].evaluate_steps(steps, time)
        num_windows, lanes = chunks.num_windows, slice(self.batch.num_lanes)
        kept, num_kept = (len(states), num_windows) if chunks.keeps_states else (0, 0)
        history = np.empty((num_kept + 1, *states.shape), self.batch.dtype)
        history[0] = states
        totals = np.zeros((num_windows, len(self.batch.measures), self.padded))
        totals[..., lanes] = sums[:, :, 0]
        diverged = np.empty((num_windows, self.padded), np.uint8)
        tables = fixed_table, row_table, step_table
        learned = self.lanes, history, totals, diverged
        arrays = chunks.lengths, chunks.windows, steps, *tables, *learned
        groups = self.padded // self.width
        sizes = groups, self.padded, 1, len(steps), 0, len(chunks.lengths), kept
        self._learn(*sizes, *(array.ctypes.data for array in arrays))
        flags = diverged[:, None, lanes].astype(bool)
        return history[-1], totals[:, :, None, lanes], flags, history[1:, :, None, lanes]
