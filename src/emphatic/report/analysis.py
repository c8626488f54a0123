"""Analyses the datasets of a section: each learner of each case at its chosen hyper-parameters."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TYPE_CHECKING

import numpy as np

from .. import statistics
from ..experiments.dataset import measure_names
from ..statistics import Interval
from .scale import thin
from .section import Section

if TYPE_CHECKING:
    import xarray

LEVEL = 0.05  # of the sign test
FACTOR = 2.0  # how close to the best error is nearly as good
BLOW_UP = 1000.0  # how far above the first error a finite one is lost
RULES = {"final": statistics.final, "area": statistics.area}
STATISTICS = {"mean": statistics.mean, "median": statistics.median, "iqm": statistics.iqm}
CURVE_RESAMPLES = 500


@dataclass(frozen=True)
class Panel:
    """Errors over one axis of the grid, with the other axes chosen for each of its values."""

    values: np.ndarray
    errors: Interval
    num_diverged: np.ndarray
    num_runs: int


@dataclass(frozen=True)
class LearnerResults:
    """One learner in one case, on the runs that did not choose its hyper-parameters."""

    name: str
    point: Mapping[str, Any]
    edge_axes: tuple[str, ...]
    num_points: int
    num_selecting: int
    errors: "xarray.DataArray"
    final: Interval
    area: Interval
    time_to_threshold: Interval
    num_diverged: int
    num_blown_up: int
    divergence_rate: Interval
    sensitivity: float | None
    selection_bias: float | None
    selection_errors: np.ndarray
    times: np.ndarray
    curve: Interval
    num_windows: int
    panels: Mapping[str, Panel]

    @property
    def num_runs(self) -> int:
        """The number of reported runs."""
        return self.errors.sizes["run"]


@dataclass(frozen=True)
class Comparison:
    """A paired comparison of two learners of a case: the first minus the second."""

    first: str
    second: str
    difference: Interval
    wins: int
    losses: int
    num_runs: int
    p_value: float

    @property
    def is_decided(self) -> bool:
        """Whether the first is better, by the interval and by the two-sided sign test."""
        is_significant = self.p_value <= LEVEL and self.wins > self.losses
        return is_significant and float(self.difference.high) < 0


@dataclass(frozen=True)
class Case:
    """One case and one measure: its learners, and how they compare."""

    coordinates: Mapping[str, Any]
    measure: str
    threshold: float
    learners: Sequence[LearnerResults]
    comparisons: Sequence[Comparison]
    not_run: Sequence[str]

    @property
    def label(self) -> str:
        """The names and values of the coordinates of the case."""
        return ", ".join(f"{name} {value}" for name, value in self.coordinates.items())


def analyse(section: Section) -> list[Case]:
    """Analyses every case of every measure, in the order of the datasets."""
    datasets = [
        data if "run" in data.coords else data.assign_coords(run=np.arange(data.sizes["run"]))
        for data in section.datasets
    ]
    names = [name for dataset in datasets for name in measure_names(dataset)]
    measures = section.measures or list(dict.fromkeys(names))
    return [
        _analyse_case(section, measure, coordinates, parts)
        for measure in measures
        for coordinates, parts in _group_by_case(section, datasets, measure)
    ]


def learner_names(cases: Sequence[Case]) -> list[str]:
    """The names of all learners, in their order."""
    return list(dict.fromkeys(learner.name for case in cases for learner in case.learners))


def _group_by_case(
    section: Section, datasets: Sequence["xarray.Dataset"], measure: str
) -> list[tuple[dict[str, Any], list["xarray.Dataset"]]]:
    """Returns the coordinates of each case, and the parts of the datasets at them."""
    groups: dict[tuple, tuple[dict[str, Any], list[xarray.Dataset]]] = {}
    for dataset in datasets:
        if measure not in measure_names(dataset):
            continue
        part = dataset[[measure, "diverged"]]
        levels = [part[name].values.tolist() for name in section.cases]
        for values in itertools.product(*levels):
            coordinates = dict(zip(section.cases, values, strict=True))
            parts = groups.setdefault(values, (coordinates, []))[1]
            parts.append(part.sel(coordinates, drop=True))
    return list(groups.values())


def _analyse_case(
    section: Section, measure: str, coordinates: dict[str, Any], parts: Sequence["xarray.Dataset"]
) -> Case:
    computed, not_run = {}, []
    for part in parts:
        for name in part["learner"].values.tolist():
            trimmed = _trim(part.sel(learner=name, drop=True), measure)
            if trimmed is None:
                not_run.append(str(name))
            else:
                computed[str(name)] = trimmed
    first = [part[measure].isel(time=0).values.ravel() for part in computed.values()]
    level = statistics.median(np.nan_to_num(np.concatenate(first), nan=np.inf)) if first else np.inf
    learners = [
        _analyse_learner(section, measure, name, part, float(level))
        for name, part in computed.items()
    ]
    threshold = _threshold(section, measure, float(level))
    pairs = [_compare(section, *pair) for pair in itertools.combinations(learners, 2)]
    comparisons = [comparison for comparison in pairs if comparison]
    return Case(coordinates, measure, threshold, learners, comparisons, not_run)


def _threshold(section: Section, measure: str, level: float) -> float:
    """The error to reach: by default half of the median error in the first window."""
    return section.thresholds.get(measure, level / 2)


def _trim(part: "xarray.Dataset", measure: str) -> "xarray.Dataset | None":
    """Drops the axes that a learner ignores, and the runs and windows that were not computed."""
    is_computed = part[measure].notnull() | part["diverged"]
    if not is_computed.any():
        return None
    others = [name for name in is_computed.dims if name != "run"]
    part = part.isel(run=is_computed.any(others).values)
    windows = is_computed.any([name for name in is_computed.dims if name != "time"]).values
    part = part.isel(time=slice(int(np.flatnonzero(windows)[-1]) + 1))
    for axis in _axes(part):
        values = part[measure].variable
        if axis not in values.dims or values.broadcast_equals(values.isel({axis: 0})):
            part = part.isel({axis: 0}, drop=True)
    return part


def _axes(part: "xarray.Dataset") -> list[str]:
    return [str(name) for name in part["diverged"].dims if name not in ("run", "time")]


def _analyse_learner(
    section: Section, measure: str, name: str, part: "xarray.Dataset", level: float
) -> LearnerResults:
    rule, statistic = RULES[section.rule], STATISTICS[section.statistic]
    axes = _axes(part)
    is_split = part.sizes["run"] > 1 and _has_choice(section, measure)
    selecting, independent = statistics.split(part, section.share) if is_split else (part, part)
    selection = statistics.select(selecting, independent, measure, axes, rule)
    dataset = selection.dataset
    point = {axis: selection.points[axis].item() for axis in axes}
    grid = rule(selecting, measure).transpose(*axes, "run").values
    grid = grid.reshape(-1, grid.shape[-1])
    final = run_values(statistics.final(dataset, measure))
    area = run_values(statistics.area(dataset, measure))
    threshold = _threshold(section, measure, level)
    times_to_threshold = run_values(statistics.time_to(dataset, measure, threshold))
    diverged = run_values(_has_diverged(dataset, measure))
    windows, all_curves = thin(dataset.sizes["time"]), _curves(dataset, measure)
    curves, is_beyond = all_curves[windows], (all_curves > BLOW_UP * level).any(axis=0)
    return LearnerResults(
        name=name,
        point=point,
        edge_axes=tuple(axis for axis in axes if _is_at_edge(part[axis].values, point[axis])),
        num_points=len(grid),
        num_selecting=selecting.sizes["run"] if is_split else 0,
        errors=selection.errors,
        final=statistics.interval(final, statistic),
        area=statistics.interval(area, statistic),
        time_to_threshold=statistics.interval(times_to_threshold, statistics.median),
        num_diverged=int(diverged.sum()),
        num_blown_up=int((is_beyond & ~diverged).sum()) if level > 0 else 0,
        divergence_rate=statistics.divergence_rate(diverged),
        sensitivity=statistics.sensitivity(grid, FACTOR) if axes and (grid >= 0).all() else None,
        selection_bias=float(selection.selection_bias) if is_split and axes else None,
        selection_errors=selection.selection_errors.values,
        times=dataset["time"].values[windows],
        curve=statistics.interval(curves, statistic, num_resamples=CURVE_RESAMPLES),
        num_windows=dataset.sizes["time"],
        panels={
            axis: _panel(section, measure, axis, axes, selecting, independent) for axis in axes
        },
    )


def _has_choice(section: Section, measure: str) -> bool:
    """Whether some learner has hyper-parameters to choose: then the runs of all are split."""
    fixed = {"learner", "run", "time", *section.cases}
    return any(
        dataset.sizes[name] > 1
        for dataset in section.datasets
        if measure in dataset
        for name in dataset["diverged"].dims
        if name not in fixed
    )


def run_values(values: "xarray.DataArray") -> np.ndarray:
    """The numbers of the runs, in their order."""
    return values.transpose("run").values


def _curves(dataset: "xarray.Dataset", measure: str) -> np.ndarray:
    """The errors over (time, run), infinite from where a run diverged."""
    curves = dataset[measure].transpose("time", "run").values.astype(np.float64)
    diverged = np.maximum.accumulate(dataset["diverged"].transpose("time", "run").values, axis=0)
    return np.where(diverged | np.isnan(curves), np.inf, curves)


def _has_diverged(dataset: "xarray.Dataset", measure: str) -> "xarray.DataArray":
    """Whether a run diverged: by its state, or by an error that overflowed."""
    is_infinite = abs(dataset[measure]) == np.inf
    return (dataset["diverged"] | dataset[measure].isnull() | is_infinite).any("time")


def _is_at_edge(values: np.ndarray, value: Any) -> bool:
    """Whether a larger grid might have had a better value."""
    is_grid = len(values) >= 3 and values.dtype.kind in "iuf"
    return is_grid and value != 0 and value in (values.min(), values.max())


def _panel(
    section: Section,
    measure: str,
    axis: str,
    axes: Sequence[str],
    selecting: "xarray.Dataset",
    independent: "xarray.Dataset",
) -> Panel:
    others = [name for name in axes if name != axis]
    selection = statistics.select(selecting, independent, measure, others, RULES[section.rule])
    errors = selection.errors.transpose(axis, "run").values
    diverged = _has_diverged(selection.dataset, measure).transpose(axis, "run").values
    interval = statistics.interval(errors, STATISTICS[section.statistic])
    return Panel(independent[axis].values, interval, diverged.sum(axis=1), diverged.shape[1])


def _compare(section: Section, one: LearnerResults, other: LearnerResults) -> Comparison | None:
    """Compares two learners on the runs that both have, the one with the smaller error first."""
    shared = np.intersect1d(one.errors["run"].values, other.errors["run"].values)
    if not len(shared):
        return None
    statistic = STATISTICS[section.statistic]
    pair = [(learner.name, run_values(learner.errors.sel(run=shared))) for learner in (one, other)]
    if statistic(pair[1][1]) < statistic(pair[0][1]):
        pair.reverse()
    (first, smaller), (second, larger) = pair
    test = statistics.sign_test(smaller, larger, two_sided=True)
    difference = statistics.interval(smaller, statistic, minus=larger)
    wins, losses = int(test["wins"]), int(test["losses"])
    return Comparison(first, second, difference, wins, losses, len(shared), test["p_value"])
