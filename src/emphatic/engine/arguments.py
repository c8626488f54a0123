"""Arguments of functions in expressions, held to the annotations of these functions."""

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import (
    Annotated,
    Any,
    get_args,
    get_origin,
    get_type_hints,
    NamedTuple,
    TypeAlias,
    Union,
)

import jax
import numpy as np
from jaxtyping import AbstractArray

from .. import _validation as checks
from .._schema import show
from ..agents import Damping, ExactCritic, Policy
from ..schedules import Polynomial
from ..types import Agent, Learner, Schedule

Value: TypeAlias = Any
"""What an expression stands for: a number, an array, a list, a schedule, a policy, a learner."""
Function: TypeAlias = Callable[..., Value]
"""A function that an expression may call."""
Sizes: TypeAlias = Mapping[str, int]
"""The sizes of axes by their letters in annotations: `s`, the states, and `a`, the actions."""


class Kind(NamedTuple):
    """What an argument may be, in words, and whether a value is that."""

    required: str
    is_met: Callable[[Value], bool]


# Functions are told apart by what they say that they take.
FUNCTIONS: dict[object, str] = {
    get_args(kind)[0][0]: words
    for kind, words in (
        (Schedule, 'a schedule such as "0.1/t^0.7"'),
        (Damping, "a damping such as Konda(100)"),
        (ExactCritic, "an exact critic such as exact_emphasis()"),
    )
}
EXAMPLES: dict[object, str] = {
    Agent: "an agent",
    Learner: "a learner such as followon()",
    Policy: "a policy such as tabular()",
}
ANYTHING = Kind("anything", lambda value: True)
NUMBER = Kind("a number", lambda value: shape(value) == ())
KINDS: dict[object, Kind] = {
    None: Kind("None", lambda value: value is None),
    types.NoneType: Kind("None", lambda value: value is None),
    bool: Kind("True or False", lambda value: isinstance(value, bool)),
    int: Kind("a whole number", lambda value: type(value) is int),
    **dict.fromkeys((float, np.integer, np.floating, np.number), NUMBER),
    **dict.fromkeys((np.ndarray, jax.Array), Kind("an array", lambda value: bool(shape(value)))),
}


def evaluate_arguments(
    name: str,
    function: Function,
    given: Sequence[tuple[str | None, object]],
    evaluate: Callable[[str, Any], Value],
    sizes: Sizes,
) -> inspect.BoundArguments:
    """Returns the arguments of a function, each of the kind that its annotation requires.

    They are given with their keywords, if they have one; `evaluate` makes values of them, by name.
    A `ValueError` names the function and the argument, what was given, and what is required.
    """
    signature = inspect.signature(function)
    parameters, hints = signature.parameters, _hints(function)
    keywords = {keyword: node for keyword, node in given if keyword is not None}
    takes_any = any(entry.kind is entry.VAR_KEYWORD for entry in parameters.values())
    for keyword in keywords:
        if keyword not in parameters and not takes_any:
            raise checks.unknown(f"{name}: argument", keyword, parameters)
    try:
        bound = signature.bind(*(node for keyword, node in given if keyword is None), **keywords)
    except TypeError as error:
        usage = f"{name}({', '.join(parameters)})"
        raise ValueError(f"{name}: {error}; {usage} is required") from None

    def check(argument: str, node: object, hint: object) -> Value:
        value = evaluate(argument, node)
        kinds = find_kinds(hint, sizes)
        if not any(kind.is_met(value) for kind in kinds):
            required = " or ".join(dict.fromkeys(kind.required for kind in kinds))
            raise ValueError(f"{name}: {argument}: got {describe(value)}; {required} is required")
        return value

    for argument, node in bound.arguments.items():
        hint, kind = hints.get(argument, Any), parameters[argument].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            bound.arguments[argument] = tuple(check(argument, entry, hint) for entry in node)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[argument] = {
                key: check(key, entry, hint) for key, entry in node.items()
            }
        else:
            bound.arguments[argument] = check(argument, node, hint)
    return bound


def _hints(function: Function) -> dict[str, Any]:
    """Returns the annotations of a function, of a class or of what an object is called by."""
    if isinstance(function, partial):
        function = function.func
    elif isinstance(function, type):
        function = function.__init__
    elif not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return get_type_hints(function, include_extras=True)
    except (AttributeError, NameError, TypeError):  # of a module that is not there, for example
        return {}


def find_kinds(hint: Any, sizes: Sizes) -> list[Kind]:
    """Returns what an annotation allows, which is anything if it is none of those known here."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [kind for part in parts for kind in find_kinds(part, sizes)]
        return [kind for kind in kinds if NUMBER not in kinds or kind is not KINDS[int]]
    if origin is Annotated:  # an array-like, with the array that it is like
        return find_kinds(parts[1] if _is_array(parts[1]) else parts[0], sizes)
    if _is_array(hint):
        return [_array_kind(hint.dim_str.split(), sizes)]
    if origin is Callable:
        taken = parts[0][0] if isinstance(parts[0], list) and parts[0] else None
        return [Kind(FUNCTIONS.get(taken, "a function"), lambda value: _takes(value, taken))]
    if origin is tuple:
        return [Kind(f"a tuple of {len(parts)}", lambda value: _is_tuple(value, parts, sizes))]
    kind = origin or hint
    if isinstance(kind, type) and kind in EXAMPLES:
        return [Kind(EXAMPLES[kind], lambda value: _is_one(value, kind))]
    return [KINDS.get(hint, ANYTHING)]


def _is_array(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, AbstractArray)


def _array_kind(axes: Sequence[str], sizes: Sizes) -> Kind:
    """Returns the kind of arrays with these axes, of which some have a known size."""
    if not axes:
        return NUMBER
    if any(axis.startswith(("*", "...")) for axis in axes):
        return KINDS[np.ndarray]
    required = [sizes.get(axis) for axis in axes]

    def is_met(value: Value) -> bool:
        sizes = shape(value) or ()
        is_deep = len(sizes) == len(axes)
        return is_deep and all(n in (None, m) for n, m in zip(required, sizes, strict=True))

    sizes_in_words = ", ".join(str(sizes.get(axis, axis)) for axis in axes)
    return Kind(f"an array of shape ({sizes_in_words}{',' * (len(axes) == 1)})", is_met)


def _is_one(value: Value, kind: type) -> bool:
    """Whether a value is of a class; an agent is a learner only where an agent is required."""
    return isinstance(value, kind) and (kind is Agent or not isinstance(value, Agent))


def _takes(value: Value, taken: object) -> bool:
    """Whether a value is a function that does not say that it takes something else."""
    if not callable(value) or isinstance(value, Policy):
        return False
    hints = [hint for name, hint in _hints(value).items() if name != "return"]
    return not hints or not {taken, hints[0]} <= FUNCTIONS.keys() or hints[0] == taken


def _is_tuple(value: Value, parts: Sequence[object], sizes: Sizes) -> bool:
    is_long = isinstance(value, tuple) and len(value) == len(parts)
    return is_long and all(
        any(kind.is_met(entry) for kind in find_kinds(part, sizes))
        for entry, part in zip(value, parts, strict=True)
    )


def shape(value: Value) -> tuple[int, ...] | None:
    """Returns the shape of a finite number or an array of them; None for anything else."""
    if checks.is_traced(value):
        return value.shape
    if isinstance(value, list | tuple):
        if value and all(type(entry) in (int, float) for entry in value):
            return (len(value),) if np.isfinite(np.asarray(value, float)).all() else None
        shapes = {shape(entry) for entry in value}
        entry = shapes.pop() if len(shapes) == 1 else None
        return None if entry is None else (len(value), *entry)
    if isinstance(value, np.ndarray):
        return value.shape if value.dtype.kind in "iuf" and np.isfinite(value).all() else None
    return () if checks.is_number(value) and np.isfinite(float(value)) else None


def describe(value: Value) -> str:
    """Describes a value in a few words."""
    if isinstance(value, Learner):
        return "an agent" if isinstance(value, Agent) else f"the learner {value.name}".strip()
    if isinstance(value, Polynomial):
        return f"the schedule {value}"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, tuple):
        return f"({', '.join(map(describe, value[:4]))})"
    if isinstance(value, Policy):
        return "a policy"
    if callable(value):
        return f"the function {getattr(value, '__name__', type(value).__name__)}"
    return show(value)
