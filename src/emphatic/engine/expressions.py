"""Learners, agents and grids as a person writes them: a small language, read and never executed."""

import inspect
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from .. import _validation as checks, oracle, schedules
from .._files import checksum
from .._schema import show
from .._validation import unknown
from ..agents import Konda, linear, over_states, tabular, undamped
from ..agents.actor_critic import actor_critic
from ..agents.exact_critics import exact_action_values, exact_emphasis
from ..learners import LEARNERS
from ..mdp import Problem
from ..types import Learner, LearnerFactory, Number
from . import grammar
from .arguments import describe, evaluate_arguments, Function, shape, Sizes, Value
from .grammar import NUMBER, OWN, QUOTED
from .source import import_function, module_texts, Source

MAX_NUMBERS = 100_000  # in a list

OPERATORS: dict[str, Callable[[Value, Value], Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": operator.pow,
}

# Functions whose first argument is the problem, which is not written.
PROBLEM_FUNCTIONS: dict[str, Function] = {
    function.__name__: function
    for function in (actor_critic, exact_action_values, exact_emphasis, linear, tabular)
}
FUNCTIONS: dict[str, Function] = {
    "Konda": Konda,
    "over_states": over_states,
    "polynomial": schedules.polynomial,
}
# What a name stands for that is no axis of the grid.
QUANTITIES: dict[str, Callable[[Problem], Value]] = {
    "emphasis": oracle.emphasis,
    "gamma": lambda problem: problem.mdp.discount,
    "undamped": lambda problem: undamped,
    "values": oracle.values,
}


@dataclass(frozen=True)
class Scope:
    """What an expression may use: functions and names, and the sizes of arrays' axes."""

    functions: Mapping[str, Function] = field(default_factory=dict[str, Function])
    names: Mapping[str, Value] = field(default_factory=dict[str, Value])
    sizes: Sizes = field(default_factory=dict[str, int])


def _evaluate(node: grammar.Node | grammar.Span, scope: Scope) -> Value:
    """Evaluates an expression with the functions and names of a scope, and no others."""
    match node:
        case grammar.Constant(value):
            return value
        case grammar.Text(text):
            return schedules.parse(text)
        case grammar.Name(name):
            if name not in scope.names:
                raise unknown("name", name, scope.names)
            return scope.names[name]
        case grammar.Negative(of):
            return -_as_operand(_evaluate(of, scope))
        case grammar.Chain(first, rest):
            value = _evaluate(first, scope)
            for symbol, operand in rest:
                value = _calculate(symbol, value, _evaluate(operand, scope))
            return value
        case grammar.Span(ends):
            return _span(*(_as_number(_evaluate(end, scope)) for end in ends))
        case grammar.Listing(entries, is_tuple):
            values = _list_entries(entries, scope)
            return tuple(values) if is_tuple else values
        case grammar.Call():
            return _call(node, scope)


def _call(node: grammar.Call, scope: Scope) -> Value:
    """Calls a function; errors begin with its name, and with the argument if one is wrong."""
    name = node.function
    if name not in scope.functions:
        raise unknown("function", name, scope.functions)
    function = scope.functions[name]

    def evaluate(argument: str, node: grammar.Node) -> Value:
        if isinstance(node, grammar.Call):  # whose errors have a name
            return _evaluate(node, scope)
        try:
            return _evaluate(node, scope)
        except ValueError as error:
            raise ValueError(f"{name}: {argument}: {error}") from None

    given = [(argument.keyword, argument.value) for argument in node.arguments]
    bound = evaluate_arguments(name, function, given, evaluate, scope.sizes)
    try:
        return function(*bound.args, **bound.kwargs)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _calculate(symbol: str, a: Value, b: Value) -> Value:
    """Calculates with numbers and arrays of them; a `ValueError` unless the result is finite."""
    a, b = _as_operand(a), _as_operand(b)
    operate = OPERATORS[symbol]
    if checks.is_traced(a) or checks.is_traced(b):
        return operate(a, b)
    if np.ndim(a) and np.ndim(b) and np.shape(a) != np.shape(b):
        raise ValueError(f"{describe(a)} {symbol} {describe(b)}: equal shapes are required")
    try:
        with np.errstate(all="ignore"):
            if symbol == "^" and type(a) is type(b) is int:
                _ = float(a) ** float(b)  # an `OverflowError` before all digits are computed
            result = operate(a, b)
            if np.isfinite(np.asarray(result, float)).all():
                return result
    except (ArithmeticError, TypeError):  # division by 0, beyond 1e308, a complex number
        pass
    raise ValueError(f"{describe(a)} {symbol} {describe(b)} is no finite real number")


def _as_operand(value: Value) -> Value:
    """Returns a number or an array of numbers; a `ValueError` for anything else."""
    if shape(value) is None:
        raise ValueError(f"got {describe(value)} where a number is required")
    return np.asarray(value, float) if isinstance(value, list | tuple) else value


def _as_number(value: Value) -> float:
    if checks.is_traced(value) or shape(value) != ():
        raise ValueError(f"got {describe(value)} where a number is required")
    return float(value)


def _list_entries(entries: Collection[grammar.Node | grammar.Span], scope: Scope) -> list[Value]:
    """Returns the entries of a list, with those of its spans."""
    values: list[Value] = []
    num_numbers = 0
    for entry in entries:
        value = _evaluate(entry, scope)
        num_numbers += len(value) if isinstance(entry, grammar.Span) else _count(value)
        _require_short(num_numbers)
        values += value if isinstance(entry, grammar.Span) else [value]
    return values


def _count(value: Value) -> int:
    return sum(map(_count, value)) if isinstance(value, list | tuple) else np.size(value)


def _require_short(num_numbers: int | float) -> None:
    if num_numbers > MAX_NUMBERS:
        size = f"{num_numbers:,.0f}" if num_numbers < 1e15 else f"{num_numbers:.3g}"
        raise ValueError(f"a list has {size} numbers; at most {MAX_NUMBERS:,} are possible")


def _span(first: float, last: float, step: float = 1.0) -> list[float]:
    if not step:
        raise ValueError(f"[{first:g}:{last:g}:{step:g}] goes nowhere; a step is required")
    with np.errstate(over="ignore"):
        count = np.floor(np.float64(abs(last - first)) / abs(step) + 1e-9) + 1
    _require_short(count)
    return (first + np.sign(last - first or 1) * abs(step) * np.arange(int(count))).tolist()


def parse_numbers(text: str) -> list[float]:
    """Parses the values of a grid, such as `0.1 * 2^[1:-6]`, where both ends count.

    It has numbers, `+ - * / ^`, lists such as `[0, 1e-3]`, and spans `[first:last]` or
    `[first:last:step]`, which may be entries of a list: `[0, 2:8:2]`.
    """
    value = _evaluate(grammar.parse(text).node, Scope())
    if (size := shape(value)) is None or len(size) > 1:
        raise ValueError(f"{show(text)} is not a number or a list of numbers")
    return np.atleast_1d(np.asarray(value, float)).tolist()


def canonical(text: str) -> str:
    """Returns the one form of an expression, whatever its spaces and its numbers' digits."""
    grammar.parse(text)
    tokens: list[str] = re.findall(rf"{QUOTED}|[A-Za-z_]\w*|{NUMBER}|\S", text)
    plain = [repr(float(token)) if re.fullmatch(NUMBER, token) else token for token in tokens]
    return "".join(token.removesuffix(".0") + " " * (token == ",") for token in plain)


def depends_on_target(text: str) -> bool:
    """Whether an expression has exact quantities, which are those of a target policy."""
    return bool({"emphasis", "values"} & grammar.parse(text).names)


def trace_expression(text: str) -> Source:
    """Returns the one form of an expression, with the source of the functions that are not ours."""
    modules = {name.partition(":")[0] for name in grammar.parse(text).calls if ":" in name}
    texts = {name: module_texts(name) for name in sorted(modules)}
    digests = [f"{name} {checksum(text, {})[:16]}" for name, text in texts.items()]
    definition = " with ".join([canonical(text), *digests])
    return Source(definition, {name: t for some in texts.values() for name, t in some.items()})


def parse_learner(
    text: str,
    axes: Collection[str] = (),
    functions: Mapping[str, Function] | None = None,
    imports: Collection[str] | None = None,
) -> Callable[[Problem], LearnerFactory]:
    """Parses a learner or an agent, such as `gem` or `etd(gem(0.025, ridge), step_size)`.

    The name of a learner alone stands for its function in `emphatic.learners`. In an expression,
    functions are those of `emphatic.learners`, and for agents `actor_critic` with the policies
    `tabular()`, `linear()` and `over_states(...)`. Names are axes of the grid, `gamma`, `emphasis`
    and `values`; a text in quotes is a schedule, such as `"0.1/t^0.6"`. A learner of one's own is
    `module:function(...)`: the module is imported, from the current folder, too.

    **Arguments:**

    - `axes`: The names of the grid's axes.
    - `functions`: More functions by name, and others for some of the names above.
    - `imports`: The modules that may be imported; by default those that the text names.

    **Returns:**

    From a problem, a function that makes the learner from values of those axes that it names.
    """
    own = functions or {}
    if text in LEARNERS:
        return lambda problem: LEARNERS[text]
    if re.fullmatch(OWN, text):
        factory = _import(text, imports)
        return lambda problem: factory
    expression = grammar.parse(text)
    if not isinstance(expression.node, grammar.Call):
        raise ValueError(f"{show(text)} is not a call, such as gem(step_size)")
    calls, names = expression.calls, expression.names
    imported = {name: _import(name, imports) for name in sorted(calls) if ":" in name}
    functions = {**LEARNERS, **FUNCTIONS, **imported, **own}
    for valid, used, kind in (
        ((*functions, *PROBLEM_FUNCTIONS), calls, "function"),
        ((*axes, *QUANTITIES), names, "name"),
    ):
        for name in sorted(used):
            if name not in valid:
                raise unknown(kind, name, valid)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(axis, keyword) for axis in axes if axis in names]
    source = None if own else trace_expression(text)

    def bind(problem: Problem) -> LearnerFactory:
        problem_functions = {name: partial(f, problem) for name, f in PROBLEM_FUNCTIONS.items()}
        quantities = {name: value(problem) for name, value in QUANTITIES.items() if name in names}
        sizes = dict(zip("sa", problem.behavior.shape, strict=True))

        def make(**point: Number) -> Learner[Any, Any]:
            scope = Scope({**functions, **problem_functions}, {**quantities, **point}, sizes)
            learner = _evaluate(expression.node, scope)
            if not isinstance(learner, Learner):
                raise ValueError(f"{show(text)} is {describe(learner)}; a learner is required")
            return learner

        vars(make).update(__signature__=inspect.Signature(parameters), source=source)
        return make

    return bind


def separate_step_size(text: str) -> tuple[str, float | None]:
    """Separates a learner's own step size from it: `gem(0.025)` is `gem(step_size)` and 0.025.

    An expression that has no step size, or one that is not a number, is returned as it is.
    """
    node = grammar.parse(text).node
    if not isinstance(node, grammar.Call):
        return text, None
    name = node.function
    function = _import(name, None) if ":" in name else LEARNERS.get(name)
    names = list(inspect.signature(function).parameters) if function is not None else []
    positions = [*names, *[None] * len(node.arguments)]
    for argument, position in zip(node.arguments, positions, strict=False):
        value = text[argument.start : argument.end]
        if (argument.keyword or position) == "step_size" and (number := _number(value)) is not None:
            return f"{text[: argument.start]}step_size{text[argument.end :]}", number
    return text, None


def _number(text: str) -> float | None:
    """Returns the number that an expression without names is; None if it is none."""
    expression = grammar.parse(text)
    if expression.calls or expression.names:
        return None
    try:
        return _as_number(_evaluate(expression.node, Scope()))
    except ValueError:
        return None


def _import(reference: str, imports: Collection[str] | None) -> Function:
    """Imports a function, if its module is one of those that may be imported."""
    module = reference.partition(":")[0]
    if imports is not None and module not in imports:
        raise ValueError(
            f"{reference} is code, which a file does not import by itself; if you trust it, add "
            f"--import {module}"
        )
    return import_function(reference)
