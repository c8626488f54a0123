"""From jaxprs to lanes: a small interpreter that knows no machine.

Every array of a jaxpr becomes an array of *lane values*, one for each entry, and every primitive
becomes instructions on lane values, which a machine emits for many learners at once. What depends
only on the experience is *uniform*: it is not emitted but kept as an expression, evaluated once
for all lanes, and reaches the lanes through a slot of a table.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from . import functions


class FusionError(Exception):
    """What is asked has no form in lanes; the message says what and why."""


@runtime_checkable
class Machine(Protocol):
    """What the interpreter needs of a machine. Its values are opaque; dtypes are NumPy's."""

    def constant(self, value: Any, dtype: np.dtype) -> Any: ...
    def uniform(self, table: str, column: int) -> Any: ...
    def load(self, table: int, index: Any, dtype: np.dtype) -> Any: ...
    def apply(self, name: str, dtype: np.dtype, *operands: Any) -> Any: ...
    def convert(self, value: Any, source: np.dtype, dtype: np.dtype) -> Any: ...
    def reinterpret(self, value: Any, source: np.dtype, dtype: np.dtype) -> Any: ...


@dataclass(frozen=True)
class Lane:
    """One lane value; a product remembers its factors, so that adding to it is one rounding."""

    raw: Any
    dtype: np.dtype
    factors: tuple["Lane", "Lane"] | None = None


@dataclass(frozen=True)
class Table:
    """An array in memory that lanes read by index."""

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class Uniform:
    """An array that is the same for all lanes: an input, or a primitive of other ones."""

    shape: tuple[int, ...]
    dtype: Any  # of NumPy, or of a random key
    varies: bool  # with the experience; otherwise it is fixed for the run
    timed: bool  # with the time itself, so that equal samples do not have equal values
    eqn: Any = None
    inputs: tuple[Any, ...] = ()
    output: int = 0


def evaluate(wanted: Sequence[Uniform], known: dict[Uniform, Any]) -> list[Any]:
    """The arrays that uniform expressions stand for, given those of the inputs."""
    done: dict[Any, Any] = {}

    def value(node: Any) -> Any:
        if not isinstance(node, Uniform):
            return node
        if node in known:
            return known[node]
        once = id(node.eqn), id(node.inputs)  # all empty inputs are one tuple
        if once not in done:
            eqn, inputs = node.eqn, [value(each) for each in node.inputs]
            bound = eqn.primitive.get_bind_params(eqn.params)  # JAX 0.11 dropped the functions
            functions, parameters = bound if isinstance(bound, tuple) else ((), bound)
            found = eqn.primitive.bind(*functions, *inputs, **parameters)
            done[once] = found if eqn.primitive.multiple_results else [found]
        return done[once][node.output]

    return [value(node) for node in wanted]


def inputs(nodes: Sequence[Uniform]) -> set[Uniform]:
    """The inputs that uniform expressions depend on."""
    seen, found, left = set(), set(), list(nodes)
    while left:
        node = left.pop()
        if isinstance(node, Uniform) and node not in seen:
            seen.add(node)
            left += node.inputs
            if node.eqn is None:
                found.add(node)
    return found


@dataclass
class Lowering:
    """One walk over a jaxpr: emits on the machine and collects the slots that it reads.

    `place` names the table in which a uniform array has its slots.
    """

    machine: Machine
    dtype: np.dtype
    place: Callable[[Uniform], str] = lambda node: "row" if node.varies else "fixed"
    slots: dict[str, list[tuple[Uniform, int]]] = field(default_factory=dict)
    _columns: dict[tuple[Uniform, int], int] = field(default_factory=dict)
    _once: dict[Any, list[Uniform]] = field(default_factory=dict)

    def run(self, jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        """The outputs of a jaxpr: arrays of [Lane], [Uniform] expressions, or known arrays."""
        env = dict(zip(jaxpr.constvars, constants, strict=True))
        env |= zip(jaxpr.invars, arguments, strict=True)

        def read(atom: Any) -> Any:
            return np.asarray(atom.val) if hasattr(atom, "val") else env[atom]

        for eqn in jaxpr.eqns:
            inputs = [read(atom) for atom in eqn.invars]
            env |= zip(eqn.outvars, self._equation(eqn, inputs), strict=True)
        return [read(atom) for atom in jaxpr.outvars]

    def lanes(self, value: Any) -> np.ndarray:
        """A value of any kind as an array of lane values."""
        if isinstance(value, np.ndarray) and value.dtype == object:
            return value
        if isinstance(value, Uniform):
            if value.eqn is not None and value.eqn.primitive.name in STRUCTURE:
                inputs = [self.lanes(each) for each in value.inputs]  # moved, not stored again
                return STRUCTURE[value.eqn.primitive.name](inputs, value.eqn.params)
            return self._slots(value)
        dtype = value.dtype
        return _each(lambda entry: Lane(self.machine.constant(entry, dtype), dtype), value)

    def _slots(self, value: Uniform) -> np.ndarray:
        if np.issubdtype(value.dtype, np.integer):
            raise FusionError("a whole number that changes with the experience is used in lanes")
        out = np.empty(value.shape, object)
        table = self.place(value)
        slots = self.slots.setdefault(table, [])
        for index in range(out.size):
            column = self._columns.setdefault((value, index), len(slots))
            if column == len(slots):
                slots.append((value, index))
            lane = Lane(self.machine.uniform(table, column), self.dtype)
            if value.dtype == bool:
                lane = self.apply("ne", lane, self.number(0.0, self.dtype), dtype=bool)
            out.flat[index] = lane
        return out

    def _equation(self, eqn: Any, inputs: list[Any]) -> list[Any]:
        name, parameters = eqn.primitive.name, eqn.params
        inner = parameters.get("jaxpr", parameters.get("call_jaxpr"))
        if name in CALLS:
            return self.run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
        if not any(_is_lane(value) for value in inputs):
            return self._uniform(eqn, tuple(inputs))
        if name in STRUCTURE:
            return [STRUCTURE[name]([self.lanes(value) for value in inputs], parameters)]
        if name in RULES:
            return [RULES[name](self, inputs, parameters, eqn.outvars[0].aval)]
        raise FusionError(f"the primitive {name!r} has no form in lanes")

    def _uniform(self, eqn: Any, inputs: tuple[Any, ...]) -> list[Any]:
        """The same primitive of the same values is one expression, so that lanes can share it."""
        key = eqn.primitive.name, str(eqn.params), tuple(map(identity, inputs))
        if key not in self._once:
            nodes = [value for value in inputs if isinstance(value, Uniform)]
            self._once[key] = [
                Uniform(
                    var.aval.shape,
                    var.aval.dtype,
                    any(node.varies for node in nodes),
                    any(node.timed for node in nodes),
                    eqn,
                    inputs,
                    output,
                )
                for output, var in enumerate(eqn.outvars)
            ]
        return self._once[key]

    def equal(self, value: Any, number: int) -> Any:
        """Whether a uniform whole number is this one."""
        shape = jax.ShapeDtypeStruct((), value.dtype)
        closed = jax.make_jaxpr(lambda v: v == number)(shape)
        return self.run(closed.jaxpr, closed.consts, [value])[0]

    # Arithmetic on single lane values

    def apply(self, name: str, *operands: Lane, dtype: Any = None) -> Lane:
        """One instruction; the result has the type of the last operand unless another is given."""
        kind = operands[-1].dtype
        raw = self.machine.apply(name, kind, *(operand.raw for operand in operands))
        return Lane(raw, kind if dtype is None else np.dtype(dtype))

    def mul(self, a: Lane, b: Lane) -> Lane:
        """A product, which remembers its factors."""
        return Lane(self.machine.apply("mul", a.dtype, a.raw, b.raw), a.dtype, (a, b))

    def add(self, a: Lane, b: Lane) -> Lane:
        """A sum; with a product it is rounded once."""
        if np.issubdtype(a.dtype, np.floating):
            if b.factors is None:
                a, b = b, a
            if b.factors is not None:
                return self.apply("fma", *b.factors, a)
        return self.apply("add", a, b)

    def sub(self, a: Lane, b: Lane) -> Lane:
        """A difference; with a product it is rounded once."""
        if np.issubdtype(a.dtype, np.floating):
            if b.factors is not None:
                return self.apply("fma", self.apply("neg", b.factors[0]), b.factors[1], a)
            if a.factors is not None:
                return self.apply("fma", *a.factors, self.apply("neg", b))
        return self.apply("sub", a, b)

    def tree(self, combine: Callable[[Lane, Lane], Lane], entries: Sequence[Lane]) -> Lane:
        """A reduction as a balanced tree."""
        if not entries:
            raise FusionError("a reduction of nothing")
        if len(entries) == 1:
            return entries[0]
        half = (len(entries) + 1) // 2
        return combine(self.tree(combine, entries[:half]), self.tree(combine, entries[half:]))

    def scaled(self, value: Lane, n: Lane) -> Lane:
        """A value times 2^n for a whole n, by bits of exponents; in halves, as 2^n may be none."""
        double = n.dtype == np.float64
        whole, shift, bias = (np.dtype("i8"), 52, 1023) if double else (np.dtype("i4"), 23, 127)
        both = Lane(self.machine.convert(n.raw, n.dtype, whole), whole)
        both = self.apply("add", both, self.number(2 * bias, whole))
        half = self.apply("shift_right_logical", both, self.number(1, whole))
        for exponent in (half, self.apply("sub", both, half)):
            bits = self.apply("shift_left", exponent, self.number(shift, whole))
            power = Lane(self.machine.reinterpret(bits.raw, whole, n.dtype), n.dtype)
            value = self.mul(value, power)
        return value

    def number(self, value: float | int, dtype: np.dtype) -> Lane:
        """A number as a lane value."""
        return Lane(self.machine.constant(value, dtype), dtype)


def identity(value: Any) -> Any:
    """What is equal for equal values: a node itself, and the bytes of a known array."""
    if isinstance(value, Uniform):
        return value
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return id(value)
    return np.shape(value), value.dtype, np.asarray(value).tobytes()


CALLS = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat2"}


def _is_lane(value: Any) -> bool:
    return isinstance(value, Table) or (isinstance(value, np.ndarray) and value.dtype == object)


def _each(function: Callable, *arrays: Any) -> np.ndarray:
    """A function of entries, broadcast over arrays."""
    found = np.frompyfunc(function, len(arrays), 1)(*arrays)
    if isinstance(found, np.ndarray):
        return found
    out = np.empty((), object)
    out[()] = found
    return out


# What only moves entries: the same for every machine, and for uniform arrays.


def _broadcast(x: np.ndarray, shape: Sequence[int], dimensions: Sequence[int]) -> np.ndarray:
    expanded = [1] * len(shape)
    for axis, dimension in enumerate(dimensions):
        expanded[dimension] = x.shape[axis]
    return np.broadcast_to(x.reshape(expanded), shape)


def _slice(x: np.ndarray, parameters: dict) -> np.ndarray:
    strides = parameters["strides"] or [1] * x.ndim
    bounds = zip(parameters["start_indices"], parameters["limit_indices"], strides, strict=True)
    return x[tuple(slice(*bound) for bound in bounds)]


STRUCTURE: dict[str, Callable[[list[np.ndarray], dict], np.ndarray]] = {
    "broadcast_in_dim": lambda xs, p: _broadcast(xs[0], p["shape"], p["broadcast_dimensions"]),
    "reshape": lambda xs, p: xs[0].reshape(p["new_sizes"]),
    "squeeze": lambda xs, p: np.squeeze(xs[0], tuple(p["dimensions"])),
    "expand_dims": lambda xs, p: np.expand_dims(xs[0], tuple(p["dimensions"])),
    "transpose": lambda xs, p: np.transpose(xs[0], p["permutation"]),
    "rev": lambda xs, p: np.flip(xs[0], p["dimensions"]),
    "slice": lambda xs, p: _slice(xs[0], p),
    "concatenate": lambda xs, p: np.concatenate(xs, axis=p["dimension"]),
    "stack": lambda xs, p: np.stack(xs, axis=p["axis"]),
    "copy": lambda xs, p: xs[0],
    "stop_gradient": lambda xs, p: xs[0],
}


# What computes


def _elementwise(function: Callable) -> Callable:
    def rule(lowering: Lowering, inputs: list[Any], parameters: dict, aval: Any) -> np.ndarray:
        lanes = [lowering.lanes(value) for value in inputs]
        return _each(lambda *entries: function(lowering, *entries), *lanes)

    return rule


def _instruction(name: str, dtype: Any = None) -> Callable:
    return _elementwise(lambda lowering, *entries: lowering.apply(name, *entries, dtype=dtype))


def _convert(lowering: Lowering, inputs: list[Any], parameters: dict, aval: Any) -> np.ndarray:
    to = np.dtype(parameters["new_dtype"])

    def convert(entry: Lane) -> Lane:
        if entry.dtype == to:
            return entry
        return Lane(lowering.machine.convert(entry.raw, entry.dtype, to), to)

    return _each(convert, lowering.lanes(inputs[0]))


def _dot(lowering: Lowering, inputs: list[Any], parameters: dict, aval: Any) -> np.ndarray:
    (left_sum, right_sum), (left_batch, right_batch) = parameters["dimension_numbers"]

    def arranged(value: Any, batch: Sequence[int], summed: Sequence[int]) -> np.ndarray:
        x = lowering.lanes(value)
        free = [axis for axis in range(x.ndim) if axis not in (*batch, *summed)]
        x = np.transpose(x, (*batch, *free, *summed))
        ends = np.cumsum([0, len(batch), len(free), len(summed)])
        return x.reshape([int(np.prod(x.shape[a:b])) for a, b in itertools.pairwise(ends)])

    left = arranged(inputs[0], left_batch, left_sum)
    right = arranged(inputs[1], right_batch, right_sum)
    products = _each(lowering.mul, left[:, :, None, :], right[:, None, :, :])
    out = np.empty(products.shape[:-1], object)
    for index in np.ndindex(out.shape):
        terms = list(products[index]) or [lowering.number(0.0, np.dtype(aval.dtype))]
        out[index] = lowering.tree(lowering.add, terms)
    return out.reshape(aval.shape)


def _reduce(combine: Callable, empty: float | None = None) -> Callable:
    def rule(lowering: Lowering, inputs: list[Any], parameters: dict, aval: Any) -> np.ndarray:
        axes = tuple(parameters["axes"])
        x = lowering.lanes(inputs[0])
        x = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
        x = x.reshape(*aval.shape, int(np.prod(x.shape[len(aval.shape) :])))
        out = np.empty(aval.shape, object)
        for index in np.ndindex(out.shape):
            entries = list(x[index])
            if not entries and empty is not None:
                entries = [lowering.number(empty, np.dtype(aval.dtype))]
            out[index] = lowering.tree(lambda a, b: combine(lowering, a, b), entries)
        return out

    return rule


def _power(lowering: Lowering, inputs: list[Any], parameters: dict, aval: Any) -> np.ndarray:
    def power(entry: Lane) -> Lane:
        exponent, one = parameters["y"], lowering.number(1.0, entry.dtype)
        product = lowering.tree(lowering.mul, [entry] * abs(exponent) or [one])
        return product if exponent >= 0 else lowering.apply("div", one, product)

    return _each(power, lowering.lanes(inputs[0]))


def _look_up(lowering: Lowering, inputs: list[Any], parameters: dict, aval: Any) -> np.ndarray:
    """`table[index]` in memory, or entries of lanes at an index that is the same for all."""
    table, *indices = inputs
    sizes = tuple(parameters["slice_sizes"])
    if isinstance(table, Table):
        if sizes != (1,):
            raise FusionError("more than one entry of a table in memory")
        index: Lane = lowering.lanes(indices[0]).item()
        raw = lowering.machine.load(table.number, index.raw, table.dtype)
        return np.array([Lane(raw, table.dtype)], object)
    x = lowering.lanes(table)
    for axis, (size, where) in enumerate(zip(sizes, indices, strict=True)):
        if size == x.shape[axis]:
            continue
        if size != 1 or _is_lane(where):
            raise FusionError("an index that differs between lanes, or a range of them")
        entries = np.split(x, x.shape[axis], axis)
        x = entries[-1]
        for number in reversed(range(len(entries) - 1)):
            here = lowering.lanes(lowering.equal(where, number))
            x = _each(lambda h, a, b: lowering.apply("select", h, a, b), here, entries[number], x)
    return x


def _select(lowering: Lowering, which: Lane, *cases: Lane) -> Lane:
    no, yes = cases
    return lowering.apply("select", which, yes, no)


RULES: dict[str, Callable[[Lowering, list[Any], dict, Any], np.ndarray]] = {
    "add": _elementwise(Lowering.add),
    "add_any": _elementwise(Lowering.add),
    "sub": _elementwise(Lowering.sub),
    "mul": _elementwise(Lowering.mul),
    "square": _elementwise(lambda lowering, x: lowering.mul(x, x)),
    "integer_pow": _power,
    **{name: _instruction(name) for name in ("div", "max", "min", "neg", "abs", "sqrt", "floor")},
    **{name: _instruction(name) for name in ("and", "or", "xor", "not")},
    **{name: _instruction(name) for name in ("shift_left", "shift_right_logical")},
    **{name: _instruction(name, bool) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "exp": _elementwise(functions.exp),
    "logistic": _elementwise(functions.logistic),
    "select_n": _elementwise(_select),
    "convert_element_type": _convert,
    "dot_general": _dot,
    "reduce_sum": _reduce(lambda lowering, a, b: lowering.add(a, b), empty=0.0),
    "reduce_max": _reduce(lambda lowering, a, b: lowering.apply("max", a, b)),
    "reduce_min": _reduce(lambda lowering, a, b: lowering.apply("min", a, b)),
    "dynamic_slice": _look_up,
}
