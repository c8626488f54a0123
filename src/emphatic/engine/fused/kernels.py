"""Kernels for a GPU: the loops of `loops.py` for one thread of many, and their PTX.

A thread that learns has `width` lanes of one seed. Threads are numbered through all blocks, first
the groups of lanes of the first seed: a block has one seed wherever a seed has lanes enough to
fill it, and no thread is idle where it has not. The state is in registers. The table of rows is in
the memory that a block shares, where it fits, and otherwise where all threads read it. Numbers that
never change are part of the instructions: as loads they would fill the registers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np
from jax.extend.core import ClosedJaxpr

from .llvm import ALIGNMENT, Function, I32, I64, SHARED, Value, Vector
from .loops import ARRAYS, emit_copy_of_rows, emit_group, emit_walk, emit_words, SIZES, UINT32
from .program import StepProgram

TRIPLE, ARCHITECTURE, VERSION = "nvptx64-nvidia-cuda", "sm_80", "+ptx70"
LEARN_ARRAYS = tuple(name for name in ARRAYS if name != "fixed")
LEARN = (*SIZES, "row_blocks", *LEARN_ARRAYS)
WORDS = ("seeds", "steps", "time", "low", "high", "words")
WALK = ("seeds", "steps", "words", "pairs", "rows")


class Thread(NamedTuple):
    """A thread's number in its block, its block's number, how many threads a block has, and where
    the memory is that they share."""

    number: Value
    block: Value
    threads: Value
    shared: Value

    def emit_number(self, f: Function) -> Value:
        """Emits its number among those of all blocks."""
        return f.builder.add(f.builder.mul(self.block, self.threads), self.number)


Phase: TypeAlias = Callable[[Function, Thread], None]
"""Emits what a thread does before all threads of its block wait for each other."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """What the threads of a GPU run: one phase after the other, with these arguments."""

    name: str
    arguments: Sequence[str]
    phases: Sequence[Phase]
    width: int = 1  # lanes of a thread
    shared_bytes: int = 0  # of memory that a block needs


def num_columns(dtype: np.dtype) -> int:
    """Returns how many uniform values one load reads."""
    return ALIGNMENT // np.dtype(dtype).itemsize


def row_table_bytes(program: StepProgram) -> int:
    """Returns how much memory the table of rows takes."""
    dtype = program.batch.dtype
    return len(program.row_table) * program.table_width("row", num_columns(dtype)) * dtype.itemsize


def learning_kernel(program: StepProgram, width: int, shared_bytes: int) -> Kernel:
    """Returns the kernel that learns, if a block shares so much memory at most."""
    dtype, size = program.batch.dtype, row_table_bytes(program)
    is_shared = 0 < size <= shared_bytes

    def copy(f: Function, thread: Thread) -> None:
        machine = Vector(f.builder, dtype, 1, num_columns(dtype))
        own = thread.number, thread.threads
        emit_copy_of_rows(f, machine, f.pointer("row"), thread.shared, *own)

    def learn(f: Function, thread: Thread) -> None:
        b, sizes = f.builder, f.arguments
        machine = Vector(b, dtype, width, num_columns(dtype))
        machine.known["fixed"] = program.fixed_table[0].tolist()
        arrays = {name: f.pointer(name) for name in LEARN_ARRAYS}
        if is_shared:
            arrays["row"] = thread.shared
        number = thread.emit_number(f)

        def emit_own() -> None:
            number32, groups = b.trunc(number, I32), b.trunc(sizes["groups"], I32)
            seed = b.udiv(number32, groups)
            group = b.sub(number32, b.mul(seed, groups))
            emit_group(program, f, machine, arrays, b.zext(group, I64), b.zext(seed, I64))

        f.when(b.icmp_unsigned("<", number, b.mul(sizes["groups"], sizes["seeds"])), emit_own)

    phases = (copy, learn) if is_shared else (learn,)
    return Kernel("learn", LEARN, phases, width, size if is_shared else 0)


def words_kernel(closed: ClosedJaxpr) -> Kernel:
    """Returns the kernel that makes the two words of one step of one seed in each thread."""

    def make(f: Function, thread: Thread) -> None:
        b, sizes, machine = f.builder, f.arguments, Vector(f.builder, UINT32, 1)
        number, count = thread.emit_number(f), b.mul(sizes["seeds"], sizes["steps"])

        def emit_own() -> None:
            seed = b.udiv(number, sizes["steps"])
            time = b.add(sizes["time"], b.sub(number, b.mul(seed, sizes["steps"])))
            key = [machine.read(f.pointer(half), seed) for half in ("low", "high")]
            for n, word in enumerate(emit_words(machine, closed, [*key, b.trunc(time, I32)])):
                place = b.add(number, b.mul(count, I64(n)))
                machine.write(word, f.pointer("words"), place, UINT32)

        f.when(b.icmp_unsigned("<", number, count), emit_own)

    return Kernel("words", WORDS, (make,))


def walking_kernel(closed: ClosedJaxpr, num_tables: int) -> Kernel:
    """Returns the kernel that walks with these words, one seed in each thread; see [emit_walk]."""
    tables = [f"table{n}" for n in range(num_tables)]

    def walk(f: Function, thread: Thread) -> None:
        b, sizes, machine = f.builder, f.arguments, Vector(f.builder, UINT32, 1)
        machine.arrays = [f.pointer(name) for name in tables]
        seed, count = thread.emit_number(f), b.mul(sizes["seeds"], sizes["steps"])

        def emit_own() -> None:
            first = b.mul(seed, sizes["steps"])
            pair = machine.address(f.pointer("pairs"), seed, UINT32)
            rows = machine.address(f.pointer("rows"), first, UINT32)

            def emit_step(step: Value, pair: Value) -> list[Value]:
                places = [b.add(b.add(first, step), b.mul(count, I64(n))) for n in range(2)]
                words = [machine.read(f.pointer("words"), place) for place in places]
                return emit_words(machine, closed, [pair, *words])

            emit_walk(f, emit_step, pair, rows)

        f.when(b.icmp_unsigned("<", seed, sizes["seeds"]), emit_own)

    return Kernel("walk", (*WALK, *tables), (walk,))


def to_ptx(kernel: Kernel) -> str:
    """Compiles a kernel to PTX, which the driver of a GPU compiles further."""
    f = Function(kernel.name, kernel.arguments, is_kernel=True)

    def call(name: str, kind: ir.Type) -> Value:
        return f.builder.call(ir.Function(f.module, ir.FunctionType(kind, []), name), [])

    registers = [f"llvm.nvvm.read.ptx.sreg.{name}.x" for name in ("tid", "ctaid", "ntid")]
    number, block, threads = (f.builder.zext(call(name, I32), I64) for name in registers)
    thread = Thread(number, block, threads, _emit_shared_memory(f))
    for phase in kernel.phases:
        if phase is not kernel.phases[0]:
            call("llvm.nvvm.barrier0", ir.VoidType())
        phase(f, thread)
    f.builder.ret_void()
    return _compile(f)


def _emit_shared_memory(f: Function) -> Value:
    """Emits the pointer to the memory of a block, whose size the launch says."""
    kind = ir.ArrayType(ir.IntType(8), 0)
    memory = ir.GlobalVariable(f.module, kind, "shared", addrspace=SHARED)
    memory.linkage, memory.align = "external", ALIGNMENT
    address = f.builder.ptrtoint(memory, I64)  # llvmlite has no other way to a pointer to anything
    return f.builder.inttoptr(address, ir.PointerType(addrspace=SHARED))


@cache
def _target() -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(cpu=ARCHITECTURE, features=VERSION, opt=3)


def _compile(f: Function) -> str:
    f.module.triple, f.module.data_layout = TRIPLE, str(_target().target_data)
    module = llvm.parse_assembly(str(f.module))
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(_target(), options)
    builder.getModulePassManager().run(module, builder)
    return _target().emit_assembly(module)
