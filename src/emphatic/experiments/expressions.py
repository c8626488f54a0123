"""Learners, agents and grids as a person writes them: a small language, read and never executed."""

import ast
import inspect
import operator
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from . import learners, oracle, schedules
from ._names import unknown
from ._types import Learner
from .agents import Konda, linear, over_states, tabular, undamped
from .agents.actor_critic import actor_critic
from .agents.exact import exact_action_values, exact_emphasis
from .mdp import Problem

OPERATORS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}
LEARNERS: dict[str, Callable] = {
    name: each for name, each in vars(learners).items() if inspect.isfunction(each)
}
# Functions whose first argument is the problem, which is not written.
OF_A_PROBLEM: dict[str, Callable] = {
    "actor_critic": actor_critic,
    "exact_action_values": exact_action_values,
    "exact_emphasis": exact_emphasis,
    "linear": linear,
    "tabular": tabular,
}
FUNCTIONS: dict[str, Callable] = {
    **LEARNERS,
    "Konda": Konda,
    "over_states": over_states,
    "polynomial": schedules.polynomial,
}
# What a name stands for that is no axis of the grid.
QUANTITIES: dict[str, Callable[[Problem], Any]] = {
    "emphasis": oracle.emphasis,
    "gamma": lambda problem: problem.mdp.discount,
    "undamped": lambda problem: undamped,
    "values": oracle.values,
}


def _parsed(text: str) -> ast.expr:
    """Python's syntax, where `^` is a power and `[1:5]` a span, except in quotes."""

    def plain(found: re.Match) -> str:
        if found["span"]:
            return f"span({found['span'].replace(':', ',')})"
        return "**" if found[0] == "^" else found[0]

    words = re.sub(r"\"[^\"]*\"|'[^']*'|\^|\[(?P<span>[^\[\]]*:[^\[\]]*)\]", plain, text)
    try:
        return ast.parse(words.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text!r} cannot be read: {error.msg}") from None


def _value(node: ast.expr, functions: Mapping[str, Callable], names: Mapping[str, Any]) -> Any:
    """What an expression stands for."""

    def of(part: ast.expr) -> Any:
        return _value(part, functions, names)

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
            return OPERATORS[type(op)](of(left), of(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -of(operand)
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            return [of(each) for each in entries]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords):
            if name not in functions:
                raise unknown("function", name, functions)
            given = [of(each) for each in arguments]
            named = {str(each.arg): of(each.value) for each in keywords}
            try:
                inspect.signature(functions[name]).bind(*given, **named)
            except TypeError as error:
                raise ValueError(f"{name}: {error}") from None
            return functions[name](*given, **named)
    raise ValueError(f"{ast.unparse(node)!r} is not a call, a name or a number")


def _span(first: Any, last: Any, step: Any = 1) -> np.ndarray:
    if not step:
        raise ValueError(f"[{first:g}:{last:g}:{step:g}] goes nowhere; a step is required")
    count = int(np.floor(abs(last - first) / abs(step) + 1e-9)) + 1
    return first + np.sign(last - first or 1) * abs(step) * np.arange(count)


def numbers(text: str) -> list[float]:
    """The values of a grid, such as `0.1 * 2^[1:-6]`, where both ends count, or `[0, 1e-3]`.

    **Arguments:**

    - `text`: The expression: numbers, `+ - * / ^`, lists, and `[first:last]` or
      `[first:last:step]`.
    """
    node = _parsed(text)
    floats = {"span": lambda *ends: _span(*map(float, ends))}
    try:
        found = np.asarray(_value(node, floats, {}), float)
    except TypeError:
        raise ValueError(f"{text!r} is not a number or a list of numbers") from None
    return np.atleast_1d(found).tolist()


def canonical(text: str) -> str:
    """An expression as it is always written, whatever its spaces and its numbers' digits."""
    _parsed(text)
    number = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
    found = re.findall(rf"\"[^\"]*\"|'[^']*'|[A-Za-z_]\w*|{number}|\S", text)
    plain = [repr(float(word)) if re.fullmatch(number, word) else word for word in found]
    return "".join(word.removesuffix(".0") + " " * (word == ",") for word in plain)


def learner(
    text: str, axes: Mapping[str, Any], more: Mapping[str, Callable] | None = None
) -> Callable[[Problem], Callable[..., Learner]]:
    """A learner or an agent from an expression such as `etd(gem(0.025, ridge), step_size)`.

    Functions are those of `emphatic.learners`, and for agents `actor_critic` with the policies
    `tabular()`, `linear()` and `over_states(...)`. Names are axes of the grid, `gamma`, `emphasis`
    and `values`; a text in quotes is a schedule, such as `"0.1/t^0.6"`.

    **Arguments:**

    - `text`: The expression.
    - `axes`: The axes of the grid.
    - `more`: Other functions by name.

    **Returns:**

    From a problem, a function that makes the learner from values of those axes that it names.
    """
    node = _parsed(text)
    if not isinstance(node, ast.Call):
        raise ValueError(f"{text!r} is not a call, such as gem(step_size)")
    used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    called = {
        each.func.id
        for each in ast.walk(node)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
    }
    functions = {**FUNCTIONS, **(more or {})}
    known = (*functions, *OF_A_PROBLEM)
    for name in sorted(called):
        if name not in known:
            raise unknown("function", name, known)
    for name in sorted(used - called):
        if name not in (*axes, *QUANTITIES):
            raise unknown("name", name, (*axes, *QUANTITIES))
    own = [axis for axis in axes if axis in used - called]
    parameters = [inspect.Parameter(axis, inspect.Parameter.KEYWORD_ONLY) for axis in own]

    def of_problem(problem: Problem) -> Callable[..., Learner]:
        bound = {name: partial(each, problem) for name, each in OF_A_PROBLEM.items()}
        facts = {name: each(problem) for name, each in QUANTITIES.items() if name in used - called}

        def make(**lane: Any) -> Learner:
            return _value(node, {**functions, **bound}, {**facts, **lane})

        vars(make)["__signature__"] = inspect.Signature(parameters)
        return make

    return of_problem
