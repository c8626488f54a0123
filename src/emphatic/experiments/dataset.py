"""The results of units in one dataset: cases, learners and the grid become its dimensions."""

import math
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Annotated, TYPE_CHECKING, TypedDict

import numpy as np

from .._schema import Count, Rule
from .._work import require_memory
from ..engine import request
from .experiment import Experiment
from .provenance import PACKAGES

if TYPE_CHECKING:
    import xarray


Value = Annotated[
    object, Rule("a number, a text or a truth", lambda value: not isinstance(value, dict | list))
]
"""A value of an argument of a problem."""
DIFFERENT = Rule("a list of different values", lambda values: 0 < len(set(values)) == len(values))
NOT_EMPTY = Rule("something in it", len)

LARGE = 10**8  # bytes of an array, from which on it is asked whether there are as many


class Layout(TypedDict):
    """What a dataset of an experiment looks like, as JSON can hold it."""

    cases: dict[str, Annotated[list[Value], NOT_EMPTY]]
    learners: Annotated[dict[str, list[str]], NOT_EMPTY]  # the axes of the grid that each takes
    grid: dict[str, Annotated[list[float], DIFFERENT]]
    num_runs: Count
    attributes: dict[str, str | bool | int | float]


def describe(experiment: Experiment) -> Layout:
    """Describes the dataset of an experiment."""
    axes = request.parse_axes(experiment.grid)
    return {
        "cases": {name: list(values) for name, values in experiment.cases.items()},
        "learners": {whole.learner: list(whole.grid) for whole in experiment.wholes},
        "grid": {name: values.tolist() for name, values in axes.items()},
        "num_runs": experiment.num_runs,
        "attributes": {
            "experiment": experiment.name,
            "seed": experiment.seed,
            "num_steps": experiment.num_steps,
            "record_every": experiment.window(),
            "dtype": experiment.dtype,
        },
    }


class _Assembly:
    """Arrays that the results of units are written into, with NaN where there is none."""

    def __init__(self, layout: Layout, origin: str):
        self.origin = origin
        self.cases, self.learners = layout["cases"], list(layout["learners"])
        self.grid, self.num_runs = layout["grid"], layout["num_runs"]
        self.shape = tuple(map(len, self.cases.values()))
        self.positions = {
            axis: {value: n for n, value in enumerate(values)} for axis, values in self.grid.items()
        }
        self.arrays: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
        self.coordinates: dict[str, np.ndarray | list[object] | list[str] | list[float]] = {
            **self.cases,
            "learner": self.learners,
            **self.grid,
            "run": np.arange(self.num_runs),
        }

    def insert(self, case: int, learner: str, result: "xarray.Dataset") -> None:
        """Writes the result of a learner in a case."""
        grid_axes = [axis for axis in self.grid if axis in result.dims]
        selection = {
            axis: [value for value in result[axis].values.tolist() if value in self.positions[axis]]
            for axis in grid_axes
        }
        selection["run"] = [run for run in result["run"].values.tolist() if run < self.num_runs]
        if any(len(values) < result.sizes[axis] for axis, values in selection.items()):
            result = result.sel(selection)
        index = (*np.unravel_index(case, self.shape), self.learners.index(learner))
        lanes: dict[str, Sequence[int]] = {a: range(len(v)) for a, v in self.grid.items()}
        lanes |= {a: [self.positions[a][value] for value in selection[a]] for a in grid_axes}
        lanes["run"] = selection["run"]
        for name in ("engine", "reason"):
            texts = self._array(name, (*self.cases, "learner"), np.dtype(object))
            texts[index] = result.attrs[name]
        inner = {str(axis): result[axis].values for axis in result.dims if axis not in lanes}
        for axis, labels in inner.items():
            if axis in ("learner", *self.cases):
                raise ValueError(f"{self.origin}: a unit of {learner!r} has an axis {axis!r}")
            self._extend(axis, labels)
        for name, variable in result.data_vars.items():
            inner_axes = tuple(str(axis) for axis in variable.dims if axis in inner)
            values = variable.transpose(*grid_axes, "run", *inner_axes).values
            is_private = f"{learner}_weight" in inner_axes  # no other learner has such weights
            axes = [axis for axis in self.grid if axis in grid_axes or not is_private]
            outer = (*self.cases, *(() if is_private else ("learner",)), *axes, "run")
            array = self._array(str(name), (*outer, *inner_axes), values.dtype)
            for dim, axis in enumerate(inner_axes, len(grid_axes) + 1):
                values = self._align(values, dim, axis, inner[axis])
            broadcast = tuple(slice(None) if axis in grid_axes else None for axis in axes)
            cells = np.ix_(*(lanes[axis] for axis in (*axes, "run")))
            array[index[:-1] if is_private else index][cells] = values[broadcast]

    def _array(self, name: str, axes: tuple[str, ...], dtype: np.dtype) -> np.ndarray:
        if name in self.coordinates:
            raise ValueError(f"{self.origin}: {name!r} is an axis, and measured in a unit")
        if name not in self.arrays:
            shape = tuple(len(self.coordinates[axis]) for axis in axes)
            if (num_bytes := math.prod(shape) * dtype.itemsize) > LARGE:
                require_memory(f"{self.origin}: {name!r}", num_bytes)
            self.arrays[name] = axes, np.full(shape, _empty(dtype), dtype)
        known_axes, array = self.arrays[name]
        if known_axes != axes or array.dtype.kind != dtype.kind:
            raise ValueError(f"{self.origin}: {name!r} has other axes, or another type, in a unit")
        return array

    def _extend(self, axis: str, labels: np.ndarray) -> None:
        """Makes room for labels that no result had before: other features have other weights."""
        labels_before = np.asarray(self.coordinates.setdefault(axis, labels))
        new = labels[~np.isin(labels, labels_before)]
        if not len(new):
            return
        self.coordinates[axis] = np.concatenate([labels_before, new])
        for name, (axes, array) in self.arrays.items():
            if axis in axes:
                self.arrays[name] = axes, self._align(array, axes.index(axis), axis, labels_before)

    def _align(self, values: np.ndarray, dim: int, axis: str, labels: np.ndarray) -> np.ndarray:
        """Returns values at the positions of their labels along an axis, empty at the others."""
        all_labels = np.asarray(self.coordinates[axis])
        if np.array_equal(all_labels, labels):
            return values
        shape = (*values.shape[:dim], len(all_labels), *values.shape[dim + 1 :])
        aligned = np.full(shape, _empty(values.dtype), values.dtype)
        order = {label: position for position, label in enumerate(all_labels.tolist())}
        positions = [order[label] for label in labels.tolist()]
        aligned[(slice(None),) * dim + (positions,)] = values
        return aligned


def _empty(dtype: np.dtype) -> float | int | str:
    """Returns what stands where nothing was computed."""
    return {"f": np.nan, "O": ""}.get(dtype.kind, 0)


def assemble(
    layout: Layout,
    results: Callable[[int, str], Iterable["xarray.Dataset"]],
    complete: bool = True,
    origin: str = "results",
) -> "xarray.Dataset":
    """Assembles the datasets of units in one, with the cases, learners and grid as dimensions.

    A learner that does not take an axis of the grid is the same along it. If `results`, from the
    number of a case and the name of a learner, are not complete, the rest is NaN. `origin` begins
    the error where units do not fit each other.
    """
    import xarray

    assembly = _Assembly(layout, origin)
    for case in range(int(np.prod(assembly.shape))):
        for learner in assembly.learners:
            for result in results(case, learner):
                assembly.insert(case, learner, result)
    attributes = {
        **layout["attributes"],
        "versions": " ".join(f"{name} {version(name)}" for name in PACKAGES),
        "interrupted": int(not complete),
    }
    dataset = xarray.Dataset(assembly.arrays, assembly.coordinates, attributes)
    return dataset.assign({name: dataset[name].astype(str) for name in ("engine", "reason")})


def measure_names(dataset: "xarray.Dataset") -> list[str]:
    """Returns the variables that are measures: numbers for every learner, run and time."""
    dimensions = set(dataset["diverged"].dims)
    return [
        str(name)
        for name, values in dataset.data_vars.items()
        if values.dtype.kind == "f" and {"learner", "run", "time"} <= set(values.dims) <= dimensions
    ]
