"""Data from outside held to a schema, which is a type: `TypedDict`, `list[float]`, `str | None`."""

import dataclasses
import json
import reprlib
import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import (
    Annotated,
    Any,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    Literal,
    NotRequired,
    TypeVar,
    Union,
)

from ._files import read_bytes, StrPath

Schema = TypeVar("Schema")

MAX_DEPTH = 40  # of lists and objects in each other
NAMES: dict[object, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    None: "null",
    type(None): "null",
}
_MANY = (list, tuple, Sequence)
_SHOWN = reprlib.Repr()
_SHOWN.maxlevel, _SHOWN.maxstring, _SHOWN.maxother, _SHOWN.maxlong = 2, 60, 60, 40


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a value must satisfy besides its type, in words: `Annotated[int, Rule(...)]`."""

    required: str
    is_met: Callable[[Any], object]


Count = Annotated[int, Rule("a whole number from 1 to 10^9", lambda n: 1 <= n <= 10**9)]
"""How many of something there are."""
Seed = Annotated[int, Rule("a whole number >= 0", lambda n: n >= 0)]
"""A seed of random numbers."""
Probability = Annotated[float, Rule("a number in [0, 1]", lambda p: 0.0 <= p <= 1.0)]
"""A probability or a discount."""


def show(value: object) -> str:
    """Returns a value as an error shows it: one short line, whatever the value is."""
    try:
        return " ".join(_SHOWN.repr(value).split())
    except ValueError:  # a whole number with more digits than Python writes
        return "a number of thousands of digits"


def read_json(path: StrPath, schema: type[Schema], name: str) -> Schema:
    """Reads a file of JSON that must have a schema; a `ValueError` says what is wrong, and where.

    `name` is what the error calls the argument that the file was given for.
    """
    return parse_json(read_bytes(path, name), schema, f"{name}: {path}")


def parse_json(text: str | bytes, schema: type[Schema], origin: str) -> Schema:
    """Parses JSON that must have a schema; `origin` begins the error."""
    try:
        value = json.loads(text, object_pairs_hook=_to_object)
        if _is_deeper(value, MAX_DEPTH):
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        if "\\ud" in (text if isinstance(text, str) else text.decode(errors="replace")).lower():
            json.dumps(value, ensure_ascii=False).encode()  # half a character is none
    except RecursionError:
        raise ValueError(f"{origin} is not JSON: it is nested too deep") from None
    except ValueError as error:
        raise ValueError(f"{origin} is not JSON: {str(error)[:200]}") from None
    return conform(value, schema, origin)


def conform(value: object, schema: type[Schema], origin: str) -> Schema:
    """Returns the value if it has the schema; else a `ValueError` names the place in it.

    Objects may have more keys than their schema, which later versions may have added.
    """
    if (problem := mismatch(value, schema)) is not None:
        raise ValueError(f"{origin}{problem}")
    return cast(Schema, value)


def _to_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"the key {show(counts.most_common(1)[0][0])} is there twice")
    return entries


def _is_deeper(value: object, depth: int) -> bool:
    """Whether lists and objects are in each other to more than a depth."""
    level = [value]
    for _ in range(depth + 1):
        level = [
            entry
            for outer in level
            if isinstance(outer, dict | list)
            for entry in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def mismatch(value: object, schema: Any, place: str = "") -> str | None:
    """Says where and how a value misses a schema; None if it has it."""
    origin, arguments = get_origin(schema), get_args(schema)
    if schema in (Any, object):
        return None
    if origin is NotRequired:
        return mismatch(value, arguments[0], place)
    if origin is Annotated:
        inner, *rules = arguments
        if (problem := mismatch(value, inner, place)) is not None:
            return problem
        failed = (rule for rule in rules if isinstance(rule, Rule) and not rule.is_met(value))
        return next((_required(value, rule.required, place) for rule in failed), None)
    if origin in (Union, types.UnionType):
        problems = [mismatch(value, option, place) for option in arguments]
        return None if None in problems else _required(value, _describe(schema), place)
    if origin is Literal:
        is_known = any(value == known and type(value) is type(known) for known in arguments)
        return None if is_known else _required(value, _describe(schema), place)
    if is_typeddict(schema) or dataclasses.is_dataclass(schema):
        return _object_mismatch(value, schema, place)
    if origin in (dict, Mapping):
        return _mapping_mismatch(value, arguments, place)
    if origin in _MANY:
        is_open = origin is not tuple or arguments[1:] == (...,)
        if not isinstance(value, list | tuple) or not (is_open or len(value) == len(arguments)):
            return _required(value, _describe(schema), place)
        kinds = arguments[:1] * len(value) if is_open else arguments
        entries = zip(value, kinds, strict=True)
        return _first_mismatch((f"{place}[{n}]", e, kind) for n, (e, kind) in enumerate(entries))
    return None if _is_one(value, schema) else _required(value, _describe(schema), place)


def _is_one(value: object, schema: Any) -> bool:
    """Whether a value that is no list or object has a type; numbers are those that fit in it."""
    if schema is float and type(value) in (int, float):
        return abs(cast(float, value)) < 1e308
    if schema is int and type(value) is int:
        return abs(value) < 2**63
    return type(value) is (type(None) if schema is None else schema)


def _mapping_mismatch(value: object, arguments: tuple[Any, Any], place: str) -> str | None:
    if not isinstance(value, dict):
        return _required(value, "an object", place)
    for key in value:
        if mismatch(key, arguments[0]) is not None:
            return f"{_at(place)}: got the key {show(key)}; {_describe(arguments[0])} is required"
    return _first_mismatch((_under(place, key), value[key], arguments[1]) for key in value)


def _object_mismatch(value: object, schema: Any, place: str) -> str | None:
    if not isinstance(value, dict):
        return _required(value, "an object", place)
    hints = _hints(schema)
    for key in getattr(schema, "__required_keys__", hints):
        if key not in value:
            return f"{_at(place)}: it lacks the key {key!r}"
    return _first_mismatch((_under(place, k), value[k], hints[k]) for k in hints if k in value)


@cache
def _hints(schema: type) -> dict[str, Any]:
    return get_type_hints(schema, include_extras=True)


def _first_mismatch(entries: Iterable[tuple[str, object, Any]]) -> str | None:
    problems = (mismatch(value, schema, place) for place, value, schema in entries)
    return next((problem for problem in problems if problem is not None), None)


def _under(place: str, key: str) -> str:
    return f"{place}.{key if key.isidentifier() and len(key) < 60 else show(key)}"


def _required(value: object, required: str, place: str) -> str:
    return f"{_at(place)}: got {show(value)}; {required} is required"


def _at(place: str) -> str:
    return f", {place.lstrip('.')}" if place else ""


def _describe(schema: Any) -> str:
    """Describes a schema in words."""
    origin, arguments = get_origin(schema), get_args(schema)
    if origin is NotRequired:
        return _describe(arguments[0])
    if origin is Annotated:
        rules = [rule.required for rule in arguments[1:] if isinstance(rule, Rule)]
        return rules[0] if rules else _describe(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_describe, arguments)))
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin in _MANY:
        fixed = origin is tuple and arguments[1:] != (...,)
        return f"a list of {len(arguments)}" if fixed else "a list"
    return NAMES.get(schema, "an object")
