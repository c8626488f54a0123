"""Data from outside held to a schema, which is a type: `TypedDict`, `list[float]`, `str | None`."""

import dataclasses
import json
import types
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict, Literal, Union

from ._files import StrPath

MAX_BYTES = 100_000_000  # of a JSON text
_NAMES = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
_MANY = (list, tuple, Sequence)


def read_json(path: StrPath, schema: Any, name: str) -> Any:
    """Reads a file of JSON that must have a schema; a `ValueError` says what is wrong, and where.

    `name` is what the error calls the argument that the file was given for.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{name}: {path} cannot be read: {error.strerror or error}") from None
    return parse_json(text, schema, f"{name}: {path}")


def parse_json(text: str | bytes, schema: Any, origin: str) -> Any:
    """Parses JSON that must have a schema; `origin` begins the error."""
    try:
        if len(text) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{origin} is not JSON: {error}") from None
    return conform(value, schema, origin)


def conform(value: Any, schema: Any, origin: str) -> Any:
    """Returns the value if it has the schema; else a `ValueError` names the place in it.

    Objects may have more keys than their schema, which later versions may have added.
    """
    if (problem := _mismatch(value, schema, "")) is not None:
        raise ValueError(f"{origin}{problem}")
    return value


def _mismatch(value: Any, schema: Any, place: str) -> str | None:
    """Says where and how a value misses a schema; None if it has it."""
    origin, arguments = get_origin(schema), get_args(schema)
    if schema in (Any, object):
        return None
    if origin in (Union, types.UnionType):
        options = [_mismatch(value, option, place) for option in arguments]
        return None if None in options else _required(value, schema, place)
    if origin is Literal:
        is_known = any(value == known and type(value) is type(known) for known in arguments)
        return None if is_known else _required(value, schema, place)
    if is_typeddict(schema) or dataclasses.is_dataclass(schema):
        return _object_mismatch(value, schema, place)
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            return _required(value, schema, place)
        entries = ((f"{place}.{key}", entry, arguments[1]) for key, entry in value.items())
        return _first_mismatch(entries)
    if origin in _MANY:
        is_open = origin is not tuple or arguments[1:] == (...,)
        if not isinstance(value, list) or not (is_open or len(value) == len(arguments)):
            return _required(value, schema, place)
        kinds = arguments[:1] * len(value) if is_open else arguments
        entries = zip(value, kinds, strict=True)
        return _first_mismatch((f"{place}[{n}]", e, kind) for n, (e, kind) in enumerate(entries))
    if schema is float and isinstance(value, int) and not isinstance(value, bool):
        return None if abs(value) < 1e308 else _required(value, schema, place)
    kind = type(None) if schema is None else schema
    return None if type(value) is kind else _required(value, schema, place)


def _object_mismatch(value: Any, schema: Any, place: str) -> str | None:
    if not isinstance(value, dict):
        return _required(value, schema, place)
    hints = get_type_hints(schema)
    for key in getattr(schema, "__required_keys__", hints):
        if key not in value:
            return f"{_at(place)}: it lacks the key {key!r}"
    return _first_mismatch((f"{place}.{k}", value[k], hints[k]) for k in hints if k in value)


def _first_mismatch(entries: Any) -> str | None:
    problems = (_mismatch(value, schema, place) for place, value, schema in entries)
    return next((problem for problem in problems if problem is not None), None)


def _required(value: Any, schema: Any, place: str) -> str:
    text = repr(value)
    shown = text if len(text) <= 40 else f"{text[:37]}..."
    return f"{_at(place)}: got {shown}; {_describe(schema)} is required"


def _at(place: str) -> str:
    return f", {place.lstrip('.')}" if place else ""


def _describe(schema: Any) -> str:
    """Describes a schema in words."""
    origin, arguments = get_origin(schema), get_args(schema)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_describe, arguments))
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin in _MANY:
        return "a list"
    if schema in (None, type(None)):
        return "null"
    return _NAMES.get(schema, "an object")
