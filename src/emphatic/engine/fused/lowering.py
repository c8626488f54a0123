"""From jaxprs to lanes: a small interpreter that knows no machine.

Every array of a jaxpr becomes an array of *lane values*, one for each entry, and every primitive
becomes instructions on lane values, which a machine emits for many learners at once. What depends
only on the experience is *uniform*: it is not emitted but kept as an expression, evaluated once
for all lanes, and reaches the lanes through a slot of a table.
"""

import itertools
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from numpy.typing import DTypeLike

from . import elementary
from .values import (
    FusionError,
    identity,
    IndexedArray,
    is_lane,
    JaxValue,
    Lane,
    LaneArray,
    Machine,
    Slot,
    Uniform,
    Value,
)

Parameters: TypeAlias = dict[str, Any]
"""The parameters of an equation of a jaxpr."""


class Lowering:
    """One walk over a jaxpr: emits on the machine, and collects the slots it reads by table."""

    def __init__(
        self,
        machine: Machine,
        dtype: np.dtype,
        choose_table: Callable[[Uniform], str] = lambda node: "row" if node.varies else "fixed",
    ):
        self.machine, self.dtype, self.choose_table = machine, dtype, choose_table
        self.slots: dict[str, list[Slot]] = {}
        self._columns: dict[Slot, int] = {}
        self._expressions: dict[Hashable, list[Uniform]] = {}

    def run(self, jaxpr: Jaxpr, constants: Sequence[Value], inputs: Sequence[Value]) -> list[Value]:
        """Returns a jaxpr's outputs: arrays of [Lane], [Uniform] expressions, or known arrays."""
        env: dict[Var, Value] = dict(zip(jaxpr.constvars, constants, strict=True))
        env |= zip(jaxpr.invars, inputs, strict=True)

        def read(atom: Var | Literal) -> Value:
            return np.asarray(atom.val) if isinstance(atom, Literal) else env[atom]

        for eqn in jaxpr.eqns:
            outputs = self._lower_equation(eqn, [read(atom) for atom in eqn.invars])
            env |= zip(eqn.outvars, outputs, strict=True)
        return [read(atom) for atom in jaxpr.outvars]

    def to_lanes(self, value: Value) -> LaneArray:
        """Returns a value of any kind as an array of lane values."""
        if isinstance(value, IndexedArray):
            raise FusionError("an array in memory that is not read by one index")
        if isinstance(value, np.ndarray) and value.dtype == object:
            return value
        if isinstance(value, Uniform):
            if value.eqn is not None and value.eqn.primitive.name in STRUCTURE:
                inputs = [self.to_lanes(x) for x in value.inputs]  # moved, not stored again
                return STRUCTURE[value.eqn.primitive.name](inputs, value.eqn.params)
            return self._read_slots(value)
        dtype = value.dtype
        return _map_entries(lambda entry: self.constant(entry, dtype), value)

    def _read_slots(self, value: Uniform) -> LaneArray:
        if np.issubdtype(value.dtype, np.integer):
            raise FusionError("a whole number that changes with the experience is used in lanes")
        out, table = np.empty(value.shape, object), self.choose_table(value)
        slots = self.slots.setdefault(table, [])
        for index in range(out.size):
            column = self._columns.setdefault((value, index), len(slots))
            if column == len(slots):
                slots.append((value, index))
            lane = Lane(self.machine.uniform(table, column), self.dtype)
            if value.dtype == bool:
                lane = self.apply("ne", lane, self.constant(0.0, self.dtype), dtype=bool)
            out.flat[index] = lane
        return out

    def _lower_equation(self, eqn: JaxprEqn, inputs: list[Value]) -> Sequence[Value]:
        name, parameters = eqn.primitive.name, eqn.params
        if name in CALLS:
            inner = parameters["jaxpr" if "jaxpr" in parameters else "call_jaxpr"]
            return self.run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
        if not any(is_lane(value) for value in inputs):
            return self._make_uniform(eqn, tuple(inputs))
        if name in STRUCTURE:
            return [STRUCTURE[name]([self.to_lanes(value) for value in inputs], parameters)]
        if name in RULES:
            return [RULES[name](self, inputs, eqn)]
        raise FusionError(f"the primitive {name!r} has no form in lanes")

    def _make_uniform(self, eqn: JaxprEqn, inputs: tuple[Uniform | JaxValue, ...]) -> list[Uniform]:
        """Returns one expression for equal primitives of equal values, which lanes then share."""
        key = eqn.primitive.name, str(eqn.params), tuple(map(identity, inputs))
        if key not in self._expressions:
            nodes = [value for value in inputs if isinstance(value, Uniform)]
            flags = any(node.varies for node in nodes), any(node.timed for node in nodes)
            self._expressions[key] = [
                Uniform(aval.shape, aval.dtype, *flags, eqn, inputs, output)
                for output, aval in enumerate(map(_shaped, eqn.outvars))
            ]
        return self._expressions[key]

    def equal(self, value: Uniform | JaxValue, number: int) -> Value:
        """Returns whether a uniform whole number is this one."""
        closed = jax.make_jaxpr(lambda v: v == number)(jax.ShapeDtypeStruct((), value.dtype))
        return self.run(closed.jaxpr, closed.consts, [value])[0]

    # Arithmetic on single lane values

    def apply(self, name: str, *operands: Lane, dtype: DTypeLike | None = None) -> Lane:
        """Emits an instruction; its result has the last operand's type unless another is given."""
        kind = operands[-1].dtype
        raw = self.machine.apply(name, kind, *(operand.raw for operand in operands))
        return Lane(raw, kind if dtype is None else np.dtype(dtype))

    def mul(self, a: Lane, b: Lane) -> Lane:
        """Emits a product, which remembers its factors."""
        return Lane(self.machine.apply("mul", a.dtype, a.raw, b.raw), a.dtype, (a, b))

    def add(self, a: Lane, b: Lane) -> Lane:
        """Emits a sum; with a product it is rounded once."""
        if np.issubdtype(a.dtype, np.floating):
            if b.factors is None:
                a, b = b, a
            if b.factors is not None:
                return self.apply("fma", *b.factors, a)
        return self.apply("add", a, b)

    def sub(self, a: Lane, b: Lane) -> Lane:
        """Emits a difference; with a product it is rounded once."""
        if np.issubdtype(a.dtype, np.floating):
            if b.factors is not None:
                return self.apply("fma", self.apply("neg", b.factors[0]), b.factors[1], a)
            if a.factors is not None:
                return self.apply("fma", *a.factors, self.apply("neg", b))
        return self.apply("sub", a, b)

    def reduce(self, combine: Callable[[Lane, Lane], Lane], entries: Sequence[Lane]) -> Lane:
        """Reduces entries as a balanced tree."""
        if not entries:
            raise FusionError("a reduction of nothing")
        if len(entries) == 1:
            return entries[0]
        half = (len(entries) + 1) // 2
        return combine(self.reduce(combine, entries[:half]), self.reduce(combine, entries[half:]))

    def scale(self, value: Lane, n: Lane) -> Lane:
        """Emits a value times 2^n for a whole n, in two halves since 2^n itself may overflow."""
        double = n.dtype == np.float64
        integer, shift, bias = (np.dtype("i8"), 52, 1023) if double else (np.dtype("i4"), 23, 127)
        exponent = Lane(self.machine.convert(n.raw, n.dtype, integer), integer)
        exponent = self.apply("add", exponent, self.constant(2 * bias, integer))
        first_half = self.apply("shift_right_logical", exponent, self.constant(1, integer))
        for part in (first_half, self.apply("sub", exponent, first_half)):
            bits = self.apply("shift_left", part, self.constant(shift, integer))
            value = self.mul(value, Lane(self.machine.reinterpret(bits.raw, n.dtype), n.dtype))
        return value

    def constant(self, value: float | int, dtype: np.dtype) -> Lane:
        """Returns a number as a lane value."""
        return Lane(self.machine.constant(value, dtype), dtype)


CALLS = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2"}


def _shaped(var: Var) -> ShapedArray:
    if not isinstance(var.aval, ShapedArray):
        raise FusionError(f"a value of type {var.aval} is not an array")
    return var.aval


def _map_entries(function: Callable[..., Lane], *arrays: np.ndarray) -> LaneArray:
    """Applies a function to entries, broadcast over arrays."""
    return np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays), object)


# What only moves entries: the same for every machine, and for uniform arrays.


def _broadcast(x: LaneArray, shape: Sequence[int], dimensions: Sequence[int]) -> LaneArray:
    expanded = [1] * len(shape)
    for axis, dimension in enumerate(dimensions):
        expanded[dimension] = x.shape[axis]
    return np.broadcast_to(x.reshape(expanded), shape)


def _slice(x: LaneArray, parameters: Parameters) -> LaneArray:
    strides = parameters["strides"] or [1] * x.ndim
    bounds = zip(parameters["start_indices"], parameters["limit_indices"], strides, strict=True)
    return x[tuple(slice(*bound) for bound in bounds)]


STRUCTURE: dict[str, Callable[[list[LaneArray], Parameters], LaneArray]] = {
    "broadcast_in_dim": lambda xs, p: _broadcast(xs[0], p["shape"], p["broadcast_dimensions"]),
    "reshape": lambda xs, p: xs[0].reshape(p["new_sizes"]),
    "squeeze": lambda xs, p: np.squeeze(xs[0], tuple(p["dimensions"])),
    "expand_dims": lambda xs, p: np.expand_dims(xs[0], tuple(p["dimensions"])),
    "transpose": lambda xs, p: np.transpose(xs[0], p["permutation"]),
    "rev": lambda xs, p: np.flip(xs[0], p["dimensions"]),
    "slice": lambda xs, p: _slice(xs[0], p),
    "concatenate": lambda xs, p: np.concatenate(xs, axis=p["dimension"]),
    "stack": lambda xs, p: np.stack(xs, axis=p["axis"]),
    **dict.fromkeys(("copy", "stop_gradient"), lambda xs, p: xs[0]),
}


# What computes

Rule: TypeAlias = Callable[[Lowering, list[Value], JaxprEqn], LaneArray]
"""Emits an equation, given the values of its inputs."""


def _elementwise(function: Callable[..., Lane]) -> Rule:
    def rule(lowering: Lowering, inputs: list[Value], eqn: JaxprEqn) -> LaneArray:
        lanes = [lowering.to_lanes(value) for value in inputs]
        return _map_entries(lambda *entries: function(lowering, *entries), *lanes)

    return rule


def _instruction(name: str, dtype: DTypeLike | None = None) -> Rule:
    return _elementwise(lambda lowering, *entries: lowering.apply(name, *entries, dtype=dtype))


def _convert(lowering: Lowering, inputs: list[Value], eqn: JaxprEqn) -> LaneArray:
    to = np.dtype(eqn.params["new_dtype"])

    def convert(entry: Lane) -> Lane:
        if entry.dtype == to:
            return entry
        result = Lane(lowering.machine.convert(entry.raw, entry.dtype, to), to)
        return _saturate(lowering, entry, result) if to.kind in "iu" else result

    return _map_entries(convert, lowering.to_lanes(inputs[0]))


# What machines leave open is defined as XLA defines it, by selecting among results.


def _saturate(lowering: Lowering, x: Lane, result: Lane) -> Lane:
    """Emits a whole number made of a number x: the nearest one beyond the range, 0 for NaN."""
    if x.dtype.kind != "f":
        return result
    low, high = np.iinfo(result.dtype).min, np.iinfo(result.dtype).max
    for order, bound, value in (("lt", low, low), ("ge", high + 1, high)):
        outside = lowering.apply(order, x, lowering.constant(float(bound), x.dtype), dtype=bool)
        nearest = lowering.constant(value, result.dtype)
        result = lowering.apply("select", outside, nearest, result)
    is_nan = lowering.apply("ne", x, x, dtype=bool)
    return lowering.apply("select", is_nan, lowering.constant(0, result.dtype), result)


def _divide(lowering: Lowering, a: Lane, b: Lane) -> Lane:
    """Emits a quotient; that of whole numbers over 0 is -1, and -1 changes the sign."""
    if b.dtype.kind == "f":
        return lowering.apply("div", a, b)
    one, zero = lowering.constant(1, b.dtype), lowering.constant(0, b.dtype)
    minus_one = lowering.apply("not", zero)
    cases = [(zero, minus_one)]
    if b.dtype.kind == "i":
        cases.append((minus_one, lowering.apply("neg", a)))
    special = [lowering.apply("eq", b, divisor, dtype=bool) for divisor, _ in cases]
    for is_special in special:
        b = lowering.apply("select", is_special, one, b)
    result = lowering.apply("div", a, b)
    for is_special, (_, value) in zip(special, cases, strict=True):
        result = lowering.apply("select", is_special, value, result)
    return result


def _shift(name: str) -> Rule:
    def shift(lowering: Lowering, a: Lane, b: Lane) -> Lane:
        """Emits a shift; beyond the width of a number it leaves 0."""
        width, zero = (
            lowering.constant(8 * a.dtype.itemsize, a.dtype),
            lowering.constant(0, a.dtype),
        )
        unsigned = np.dtype(f"u{a.dtype.itemsize}")
        raw = lowering.machine.apply("lt", unsigned, b.raw, width.raw)
        result = lowering.apply(name, a, b)
        return lowering.apply("select", Lane(raw, np.dtype(bool)), result, zero)

    return _elementwise(shift)


def _dot(lowering: Lowering, inputs: list[Value], eqn: JaxprEqn) -> LaneArray:
    (left_sum, right_sum), (left_batch, right_batch) = eqn.params["dimension_numbers"]

    def arrange(value: Value, batch: Sequence[int], summed: Sequence[int]) -> LaneArray:
        x = lowering.to_lanes(value)
        free = [axis for axis in range(x.ndim) if axis not in (*batch, *summed)]
        x = np.transpose(x, (*batch, *free, *summed))
        ends = np.cumsum([0, len(batch), len(free), len(summed)])
        return x.reshape([int(np.prod(x.shape[a:b])) for a, b in itertools.pairwise(ends)])

    aval = _shaped(eqn.outvars[0])
    left = arrange(inputs[0], left_batch, left_sum)
    right = arrange(inputs[1], right_batch, right_sum)
    products = _map_entries(lowering.mul, left[:, :, None, :], right[:, None, :, :])
    out = np.empty(products.shape[:-1], object)
    for index in np.ndindex(out.shape):
        terms = list(products[index]) or [lowering.constant(0.0, np.dtype(aval.dtype))]
        out[index] = lowering.reduce(lowering.add, terms)
    return out.reshape(aval.shape)


def _reduce(combine: Callable[[Lowering, Lane, Lane], Lane], empty: float | None = None) -> Rule:
    def rule(lowering: Lowering, inputs: list[Value], eqn: JaxprEqn) -> LaneArray:
        axes, aval = tuple(eqn.params["axes"]), _shaped(eqn.outvars[0])
        x = lowering.to_lanes(inputs[0])
        x = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
        x = x.reshape(*aval.shape, int(np.prod(x.shape[len(aval.shape) :])))
        out = np.empty(aval.shape, object)
        for index in np.ndindex(out.shape):
            entries = list(x[index])
            if not entries and empty is not None:
                entries = [lowering.constant(empty, np.dtype(aval.dtype))]
            out[index] = lowering.reduce(lambda a, b: combine(lowering, a, b), entries)
        return out

    return rule


def _power(lowering: Lowering, inputs: list[Value], eqn: JaxprEqn) -> LaneArray:
    def power(entry: Lane) -> Lane:
        exponent, one = eqn.params["y"], lowering.constant(1.0, entry.dtype)
        product = lowering.reduce(lowering.mul, [entry] * abs(exponent) or [one])
        return product if exponent >= 0 else lowering.apply("div", one, product)

    return _map_entries(power, lowering.to_lanes(inputs[0]))


def _look_up(lowering: Lowering, inputs: list[Value], eqn: JaxprEqn) -> LaneArray:
    """Emits `array[index]`, in memory or of lanes at an index that is the same for all."""
    (array, *indices), sizes = inputs, tuple(eqn.params["slice_sizes"])
    if isinstance(array, IndexedArray):
        if sizes != (1,):
            raise FusionError("more than one entry of an array in memory")
        index: Lane = lowering.to_lanes(indices[0]).item()
        raw = lowering.machine.load(array.number, index.raw, array.dtype)
        return np.array([Lane(raw, array.dtype)], object)
    x = lowering.to_lanes(array)
    for axis, (size, position) in enumerate(zip(sizes, indices, strict=True)):
        if size == x.shape[axis]:
            continue
        if size != 1 or is_lane(position):
            raise FusionError("an index that differs between lanes, or a range of them")
        entries = np.split(x, x.shape[axis], axis)
        x = entries[-1]
        for number in reversed(range(len(entries) - 1)):
            equal = lowering.to_lanes(lowering.equal(position, number))
            x = _map_entries(partial(lowering.apply, "select"), equal, entries[number], x)
    return x


RULES: dict[str, Rule] = {
    **dict.fromkeys(("add", "add_any"), _elementwise(Lowering.add)),
    "sub": _elementwise(Lowering.sub),
    "mul": _elementwise(Lowering.mul),
    "square": _elementwise(lambda lowering, x: lowering.mul(x, x)),
    "integer_pow": _power,
    "div": _elementwise(_divide),
    **{name: _instruction(name) for name in ("max", "min", "neg", "abs", "sqrt", "floor")},
    **{name: _instruction(name) for name in ("and", "or", "xor", "not")},
    **{name: _shift(name) for name in ("shift_left", "shift_right_logical")},
    **{name: _instruction(name, bool) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "exp": _elementwise(elementary.exp),
    "logistic": _elementwise(elementary.logistic),
    "select_n": _elementwise(lambda lowering, i, no, yes: lowering.apply("select", i, yes, no)),
    "convert_element_type": _convert,
    "dot_general": _dot,
    "reduce_sum": _reduce(Lowering.add, empty=0.0),
    "reduce_max": _reduce(lambda lowering, a, b: lowering.apply("max", a, b)),
    "reduce_min": _reduce(lambda lowering, a, b: lowering.apply("min", a, b)),
    "dynamic_slice": _look_up,
}
