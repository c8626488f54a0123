"""Experiments in TOML: problems, learners, a grid, runs; checked whole before anything runs."""

import inspect
import itertools
import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args, TypeAlias

import numpy as np

from .._validation import unknown
from ..engine import Engine, MEASURES, request
from ..engine.expressions import depends_on_target, parse_learner, parse_numbers, trace_expression
from ..engine.run import DType
from ..mdp import Problem
from ..problems import builder
from ..types import LearnerFactory
from .experiment import Experiment, Learners, Selection, Target
from .tracking import track_agents, TRACKED

Toml: TypeAlias = Any
"""A value in a TOML file: a number, a text, a list, a table."""

CONTENTS = ("name", "problem", "problems", "target", "learners", "grid", "measures")
SETTINGS = ("steps", "runs", "seed", "record_every", "records", "dtype", "engine", "selection")
TARGETS: dict[str, Target] = {
    "own": lambda problem: problem.target,
    "behavior": lambda problem: problem.behavior,
    "uniform": lambda problem: np.full_like(problem.behavior, 1.0 / problem.behavior.shape[1]),
}
"""Target policies by name."""
RULES = ("final", "area")
CHOICES = {"dtype": get_args(DType), "engine": get_args(Engine)}
NAME = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
KEY = rf"{NAME}(?:\s*\.\s*{NAME})*"  # names, some in quotes


class _Document:
    """A parsed file that can say on which line a key is."""

    def __init__(self, text: str, origin: str):
        self.text, self.origin = text, origin
        try:
            self.table: dict[str, Toml] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{origin}: {error}") from None

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
        return ValueError(f"{self.origin}, line {self.line(*keys)}, {'.'.join(keys)}: {error}")

    def locate(self, error: ValueError) -> ValueError:
        """Returns an error that begins with the name of a key, with its file and line."""
        name, _, message = str(error).partition(": ")
        key = name.removeprefix("num_")
        if key in self.table:
            return self.error(message, key)
        return ValueError(f"{self.origin}: {error}")

    def require_keys(self, table: Collection[str], valid: Collection[str], *keys: str) -> None:
        """Raises a `ValueError` for the first key that is none of these."""
        for key in table:
            if key not in valid:
                raise self.error(unknown("key", key, valid), *keys, key)

    def whole_number(self, key: str, default: int) -> int:
        """Returns a whole number, which may be written 1e6."""
        value = self.table.get(key, default)
        if type(value) in (int, float) and float(value).is_integer():
            return int(value)
        raise self.error(f"got {value!r}; a whole number is required", key)

    def subtable(self, key: str) -> dict[str, Toml]:
        """Returns a table of the file, which may be missing."""
        table = self.table.get(key, {})
        if not isinstance(table, dict):
            raise self.error(f"got {table!r}; a table [{key}] is required", key)
        return cast(dict[str, Toml], table)


def read(path: str | os.PathLike[str], imports: Collection[str] = ()) -> Experiment:
    """Reads an experiment in TOML, with the files that it names in its folder.

    It imports no module but those in `imports`, for learners such as `mylearners:tdrc(0.1)`. An
    error is a `ValueError` that names the line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"file: {path} cannot be read: {error}") from None
    return parse(text, path.name, path.parent, path.stem, imports)


def parse(
    text: str,
    origin: str = "experiment",
    folder: Path = Path(),
    name: str = "experiment",
    imports: Collection[str] = (),
) -> Experiment:
    """Parses an experiment in TOML, which errors call `origin`; files it names are in `folder`."""
    document = _Document(text, origin)
    table = document.table
    document.require_keys(table, (*CONTENTS, *SETTINGS))
    for required in ("learners", "steps"):
        if required not in table:
            raise ValueError(f"{origin}: {required!r} is missing")
    build, cases = _parse_problems(document, folder)
    grid = _parse_grid(document)
    targets = _parse_targets(document, folder)
    learners, definitions = _parse_learners(document, grid, imports, targets or {})
    first = build(**{key: values[0] for key, values in cases.items()})
    measures, tracked = _parse_measures(document, learners, grid, first)
    if tracked:
        definitions = {label: f"paths({text})" for label, text in definitions.items()}
    selection = _parse_selection(document, measures)
    defaults = {"steps": 0, "runs": 30, "seed": 0, "record_every": 1000}
    counts = {key: document.whole_number(key, default) for key, default in defaults.items()}
    records = document.whole_number("records", 0) if "records" in table else None
    for key, known in CHOICES.items():
        if (choice := table.get(key, known[0])) not in known:
            raise document.error(unknown(key, str(choice), known), key)
    try:
        return Experiment(
            name=str(table.get("name", name)),
            build=build,
            cases=cases,
            learners=learners,
            measures=("weights",) if tracked else measures,
            num_steps=counts["steps"],
            grid=grid,
            num_runs=counts["runs"] + selection.runs,
            seed=counts["seed"],
            record_every=counts["record_every"],
            num_records=records,
            dtype=table.get("dtype", "float32"),
            engine=table.get("engine", "auto"),
            targets=targets,
            derive=(lambda p, dataset: track_agents(p, learners(p), dataset)) if tracked else None,
            definitions=definitions,
            selection=selection,
            metadata={"text": text, "measures": list(measures), "runs": counts["runs"]},
        )
    except ValueError as error:
        raise document.locate(error) from None


class _Builder:
    """Builds the problems of a table, each once."""

    def __init__(self, build: Callable[..., Problem], fixed: Mapping[str, Toml]):
        self.build, self.fixed = build, fixed
        self.problems: dict[str, Problem] = {}

    def __call__(self, **point: Toml) -> Problem:
        key = repr(point)
        if key not in self.problems:
            self.problems[key] = self.build(**self.fixed, **point)
        return self.problems[key]

    def __reduce__(self) -> tuple[type["_Builder"], tuple[object, ...]]:
        return _Builder, (self.build, self.fixed)  # a worker gets its problem with its unit


def _build_one(builds: Mapping[str, Callable[[], Problem]], problem: str) -> Problem:
    return builds[problem]()


def _parse_problems(
    document: _Document, folder: Path
) -> tuple[Callable[..., Problem], dict[str, tuple[Toml, ...]]]:
    """Returns what builds the problem of a case, and the cases: lists of a single one are axes."""
    single, several = document.table.get("problem"), document.subtable("problems")
    if (single is None) == (not several):
        raise ValueError(
            f"{document.origin}: one table [problem], or tables [problems.NAME], are required"
        )
    if single is not None:
        single = {"name": single} if isinstance(single, str) else single
        if not isinstance(single, dict):
            raise document.error(f"got {single!r}; a name or a table is required", "problem")
        build, points = _parse_problem(document, single, folder, "problem")
        if points[0]:
            return build, {key: tuple(single[key]) for key in points[0]}
        return partial(_build_one, {single["name"]: build}), {"problem": (single["name"],)}
    builds: dict[str, Callable[[], Problem]] = {}
    for name, arguments in several.items():
        arguments = {"name": arguments} if isinstance(arguments, str) else arguments
        arguments = {"name": name, **arguments}
        keys = "problems", name
        build, points = _parse_problem(document, arguments, folder, *keys)
        for point in points:
            label = " ".join([name, *(f"{key}={value}" for key, value in point.items())])
            if label in builds:
                raise document.error(f"{label!r} is there twice; give it another name", *keys)
            builds[label] = partial(build, **point)
    return partial(_build_one, builds), {"problem": tuple(builds)}


def _parse_problem(
    document: _Document, table: Mapping[str, Toml], folder: Path, *keys: str
) -> tuple[_Builder, list[dict[str, Toml]]]:
    """Returns what builds the problems of a table, and their arguments that are lists."""
    if "name" not in table:
        raise document.error("its `name` is missing: a problem's, or a .npz file's", *keys)
    name = str(table["name"])
    try:
        make = builder(str(folder / name) if name.endswith(".npz") else name)
    except ValueError as error:
        raise document.error(error, *keys, "name") from None
    arguments = {key: value for key, value in table.items() if key != "name"}
    document.require_keys(arguments, tuple(inspect.signature(make).parameters), *keys)
    lists = {key: arguments[key] for key in arguments if isinstance(arguments[key], list)}
    for key, values in lists.items():
        if not values or len(set(map(str, values))) < len(values):
            raise document.error(f"got {values}; distinct values are required", *keys, key)
    build = _Builder(make, {key: arguments[key] for key in arguments if key not in lists})
    points = [dict(zip(lists, v, strict=True)) for v in itertools.product(*lists.values())]
    try:
        for point in points:
            build(**point)
    except (ValueError, TypeError) as error:
        raise document.error(error, *keys) from None
    return build, points


def _as_list(value: Toml) -> list[Toml]:
    """Returns a list as it is, and any other value as a list of one."""
    return cast(list[Toml], value) if isinstance(value, list) else [value]


def _parse_grid(document: _Document) -> dict[str, list[float]]:
    grid: dict[str, list[float]] = {}
    for axis, values in document.subtable("grid").items():
        try:
            numbers = _as_list(parse_numbers(values) if isinstance(values, str) else values)
            if not numbers:
                raise ValueError("it is empty; at least one value is required")
            grid[axis] = [float(number) for number in numbers]
        except (TypeError, ValueError) as error:
            raise document.error(error, "grid", axis) from None
    return grid


def _parse_learners(
    document: _Document,
    grid: Mapping[str, list[float]],
    imports: Collection[str],
    targets: Collection[str],
) -> tuple[Callable[[Problem], dict[str, LearnerFactory]], dict[str, str]]:
    """Returns what makes the learners of a problem by label, and their definitions."""
    parsed: dict[str, Callable[[Problem], LearnerFactory]] = {}
    definitions: dict[str, str] = {}
    for label, expression in document.subtable("learners").items():
        try:
            if not isinstance(expression, str):
                raise ValueError(f"got {expression!r}; an expression in quotes is required")
            parsed[label] = parse_learner(expression, grid, imports=imports)
            definitions[label] = trace_expression(expression).definition
            if {*targets} - {"own"} and depends_on_target(expression):
                definitions[label] += " of each target"
        except ValueError as error:
            raise document.error(error, "learners", label) from None
    return (lambda problem: {label: bind(problem) for label, bind in parsed.items()}), definitions


def _parse_measures(
    document: _Document,
    learners: Callable[[Problem], Learners],
    grid: Mapping[str, list[float]],
    problem: Problem,
) -> tuple[tuple[str, ...], bool]:
    """Returns what is measured, by default what the learners estimate; and if agents' paths are."""
    measures = _as_list(document.table.get("measures", []))
    known = (*MEASURES, *TRACKED)
    try:
        axes = request.parse_axes(grid)
        factories = request.parse_learners(learners(problem), axes, problem)
        agents = request.find_agents(factories, axes)
        if not measures and agents == set(factories):
            return TRACKED[:1], True
        if not measures:
            return request.default_measures(factories, axes), False
        if not {*measures} - {*MEASURES}:
            request.parse_measures(problem, measures, factories, axes, agents)
    except ValueError as error:
        raise document.locate(error) from None
    for name in measures:
        if name not in known:
            raise document.error(unknown("measure", str(name), known), "measures")
    kinds = {name in TRACKED for name in measures}
    if len(kinds) > 1:
        agents = ", ".join(TRACKED)
        raise document.error(
            f"got {measures}; {agents} are of agents, the others of learners", "measures"
        )
    return tuple(measures), kinds.pop()


def _parse_selection(document: _Document, measures: tuple[str, ...]) -> Selection:
    """Returns how hyper-parameters are chosen, and on how many runs of their own."""
    table = document.subtable("selection")
    document.require_keys(table, ("measure", "by", "runs"), "selection")
    choice: dict[str, Toml] = {"measure": measures[0], "by": "area", "runs": 0, **table}
    for key, known in (("measure", measures), ("by", RULES)):
        if choice[key] not in known:
            raise document.error(unknown(key, str(choice[key]), known), "selection", key)
    runs = choice["runs"]
    if type(runs) is not int or runs < 0:
        raise document.error(f"got {runs!r}; a whole number >= 0 is required", "selection", "runs")
    return Selection(**choice)


def _parse_targets(document: _Document, folder: Path) -> dict[str, Target] | None:
    labels = document.table.get("target")
    if labels is None or labels == "own":
        return None
    targets: dict[str, Target] = {}
    for label in _as_list(labels):
        path = folder / str(label)
        if label in TARGETS:
            targets[label] = TARGETS[label]
        elif path.suffix == ".npy" and path.exists():
            policy = np.load(path, allow_pickle=False)
            targets[label] = lambda problem, policy=policy: policy
        else:
            known = (*TARGETS, "a .npy file that exists")
            raise document.error(unknown("target", str(label), known), "target")
    return targets
