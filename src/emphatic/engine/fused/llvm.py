"""Vectors of lanes in LLVM, compiled while the program runs.

No fast-math flags are set and every sum has its order written out, so that the result of a lane
does not depend on the vector width, on its neighbours or on the number of threads.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numpy as np

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
DOUBLE, POINTER = ir.DoubleType(), ir.PointerType()
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def scalar(dtype: Any) -> ir.Type:
    """The LLVM type of a NumPy type."""
    types = {"float32": ir.FloatType(), "float64": DOUBLE, "bool": I1}
    dtype = np.dtype(dtype)
    return types[dtype.name] if dtype.name in types else ir.IntType(8 * dtype.itemsize)


class Vector:
    """The machine of one function: vectors of `width` lanes; a width of 1 is plain scalars."""

    def __init__(self, builder: ir.IRBuilder, dtype: np.dtype, width: int):
        self.builder, self.dtype, self.width = builder, np.dtype(dtype), width
        self.columns: dict[str, Any] = {}  # pointers to the rows of uniform values
        self.tables: list[Any] = []  # pointers to the tables that are read by index

    def type(self, dtype: Any) -> ir.Type:
        kind = scalar(dtype)
        return ir.VectorType(kind, self.width) if self.width > 1 else kind

    def constant(self, value: Any, dtype: Any) -> Any:
        kind = scalar(dtype)
        number = float(value) if np.issubdtype(dtype, np.floating) else int(value)
        entry = ir.Constant(kind, number)
        return ir.Constant(self.type(dtype), [entry] * self.width) if self.width > 1 else entry

    def spread(self, value: Any, dtype: Any) -> Any:
        """One number in every lane."""
        if self.width == 1:
            return value
        undefined = ir.Constant(self.type(dtype), ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, self.width), [0] * self.width)
        return self.builder.shuffle_vector(first, undefined, zeros)

    def uniform(self, table: str, column: int) -> Any:
        place = self.at(self.columns[table], ir.Constant(I64, column), self.dtype)
        return self.spread(self.builder.load(place, typ=scalar(self.dtype)), self.dtype)

    def at(self, pointer: Any, index: Any, dtype: Any) -> Any:
        """The address of an entry."""
        return self.builder.gep(pointer, [index], source_etype=scalar(dtype))

    def load(self, table: int, index: Any, dtype: Any) -> Any:
        place = self.at(self.tables[table], self.builder.zext(index, I64), dtype)
        return self.builder.load(place, typ=scalar(dtype))

    def read(self, pointer: Any, index: Any) -> Any:
        """The lanes from an index on."""
        place = self.at(pointer, index, self.dtype)
        return self.builder.load(place, typ=self.type(self.dtype), align=self.dtype.itemsize)

    def write(self, value: Any, pointer: Any, index: Any, dtype: Any) -> None:
        """The converse of `read`."""
        place = self.at(pointer, index, dtype)
        self.builder.store(value, place, align=np.dtype(dtype).itemsize)

    def write_double(self, value: Any, pointer: Any, index: Any) -> None:
        """Writes lanes as doubles."""
        if self.dtype != np.float64:
            value = self.builder.fpext(value, self.type(np.float64))
        self.write(value, pointer, index, np.float64)

    def convert(self, value: Any, source: Any, dtype: Any) -> Any:
        source, dtype, to = np.dtype(source), np.dtype(dtype), self.type(dtype)
        b, signed = self.builder, source.kind == "i"
        if dtype.kind == "f":
            if source.kind == "f":
                return (b.fpext if dtype.itemsize > source.itemsize else b.fptrunc)(value, to)
            return (b.sitofp if signed else b.uitofp)(value, to)
        if dtype.kind == "b":
            return self.apply("ne", source, value, self.constant(0, source))
        if source.kind == "f":
            return (b.fptosi if dtype.kind == "i" else b.fptoui)(value, to)
        if source.kind == "b" or dtype.itemsize > source.itemsize:
            return (b.sext if signed else b.zext)(value, to)
        return b.trunc(value, to) if dtype.itemsize < source.itemsize else value

    def reinterpret(self, value: Any, source: Any, dtype: Any) -> Any:
        return self.builder.bitcast(value, self.type(dtype))

    def apply(self, name: str, dtype: Any, *operands: Any) -> Any:
        b, kind = self.builder, np.dtype(dtype).kind
        if name == "select":
            return b.select(*operands)
        if name in COMPARE:
            if kind != "f":
                compare = b.icmp_signed if kind == "i" else b.icmp_unsigned
            else:  # NaN is unequal to everything
                compare = b.fcmp_unordered if name == "ne" else b.fcmp_ordered
            return compare(COMPARE[name], *operands)
        if name == "not":
            return b.not_(*operands)
        if kind == "f":
            if name in INTRINSICS:
                return self._intrinsic(INTRINSICS[name], *operands)
            return {"add": b.fadd, "sub": b.fsub, "mul": b.fmul, "div": b.fdiv, "neg": b.fneg}[
                name
            ](*operands)
        if name == "abs":
            return self.apply("max", dtype, *operands, self.apply("neg", dtype, *operands))
        if name in ("max", "min"):
            order = {"max": "gt", "min": "lt"}[name]
            return b.select(self.apply(order, dtype, *operands), *operands)
        return {
            "add": b.add,
            "sub": b.sub,
            "mul": b.mul,
            "neg": b.neg,
            "div": b.sdiv if kind == "i" else b.udiv,
            "and": b.and_,
            "or": b.or_,
            "xor": b.xor,
            "shift_left": b.shl,
            "shift_right_logical": b.lshr,
        }[name](*operands)

    def _intrinsic(self, name: str, *operands: Any) -> Any:
        kind, module = operands[0].type, self.builder.module
        vector = f"v{self.width}" if self.width > 1 else ""
        name = f"{name}.{vector}f{8 * self.dtype.itemsize}"
        if name not in module.globals:
            ir.Function(module, ir.FunctionType(kind, [kind] * len(operands)), name)
        return self.builder.call(module.globals[name], operands)


INTRINSICS = {
    "fma": "llvm.fma",
    "abs": "llvm.fabs",
    "floor": "llvm.floor",
    "sqrt": "llvm.sqrt",
    "max": "llvm.maximum",
    "min": "llvm.minimum",
}


class Function:
    """A function under construction; its arguments are 64-bit numbers or addresses."""

    def __init__(self, name: str, arguments: Sequence[str]):
        self.module = ir.Module(name)
        self.module.triple = llvm.get_default_triple()
        kind = ir.FunctionType(ir.VoidType(), [I64] * len(arguments))
        function = ir.Function(self.module, kind, name)
        function.attributes.add("nounwind")
        function.attributes.alignstack = 64  # a vector on the stack lies in one cache line
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.arguments = dict(zip(arguments, function.args, strict=True))

    def number(self, name: str) -> Any:
        return self.arguments[name]

    def pointer(self, name: str) -> Any:
        return self.builder.inttoptr(self.arguments[name], POINTER)

    def loop(self, stop: Any, carried: Sequence[Any], body: Callable) -> list[Any]:
        """`for i in range(stop)`; the body takes i and the carried values and gives the next."""
        b, before = self.builder, self.builder.block
        head, inside, after = (b.append_basic_block() for _ in range(3))
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(I64)
        phis = [b.phi(value.type) for value in carried]
        b.cbranch(b.icmp_signed("<", index, stop), inside, after)
        b.position_at_end(inside)
        following = body(index, phis)
        last = b.block
        step = b.add(index, I64(1))
        b.branch(head)
        for phi, first, new in zip(
            [index, *phis], [I64(0), *carried], [step, *following], strict=True
        ):
            phi.add_incoming(first, before)
            phi.add_incoming(new, last)
        b.position_at_end(after)
        return phis

    def compile(self) -> Any:
        self.builder.ret_void()
        return compiled(str(self.module), self.module.name, len(self.arguments))


@cache
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
    )


@cache
def vector_bytes() -> int:
    """How wide the vectors of this CPU are."""
    _target()
    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


@cache
def compiled(text: str, name: str, num_arguments: int) -> Any:
    """Machine code for a module; calling it lets other threads run."""
    module = llvm.parse_assembly(text)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(_target(), options)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, _target())
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * num_arguments)
    function = kind(engine.get_function_address(name))
    vars(function)["engine"] = engine  # the code lives as long as the function
    return function
