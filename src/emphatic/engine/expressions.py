"""Learners, agents and grids as a person writes them: a small language, read and never executed."""

import ast
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from .. import oracle, schedules
from .._files import checksum
from .._validation import unknown
from ..agents import Konda, linear, over_states, tabular, undamped
from ..agents.actor_critic import actor_critic
from ..agents.exact_critics import exact_action_values, exact_emphasis
from ..learners import LEARNERS
from ..mdp import Problem
from ..types import Learner, LearnerFactory, Number
from .source import import_function, module_texts, Source

Value: TypeAlias = Any
"""What an expression stands for: a number, an array, a list, a schedule, a policy, a learner."""
Function: TypeAlias = Callable[..., Value]
"""A function that an expression may call."""

OPERATORS: dict[type, Callable[[Value, Value], Value]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
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


OWN = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
"""A function of a module, such as `mylearners:tdrc`."""
QUOTED = r"\"[^\"]*\"|'[^']*'"
TOKENS = rf"{QUOTED}|\^|(?P<own>{OWN})|\[(?P<spans>[^\[\]]*:[^\[\]]*)\]"
"""What `_parse` translates, and texts in quotes, which it leaves as they are."""


def _parse(text: str) -> ast.expr:
    """Parses Python's syntax, where `^` is a power, `[1:5]` a span and `module:name` a function."""
    own: dict[str, str] = {}

    def translate(match: re.Match[str]) -> str:
        if match["spans"]:
            spans = match["spans"].split(",")
            parts = [f"span({part.replace(':', ',')})" if ":" in part else part for part in spans]
            return f"joined({', '.join(parts)})"
        if match["own"]:
            placeholder = f"_own_{len(own)}"
            own[placeholder] = match["own"]
            return placeholder
        return "**" if match[0] == "^" else match[0]

    python = re.sub(TOKENS, translate, text)
    try:
        expression = ast.parse(python.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text!r} cannot be read: {error.msg}") from None
    for node in ast.walk(expression):
        if isinstance(node, ast.Name):
            node.id = own.get(node.id, node.id)
    return expression


def _evaluate(
    node: ast.expr, functions: Mapping[str, Function], names: Mapping[str, Value]
) -> Value:
    """Evaluates an expression with these functions and names, and no others."""

    def evaluate(node: ast.expr) -> Value:
        return _evaluate(node, functions, names)

    match node:
        case ast.Constant(value=bool() | None | int() | float() as value):
            return value
        case ast.Constant(value=str() as text):
            return schedules.parse(text)
        case ast.Name(id=name):
            if name not in names:
                raise unknown("name", name, names)
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](evaluate(left), evaluate(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -evaluate(operand)
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            return [evaluate(entry) for entry in entries]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords):
            if name not in functions:
                raise unknown("function", name, functions)
            positional = [evaluate(argument) for argument in arguments]
            keyword_arguments = {str(keyword.arg): evaluate(keyword.value) for keyword in keywords}
            try:
                inspect.signature(functions[name]).bind(*positional, **keyword_arguments)
            except TypeError as error:
                raise ValueError(f"{name}: {error}") from None
            return functions[name](*positional, **keyword_arguments)
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not a call, a name or a number")


def _span(first: float, last: float, step: float = 1.0) -> np.ndarray:
    if not step:
        raise ValueError(f"[{first:g}:{last:g}:{step:g}] goes nowhere; a step is required")
    count = int(np.floor(abs(last - first) / abs(step) + 1e-9)) + 1
    return first + np.sign(last - first or 1) * abs(step) * np.arange(count)


def parse_numbers(text: str) -> list[float]:
    """Parses the values of a grid, such as `0.1 * 2^[1:-6]`, where both ends count.

    It has numbers, `+ - * / ^`, lists such as `[0, 1e-3]`, and spans `[first:last]` or
    `[first:last:step]`, which may be entries of a list: `[0, 2:8:2]`.
    """
    node = _parse(text)
    functions: dict[str, Function] = {
        "span": lambda *ends: _span(*map(float, ends)),
        "joined": lambda *parts: np.hstack(parts),
    }
    try:
        values = np.asarray(_evaluate(node, functions, {}), float)
    except TypeError:
        raise ValueError(f"{text!r} is not a number or a list of numbers") from None
    return np.atleast_1d(values).tolist()


def canonical(text: str) -> str:
    """Returns the one form of an expression, whatever its spaces and its numbers' digits."""
    _parse(text)
    number = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
    tokens: list[str] = re.findall(rf"{QUOTED}|[A-Za-z_]\w*|{number}|\S", text)
    plain = [repr(float(token)) if re.fullmatch(number, token) else token for token in tokens]
    return "".join(token.removesuffix(".0") + " " * (token == ",") for token in plain)


def _names(node: ast.expr) -> tuple[set[str], set[str]]:
    """Returns the functions that an expression calls, and its other names."""
    called = [child.func for child in ast.walk(node) if isinstance(child, ast.Call)]
    calls = {function.id for function in called if isinstance(function, ast.Name)}
    return calls, {child.id for child in ast.walk(node) if isinstance(child, ast.Name)} - calls


def depends_on_target(text: str) -> bool:
    """Whether an expression has exact quantities, which are those of a target policy."""
    return bool({"emphasis", "values"} & _names(_parse(text))[1])


def trace_expression(text: str) -> Source:
    """Returns the one form of an expression, with the source of the functions that are not ours."""
    modules = {name.partition(":")[0] for name in re.findall(OWN, re.sub(QUOTED, "", text))}
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
    node = _parse(text)
    if not isinstance(node, ast.Call):
        raise ValueError(f"{text!r} is not a call, such as gem(step_size)")
    calls, names = _names(node)
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

        def make(**point: Number) -> Learner[Any, Any]:
            return _evaluate(node, {**functions, **problem_functions}, {**quantities, **point})

        vars(make).update(__signature__=inspect.Signature(parameters), source=source)
        return make

    return bind


def separate_step_size(text: str) -> tuple[str, float | None]:
    """Separates a learner's own step size from it: `gem(0.025)` is `gem(step_size)` and 0.025.

    An expression that has no step size, or one that is not a number, is returned as it is.
    """
    node = _parse(text)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return text, None
    name = node.func.id
    function = _import(name, None) if ":" in name else LEARNERS.get(name)
    names = list(inspect.signature(function).parameters) if function is not None else []
    step_size = ast.Name("step_size")
    for n, (argument, _) in enumerate(zip(node.args, names, strict=False)):
        if names[n] == "step_size" and _is_number(argument):
            node.args[n] = step_size
            return ast.unparse(node), float(_evaluate(argument, {}, {}))
    for keyword in node.keywords:
        if keyword.arg == "step_size" and _is_number(keyword.value):
            number, keyword.value = keyword.value, step_size
            return ast.unparse(node), float(_evaluate(number, {}, {}))
    return text, None


def _is_number(node: ast.expr) -> bool:
    """Whether an expression consists of numbers alone."""
    parts = (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    return all(
        isinstance(part, parts)
        or (isinstance(part, ast.Constant) and type(part.value) in (int, float))
        for part in ast.walk(node)
    )


def _import(reference: str, imports: Collection[str] | None) -> Function:
    """Imports a function, if its module is one of those that may be imported."""
    module = reference.partition(":")[0]
    if imports is not None and module not in imports:
        raise ValueError(
            f"{reference} is code, which a file does not import by itself; if you trust it, add "
            f"--import {module}"
        )
    return import_function(reference)
