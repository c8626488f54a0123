"""Reads a section from the folder that `emphatic train` wrote."""

import io
import json
import shlex
from pathlib import Path
from typing import cast

import numpy as np

from .._files import Json, read_metadata
from ..figures.training import write
from .section import Picture, Section

CURVES, PLAN, POLICIES = "curves.nc", "training.json", "policy.safetensors"
MOST_ROWS = 21  # evaluations that the table has
MEASURES = {
    "J": "discounted return of excursions",
    "return": "return of episodes",
    "ratio": "mean ratio",
    "emphasis": "mean emphasis m(S)",
    "trace": "mean trace M",
}
OPTIONS = {"environment": "env", "kind": "policy"}  # of `emphatic train`, named otherwise


def from_training(folder: Path) -> Section:
    """Reads a section from the folder of a training that has finished."""
    import xarray

    if not (folder / CURVES).exists():
        raise ValueError(f"folder: {folder} has no {CURVES}: its training has not finished yet")
    plan = _read_plan(folder)
    with xarray.open_dataset(folder / CURVES, engine="scipy") as dataset:
        steps, diverged = dataset["steps"].values, dataset["diverged"].values.astype(bool)
        runs = len(diverged)
        shown = np.unique(np.linspace(0, len(steps) - 1, MOST_ROWS).round().astype(int))
        names = [name for name in MEASURES if np.isfinite(dataset[name].values).any()]
        rows = [
            [int(steps[n]), *(_describe_mean(dataset[name].values[:, n]) for name in names)]
            for n in shown
        ]
        picture = io.BytesIO()
        write(dataset, picture, "svg")
    title = f"{plan['algorithm']} on {plan['environment']}"
    caption = f"J and the return over the steps, {runs} runs"
    question = (
        f"What does {plan['algorithm']} learn on {plan['environment']} from a behaviour that never "
        f"changes? {int(diverged.any(1).sum())} of {runs} runs diverged."
    )
    columns = ["steps", *(MEASURES[name] for name in names)]
    tables = {"Means over the runs ± standard deviations": (columns, rows)}
    labels = {"kind": "policy"}
    settings = {labels.get(key, key): value for key, value in plan.items() if value is not None}
    pictures = [Picture(picture.getvalue(), "svg", caption, f"{title}: {caption}")]
    command = _command(plan, folder)
    return Section(
        title, question, tables=tables, pictures=pictures, settings=settings, command=command
    )


def _read_plan(folder: Path) -> Json:
    """The settings of a training; those in its policies, if an earlier version wrote the folder."""
    try:
        if (folder / PLAN).exists():
            plan = json.loads((folder / PLAN).read_text())
        else:
            plan = json.loads(read_metadata(folder / POLICIES)["policy"])
            plan["steps"] = plan.pop("num_steps")
            del plan["theta"]
        del plan["format"]
        return plan
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"folder: {folder} cannot be read as a training: {error}") from None


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
