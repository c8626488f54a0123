"""Data from outside held to a schema, which is a type: `TypedDict`, `list[float]`, `str | None`."""

import dataclasses
import json
import reprlib
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
    TypeAlias,
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
    return " ".join(_SHOWN.repr(value).split())


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


Problem: TypeAlias = tuple[str, str]
"""Where in a value something is wrong, and what."""
Check: TypeAlias = Callable[[Any], Problem | None]
"""Says what is wrong with a value, if something is."""


def mismatch(value: object, schema: Any, place: str = "") -> str | None:
    """Says where and how a value misses a schema; None if it has it."""
    problem = _check(schema)(value)
    return None if problem is None else f"{_at(place + problem[0])}: {problem[1]}"


@cache
def _check(schema: Any) -> Check:
    """Makes the check of a schema, once: it is then called for every value."""
    origin, arguments = get_origin(schema), get_args(schema)
    if schema in (Any, object):
        return lambda value: None
    if origin is NotRequired:
        return _check(arguments[0])
    if origin is Annotated:
        return _check_rules(_check(arguments[0]), arguments[1:])
    if origin in (Union, types.UnionType):
        options = [_check(option) for option in arguments]
        return _require(schema, lambda value: any(check(value) is None for check in options))
    if origin is Literal:
        known = [(type(value), value) for value in arguments]
        return _require(schema, lambda value: (type(value), value) in known)
    if is_typeddict(schema) or dataclasses.is_dataclass(schema):
        return _check_object(schema)
    if origin in (dict, Mapping):
        return _check_mapping(*arguments)
    if origin in _MANY:
        return _check_list(schema, origin is not tuple or arguments[1:] == (...,), arguments)
    if schema is float:
        return _require(schema, lambda v: type(v) in (int, float) and abs(v) < 1e308)
    if schema is int:
        return _require(schema, lambda v: type(v) is int and abs(v) < 2**63)
    kind = type(None) if schema is None else schema
    return _require(schema, lambda value: type(value) is kind)


def _require(schema: Any, is_met: Callable[[Any], object]) -> Check:
    required = _describe(schema)

    def check(value: object) -> Problem | None:
        return None if is_met(value) else ("", f"got {show(value)}; {required} is required")

    return check


def _check_rules(inner: Check, annotations: Sequence[object]) -> Check:
    rules = [rule for rule in annotations if isinstance(rule, Rule)]

    def check(value: object) -> Problem | None:
        if (problem := inner(value)) is not None:
            return problem
        for rule in rules:
            if not rule.is_met(value):
                return "", f"got {show(value)}; {rule.required} is required"
        return None

    return check


def _check_list(schema: Any, is_open: bool, kinds: Sequence[Any]) -> Check:
    checks = [_check(kind) for kind in (kinds[:1] if is_open else kinds)]
    required = _describe(schema)

    def check(value: object) -> Problem | None:
        if not isinstance(value, list | tuple) or not (is_open or len(value) == len(checks)):
            return "", f"got {show(value)}; {required} is required"
        for n, entry in enumerate(value):
            if (problem := checks[0 if is_open else n](entry)) is not None:
                return f"[{n}]{problem[0]}", problem[1]
        return None

    return check


def _check_mapping(key_schema: Any, value_schema: Any) -> Check:
    check_key, check_value = _check(key_schema), _check(value_schema)

    def check(value: object) -> Problem | None:
        if not isinstance(value, dict):
            return "", f"got {show(value)}; an object is required"
        for key in value:
            if check_key(key) is not None:
                return "", f"got the key {show(key)}; {_describe(key_schema)} is required"
        for key, entry in value.items():
            if (problem := check_value(entry)) is not None:
                return _under(key) + problem[0], problem[1]
        return None

    return check


def _check_object(schema: Any) -> Check:
    checks = {key: _check(hint) for key, hint in _hints(schema).items()}
    required = getattr(schema, "__required_keys__", checks)

    def check(value: object) -> Problem | None:
        if not isinstance(value, dict):
            return "", f"got {show(value)}; an object is required"
        for key in required:
            if key not in value:
                return "", f"it lacks the key {key!r}"
        for key, check_entry in checks.items():
            if key in value and (problem := check_entry(value[key])) is not None:
                return _under(key) + problem[0], problem[1]
        return None

    return check


def _hints(schema: type) -> dict[str, Any]:
    return get_type_hints(schema, include_extras=True)


def _under(key: str) -> str:
    return f".{key if key.isidentifier() and len(key) < 60 else show(key)}"


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
