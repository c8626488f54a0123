"""Experiments in TOML: problems, learners, a grid, runs; checked whole before anything runs."""

import inspect
import itertools
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import expressions
from ._names import unknown
from .agents.paths import paths, TRACKED
from .engine import MEASURES
from .experiment import Experiment, Target
from .mdp import Problem
from .problems import builder

KEYS = (
    "name",
    "problem",
    "problems",
    "target",
    "learners",
    "grid",
    "measures",
    "steps",
    "runs",
    "seed",
    "record_every",
    "records",
    "dtype",
    "engine",
    "selection",
)
TARGETS: dict[str, Target] = {
    "own": lambda problem: problem.target,
    "behavior": lambda problem: problem.behavior,
    "uniform": lambda problem: np.full_like(problem.behavior, 1.0 / problem.behavior.shape[1]),
}
RULES = ("final", "area")
SELECTION = ("measure", "by", "runs")


class _Document:
    """A parsed file that can say on which line a key is."""

    def __init__(self, text: str, origin: str):
        self.text, self.origin = text, origin
        try:
            self.table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{origin}: {error}") from None

    def line(self, *keys: str) -> int:
        """The line of a key, or else of the nearest table that has it."""
        table: list[str] = []
        nearest, depth = 1, 0
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := re.match(r"\s*\[+([^\]]+)\]+\s*(?:#|$)", line):
                table = [part.strip(" \"'") for part in header[1].split(".")]
                here = table
            elif assigned := re.match(r"\s*([^=#]+?)\s*=", line):
                here = [*table, *(part.strip(" \"'") for part in assigned[1].split("."))]
            else:
                continue
            if list(keys[: len(here)]) == here and len(here) > depth:
                nearest, depth = number, len(here)
        return nearest

    def error(self, error: ValueError | str, *keys: str) -> ValueError:
        """The error with its file, line and key."""
        return ValueError(f"{self.origin}, line {self.line(*keys)}, {'.'.join(keys)}: {error}")

    def known(self, table: Mapping[str, Any], known: tuple[str, ...], *keys: str) -> None:
        """A `ValueError` for the first key that is none of these."""
        for key in table:
            if key not in known:
                raise self.error(unknown("key", key, known), *keys, key)

    def number(self, key: str, default: int | None) -> Any:
        """A whole number, also written 1e6."""
        value = self.table.get(key, default)
        if value is None or (type(value) in (int, float) and float(value).is_integer()):
            return None if value is None else int(value)
        raise self.error(f"got {value!r}; a whole number is required", key)

    def tables(self, key: str) -> dict[str, Any]:
        """A table, which may be missing."""
        found = self.table.get(key, {})
        if not isinstance(found, dict):
            raise self.error(f"got {found!r}; a table [{key}] is required", key)
        return found


def read(path: str | os.PathLike) -> Experiment:
    """The experiment of a TOML file; whatever is wrong with it is a `ValueError` with its line.

    **Arguments:**

    - `path`: The file. Files that it names are relative to its folder.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"file: {path} cannot be read: {error}") from None
    return parse(text, path.name, path.parent, path.stem)


def parse(
    text: str, origin: str = "experiment", folder: Path = Path(), name: str = "experiment"
) -> Experiment:
    """The experiment of a text in TOML.

    **Arguments:**

    - `text`: The text.
    - `origin`: What errors call it.
    - `folder`: Where the files are that it names.
    - `name`: What the experiment is called, if the text does not say.
    """
    document = _Document(text, origin)
    table = document.table
    document.known(table, KEYS)
    for required in ("learners", "steps"):
        if required not in table:
            raise ValueError(f"{origin}: {required!r} is missing")
    build, cases = _problems(document, folder)
    grid = _grid(document)
    makes, definitions = {}, {}
    for learner, expression in document.tables("learners").items():
        try:
            if not isinstance(expression, str):
                raise ValueError(f"got {expression!r}; an expression in quotes is required")
            makes[learner] = expressions.learner(expression, grid)
            definitions[learner] = expressions.canonical(expression)
        except ValueError as error:
            raise document.error(error, "learners", learner) from None
    measures, tracked = _measures(document)

    def learners(problem: Problem) -> dict[str, Any]:
        return {each: make(problem) for each, make in makes.items()}

    if tracked:
        definitions = {each: f"paths({words})" for each, words in definitions.items()}
    seed, runs = document.number("seed", 0), document.number("runs", 30)
    choice = _selection(document, measures)
    try:
        return Experiment(
            name=str(table.get("name", name)),
            build=build,
            cases=cases,
            learners=learners,
            measures=("weights",) if tracked else measures,
            num_steps=document.number("steps", None),
            grid=grid,
            num_runs=runs + choice.get("runs", 0),
            seed=seed,
            record_every=document.number("record_every", 1000),
            num_records=document.number("records", None),
            dtype=table.get("dtype", "float32"),
            engine=table.get("engine", "auto"),
            targets=_targets(document, folder),
            derive=(lambda problem, dataset: paths(problem, learners(problem), dataset))
            if tracked
            else None,
            definitions=definitions,
            about={"text": text, "measures": list(measures), "runs": runs, "selection": choice},
        )
    except ValueError as error:
        raise ValueError(f"{origin}: {error}") from None


def _problems(
    document: _Document, folder: Path
) -> tuple[Callable[..., Problem], dict[str, tuple[Any, ...]]]:
    """What builds the problem of a case, and the cases.

    Of a single problem the arguments that are lists are axes of their own; of several, each
    combination is one of the problems.
    """
    single, several = document.table.get("problem"), document.tables("problems")
    if (single is None) == (not several):
        raise ValueError(
            f"{document.origin}: one table [problem], or tables [problems.NAME], are required"
        )
    if single is not None:
        single = {"name": single} if isinstance(single, str) else single
        make, fixed, listed = _problem(document, single, folder, "problem")
        if listed:
            return lambda **point: make(**fixed, **point), {k: tuple(v) for k, v in listed.items()}
        return lambda problem: make(**fixed), {"problem": (single["name"],)}
    labelled: dict[str, Callable[[], Problem]] = {}
    for name, arguments in several.items():
        arguments = {"name": arguments} if isinstance(arguments, str) else arguments
        make, fixed, listed = _problem(
            document, {"name": name, **arguments}, folder, "problems", name
        )
        for values in itertools.product(*listed.values()):
            point = dict(zip(listed, values, strict=True))
            words = [name, *(f"{key}={value}" for key, value in point.items())]
            labelled[" ".join(words)] = lambda make=make, point={**fixed, **point}: make(**point)
    return lambda problem: labelled[problem](), {"problem": tuple(labelled)}


def _problem(
    document: _Document, table: Mapping[str, Any], folder: Path, *keys: str
) -> tuple[Callable[..., Problem], dict[str, Any], dict[str, list[Any]]]:
    """The function of a problem, its arguments, and those that are lists of values."""
    if "name" not in table:
        raise document.error("its `name` is missing: a problem's, or a .npz file's", *keys)
    name = str(table["name"])
    path = folder / name
    try:
        make = builder(str(path) if name.endswith(".npz") else name)
    except ValueError as error:
        raise document.error(error, *keys, "name") from None
    parameters = tuple(inspect.signature(make).parameters)
    given = {key: value for key, value in table.items() if key != "name"}
    document.known(given, parameters, *keys)
    listed = {key: value for key, value in given.items() if isinstance(value, list)}
    for key, values in listed.items():
        if not values or len(set(map(str, values))) < len(values):
            raise document.error(f"got {values}; distinct values are required", *keys, key)
    fixed = {key: value for key, value in given.items() if key not in listed}
    try:
        for values in itertools.product(*listed.values()):
            make(**fixed, **dict(zip(listed, values, strict=True)))
    except (ValueError, TypeError) as error:
        raise document.error(str(error), *keys) from None
    return make, fixed, listed


def _grid(document: _Document) -> dict[str, list[float]]:
    found = {}
    for axis, values in document.tables("grid").items():
        try:
            listed = expressions.numbers(values) if isinstance(values, str) else values
            listed = listed if isinstance(listed, list) else [listed]
            if not listed:
                raise ValueError("it is empty; at least one value is required")
            found[axis] = [float(value) for value in listed]
        except (TypeError, ValueError) as error:
            raise document.error(str(error), "grid", axis) from None
    return found


def _measures(document: _Document) -> tuple[tuple[str, ...], bool]:
    """What is measured, and whether it is the paths of agents."""
    asked = document.table.get("measures")
    if isinstance(asked, str):
        asked = [asked]
    if not isinstance(asked, list) or not asked:
        raise ValueError(
            f"{document.origin}: 'measures' is missing; known: {', '.join((*MEASURES, *TRACKED))}"
        )
    for name in asked:
        if name not in (*MEASURES, *TRACKED):
            raise document.error(unknown("measure", str(name), (*MEASURES, *TRACKED)), "measures")
    kinds = {name in TRACKED for name in asked}
    if len(kinds) > 1:
        raise document.error(
            f"got {asked}; {', '.join(TRACKED)} are of agents, the others of learners", "measures"
        )
    return tuple(asked), kinds.pop()


def _selection(document: _Document, measures: tuple[str, ...]) -> dict[str, Any]:
    """By what hyper-parameters are chosen, and on how many runs of their own."""
    table = document.tables("selection")
    document.known(table, SELECTION, "selection")
    choice = {"measure": measures[0], "by": "area", "runs": 0, **table}
    for key, known in (("measure", measures), ("by", RULES)):
        if choice[key] not in known:
            raise document.error(unknown(key, str(choice[key]), known), "selection", key)
    if type(choice["runs"]) is not int or choice["runs"] < 0:
        raise document.error(
            f"got {choice['runs']!r}; a whole number >= 0 is required", "selection", "runs"
        )
    return choice


def _targets(document: _Document, folder: Path) -> dict[str, Target] | None:
    asked = document.table.get("target")
    if asked is None or asked == "own":
        return None
    found: dict[str, Target] = {}
    for label in asked if isinstance(asked, list) else [asked]:
        path = folder / str(label)
        if label in TARGETS:
            found[label] = TARGETS[label]
        elif path.suffix == ".npy" and path.exists():
            policy = np.load(path, allow_pickle=False)
            found[label] = lambda problem, policy=policy: policy
        else:
            known_names = (*TARGETS, "a .npy file that exists")
            raise document.error(unknown("target", str(label), known_names), "target")
    return found
