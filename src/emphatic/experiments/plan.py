"""The folder of a store, and the file in it that says what the experiment is."""

import json
import math
import re
from pathlib import Path
from typing import Annotated, Literal, NotRequired, TypedDict

from .._files import atomic_write, PARTIAL, read_bytes, read_text
from .._schema import conform, parse_json, Rule, show
from ..problems import digest
from .dataset import describe, Layout
from .experiment import Experiment
from .units import Address

FORMAT, MAX_CELLS = 1, 10**9
EXPERIMENT, LOCK = "experiment.json", ".lock"
UNITS, PROBLEMS, RUNNING, ASIDE = "units", "problems", "running", "aside"


Digest = Annotated[str, Rule("a digest of 64 digits", re.compile("[0-9a-f]{64}").fullmatch)]
"""The digest of a problem, which is also the name of its file."""


class Choice(TypedDict):
    """How hyper-parameters are chosen; see [Selection]."""

    measure: str
    by: Literal["final", "area"]
    runs: Annotated[int, Rule("a whole number >= 0", lambda n: n >= 0)]


class About(TypedDict):
    """What a reader should know of an experiment besides its results; it may say more."""

    text: NotRequired[str]  # the file that it was read from
    options: NotRequired[str]  # of the command line, that changed what the file says
    command: NotRequired[str]
    measures: NotRequired[list[str]]
    selection: NotRequired[Choice]


class Plan(TypedDict):
    """What an experiment is, as `experiment.json` says it."""

    format: int
    name: Annotated[str, Rule("a name", str.strip)]
    layout: Layout
    addresses: list[dict[str, Address]]  # of each case, by learner
    problems: list[Digest]  # of each case
    definitions: dict[str, str]
    about: About


class _Version(TypedDict):
    format: Annotated[int, Rule("a whole number >= 1", lambda n: n >= 1)]


def make_plan(experiment: Experiment) -> Plan:
    """Makes the plan of an experiment, whose learners must have definitions or sources."""
    addresses: list[dict[str, str]] = [{} for _ in experiment.points()]
    problems = [""] * len(addresses)
    definitions: dict[str, str] = {}
    for unit in experiment.wholes:
        definitions.setdefault(unit.learner, str(unit.definition["learner"]))
        addresses[unit.case][unit.learner] = unit.address
        problems[unit.case] = problems[unit.case] or digest(unit.problem)
    about = dict(experiment.metadata)
    if experiment.selection is not None:
        about["selection"] = vars(experiment.selection)
    plan = {
        "format": FORMAT,
        "name": experiment.name,
        "layout": describe(experiment),
        "addresses": addresses,
        "problems": problems,
        "definitions": definitions,
        "about": about,
    }
    return _parse(json.dumps(plan).encode(), "experiment")  # as it will be read


def write_plan(plan: Plan, folder: Path) -> None:
    """Writes a plan to a folder, unless it is there."""
    path, text = folder / EXPERIMENT, json.dumps(plan, indent=1)
    if not path.exists() or read_text(path, "store") != text:
        with atomic_write(path) as file:
            file.write(text.encode())


def read_plan(folder: Path) -> Plan:
    """Reads the plan in a folder; a `ValueError` if there is none."""
    path = folder / EXPERIMENT
    if not path.exists():
        raise ValueError(f"store: {folder} has no {EXPERIMENT}; it is not a store")
    return _parse(read_bytes(path, "store"), f"store: {path}")


def _parse(text: bytes, origin: str) -> Plan:
    """Parses a plan, which must have the schema, and parts that fit each other."""
    version = parse_json(text, _Version, origin)
    if version["format"] > FORMAT:
        number = version["format"]
        raise ValueError(
            f"{origin} has the format {number}, of a newer version; this one knows {FORMAT}"
        )
    plan = conform(version, Plan, origin)
    if problem := _find_contradiction(plan):
        raise ValueError(f"{origin}{problem}")
    return plan


def _find_contradiction(plan: Plan) -> str:
    """Says where and how parts of a plan contradict each other; nothing if they do not."""
    layout, names = plan["layout"], plan["layout"]["learners"].keys()
    grid, num_cases = layout["grid"], math.prod(map(len, layout["cases"].values()))
    for place in ("addresses", "problems"):
        if len(plan[place]) != num_cases:
            return f", {place}: got {len(plan[place])}; one for each of {num_cases} cases required"
    for case, addresses in enumerate(plan["addresses"]):
        if addresses.keys() != names:
            return f", addresses[{case}]: one for each of the learners in the layout is required"
    for learner, axes in layout["learners"].items():
        if not set(axes) <= grid.keys():
            return f", layout.learners: {show(learner)} has an axis that is not in the grid"
    axes = [*layout["cases"], *grid, "learner", "run", "time"]
    if len(set(axes)) < len(axes):
        return ", layout: an axis of the cases or the grid is there twice, or one of every result"
    num_points = sum(math.prod(len(grid[a]) for a in axes) for axes in layout["learners"].values())
    if (cells := num_cases * num_points * layout["num_runs"]) > MAX_CELLS:
        return f", layout: it has {cells} cells; at most {MAX_CELLS} are possible"
    return ""


def require_folder(folder: Path, name: str) -> None:
    """Raises a `ValueError` if a folder has other files, or an experiment of another name."""
    if not folder.is_dir():
        return
    if not (folder / EXPERIMENT).exists():
        # The plan itself may come between the two looks, from a process that is faster.
        store_names = {UNITS, PROBLEMS, RUNNING, ASIDE, LOCK, EXPERIMENT, ".probe"}
        others = {path.name for path in folder.iterdir()} - store_names
        if any(not (n.startswith(EXPERIMENT) and n.endswith(PARTIAL)) for n in others):
            raise ValueError(
                f"out: {folder} holds other files; an empty folder or a store is required"
            )
        return  # it is empty, or somebody began
    if (existing_name := read_plan(folder)["name"]) != name:
        message = f"holds the experiment {existing_name!r}, not {name!r}; choose another folder"
        raise ValueError(f"out: {folder} {message}")
