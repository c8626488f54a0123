"""Lanes as vectors in LLVM, for whatever LLVM compiles to.

No fast-math flags are set and every sum has its order written out, so that the result of a lane
does not depend on the vector width, on its neighbours or on the number of threads.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import llvmlite.ir as ir
import numpy as np
from numpy.typing import DTypeLike

from .values import Constant

Value: TypeAlias = ir.Value
"""A value of LLVM: a number, a vector of numbers, or a pointer."""
Body: TypeAlias = Callable[[Value, list[Value]], list[Value]]
"""What a loop repeats: from its index and the carried values to the next carried values."""

I32, I64, POINTER = ir.IntType(32), ir.IntType(64), ir.PointerType()
GLOBAL, SHARED = 1, 3  # the memories of a GPU: all threads', and those of a block
INTRINSICS = {name: name for name in ("fma", "floor", "sqrt")}
INTRINSICS |= {"abs": "fabs", "max": "maximum", "min": "minimum"}
INTEGER = {"and": "and_", "or": "or_", "shift_left": "shl", "shift_right_logical": "lshr"}
ALIGNMENT = 16  # bytes: what one load of a GPU's thread reads at most
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def scalar_type(dtype: DTypeLike) -> ir.Type:
    """Returns the LLVM type of a NumPy type."""
    types = {"float32": ir.FloatType(), "float64": ir.DoubleType(), "bool": ir.IntType(1)}
    dtype = np.dtype(dtype)
    return types[dtype.name] if dtype.name in types else ir.IntType(8 * dtype.itemsize)


class Vector:
    """The machine of one function: vectors of `width` lanes; a width of 1 is plain scalars.

    Tables of uniform values are read `columns` at a time. With more than one, they and the lanes
    lie where that many numbers of the working type are aligned.
    """

    def __init__(self, builder: ir.IRBuilder, dtype: np.dtype, width: int, columns: int = 1):
        self.builder, self.dtype, self.width = builder, np.dtype(dtype), width
        self.columns = columns
        self.known: dict[str, Sequence[float]] = {}  # tables of one row, of numbers that are known
        self.rows: dict[str, Value] = {}  # pointers to the row of each other table
        self.arrays: list[Value] = []  # pointers to the arrays that are read by index
        self._blocks: dict[tuple[Value, int], Value] = {}  # of columns, by the row's pointer

    def type(self, dtype: DTypeLike) -> ir.Type:
        """Returns the LLVM type of lanes."""
        kind = scalar_type(dtype)
        return ir.VectorType(kind, self.width) if self.width > 1 else kind

    def constant(self, value: Constant, dtype: np.dtype) -> Value:
        number = float(value) if np.issubdtype(dtype, np.floating) else int(value)
        entry = ir.Constant(scalar_type(dtype), number)
        return ir.Constant(self.type(dtype), [entry] * self.width) if self.width > 1 else entry

    def broadcast(self, value: Value, dtype: np.dtype) -> Value:
        """Emits one number in every lane."""
        if self.width == 1:
            return value
        undefined = ir.Constant(self.type(dtype), ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, self.width), [0] * self.width)
        return self.builder.shuffle_vector(first, undefined, zeros)

    def uniform(self, table: str, column: int) -> Value:
        if table in self.known:
            return self.constant(self.known[table][column], self.dtype)
        row, kind = self.rows[table], scalar_type(self.dtype)
        if self.columns == 1:
            address = self.address(row, ir.Constant(I64, column), self.dtype)
            return self.broadcast(self.builder.load(address, typ=kind), self.dtype)
        block, position = divmod(column, self.columns)
        if (row, block) not in self._blocks:
            address = self.address(row, ir.Constant(I64, block * self.columns), self.dtype)
            kind, size = ir.VectorType(kind, self.columns), self.columns * self.dtype.itemsize
            self._blocks[row, block] = self.builder.load(address, typ=kind, align=size)
        entry = self.builder.extract_element(self._blocks[row, block], ir.Constant(I32, position))
        return self.broadcast(entry, self.dtype)

    def address(self, pointer: Value, index: Value, dtype: DTypeLike) -> Value:
        """Emits the address of an entry."""
        return self.builder.gep(pointer, [index], source_etype=scalar_type(dtype))

    def load(self, array: int, index: Value, dtype: np.dtype) -> Value:
        address = self.address(self.arrays[array], self.builder.zext(index, I64), dtype)
        return self.builder.load(address, typ=scalar_type(dtype))

    def _alignment(self, dtype: DTypeLike) -> int:
        size = np.dtype(dtype).itemsize
        return size if self.columns == 1 else min(self.width * size, ALIGNMENT)

    def read(self, pointer: Value, index: Value, dtype: DTypeLike | None = None) -> Value:
        """Reads the lanes from an index on, by default of the working type."""
        dtype = self.dtype if dtype is None else dtype
        address = self.address(pointer, index, dtype)
        return self.builder.load(address, typ=self.type(dtype), align=self._alignment(dtype))

    def write(self, value: Value, pointer: Value, index: Value, dtype: DTypeLike) -> None:
        """Writes lanes from an index on."""
        address = self.address(pointer, index, dtype)
        self.builder.store(value, address, align=self._alignment(dtype))

    def convert(self, value: Value, source: np.dtype, dtype: np.dtype) -> Value:
        source, dtype, kind = np.dtype(source), np.dtype(dtype), self.type(dtype)
        b, signed = self.builder, source.kind == "i"
        if dtype.kind == "f":
            if source.kind == "f":
                return (b.fpext if dtype.itemsize > source.itemsize else b.fptrunc)(value, kind)
            return (b.sitofp if signed else b.uitofp)(value, kind)
        if dtype.kind == "b":
            return self.apply("ne", source, value, self.constant(0, source))
        if source.kind == "f":
            return (b.fptosi if dtype.kind == "i" else b.fptoui)(value, kind)
        if source.kind == "b" or dtype.itemsize > source.itemsize:
            return (b.sext if signed else b.zext)(value, kind)
        return b.trunc(value, kind) if dtype.itemsize < source.itemsize else value

    def reinterpret(self, value: Value, dtype: np.dtype) -> Value:
        return self.builder.bitcast(value, self.type(dtype))

    def apply(self, name: str, dtype: np.dtype, *operands: Value) -> Value:
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
            return getattr(b, f"f{name}")(*operands)
        if name == "abs":
            return self.apply("max", dtype, *operands, self.apply("neg", dtype, *operands))
        if name in ("max", "min"):
            order = {"max": "gt", "min": "lt"}[name]
            return b.select(self.apply(order, dtype, *operands), *operands)
        if name == "div":
            return (b.sdiv if kind == "i" else b.udiv)(*operands)
        return getattr(b, INTEGER.get(name, name))(*operands)

    def _intrinsic(self, name: str, *operands: Value) -> Value:
        kind, module = operands[0].type, self.builder.module
        vector = f"v{self.width}" if self.width > 1 else ""
        name = f"llvm.{name}.{vector}f{8 * self.dtype.itemsize}"
        if name not in module.globals:
            ir.Function(module, ir.FunctionType(kind, [kind] * len(operands)), name)
        return self.builder.call(module.globals[name], operands)


class Function:
    """A function under construction; its arguments are 64-bit numbers or addresses.

    A kernel is what the threads of a GPU run.
    """

    def __init__(self, name: str, arguments: Sequence[str], is_kernel: bool = False):
        self.module = ir.Module(name)
        kind = ir.FunctionType(ir.VoidType(), [I64] * len(arguments))
        function = ir.Function(self.module, kind, name)
        function.attributes.add("nounwind")
        if is_kernel:
            function.calling_convention = "ptx_kernel"
        else:
            function.attributes.alignstack = 64  # a vector on the stack lies in one cache line
        self._memory = ir.PointerType(addrspace=GLOBAL) if is_kernel else POINTER
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.arguments = dict(zip(arguments, function.args, strict=True))

    def pointer(self, name: str) -> Value:
        """Emits the pointer of an argument that is an address."""
        return self.builder.inttoptr(self.arguments[name], self._memory)

    def when(self, condition: Value, body: Callable[[], object]) -> None:
        """Emits what happens only under a condition."""
        b = self.builder
        inside, after = b.append_basic_block(), b.append_basic_block()
        b.cbranch(condition, inside, after)
        b.position_at_end(inside)
        body()
        b.branch(after)
        b.position_at_end(after)

    def loop(self, stop: Value, carried: Sequence[Value], body: Body) -> list[Value]:
        """Emits `for i in range(stop)`, and returns the carried values after it."""
        b, before = self.builder, self.builder.block
        head, inside, after = (b.append_basic_block() for _ in range(3))
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(I64)
        phis = [b.phi(value.type) for value in carried]
        b.cbranch(b.icmp_signed("<", index, stop), inside, after)
        b.position_at_end(inside)
        carried_next = body(index, phis)
        carried_next = [b.add(index, I64(1)), *carried_next]
        for phi, start, new in zip([index, *phis], [I64(0), *carried], carried_next, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(new, b.block)
        b.branch(head)
        b.position_at_end(after)
        return phis
