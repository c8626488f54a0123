"""A learner's equation as a list of operations of which one can be changed, with its source."""

import ast
import inspect
import linecache
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var
from jaxtyping import Integer, PyTree

from ..types import Array

Changed: TypeAlias = tuple[float, float]
"""What an operand becomes: $ax + b$."""
ABSENT, NEGATIVE, ONE = (0.0, 0.0), (-1.0, 0.0), (0.0, 1.0)


@dataclass(frozen=True)
class Site:
    """A place in a source: the file, the line and the expression there."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.text}"


@dataclass(frozen=True)
class Change:
    """A change of one operation: what it is in words, and where it is."""

    words: str
    sites: tuple[Site, ...]
    position: int  # among the operations


class Equation:
    """A function of pytrees as operations; `changes` are those that can be made to it, one at a
    time, by their number from 1 on."""

    def __init__(self, function: Callable[..., PyTree], *example: PyTree):
        with jax.disable_jit():  # functions of JAX are then operations of their own
            closed, shapes = jax.make_jaxpr(function, return_shape=True)(*example)
        self.closed: ClosedJaxpr = closed
        self.structure = jax.tree.structure(shapes)
        self.eqns = _live(closed.jaxpr.eqns, closed.jaxpr.outvars)
        self.changes: list[Change] = []
        self.operands: dict[tuple[int, int], int] = {}  # those that can change, numbered
        rows: list[tuple[int, Changed]] = []
        for position, eqn in enumerate(self.eqns):
            site, texts = locate(eqn)
            for n, words, changed in _changes(eqn, texts):
                operand = self.operands.setdefault((position, n), len(self.operands))
                self.changes.append(Change(words, () if site is None else (site,), position))
                rows.append((operand, changed))
        self.table = np.tile((1.0, 0.0), (len(rows) + 1, len(self.operands), 1))
        for number, (operand, changed) in enumerate(rows, 1):
            self.table[number, operand] = changed

    @property
    def consts(self) -> Sequence[Any]:
        """The arrays that the function has from elsewhere."""
        return self.closed.consts

    def evaluate(
        self, consts: Sequence[Any], change: Integer[Array, ""] | None, *arguments: PyTree
    ) -> PyTree:
        """Evaluates the function with these constants and the change of this number, 0 for none.

        Without a number the program has no changes.
        """
        jaxpr, table = self.closed.jaxpr, jnp.asarray(self.table)
        values = dict(zip(jaxpr.constvars, consts, strict=True))
        values |= dict(zip(jaxpr.invars, jax.tree.leaves(arguments), strict=True))
        row = None if change is None else table[change]

        def read(position: int, n: int, atom: Var | Literal) -> Any:
            value = atom.val if isinstance(atom, Literal) else values[atom]
            if row is None or (position, n) not in self.operands:
                return value
            a, b = row[self.operands[position, n]].astype(value.dtype)
            return a * value + b

        for position, eqn in enumerate(self.eqns):
            operands = [read(position, n, atom) for n, atom in enumerate(eqn.invars)]
            results = eqn.primitive.bind(*operands, **eqn.params)
            results = results if eqn.primitive.multiple_results else [results]
            values |= dict(zip(eqn.outvars, results, strict=True))
        last = len(self.eqns)
        results = [read(last, n, atom) for n, atom in enumerate(jaxpr.outvars)]
        return jax.tree.unflatten(self.structure, results)

    def uses(self, number: int, results: Iterable[int]) -> tuple[Site, ...]:
        """Returns where these results use the input of this number, if they do."""
        variable = self.closed.jaxpr.invars[number]
        needed = [self.closed.jaxpr.outvars[n] for n in results]
        found = [locate(eqn)[0] for eqn in _live(self.eqns, needed) if variable in eqn.invars]
        return tuple(dict.fromkeys(site for site in found if site is not None))

    def reached(self, number: int) -> list[int]:
        """Returns the numbers of the results on which a change has an effect."""
        eqn = self.eqns[self.changes[number - 1].position]
        results = enumerate(self.closed.jaxpr.outvars)
        return [n for n, v in results if any(eqn is one for one in _live(self.eqns, [v]))]

    def result(self, n: int) -> Site | None:
        """Returns where the result of this number is computed."""
        variable = self.closed.jaxpr.outvars[n]
        made = [eqn for eqn in self.eqns if variable in eqn.outvars]
        return locate(made[-1])[0] if made else None


def _live(eqns: Sequence[JaxprEqn], results: Iterable[Var | Literal]) -> list[JaxprEqn]:
    """Returns the operations on which results depend, in order."""
    needed, kept = {v for v in results if isinstance(v, Var)}, list[JaxprEqn]()
    for eqn in reversed(eqns):
        if needed & set(eqn.outvars):
            needed |= {atom for atom in eqn.invars if isinstance(atom, Var)}
            kept.append(eqn)
    return kept[::-1]


def _changes(eqn: JaxprEqn, texts: list[str]) -> Iterator[tuple[int, str, Changed]]:
    """Yields an operand's number, a change of it in words, and what it becomes."""
    name = eqn.primitive.name
    for n, atom in enumerate(eqn.invars[:2]):
        if not jnp.issubdtype(jnp.result_type(atom.aval), jnp.floating):
            continue
        text = texts[n] if n < len(texts) else f"operand {n + 1} of {name}"
        if name in ("add", "sub", "add_any"):
            yield n, f"without the term `{text}`", ABSENT
            yield n, f"with the other sign of `{text}`", NEGATIVE
        elif name in ("mul", "div") and not (isinstance(atom, Literal) and atom.val == 1):
            yield n, f"without the factor `{text}`", ONE
        elif name in ("max", "min"):
            yield n, f"without the bound `{text}`", (0.0, np.inf if name == "min" else -np.inf)


def locate(eqn: JaxprEqn) -> tuple[Site | None, list[str]]:
    """Returns where an operation is written, and the texts of its operands."""
    trace = getattr(eqn.source_info, "traceback", None)
    if trace is None or not hasattr(trace, "raw_frames"):
        return None, []
    for code, instruction in zip(*trace.raw_frames(), strict=True):
        if _is_written_by_a_person(code.co_filename):
            line, last, first_column, last_column = list(code.co_positions())[instruction // 2]
            return _read(code.co_filename, line, last, first_column, last_column)
    return None, []


LIBRARIES = tuple(str(Path(inspect.getfile(module)).parent) for module in (jax, np))


def _is_written_by_a_person(file: str) -> bool:
    return not file.startswith(("<", *LIBRARIES)) and "equinox" not in file


@cache
def _read(
    file: str, line: int | None, last: int | None, first_column: int | None, last_column: int | None
) -> tuple[Site | None, list[str]]:
    """Reads an expression in a file."""
    lines = linecache.getlines(file)[(line or 1) - 1 : last]
    if line is None or not lines:
        return None, []
    data = "".join(lines).encode()
    end = len(data) - len(lines[-1].encode()) + (last_column or 0)
    text = data[first_column or 0 : end].decode()
    operands: list[str] = []
    try:
        node = ast.parse(f"({text})", mode="eval").body
    except SyntaxError:
        node = None
    if isinstance(node, ast.BinOp):
        operands = [ast.unparse(node.left), ast.unparse(node.right)]
        text = ast.unparse(node)
    elif isinstance(node, ast.Call):
        operands = list(map(ast.unparse, node.args))
    return Site(Path(file).name, line, " ".join(text.split())), operands
