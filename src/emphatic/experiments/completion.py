"""The results of units in one dataset: cases, learners and the grid become its dimensions."""

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Any, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray

VERSIONED = ("emphatic", "jax", "numpy", "llvmlite")


class _Whole:
    """Arrays that units are written into, with NaN where there is none."""

    def __init__(self, layout: Mapping[str, Any]):
        self.cases, self.learners = layout["cases"], list(layout["learners"])
        self.grid, self.num_runs = layout["grid"], layout["num_runs"]
        self.shape = tuple(map(len, self.cases.values()))
        self.places = {axis: {v: n for n, v in enumerate(of)} for axis, of in self.grid.items()}
        self.arrays: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
        self.coordinates: dict[str, Any] = {
            **self.cases,
            "learner": self.learners,
            **self.grid,
            "run": list(range(self.num_runs)),
        }

    def put(self, case: int, learner: str, part: "xarray.Dataset") -> None:
        """Writes what was computed of a learner in a case."""
        taken = [axis for axis in self.grid if axis in part.dims]
        kept = {axis: [v for v in part[axis].values if v in self.places[axis]] for axis in taken}
        kept["run"] = [n for n in part["run"].values.tolist() if n < self.num_runs]
        if any(len(values) < part.sizes[axis] for axis, values in kept.items()):
            part = part.sel(kept)
        place = (*np.unravel_index(case, self.shape), self.learners.index(learner))
        here: dict[str, Any] = {axis: range(len(of)) for axis, of in self.grid.items()}
        here |= {axis: [self.places[axis][v] for v in kept[axis]] for axis in taken}
        here["run"] = kept["run"]
        for name in ("engine", "reason"):
            _, words = self._array(name, (*self.cases, "learner"), np.dtype(object))
            words[place] = part.attrs[name]
        inner = {str(axis): part[axis].values for axis in part.dims if axis not in here}
        for axis, labels in inner.items():
            self._widen(axis, labels)
        for name, variable in part.data_vars.items():
            rest = tuple(str(axis) for axis in variable.dims if axis in inner)
            values = variable.transpose(*taken, "run", *rest).values
            own = f"{learner}_weight" in rest  # no other learner has such weights
            axes = [axis for axis in self.grid if axis in taken or not own]
            outer = (*self.cases, *(() if own else ("learner",)), *axes, "run")
            _, array = self._array(str(name), (*outer, *rest), values.dtype)
            for number, axis in enumerate(rest, len(taken) + 1):
                values = self._spread(values, number, axis, inner[axis])
            spread = tuple(slice(None) if axis in taken else None for axis in axes)
            index = np.ix_(*(here[axis] for axis in (*axes, "run")))
            array[place[:-1] if own else place][index] = values[spread]

    def _array(
        self, name: str, axes: tuple[str, ...], dtype: np.dtype
    ) -> tuple[tuple[str, ...], np.ndarray]:
        if name not in self.arrays:
            shape = tuple(len(self.coordinates[axis]) for axis in axes)
            self.arrays[name] = axes, np.full(shape, _nothing(dtype), dtype)
        return self.arrays[name]

    def _widen(self, axis: str, labels: np.ndarray) -> None:
        """Makes room for labels that no part had before: other features have other weights."""
        known = self.coordinates.setdefault(axis, labels)
        new = labels[~np.isin(labels, known)]
        if not len(new):
            return
        self.coordinates[axis] = np.concatenate([known, new])
        for name, (axes, array) in self.arrays.items():
            if axis in axes:
                number = axes.index(axis)
                wide = self._spread(array, number, axis, known)
                self.arrays[name] = axes, wide

    def _spread(self, values: np.ndarray, number: int, axis: str, labels: Any) -> np.ndarray:
        """The values at their labels' places along an axis, and nothing at the others."""
        whole = self.coordinates[axis]
        if np.array_equal(whole, labels):
            return values
        shape = (*values.shape[:number], len(whole), *values.shape[number + 1 :])
        found = np.full(shape, _nothing(values.dtype), values.dtype)
        order = {label: place for place, label in enumerate(whole.tolist())}
        places = [order[label] for label in labels.tolist()]
        found[(slice(None),) * number + (places,)] = values
        return found


def _nothing(dtype: np.dtype) -> Any:
    """What stands where nothing was computed."""
    return {"f": np.nan, "O": ""}.get(dtype.kind, 0)


def gather(
    layout: Mapping[str, Any],
    parts: Callable[[int, str], Iterable["xarray.Dataset"]],
    complete: bool = True,
) -> "xarray.Dataset":
    """One dataset from those of units, with the cases, the learners and the grid as dimensions.

    A learner that does not take an axis of the grid is the same along it.

    **Arguments:**

    - `layout`: What the dataset looks like; see [layout].
    - `parts`: From the number of a case and the name of a learner to what was computed of them.
    - `complete`: Whether that is all; if not, `interrupted` is 1, and the rest is NaN.
    """
    import xarray

    whole = _Whole(layout)
    for case in range(int(np.prod(whole.shape))):
        for learner in whole.learners:
            for part in parts(case, learner):
                whole.put(case, learner, part)
    words = {"versions": " ".join(f"{name} {version(name)}" for name in VERSIONED)}
    words |= {"interrupted": int(not complete)}
    found = xarray.Dataset(whole.arrays, whole.coordinates, {**layout["attributes"], **words})
    return found.assign({name: found[name].astype(str) for name in ("engine", "reason")})
