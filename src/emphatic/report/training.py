"""Reads a section from the folder that `emphatic train` wrote."""

import shlex
from pathlib import Path
from typing import Annotated, cast, TYPE_CHECKING, TypedDict

import numpy as np

from .._files import Json, read_metadata
from .._schema import Count, parse_json, read_json, Rule, Seed
from ..experiments.curves import AXES, CURVES, read_curves
from ..figures.training import render
from .section import Picture, Section

if TYPE_CHECKING:
    import xarray

PLAN, POLICIES = "training.json", "policy.safetensors"
MOST_ROWS = 21  # evaluations that the table has
MEASURES = {
    "J": "discounted return of excursions",
    "return": "return of episodes",
    "ratio": "mean ratio",
    "emphasis": "mean emphasis m(S)",
    "trace": "mean trace M",
}
OPTIONS = {"environment": "env", "kind": "policy"}  # of `emphatic train`, named otherwise


class Described(TypedDict):
    """What a section says of a training by name; its file has more, which is shown as it is."""

    format: str
    algorithm: str
    environment: str
    seeds: Annotated[list[Seed], Rule("a list of seeds", len)]


class Settings(Described):
    """What `training.json` has to have."""

    steps: Count


class EarlierSettings(Described):
    """What the description of policies has to have, where an earlier version wrote no plan."""

    num_steps: Count


def from_training(folder: Path) -> Section:
    """Reads a section from the folder of a training that has finished."""
    if not (folder / CURVES).exists():
        raise ValueError(f"folder: {folder} has no {CURVES}: its training has not finished yet")
    plan = _read_plan(folder)
    dataset = read_curves(folder / CURVES)
    steps, diverged = dataset["steps"].values, dataset["diverged"].values.astype(bool)
    runs = len(diverged)
    shown = np.unique(np.linspace(0, len(steps) - 1, MOST_ROWS).round().astype(int))
    curves = {name: dataset[name].values for name in _measured(dataset)}
    rows = [
        [int(steps[n]), *(_describe_mean(curves[name][:, n]) for name in curves)] for n in shown
    ]
    picture = render(dataset, "svg")
    title = f"{plan['algorithm']} on {plan['environment']}"
    caption = f"J and the return over the steps, {runs} runs"
    question = (
        f"What does {plan['algorithm']} learn on {plan['environment']} from a behaviour that never "
        f"changes? {int(diverged.any(1).sum())} of {runs} runs diverged."
    )
    columns = ["steps", *(MEASURES[name] for name in curves)]
    tables = {"Means over the runs ± standard deviations": (columns, rows)}
    labels = {"kind": "policy"}
    settings = {labels.get(key, key): value for key, value in plan.items() if value is not None}
    pictures = [Picture(picture, "svg", caption, f"{title}: {caption}")]
    command = _command(plan, folder)
    device = dataset.attrs.get("device")  # which earlier versions do not say
    provenance = {} if device is None else {"device": str(device)}
    parts = {"tables": tables, "pictures": pictures, "settings": settings}
    return Section(title, question, **parts, provenance=provenance, command=command)


def _measured(dataset: "xarray.Dataset") -> list[str]:
    """The measures that a dataset has a number of."""
    names = [name for name in MEASURES if name in dataset and dataset[name].dims == AXES]
    return [name for name in names if np.isfinite(dataset[name].values).any()]


def _read_plan(folder: Path) -> Json:
    """The settings of a training; those in its policies, if an earlier version wrote the folder."""
    if (folder / PLAN).exists():
        settings = {**read_json(folder / PLAN, Settings, "folder")}
        del settings["format"]
        return settings
    path = folder / POLICIES
    text = read_metadata(path, "folder").get("policy", "")
    settings = {**parse_json(text, EarlierSettings, f"folder: {path}, its description")}
    settings["steps"] = settings.pop("num_steps")
    return {name: value for name, value in settings.items() if name not in ("format", "theta")}


def _describe_mean(values: np.ndarray) -> str:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return "–"
    spread = f" ± {finite.std(ddof=1):.2f}" if len(finite) > 1 else ""
    return f"{finite.mean():.2f}{spread}"


def _command(plan: Json, folder: Path) -> str:
    """The command with all settings, and another folder for what is trained again."""
    seeds = cast(list[int], plan["seeds"])
    arguments = ["emphatic", "train", "--runs", str(len(seeds)), "--seed", str(seeds[0])]
    for name, value in plan.items():
        option = f"--{OPTIONS.get(name, name).replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif name != "seeds" and value is not None and value is not False:
            arguments += [option, str(value)]
    return shlex.join([*arguments, "--out", f"{folder}-again"])
