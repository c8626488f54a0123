"""Experiments in TOML: problems, learners, a grid, runs; checked whole before anything runs."""

import inspect
import itertools
import math
import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import cast, get_type_hints

import numpy as np

from .._files import read_npy, read_text
from .._schema import show
from .._validation import unknown
from ..engine import MEASURES, request
from ..engine.expressions import depends_on_target, parse_learner, parse_numbers, trace_expression
from ..mdp import Problem
from ..problems import builder
from ..types import LearnerFactory
from .document import Choice, Document, MAX_TEXT, Toml
from .experiment import Experiment, Selection, Target
from .tracking import track_agents, TRACKED

MAX_CASES = 10_000  # combinations of arguments of a problem
TARGETS: dict[str, Target] = {
    "own": lambda problem: problem.target,
    "behavior": lambda problem: problem.behavior,
    "uniform": lambda problem: np.full_like(problem.behavior, 1.0 / problem.behavior.shape[1]),
}
"""Target policies by name."""


def read(path: str | os.PathLike[str], imports: Collection[str] = ()) -> Experiment:
    """Reads an experiment in TOML, with the files that it names in its folder.

    It imports no module but those in `imports`, for learners such as `mylearners:tdrc(0.1)`. An
    error is a `ValueError` that names the line.
    """
    path = Path(path)
    text = read_text(path, "file", MAX_TEXT)
    return parse(text, path.name, path.parent, path.stem, imports)


def parse(
    text: str,
    origin: str = "experiment",
    folder: Path = Path(),
    name: str = "experiment",
    imports: Collection[str] = (),
) -> Experiment:
    """Parses an experiment in TOML, which errors call `origin`; files it names are in `folder`."""
    document = Document(text, origin)
    table = document.table
    build, cases = _parse_problems(document, folder)
    grid = _parse_grid(document)
    targets = _parse_targets(document, folder)
    learners, definitions = _parse_learners(document, grid, imports, targets or {})
    first = build(**{key: values[0] for key, values in cases.items()})
    axes = request.parse_axes(grid)
    factories = _try_learners(document, learners(first), axes, first)
    measures, tracked = _parse_measures(document, factories, axes)
    if tracked:
        definitions = {label: f"paths({text})" for label, text in definitions.items()}
    selection = _parse_selection(document, measures)
    defaults = {"steps": 0, "runs": 30, "seed": 0, "record_every": 1000}
    counts = {key: document.whole_number(key, default) for key, default in defaults.items()}
    records = document.whole_number("records", 0) if "records" in table else None
    try:
        return Experiment(
            name=table.get("name", name),
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
            metadata={"text": document.text, "measures": list(measures), "runs": counts["runs"]},
            device=table.get("device", "cpu"),
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
    document: Document, folder: Path
) -> tuple[Callable[..., Problem], dict[str, tuple[Toml, ...]]]:
    """Returns what builds the problem of a case, and the cases: lists of a single one are axes."""
    single, several = document.table.get("problem"), document.table.get("problems", {})
    if (single is None) == (not several):
        raise ValueError(
            f"{document.origin}: one table [problem], or tables [problems.NAME], are required"
        )
    if single is not None:
        single = {"name": single} if isinstance(single, str) else single
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
    document: Document, table: Mapping[str, Toml], folder: Path, *keys: str
) -> tuple[_Builder, list[dict[str, Toml]]]:
    """Returns what builds the problems of a table, and their arguments that are lists."""
    if "name" not in table:
        raise document.error("its `name` is missing: a problem's, or a .npz file's", *keys)
    document.conform(name := table["name"], str, *keys, "name")
    try:
        make = builder(str(folder / name) if name.endswith(".npz") else name)
    except ValueError as error:
        raise document.error(error, *keys, "name") from None
    arguments = {key: value for key, value in table.items() if key != "name"}
    document.require_keys(arguments, tuple(inspect.signature(make).parameters), *keys)
    for key, value in arguments.items():
        for entry in _as_list(value):
            document.conform(entry, get_type_hints(make)[key], *keys, key)
    lists = {key: arguments[key] for key in arguments if isinstance(arguments[key], list)}
    for key, values in lists.items():
        if not values or len(set(map(str, values))) < len(values):
            required = "distinct values are required"
            raise document.error(f"got {show(values)}; {required}", *keys, key)
    if (num_points := math.prod(map(len, lists.values()))) > MAX_CASES:
        raise document.error(f"{num_points:,} combinations; at most {MAX_CASES:,}", *keys)
    build = _Builder(make, {key: arguments[key] for key in arguments if key not in lists})
    points = [dict(zip(lists, v, strict=True)) for v in itertools.product(*lists.values())]
    try:
        for point in points:
            build(**point)
    except ValueError as error:
        raise document.error(error, *keys) from None
    return build, points


def _as_list(value: Toml) -> list[Toml]:
    """Returns a list as it is, and any other value as a list of one."""
    return cast(list[Toml], value) if isinstance(value, list) else [value]


def _parse_grid(document: Document) -> dict[str, list[float]]:
    grid: dict[str, list[float]] = {}
    for axis, values in document.table.get("grid", {}).items():
        try:
            numbers = parse_numbers(values) if isinstance(values, str) else _as_list(values)
            if not numbers:
                raise ValueError("it is empty; at least one value is required")
            grid |= {axis: request.parse_axes({axis: numbers})[axis].tolist()}
        except ValueError as error:
            raise document.error(str(error).removeprefix("grid: "), "grid", axis) from None
    return grid


def _parse_learners(
    document: Document,
    grid: Mapping[str, list[float]],
    imports: Collection[str],
    targets: Collection[str],
) -> tuple[Callable[[Problem], dict[str, LearnerFactory]], dict[str, str]]:
    """Returns what makes the learners of a problem by label, and their definitions."""
    parsed: dict[str, Callable[[Problem], LearnerFactory]] = {}
    definitions: dict[str, str] = {}
    for label, expression in document.table["learners"].items():
        try:
            parsed[label] = parse_learner(expression, grid, imports=imports)
            definitions[label] = trace_expression(expression).definition
            if {*targets} - {"own"} and depends_on_target(expression):
                definitions[label] += " of each target"
        except ValueError as error:
            raise document.error(error, "learners", label) from None
    return (lambda problem: {label: bind(problem) for label, bind in parsed.items()}), definitions


def _try_learners(
    document: Document, learners: Mapping[str, LearnerFactory], axes: request.Axes, problem: Problem
) -> dict[str, LearnerFactory]:
    """Returns the learners of a problem, each made at every value of the axes that it takes."""
    if not learners:
        raise document.error("got none; at least one by its name is required", "learners")
    factories: dict[str, LearnerFactory] = {}
    for label, factory in learners.items():
        own_axes = request.learner_axes(factory, axes)
        try:
            factories |= request.parse_learners({label: factory}, own_axes, problem)
        except ValueError as error:
            reason = str(error).removeprefix(f"learners: {label!r}: ")
            raise document.error(reason, "learners", label) from None
    signatures = map(inspect.signature, factories.values())
    names = sorted({name for signature in signatures for name in signature.parameters})
    for axis in axes:
        if axis not in names:
            raise document.error(unknown("axis", axis, names), "grid", axis)
    return factories


def _parse_measures(
    document: Document, factories: Mapping[str, LearnerFactory], axes: request.Axes
) -> tuple[tuple[str, ...], bool]:
    """Returns what is measured, by default what the learners estimate; and if agents' paths are."""
    measures: list[str] = _as_list(document.table.get("measures", []))
    known = (*MEASURES, *TRACKED)
    try:
        agents = request.find_agents(factories, axes)
        if not measures and agents == set(factories):
            return TRACKED[:1], True
        if not measures:
            return request.default_measures(factories, axes), False
        if not {*measures} - {*MEASURES}:
            chosen = {name: MEASURES[name] for name in measures}
            request.require_estimates(chosen, factories, axes, agents)
    except ValueError as error:
        raise document.locate(error, "learners") from None
    for name in measures:
        if name not in known:
            raise document.error(unknown("measure", name, known), "measures")
    kinds = {name in TRACKED for name in measures}
    if len(kinds) > 1:
        agents = ", ".join(TRACKED)
        raise document.error(
            f"got {show(measures)}; {agents} are of agents, the others of learners", "measures"
        )
    return tuple(measures), kinds.pop()


def _parse_selection(document: Document, measures: tuple[str, ...]) -> Selection:
    """Returns how hyper-parameters are chosen, and on how many runs of their own."""
    table = document.table.get("selection", {})
    document.require_keys(table, get_type_hints(Choice), "selection")
    choice: dict[str, Toml] = {"measure": measures[0], "by": "area", "runs": 0, **table}
    if choice["measure"] not in measures:
        error = unknown("measure", choice["measure"], measures)
        raise document.error(error, "selection", "measure")
    return Selection(**choice)


def _parse_targets(document: Document, folder: Path) -> dict[str, Target] | None:
    labels = _as_list(document.table.get("target", "own"))
    if not labels:
        raise document.error("got none; at least one is required", "target")
    if document.table.get("target", "own") == "own":
        return None
    targets: dict[str, Target] = {}
    for label in labels:
        try:
            if label in TARGETS:
                targets[label] = TARGETS[label]
            elif label.endswith(".npy"):
                policy = read_npy(folder / label, "target")
                targets[label] = lambda problem, policy=policy: policy
            else:
                raise unknown("target", label, (*TARGETS, "a .npy file that exists"))
        except ValueError as error:
            raise document.error(error, "target") from None
    return targets
