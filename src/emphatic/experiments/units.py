"""The files of finished units: each a dataset, and what it says that it is."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TYPE_CHECKING, TypedDict

import numpy as np

from .._files import Json
from .._schema import conform, Rule, show
from .dataset import DIFFERENT
from .experiment import ADDRESS, Unit
from .provenance import Provenance
from .shards import Header, read_checked, read_description, to_dataset

if TYPE_CHECKING:
    import xarray

SUFFIX, DAMAGED = ".safetensors", ".damaged"

Address = Annotated[str, Rule("an address of 24 digits", ADDRESS.fullmatch)]
"""The address of curves; see [Unit]."""
Run = Annotated[int, Rule("the number of a run", lambda n: 0 <= n < 2**31)]
"""The number of a run."""
Values = Annotated[tuple[float, ...], DIFFERENT]
"""The values of an axis of the grid."""


class Description(TypedDict):
    """What the file of a unit says that it is."""

    address: Address
    definition: dict[str, object]
    grid: dict[str, Values]
    runs: Annotated[list[Run], DIFFERENT]
    diverged: Annotated[int, Rule("a whole number >= 0", lambda n: n >= 0)]
    provenance: Provenance


@dataclass(frozen=True)
class Shard:
    """A finished unit on disk: the grid and the runs that it has, and how many cells diverged."""

    path: Path
    grid: Mapping[str, tuple[float, ...]]
    runs: tuple[int, ...]
    diverged: int

    @property
    def num_cells(self) -> int:
        """How many cells it has."""
        return int(np.prod([len(values) for values in self.grid.values()])) * len(self.runs)


def describe(unit: Unit, dataset: "xarray.Dataset", origin: Provenance) -> Description:
    """Describes a unit and its dataset."""
    diverged = dataset["diverged"].any("time") if "diverged" in dataset else np.zeros(1)
    return {
        "address": unit.address,
        "definition": unit.definition,
        "grid": dict(unit.grid),
        "runs": list(unit.runs),
        "diverged": int(diverged.sum()),
        "provenance": origin,
    }


def find_unit(path: Path, check: bool = False) -> Description:
    """Reads what the file of a unit says that it is, and on demand checks all of the file."""
    return _read_checked(path)[0] if check else _conform(path, read_description(path))


def read_unit(path: Path) -> tuple["xarray.Dataset", Description]:
    """Reads the file of a unit, and checks that it is what it says; else a `ValueError`."""
    description, header, variables = _read_checked(path)
    return to_dataset(header, variables), description


def _read_checked(path: Path) -> tuple[Description, Header, dict[str, np.ndarray]]:
    header, variables = read_checked(path)
    description = _conform(path, header["description"])
    if problem := _find_contradiction(description, header, variables):
        raise ValueError(f"store: {path} is damaged: {problem}")
    return description, header, variables


def _conform(path: Path, description: Json) -> Description:
    return conform(description, Description, f"store: {path} is damaged, description")


def _find_contradiction(
    description: Description, header: Header, variables: Mapping[str, np.ndarray]
) -> str:
    """Says what a unit says of its results that is not true of them; nothing if all is."""
    labels, axes = {**description["grid"], "run": description["runs"]}, header["axes"]
    coordinates = {name: variables[name].tolist() for name in header["coordinates"]}
    for axis, values in labels.items():
        if coordinates.get(axis) != list(values):
            return f"its values of {show(axis)} are not those that it describes"
    for name, values in coordinates.items():
        if axes[name] == [name] and len(set(values)) < len(values):
            return f"its axis {show(name)} has a label twice"
    for name in variables.keys() - coordinates.keys():
        if not labels.keys() <= set(axes[name]):
            return f"its {show(name)} lacks an axis of the grid, or that of runs"
    if not all(isinstance(header["attributes"].get(key), str) for key in ("engine", "reason")):
        return "it does not say which engine computed it, and why"
    return ""


def put_aside(path: Path) -> Path:
    """Renames what is damaged, whatever it is, to a name that is free; returns that."""
    number, free = 1, path.with_suffix(DAMAGED)
    while os.path.lexists(free):
        number += 1
        free = path.with_suffix(f".{number}{DAMAGED}")
    os.rename(path, free)
    return free
