"""The folder of a store, and the file in it that says what the experiment is."""

import json
from pathlib import Path
from typing import TypedDict

from .._files import atomic_write, PARTIAL
from ..problems import digest
from .dataset import describe, Layout
from .experiment import Experiment

FORMAT = 1
EXPERIMENT, LOCK = "experiment.json", ".lock"
UNITS, PROBLEMS, RUNNING, ASIDE = "units", "problems", "running", "aside"


class Plan(TypedDict):
    """What an experiment is, as `experiment.json` says it."""

    format: int
    name: str
    layout: Layout
    addresses: list[dict[str, str]]  # of each case, by learner
    problems: list[str]  # of each case, the digest
    definitions: dict[str, str]
    about: dict[str, object]


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
    return {
        "format": FORMAT,
        "name": experiment.name,
        "layout": describe(experiment),
        "addresses": addresses,
        "problems": problems,
        "definitions": definitions,
        "about": about,
    }


def write_plan(plan: Plan, folder: Path) -> None:
    """Writes a plan to a folder, unless it is there."""
    path, text = folder / EXPERIMENT, json.dumps(plan, indent=1)
    if not path.exists() or path.read_text() != text:
        with atomic_write(path) as file:
            file.write(text.encode())


def read_plan(folder: Path) -> Plan:
    """Reads the plan in a folder; a `ValueError` if there is none."""
    try:
        plan: Plan = json.loads((folder / EXPERIMENT).read_text())
        version = plan["format"]
    except FileNotFoundError:
        raise ValueError(f"store: {folder} has no {EXPERIMENT}; it is not a store") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"store: {folder / EXPERIMENT} cannot be read: {error}") from None
    if version > FORMAT:
        raise ValueError(
            f"store: {folder} has the format {version}, of a newer version; this one knows {FORMAT}"
        )
    return plan


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
