"""Jaxprs in lanes are what JAX computes, on vectors of any width and on any machine."""

import itertools
from functools import cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from jax import lax

from emphatic import Learner, learners, problems, schedules
from emphatic.engine import run
from emphatic.engine.batch import Batch, transition_view
from emphatic.engine.experience import Chunks
from emphatic.engine.fused import cpu, program
from emphatic.engine.fused.llvm import Function, I64, Vector
from emphatic.engine.fused.lowering import Lowering, RULES, STRUCTURE
from emphatic.engine.fused.schedule import emit, Node, order_nodes, Recorder, STATE
from emphatic.engine.fused.values import evaluate, FusionError, IndexedArray, Lane, Machine, Uniform
from emphatic.engine.measures import MEASURES
from emphatic.engine.stream import Stream

from ... import transcriptions as plain
from ...strategies import build, SEEDS

LANES = 64
PRECISIONS = [np.float32, np.float64]


def whole(x: Any, kind: Any = jnp.int32) -> Any:
    """Lanes as whole numbers between -40 and 40, or between 0 and 40."""
    scaled = jnp.clip(10.0 * x, -40.0, 40.0)
    return (jnp.abs(scaled) if kind == jnp.uint32 else scaled).astype(kind)


def real(n: Any, like: Any) -> Any:
    return n.astype(like.dtype)


# Functions of one lane: x and y are vectors of 3 numbers, z is a (2, 3) matrix.
CASES = {
    "exp": lambda x, y, z: jnp.exp(x) - jnp.exp(3.0 * y),
    "logistic": lambda x, y, z: lax.logistic(2.0 * x),
    "floor": lambda x, y, z: jnp.floor(10.0 * x),
    "stop_gradient": lambda x, y, z: lax.stop_gradient(x) + y,
    "add": lambda x, y, z: x + y,
    "sub": lambda x, y, z: x - y,
    "mul": lambda x, y, z: x * y,
    "div": lambda x, y, z: x / y,
    "neg": lambda x, y, z: -x,
    "abs": lambda x, y, z: jnp.abs(x),
    "sqrt": lambda x, y, z: jnp.sqrt(jnp.abs(x)),
    "square": lambda x, y, z: jnp.square(x),
    "max": lambda x, y, z: jnp.maximum(x, y),
    "min": lambda x, y, z: jnp.minimum(x, y),
    "integer_pow": lambda x, y, z: x**5 - y**-3 + x**0,
    "fused product sums": lambda x, y, z: x * y + x - (x - y * y) * (x * x - y),
    "derivative": lambda x, y, z: jax.grad(lambda u: jnp.sum(u * jnp.sqrt(1.0 + u * u) * y))(x),
    "comparisons": lambda x, y, z: (
        real((x < y) | (x <= 0.0) & (y > x), x) + real(~(x >= y) ^ (x == x), x) + real(x != y, x)
    ),
    "select": lambda x, y, z: jnp.where(x > y, x, 2.0 * y),
    "select by one": lambda x, y, z: lax.select(x[0] > 0.0, x, y),
    "truth": lambda x, y, z: real(whole(x).astype(bool) == x.astype(bool), x),
    "whole numbers": lambda x, y, z: real(
        jnp.maximum(whole(x), 3) * whole(y) - jnp.abs(-whole(x)) + jnp.minimum(whole(y), 0), x
    ),
    "whole division": lambda x, y, z: real(lax.div(whole(x), jnp.int32(7)), x),
    "words": lambda x, y, z: real(
        ((whole(x, jnp.uint32) << 3) | (whole(y, jnp.uint32) >> 1)) ^ jnp.uint32(5), x
    ),
    "bits": lambda x, y, z: real((whole(x, jnp.uint32) & ~whole(y, jnp.uint32)) & 0xFFFF, x),
    "order of words": lambda x, y, z: real(whole(x, jnp.uint32) - 5 > whole(y, jnp.uint32), x),
    "conversions": lambda x, y, z: (
        real(whole(x).astype(jnp.int16).astype(jnp.int32), x)
        + real(whole(x).astype(jnp.uint32) >> 28, x)
        + real((x > y).astype(jnp.int32), x)
    ),
    "dot": lambda x, y, z: x @ y,
    "matrix times vector": lambda x, y, z: z @ x,
    "matrix times matrix": lambda x, y, z: z @ z.T,
    "batched product": lambda x, y, z: jnp.einsum("ij,kj,j->ik", z, z, x),
    "product of batches": lambda x, y, z: lax.dot_general(
        z, jnp.stack([x, y]), (((1,), (1,)), ((0,), (0,)))
    ),
    "outer": lambda x, y, z: jnp.outer(x, y),
    "sums": lambda x, y, z: jnp.sum(z, axis=0) + jnp.sum(z) + jnp.mean(x),
    "extremes": lambda x, y, z: jnp.max(z, axis=1) - jnp.min(z),
    "broadcast": lambda x, y, z: z * x[None, :] + jnp.broadcast_to(y[0], (2, 3)),
    "reshape": lambda x, y, z: z.reshape(3, 2) @ z.reshape(2, 3)[:, :2],
    "transpose": lambda x, y, z: jnp.transpose(z) + x[:, None],
    "squeeze": lambda x, y, z: lax.squeeze(z[:1], (0,)) + lax.expand_dims(x, (0,))[0],
    "reversal": lambda x, y, z: lax.rev(z, (0, 1)),
    "slices": lambda x, y, z: z[1, ::2] + x[1:] - lax.slice(y, (0,), (3,), (2,)),
    "concatenation": lambda x, y, z: jnp.concatenate([x, y, jnp.zeros(1, x.dtype)]),
    "stack": lambda x, y, z: jnp.stack([x, y, x * y], axis=1),
    "copy": lambda x, y, z: jnp.array(x, copy=True),
    "calls": lambda x, y, z: jax.jit(lambda u: jax.nn.relu(u) * y)(x),
    "checkpoint": lambda x, y, z: jax.checkpoint(lambda u: jnp.square(u) * y)(x),
    "constants": lambda x, y, z: x + np.array([1.0, -2.5, 1e-3], x.dtype) * y,
    "infinity": lambda x, y, z: jnp.where(x > 0.0, jnp.inf, -jnp.inf) * jnp.abs(y),
    "nothing": lambda x, y, z: x + x[:0] @ y[:0] + jnp.sum(z[:, :0]),
    "sums of nothing": lambda x, y, z: x + jnp.sum(jnp.sum(z[:0], axis=1)),
    "several": lambda x, y, z: (x - y, x @ y),
}
ELEMENTWISE = ["add", "sub", "mul", "div", "neg", "abs", "max", "min", "select", "comparisons"]


def drawn(dtype: Any, seed: int = 0) -> list[np.ndarray]:
    """Random x, y and z with lanes last."""
    rng = np.random.default_rng(seed)
    shapes = (3, LANES), (3, LANES), (2, 3, LANES)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


@cache
def problem_and_target():
    """Five states, three actions, a discount that varies, a target that is not the behaviour."""
    return build((5, 3, 5, 4), 7, varying=True)


def traced(function: Any, arrays: list[np.ndarray]) -> Any:
    with jax.enable_x64(arrays[0].dtype == np.float64):
        shapes = [jax.ShapeDtypeStruct(each.shape[:-1], each.dtype) for each in arrays]
        return jax.make_jaxpr(function)(*shapes)


def of_jax(function: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    with jax.enable_x64(arrays[0].dtype == np.float64):
        found = jax.jit(jax.vmap(function, in_axes=-1, out_axes=-1))(*arrays)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(found)]


@cache
def expected_of(name: str, dtype: Any) -> list[np.ndarray]:
    return of_jax(CASES[name], drawn(dtype))


def entries(raws: list[Any], shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of lane values."""
    out = np.empty(shape, object)
    for index, raw in enumerate(raws):
        out.flat[index] = Lane(raw, np.dtype(dtype))
    return out


def in_vectors(function: Any, arrays: list[np.ndarray], width: int = 8) -> list[np.ndarray]:
    """A function of one lane, as LLVM computes it on vectors of lanes."""
    dtype, closed = arrays[0].dtype, traced(function, arrays)
    source = np.concatenate([each.reshape(-1, LANES) for each in arrays])
    shapes = [var.aval.shape for var in closed.jaxpr.outvars]
    sink = np.empty((sum(int(np.prod(shape)) for shape in shapes), LANES), dtype)
    f = Function("lowered", ["groups", "source", "sink", "fixed"])
    b, machine = f.builder, Vector(f.builder, dtype, width)
    machine.rows["fixed"] = f.pointer("fixed")
    lowering = Lowering(machine, dtype)

    def group(number: Any, _: Any) -> list[Any]:
        rows = (b.add(b.mul(number, I64(width)), I64(LANES * n)) for n in itertools.count())
        raws = [machine.read(f.pointer("source"), next(rows)) for _ in source]
        ends = np.cumsum([0, *(each[..., 0].size for each in arrays)])
        given = [
            entries(raws[first:last], each.shape[:-1], dtype)
            for each, (first, last) in zip(arrays, itertools.pairwise(ends), strict=True)
        ]
        found = lowering.run(closed.jaxpr, closed.consts, given)
        rows = (b.add(b.mul(number, I64(width)), I64(LANES * n)) for n in itertools.count())
        for lane in itertools.chain.from_iterable(lowering.to_lanes(out).flat for out in found):
            assert lane.dtype == dtype
            machine.write(lane.raw, f.pointer("sink"), next(rows), dtype)
        return []

    f.loop(f.arguments["groups"], [], group)
    with jax.enable_x64(dtype == np.float64):
        slots = [
            np.ravel(evaluate([node], {})[0])[n] for node, n in lowering.slots.get("fixed", [])
        ]
    fixed = np.array(slots, dtype)
    cpu.compile_function(f)(LANES // width, *(each.ctypes.data for each in (source, sink, fixed)))
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    parts = zip(shapes, itertools.pairwise(ends), strict=True)
    return [sink[first:last].reshape(*shape, LANES) for shape, (first, last) in parts]


# Vectors of LLVM


def whole_limits(x: Any) -> Any:
    """Conversions of any number, quotients over 0 and -1, and shifts by any number of bits."""
    wholes = [jnp.int8, jnp.uint8, jnp.int16, jnp.int32, jnp.uint32]
    converted = jnp.stack([real(x.astype(kind), x) for kind in wholes])
    n = x.astype(jnp.int32)
    zero, small = n - n, jnp.maximum(jnp.minimum(n, 40), -40)
    least = zero + jnp.int32(-(2**31))
    quotients = [lax.div(n, zero), lax.div(least, jnp.maximum(small, -1)), lax.div(n, least)]
    shifts = [lax.shift_left(zero + 5, small), lax.shift_right_logical(least, small)]
    return jnp.concatenate([converted, real(jnp.stack([*quotients, *shifts]), x)])


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_what_machines_leave_open_is_what_jax_computes(dtype):
    """A CPU and a GPU differ in it."""
    values = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 33.0, 127.9, -128.9, 255.9, 256.0, 300.0, -300.0]
    values += [*(s * 2.0**n for n in (31, 32, 40) for s in (1, -1)), np.inf, -np.inf, np.nan, 1e30]
    x = np.resize(np.array(values, dtype), (1, LANES))
    (found,), (expected,) = in_vectors(whole_limits, [x]), of_jax(whole_limits, [x])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_lanes_compute_what_jax_computes(name, dtype):
    found = in_vectors(CASES[name], drawn(dtype))
    for one, other in zip(found, expected_of(name, dtype), strict=True):
        np.testing.assert_allclose(one, other, rtol=30 * np.finfo(dtype).eps, atol=1e-6)
        scale = np.abs(other[np.isfinite(other)]).max(initial=1.0)
        np.testing.assert_allclose(one / scale, other / scale, atol=30 * np.finfo(dtype).eps)


def test_every_rule_is_among_the_cases():
    """Indexed loads are those of the stream, whose tests cover them."""
    arrays, names = drawn(np.float64), set()

    def walk(jaxpr):
        for eqn in jaxpr.eqns:
            names.add(eqn.primitive.name)
            inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
            if inner is not None:
                walk(getattr(inner, "jaxpr", inner))

    for function in CASES.values():
        walk(traced(function, arrays).jaxpr)
    assert {*RULES, *STRUCTURE} - names <= {"dynamic_slice", "expand_dims"}


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_zeros_infinities_and_nan_are_those_of_jax(name, dtype):
    special = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 1e30]
    pairs = np.array(list(itertools.product(special, special)), dtype).T
    arrays = [np.stack([row] * 3) for row in pairs] + [drawn(dtype)[2]]
    found, expected = in_vectors(CASES[name], arrays), of_jax(CASES[name], arrays)
    np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_the_width_of_a_vector_changes_no_bit(dtype):
    def everything(x, y, z):
        for _ in range(3):
            x, y = y * (z[0] @ x) - x / (1.0 + y * y), jnp.maximum(x, z[1] * jnp.sqrt(y * y))
        return jnp.where(x > y, x @ y, x**3)

    arrays = drawn(dtype)
    expected = in_vectors(everything, arrays, width=1)[0]
    assert np.isfinite(expected).all()
    for width in (2, 4, 8, 16, 32, 64):
        np.testing.assert_array_equal(in_vectors(everything, arrays, width)[0], expected)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_adding_a_product_is_one_rounding(dtype):
    r"""$(1 + \epsilon)(1 - \epsilon) - 1 = -\epsilon^2$, which two roundings would lose."""
    tiny = np.finfo(dtype).eps
    x, y = np.full((2, 3, LANES), 1.0, dtype)
    arrays = [x + tiny, y - tiny, drawn(dtype)[2]]
    one = np.dtype(dtype).type(1.0)
    for function, expected in [
        (lambda x, y, z: x * y - one, -(tiny**2)),
        (lambda x, y, z: one - x * y, tiny**2),
        (lambda x, y, z: -one + x * y, -(tiny**2)),
        (lambda x, y, z: (x * y) * one - one, 0.0),
    ]:
        assert (in_vectors(function, arrays)[0] == expected).all()


@pytest.mark.parametrize(
    ("dtype", "low", "high", "tolerance"),
    [(np.float32, -87.0, 88.5, 2e-7), (np.float64, -708.0, 709.7, 5e-16)],
)
def test_exp_is_that_of_many_more_digits(dtype, low, high, tolerance):
    """To the last digit over its whole range; beyond it 0 and infinity, and NaN stays NaN."""
    x = np.linspace(low, high, 32 * LANES).astype(dtype).reshape(32, LANES)
    (found,) = in_vectors(jnp.exp, [x])
    exact = np.exp(x.astype(np.longdouble))
    assert (np.abs(found - exact) <= tolerance * exact).all()
    special = np.resize(np.array([np.nan, np.inf, -np.inf, 0.0, 1e5, -1e5], dtype), (1, LANES))
    (found,) = in_vectors(jnp.exp, [special])
    np.testing.assert_array_equal(found[0, :6], [np.nan, np.inf, 0.0, 1.0, np.inf, 0.0])
    tiny = np.full((1, LANES), low - 3.0, dtype)  # gradual underflow
    assert (in_vectors(jnp.exp, [tiny])[0] > 0).all()


# A machine that writes formulas


class Formulas:
    """A machine whose values are what they are computed by."""

    def constant(self, value, dtype):
        return f"{value:g}"

    def uniform(self, table, column):
        return f"u{column}"

    def load(self, array, index, dtype):
        return f"table{array}[{index}]"

    def apply(self, name, dtype, *operands):
        return f"{name}({', '.join(operands)})"

    def convert(self, value, source, dtype):
        return f"{dtype}({value})"

    def reinterpret(self, value, dtype):
        return f"bits({value})"


def formula(function: Any, **dtypes: Any) -> list[str]:
    """The formulas of a function of vectors of three numbers."""
    with jax.enable_x64(True):
        shapes = [jax.ShapeDtypeStruct((3,), dtype) for dtype in dtypes.values()]
        closed = jax.make_jaxpr(function)(*shapes)
    given = [
        entries([f"{name}{n}" for n in range(3)], (3,), dtype) for name, dtype in dtypes.items()
    ]
    lowering = Lowering(Formulas(), np.dtype(np.float64))
    found = lowering.run(closed.jaxpr, closed.consts, given)
    return [lane.raw for lane in lowering.to_lanes(found[0]).flat]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, y: x * y + x, "fma(x0, y0, x0)"),
        (lambda x, y: x + x * y, "fma(x0, y0, x0)"),
        (lambda x, y: x * y - y, "fma(x0, y0, neg(y0))"),
        (lambda x, y: y - x * y, "fma(neg(x0), y0, y0)"),
        (lambda x, y: x * x + y * y, "fma(y0, y0, mul(x0, x0))"),
        (lambda x, y: x * x - y * y, "fma(neg(y0), y0, mul(x0, x0))"),
        (lambda x, y: jnp.square(x) + y, "fma(x0, x0, y0)"),
        (lambda x, y: (x + y) - y, "sub(add(y0, x0), y0)"),
        (lambda x, y: -(x * y) + y, "add(y0, neg(mul(x0, y0)))"),
        (lambda x, y: x @ y, "fma(x2, y2, fma(x1, y1, mul(x0, y0)))"),
        (lambda x, y: jnp.sum(x), "add(x2, add(x1, x0))"),
        (lambda x, y: jnp.max(x), "max(max(x0, x1), x2)"),
    ],
)
def test_sums_of_products_are_fused_and_reductions_are_trees(function, expected):
    assert formula(function, x=np.float64, y=np.float64)[0] == expected


def test_reductions_of_many_are_balanced():
    """Eight numbers in three levels, not seven."""

    def depth(text):
        level = np.cumsum([{"(": 1, ")": -1}.get(letter, 0) for letter in text])
        return int(level.max())

    lowering = Lowering(Formulas(), np.dtype(np.float64))
    for count, levels in ((1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4)):
        lanes = [Lane(f"x{n}", np.dtype(np.float64)) for n in range(count)]
        assert depth(lowering.reduce(lowering.add, lanes).raw) == levels


def test_whole_numbers_are_never_fused():
    assert formula(lambda n, k: n * k + k, n=np.int64, k=np.int64)[0] == "add(mul(n0, k0), k0)"


# A machine of NumPy arrays: the interpreter knows no LLVM


class Arrays:
    """A machine whose values are NumPy arrays of lanes."""

    OPERATIONS: ClassVar = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": lambda a, b: (a / b).astype(np.result_type(a, b)),
        "fma": lambda a, b, c: a * b + c,
        "neg": np.negative,
        "abs": np.abs,
        "sqrt": np.sqrt,
        "floor": np.floor,
        "max": np.maximum,
        "min": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "not": np.invert,
        "shift_left": np.left_shift,
        "shift_right_logical": np.right_shift,
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "select": np.where,
    }

    def __init__(self, known: Any = None, tables: Any = ()):
        self.known, self.tables = known or {}, tables
        self.lowering: Any = None

    def constant(self, value, dtype):
        return np.asarray(value, dtype)

    def uniform(self, table, column):
        node, index = self.lowering.slots[table][column]
        assert table == ("row" if node.varies else "fixed")
        return np.ravel(evaluate([node], self.known)[0])[index]

    def load(self, array, index, dtype):
        return self.tables[array][index]

    def apply(self, name, dtype, *operands):
        return self.OPERATIONS[name](*operands)

    def convert(self, value, source, dtype):
        return np.asarray(value).astype(dtype)

    def reinterpret(self, value, dtype):
        return value.view(dtype)


def interpreted(closed: Any, machine: Arrays, arguments: list[Any], dtype: Any) -> list[Any]:
    """The outputs of a jaxpr on arrays of lanes."""
    machine.lowering = Lowering(machine, np.dtype(dtype))
    found = machine.lowering.run(closed.jaxpr, closed.consts, arguments)
    return [
        np.array(
            [np.broadcast_to(lane.raw, (LANES,)) for lane in machine.lowering.to_lanes(out).flat]
        )
        for out in found
    ]


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_runs_on_numpy_arrays(name):
    arrays = drawn(np.float64)
    closed = traced(CASES[name], arrays)
    given = [entries(list(a.reshape(-1, LANES)), a.shape[:-1], a.dtype) for a in arrays]
    assert isinstance(Arrays(), Machine)
    found = interpreted(closed, Arrays(), given, np.float64)
    for one, other in zip(found, expected_of(name, np.float64), strict=True):
        np.testing.assert_allclose(one, other.reshape(-1, LANES), rtol=1e-12, atol=1e-13)


def test_a_whole_step_runs_on_numpy_arrays():
    """GEM and its error: state and step sizes in lanes, the transition uniform."""
    problem, target = problem_and_target()
    lanes = {"step_size": np.geomspace(0.01, 0.5, LANES), "ridge": np.linspace(0.0, 1.0, LANES)}
    batch = Batch(
        learners.gem,
        lanes,
        problem,
        target,
        transition_view(problem, target, np.float64),
        {"emphasis_error": MEASURES["emphasis_error"]},
        np.dtype(np.float64),
    )
    closed = jax.make_jaxpr(batch.step)(batch.lane, batch.state, batch.shared, batch.example)
    stream = Stream(problem)
    y = jax.tree.map(lambda leaf: leaf[20], batch.observe(stream.sample(np.arange(40), 0)))
    state = batch.initial(9)
    known = {
        Uniform(np.shape(leaf), leaf.dtype, varies, False): leaf
        for varies, tree in ((False, batch.shared), (True, y))
        for leaf in jax.tree.leaves(tree)
    }
    moving = [
        entries(list(np.asarray(leaf).reshape(LANES, -1).T), leaf.shape[1:], np.float64)
        for leaf in jax.tree.leaves((batch.lanes, state))
    ]
    found = interpreted(closed, Arrays(known), [*moving, *known], np.float64)
    over_lanes = jax.vmap(batch.step, in_axes=(0, 0, None, None))
    expected = jax.tree.leaves(over_lanes(batch.lanes, state, batch.shared, y))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, np.asarray(other).reshape(LANES, -1).T, rtol=1e-12)


def test_the_stream_runs_on_numpy_arrays():
    """One step of 64 seeds at once: its draws are loads by index."""
    problem, _ = problem_and_target()
    stream = Stream(problem)
    word = jax.ShapeDtypeStruct((), np.uint32)
    tables = jax.tree.leaves(stream.tables)
    shapes = jax.tree.map(lambda t: jax.ShapeDtypeStruct(t.shape, t.dtype), stream.tables)
    closed = jax.make_jaxpr(stream.advance)(shapes, (word, word), word, word)
    pairs = cpu.Experience(stream).begin(range(LANES)).ravel()
    numbers = [np.arange(LANES), np.zeros(LANES), pairs, np.full(LANES, 0)]
    given = [IndexedArray(n, table.shape, np.dtype(np.uint32)) for n, table in enumerate(tables)]
    moving = [entries([each.astype(np.uint32)], (), np.uint32) for each in numbers]
    _, rows = interpreted(closed, Arrays(tables=tables), [*given, *moving], np.uint32)
    expected = [plain.experience(problem, seed, 1)[0].row for seed in range(LANES)]
    np.testing.assert_array_equal(rows[0], expected)


# The order of instructions


def noted(name: str) -> tuple[list[list[Node]], list[Node], Lowering]:
    """A case with x and z as the state and y as lanes: its inputs, and the outputs."""
    arrays, recorder = drawn(np.float64), Recorder()
    closed = traced(CASES[name], arrays)
    names = f"{STATE}0", "lane0", f"{STATE}1"
    inputs = [recorder.inputs(n, a[..., 0].size) for n, a in zip(names, arrays, strict=True)]
    given = [entries(o, a.shape[:-1], a.dtype) for o, a in zip(inputs, arrays, strict=True)]
    lowering = Lowering(recorder, np.dtype(np.float64))
    found = lowering.run(closed.jaxpr, closed.consts, given)
    outputs = [lane.raw for out in found for lane in lowering.to_lanes(out).flat]
    return inputs, outputs, lowering


@pytest.mark.parametrize("name", CASES)
def test_instructions_in_another_order_give_the_same_bits(name):
    """Each after what it needs and once, also on a machine that knows nothing of orders."""
    arrays = drawn(np.float64)
    machine = Arrays()
    inputs, outputs, machine.lowering = noted(name)
    order = order_nodes(outputs)
    place = {node: number for number, node in enumerate(order)}
    assert len(place) == len(order)
    for node in order:
        assert all(place[operand] < place[node] for operand in node.operands)
    given = [entries(list(a.reshape(-1, LANES)), a.shape[:-1], a.dtype) for a in arrays]
    expected = interpreted(traced(CASES[name], arrays), Arrays(), given, np.float64)
    known = {
        node: value
        for nodes, a in zip(inputs, arrays, strict=True)
        for node, value in zip(nodes, a.reshape(-1, LANES), strict=True)
    }
    found = [np.broadcast_to(each, (LANES,)) for each in emit(order, outputs, machine, known)]
    np.testing.assert_array_equal(found, np.concatenate(expected))


def test_sums_over_the_same_numbers_advance_side_by_side():
    """Of x @ x and sum(3x), all that needs the first number comes before the last number's."""
    recorder = Recorder()
    x = entries(recorder.inputs(f"{STATE}0", 8), (8,), np.float64)
    closed = jax.make_jaxpr(lambda x: (x @ x, jnp.sum(3.0 * x)))(np.ones(8))
    lowering = Lowering(recorder, np.dtype(np.float64))
    found = lowering.run(closed.jaxpr, closed.consts, [x])
    outputs = [lowering.to_lanes(out).item().raw for out in found]
    order = order_nodes(outputs)
    uses = {node: [n for n, each in enumerate(order) if node in each.operands] for node in order}
    states = [node for node in order if node.method.startswith(STATE)]
    assert len(states) == 8
    first, later = (uses[states[n]] for n in (0, 7))
    assert max(first) < min(later)


def test_what_is_asked_twice_is_noted_once_and_what_differs_is_not():
    recorder, double = Recorder(), np.dtype(np.float64)
    assert isinstance(recorder, Machine)
    a, b = recorder.inputs(STATE, 2)
    assert recorder.apply("add", double, a, b) is recorder.apply("add", double, a, b)
    assert recorder.apply("add", double, a, b) is not recorder.apply("add", double, b, a)
    assert recorder.constant(np.nan, double) is recorder.constant(np.nan, double)
    different = [
        recorder.constant(0.0, double),
        recorder.constant(-0.0, double),
        recorder.constant(0.0, np.dtype(np.float32)),
        recorder.constant(False, np.dtype(bool)),
        recorder.constant(0, np.dtype(np.int32)),
    ]
    assert len({id(node) for node in different}) == 5


# What is uniform


UNIFORM = {
    "powers": lambda x, t, v: x * (t + 1.0) ** -0.7,
    "cosine": lambda x, t, v: x + jnp.cos(0.1 * t) * v,
    "exponential": lambda x, t, v: x * jnp.exp(-v) + jnp.log1p(jnp.abs(v)),
    "condition": lambda x, t, v: x * lax.cond(t > 3, jnp.sin, jnp.cos, v),
    "loop": lambda x, t, v: x + lax.fori_loop(0, t, lambda n, s: 0.5 * s + v, v),
    "while": lambda x, t, v: x + lax.while_loop(lambda s: s.sum() < 9.0, lambda s: s + 1.0, v * v),
    "one-hot": lambda x, t, v: x * jax.nn.one_hot(t % 3, 3) + jax.nn.one_hot(t % 5, 5)[1:4],
    "two ranges": lambda x, t, v: x + jnp.arange(3.0) * jnp.arange(5.0)[1:4],
    "several results": lambda x, t, v: x * lax.top_k(v, 3)[0] + lax.top_k(v, 2)[1][1] * 0.5,
    "noise": lambda x, t, v: x + jax.random.normal(jax.random.fold_in(jax.random.key(3), t), (3,)),
    "truth in lanes": lambda x, t, v: jnp.where((v > 0.0) & (x > 0.0), x, v),
    "choice": lambda x, t, v: jnp.where(t > 3, x, 2.0 * x),
    "entry": lambda x, t, v: x[t % 3] * jnp.stack([x, 2.0 * x])[t % 2, (t + 1) % 3] * v,
    "moved": lambda x, t, v: x + v[::-1] + jnp.concatenate([v[1:], v[:1]]) + v.reshape(3, 1)[:, 0],
    "fixed": lambda x, t, v: x * np.linspace(0.0, 1.0, 3) + jnp.sin(jnp.arange(3.0)),
    "passed on": lambda x, t, v: v * v,
    "called twice": lambda x, t, v: (
        jax.jit(jnp.sin)(v) * x + jax.jit(jnp.sin)(2.0 * v) + jax.nn.softplus(v)
    ),
}

TIMED = {"powers", "cosine", "condition", "loop", "one-hot", "noise", "choice", "entry"}


@pytest.mark.parametrize("name", UNIFORM)
def test_what_all_lanes_share_is_evaluated_once_by_jax(name):
    """Any primitive is allowed there: it never becomes an instruction on lanes."""
    function = UNIFORM[name]
    x, t, v = drawn(np.float64)[0], np.int32(7), np.array([0.3, -1.2, 2.0])
    closed = jax.make_jaxpr(function)(x[:, 0], t, v)
    known = {Uniform((), t.dtype, True, True): t, Uniform((3,), v.dtype, True, False): v}
    machine = Arrays(known)
    (found,) = interpreted(closed, machine, [entries(list(x), (3,), x.dtype), *known], np.float64)
    expected = jax.vmap(function, in_axes=(-1, None, None), out_axes=-1, axis_size=LANES)(x, t, v)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    timed = any(node.timed for node, _ in machine.lowering.slots.get("row", []))
    assert timed == (name in TIMED)
    assert bool(machine.lowering.slots.get("fixed")) == (name in ("two ranges", "fixed"))


def test_one_function_of_two_values_has_two_results_also_if_both_are_evaluated_at_once():
    sine = jax.jit(jnp.sin)
    v, known = np.array([0.3, -1.2, 2.0]), Uniform((3,), np.dtype(np.float64), True, False)
    closed = jax.make_jaxpr(lambda v: (sine(v), sine(2.0 * v)))(v)
    results = Lowering(Recorder(), v.dtype).run(closed.jaxpr, closed.consts, [known])
    nodes = [node for node in results if isinstance(node, Uniform)]
    np.testing.assert_allclose(evaluate(nodes, {known: v}), np.sin([v, 2.0 * v]), rtol=1e-15)


def toy(step: Any, init: Any = None) -> Learner:
    """A learner of three numbers that predicts nothing of interest."""
    return Learner(
        init=init or (lambda key, y: jnp.linspace(-1.0, 1.0, 3, dtype=y.x.dtype)),
        step=step,
        predict=lambda state, y: jnp.sum(y.x),
    )


def test_uniform_values_reach_the_lanes_of_both_engines():
    """Time, noise, conditions and look-ups in one step, on vectors and by scan."""

    def step(state, y):
        noise = jax.random.normal(jax.random.fold_in(jax.random.key(3), y.time), (3,), y.x.dtype)
        table = jnp.asarray([0.1, 0.5, 0.2, 0.9, 0.4], y.x.dtype)
        slowed = jnp.cos(0.01 * y.time.astype(y.x.dtype)) * noise + table[y.state]
        kept = jnp.where((y.reward > 0.0) & (state > 0.0), state, -0.5 * state)
        return 0.9 * kept + 0.1 * (slowed + jnp.arange(3, dtype=y.x.dtype)) * y.x[:3]

    problem, target = problem_and_target()
    found = [
        run(
            problem,
            {"toy": toy(step)},
            num_steps=300,
            record_every=60,
            target=target,
            measures=["weights"],
            engine=engine,
            dtype="float64",
        ).toy_weights
        for engine in ("fused", "scan")
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-13, atol=1e-13)


# What does not lower


IMPOSSIBLE = {
    "'tanh'": lambda x, t, v: jnp.tanh(x),
    "'sin'": lambda x, t, v: v * jnp.sin(x),
    "'sort'": lambda x, t, v: jnp.sort(x),
    "'argmax'": lambda x, t, v: jnp.argmax(x) + v,
    "'cumsum'": lambda x, t, v: jnp.cumsum(x),
    "'scatter-add'": lambda x, t, v: x.at[t].add(1.0),
    "'cond'": lambda x, t, v: lax.cond(t > 3, jnp.negative, jnp.abs, x),
    "'scan'": lambda x, t, v: lax.fori_loop(0, 3, lambda n, s: 0.5 * s, x),
    "'while'": lambda x, t, v: lax.while_loop(lambda s: s[0] < 9.0, lambda s: s + 1.0, x),
    "an index that differs between lanes": lambda x, t, v: lax.dynamic_slice(
        x, (x[0].astype(jnp.int32),), (1,)
    ),
    "a whole number that changes": lambda x, t, v: x + jnp.where(x > 0.0, t, 0),
    "a reduction of nothing": lambda x, t, v: lax.reduce_max(x[:0], (0,)) + x,
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_has_no_form_in_lanes_is_named(name):
    x, t, v = drawn(np.float64)[0], np.int32(7), np.array([0.3, -1.2, 2.0])
    closed = jax.make_jaxpr(IMPOSSIBLE[name])(x[:, 0], t, v)
    known = {Uniform((), t.dtype, True, True): t, Uniform((3,), v.dtype, True, False): v}
    with pytest.raises(FusionError, match=name):
        interpreted(closed, Arrays(known), [entries(list(x), (3,), x.dtype), *known], np.float64)


def counting(kind: Any) -> Learner:
    """A learner that also keeps a number of another type."""
    return toy(
        lambda state, y: (
            (~state[0] if kind is bool else state[0] + 1).astype(kind),
            0.5 * state[1],
        ),
        lambda key, y: (jnp.zeros((), kind), jnp.ones(2, y.x.dtype)),
    )


@pytest.mark.parametrize(
    ("learner", "reason"),
    [
        (toy(lambda state, y: jnp.tanh(state)), "the primitive 'tanh' has no form in lanes"),
        (counting(jnp.int32), "a state has numbers of type int32, not float64"),
        (counting(jnp.float32), "a state has numbers of type float32, not float64"),
        (counting(bool), "a state has numbers of type bool, not float64"),
        (toy(lambda s, y: 0.5 * s, lambda key, y: jnp.ones(161)), "has 161 numbers, more than 160"),
    ],
)
def test_what_does_not_lower_runs_by_scan_and_says_why(learner, reason):
    problem = problems.two_state()
    arguments: Any = {
        "num_steps": 5,
        "record_every": 5,
        "measures": ["weights"],
        "dtype": "float64",
    }
    found = run(problem, {"it": learner}, **arguments)
    assert found.engine.item() == "scan"
    assert reason in found.reason.item()
    with pytest.raises(ValueError, match=f"engine: 'it' cannot be fused: .*{reason}; scan would"):
        run(problem, {"it": learner}, engine="fused", **arguments)


def test_a_step_of_too_many_instructions_is_not_compiled(monkeypatch):
    monkeypatch.setattr(program, "MAX_INSTRUCTIONS", 50)
    problem, target = problem_and_target()
    found = run(problem, {"gem": learners.gem(0.1)}, num_steps=5, target=target)
    assert found.reason.item() == "a step has more than 50 instructions"


# Whole programs


@pytest.fixture(scope="module")
def sweeps():
    """A stream, its rows, and sweeps of 61 lanes: GEM, ETD, and GEM with a schedule."""
    problem, target = problem_and_target()
    stream = Stream(problem)
    experience = cpu.Experience(stream)
    _, rows = experience.advance([5], 0, experience.begin([5]), 500)
    makes = {
        "gem": learners.gem,
        "etd": lambda step_size: learners.etd(learners.followon(), step_size),
        "scheduled": lambda step_size: learners.gem(
            lambda t: step_size * schedules.polynomial(1.0, 0.3)(t)
        ),
    }
    lanes = {"step_size": np.geomspace(1e-4, 2.0, 61)}
    error = {"emphasis_error": MEASURES["emphasis_error"]}
    views = {dtype: transition_view(problem, target, dtype) for dtype in ("float32", "float64")}
    found = {
        (name, dtype): Batch(make, lanes, problem, target, views[dtype], error, np.dtype(dtype))
        for name, make in makes.items()
        for dtype in ("float32", "float64")
    }
    return stream, rows, found


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("gem", "float32"), ("gem", "float64"), ("etd", "float32"), ("scheduled", "float64")],
)
def test_programs_of_every_width_agree_to_the_last_bit(sweeps, name, dtype):
    """61 lanes, so that every width but 1 leaves some places of a vector unused."""
    stream, rows, found = sweeps
    chunks = Chunks(np.array([100, 399, 1]), np.array([0, 0, 1]), keeps_states=True)
    before, results = np.full((2, 1, 1, 61), 0.5), []
    for width in (1, 4, 8, 16, 32, 64):
        compiled = cpu.Program(found[name, dtype], stream, width)
        learned = compiled.advance(rows, 0, chunks, compiled.begin([5]), before)
        last, sums, diverged, states = learned
        assert compiled.padded % width == 0
        np.testing.assert_array_equal(last[:, :61], states[-1][:, 0])
        np.testing.assert_array_equal(diverged, ~np.isfinite(states).all(axis=1))
        results.append((sums, states))
    for sums, states in results[1:]:
        np.testing.assert_array_equal(sums, results[0][0])
        np.testing.assert_array_equal(states, results[0][1])
    assert len(np.unique(results[0][1][-1, -1, 0])) > 30


@given(SEEDS)
def test_a_lane_does_not_feel_its_neighbours(seed):
    """NaN and infinity in one lane leave the others as they were."""
    x, y, z = drawn(np.float64, seed)
    function = CASES["fused product sums"]
    expected = in_vectors(function, [x, y, z])[0]
    spoiled = x.copy()
    spoiled[:, ::7], spoiled[:, 1::7] = np.nan, np.inf
    found = in_vectors(function, [spoiled, y, z])[0]
    rest = np.arange(LANES) % 7 > 1
    np.testing.assert_array_equal(found[:, rest], expected[:, rest])
