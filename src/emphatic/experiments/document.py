"""The text of an experiment in TOML: what it may have, and on which line something is wrong."""

import re
import tomllib
from collections.abc import Collection
from typing import Annotated, Any, get_type_hints, Literal, TypeAlias, TypedDict

from .._schema import mismatch, Rule, show
from .._validation import unknown
from ..engine import Engine
from ..engine.run import DType
from ..types import DeviceName

Toml: TypeAlias = Any
"""A value in a TOML file: a number, a text, a list, a table."""

MAX_TEXT, MAX_LINE = 200_000, 20_000  # characters: tomllib takes the square of a key's parts
ENDLESS = r"[\d_]{4000}|(?:[\[{]\s*){40}"  # what Python does not read

NAME = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
KEY = rf"{NAME}(?:\s*\.\s*{NAME})*"  # names, some in quotes

# A whole number may be written 1e6.
Count = Annotated[
    float,
    Rule("a whole number from 1 to 10^9", lambda n: float(n).is_integer() and 1 <= n <= 10**9),
]
Seed = Annotated[
    float,
    Rule("a whole number from 0 to 2^31 - 1", lambda n: float(n).is_integer() and 0 <= n < 2**31),
]
Runs = Annotated[int, Rule("a whole number >= 0", lambda n: 0 <= n <= 10**9)]


class Choice(TypedDict, total=False):
    """How hyper-parameters are chosen; see [Selection]."""

    measure: str
    by: Literal["final", "area"]
    runs: Runs


class _Required(TypedDict):
    learners: dict[str, str]
    steps: Count


class Contents(_Required, total=False):
    """What a file may have."""

    name: str
    problem: str | dict[str, object]
    problems: dict[str, str | dict[str, object]]
    target: str | list[str]
    grid: dict[str, float | str | list[float]]
    measures: str | list[str]
    runs: Count
    seed: Seed
    record_every: Count
    records: Count
    dtype: DType
    engine: Engine
    device: DeviceName
    selection: Choice


class Document:
    """A parsed file that can say on which line a key is."""

    def __init__(self, text: str, origin: str):
        self.text, self.origin = text.removeprefix("\ufeff"), origin
        if len(text) > MAX_TEXT:
            raise ValueError(f"{origin} has {len(text)} characters; at most {MAX_TEXT} are read")
        for number, line in enumerate(self.text.splitlines(), 1):
            if len(line) > MAX_LINE or re.search(ENDLESS, line):
                raise ValueError(f"{origin}, line {number}: {show(line)} is too long or too deep")
        try:
            self.table: dict[str, Toml] = tomllib.loads(self.text)
        except RecursionError:
            raise ValueError(f"{origin}: it is nested too deep") from None
        except ValueError as error:
            raise ValueError(f"{origin}: {str(error)[:200]}") from None
        self.require_keys(self.table, get_type_hints(Contents))
        self.conform(self.table, Contents)

    def line(self, *keys: str) -> int:
        """Returns the line of a key, or else of the nearest table that has it."""
        table: list[str] = []
        nearest, depth = 1, 0
        for number, line in enumerate(self.text.splitlines(), 1):
            match = re.match(rf"\s*(\[*)\s*({KEY})\s*(?:\]+\s*(?:#|$)|=)", line)
            if match is None:
                continue
            names = [name.strip("\"'") for name in re.findall(NAME, match[2])]
            path = names if match[1] else [*table, *names]
            table = path if match[1] else table
            if list(keys[: len(path)]) == path and len(path) > depth:
                nearest, depth = number, len(path)
        return nearest

    def error(self, error: Exception | str, *keys: str) -> ValueError:
        """Returns the error with its file, line and key."""
        plain = [key if key.isprintable() and len(key) < 60 else show(key) for key in keys]
        reason = str(error) if len(str(error)) < 300 else f"{str(error)[:300]}..."
        return ValueError(f"{self.origin}, line {self.line(*keys)}, {'.'.join(plain)}: {reason}")

    def locate(self, error: ValueError, *keys: str) -> ValueError:
        """Returns an error with its file, and with the line of the key that it begins with."""
        name, _, message = str(error).partition(": ")
        key = name.removeprefix("num_")
        if key in self.table:
            return self.error(message, key)
        return self.error(error, *keys) if keys else ValueError(f"{self.origin}: {error}")

    def require_keys(self, table: Collection[str], valid: Collection[str], *keys: str) -> None:
        """Raises a `ValueError` for the first key that is none of these."""
        for key in table:
            if key not in valid:
                raise self.error(unknown("key", key, valid), *keys, key)

    def conform(self, value: Toml, schema: object, *keys: str) -> None:
        """Raises a `ValueError` that names the line unless a value has a schema."""
        if (problem := mismatch(value, schema, "".join(f".{key}" for key in keys))) is not None:
            place = re.sub(r"\[\d+\]", "", problem.removeprefix(", ").partition(": ")[0])
            problem = problem.replace("an object", "a table")
            raise ValueError(f"{self.origin}, line {self.line(*place.split('.'))}{problem}")

    def whole_number(self, key: str, default: int) -> int:
        """Returns a whole number, which may be written 1e6."""
        return int(self.table.get(key, default))
