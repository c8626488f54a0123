"""What the datasets of a section say: for each case the learners at what was chosen for them."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TYPE_CHECKING

import numpy as np

from .. import statistics
from ..statistics import Interval
from .scale import thin
from .section import measure_names, Section

if TYPE_CHECKING:
    import xarray

LEVEL = 0.05  # what counts as decided
FACTOR = 2.0  # what counts as nearly as good as the best
RULES = {"final": statistics.final, "area": statistics.area}
STATISTICS = {"mean": statistics.mean, "median": statistics.median, "iqm": statistics.iqm}
CURVE_RESAMPLES = 500


@dataclass(frozen=True)
class Panel:
    """Errors over one axis of the grid, with the other axes as chosen for each of its values."""

    values: np.ndarray
    errors: Interval
    diverged: np.ndarray
    num_runs: int


@dataclass(frozen=True)
class LearnerResults:
    """One learner in one case, on the runs that did not choose its hyper-parameters."""

    name: str
    point: Mapping[str, Any]
    at_edge: tuple[str, ...]
    num_points: int
    num_selecting: int
    errors: "xarray.DataArray"
    final: Interval
    area: Interval
    time: Interval
    diverged: int
    rate: Interval
    sensitivity: float | None
    selection_bias: float | None
    selecting: np.ndarray
    times: np.ndarray
    curve: Interval
    num_windows: int
    panels: Mapping[str, Panel]

    @property
    def num_runs(self) -> int:
        """How many runs speak for it."""
        return self.errors.sizes["run"]


@dataclass(frozen=True)
class Comparison:
    """Two learners of a case run by run: the first minus the second."""

    first: str
    second: str
    difference: Interval
    wins: int
    losses: int
    runs: int
    p_value: float

    @property
    def decided(self) -> bool:
        """Whether the first is better: by the interval, and by the sign test in both directions."""
        clear = self.p_value <= LEVEL and self.wins > self.losses
        return clear and float(self.difference.high) < 0


@dataclass(frozen=True)
class Case:
    """One case and one measure: its learners, and how they compare."""

    place: Mapping[str, Any]
    measure: str
    threshold: float
    learners: Sequence[LearnerResults]
    comparisons: Sequence[Comparison]
    not_run: Sequence[str]

    @property
    def label(self) -> str:
        """The case in words."""
        return ", ".join(f"{name} {value}" for name, value in self.place.items())


def analyse(section: Section) -> list[Case]:
    """Every case of every measure, in the order of the datasets."""
    datasets = [
        each if "run" in each.coords else each.assign_coords(run=np.arange(each.sizes["run"]))
        for each in section.datasets
    ]
    names = [name for each in datasets for name in measure_names(each)]
    measures = section.measures or list(dict.fromkeys(names))
    return [
        _case(section, measure, place, parts)
        for measure in measures
        for place, parts in _places(section, datasets, measure)
    ]


def learner_names(cases: Sequence[Case]) -> list[str]:
    """The names of all learners, in their order."""
    return list(dict.fromkeys(each.name for case in cases for each in case.learners))


def _places(
    section: Section, datasets: Sequence["xarray.Dataset"], measure: str
) -> list[tuple[dict[str, Any], list["xarray.Dataset"]]]:
    """The cases, each with the parts of the datasets that are about it."""
    found: dict[tuple, tuple[dict[str, Any], list[xarray.Dataset]]] = {}
    for dataset in datasets:
        if measure not in measure_names(dataset):
            continue
        part = dataset[[measure, "diverged"]]
        values = [part[name].values.tolist() for name in section.cases]
        for where in itertools.product(*values):
            place = dict(zip(section.cases, where, strict=True))
            found.setdefault(where, (place, []))[1].append(part.sel(place, drop=True))
    return list(found.values())


def _case(
    section: Section, measure: str, place: dict[str, Any], parts: Sequence["xarray.Dataset"]
) -> Case:
    present, missing = {}, []
    for part in parts:
        for name in part["learner"].values.tolist():
            own = _own(part.sel(learner=name, drop=True), measure)
            if own is None:
                missing.append(str(name))
            else:
                present[str(name)] = own
    first = [each[measure].isel(time=0).values.ravel() for each in present.values()]
    usual = statistics.median(np.nan_to_num(np.concatenate(first), nan=np.inf)) if first else np.inf
    threshold = section.thresholds.get(measure, float(usual) / 2)
    learners = [
        _learner_results(section, measure, name, own, threshold) for name, own in present.items()
    ]
    compared = [_compare(section, *pair) for pair in itertools.combinations(learners, 2)]
    return Case(place, measure, threshold, learners, [each for each in compared if each], missing)


def _own(part: "xarray.Dataset", measure: str) -> "xarray.Dataset | None":
    """A learner's results: without axes that it ignores, and runs and windows not computed."""
    known = part[measure].notnull() | part["diverged"]
    if not known.any():
        return None
    others = [name for name in known.dims if name != "run"]
    part = part.isel(run=known.any(others).values)
    reached = known.any([name for name in known.dims if name != "time"]).values
    part = part.isel(time=slice(int(np.flatnonzero(reached)[-1]) + 1))
    for axis in _axes(part):
        values = part[measure].variable
        if axis not in values.dims or values.broadcast_equals(values.isel({axis: 0})):
            part = part.isel({axis: 0}, drop=True)
    return part


def _axes(part: "xarray.Dataset") -> list[str]:
    return [str(name) for name in part["diverged"].dims if name not in ("run", "time")]


def _learner_results(
    section: Section, measure: str, name: str, part: "xarray.Dataset", threshold: float
) -> LearnerResults:
    rule, statistic = RULES[section.rule], STATISTICS[section.statistic]
    axes = _axes(part)
    splits = part.sizes["run"] > 1 and _any_choice(section, measure)
    selecting, independent = statistics.split(part, section.share) if splits else (part, part)
    chosen = statistics.select(selecting, independent, measure, axes, rule)
    dataset = chosen.dataset
    point = {axis: chosen.points[axis].item() for axis in axes}
    grid = rule(selecting, measure).transpose(*axes, "run").values
    grid = grid.reshape(-1, grid.shape[-1])
    runs = {each: _runs(of(dataset, measure)) for each, of in RULES.items()}
    arrived = _runs(statistics.time_to(dataset, measure, threshold))
    bad = _lost(dataset, measure).transpose("run").values
    times = thin(dataset.sizes["time"])
    curves = _curves(dataset, measure)[times]
    return LearnerResults(
        name=name,
        point=point,
        at_edge=tuple(axis for axis in axes if _at_edge(part[axis].values, point[axis])),
        num_points=len(grid),
        num_selecting=selecting.sizes["run"] if splits else 0,
        errors=chosen.errors,
        final=statistics.interval(runs["final"], statistic),
        area=statistics.interval(runs["area"], statistic),
        time=statistics.interval(arrived, statistics.median),
        diverged=int(bad.sum()),
        rate=statistics.divergence_rate(bad),
        sensitivity=statistics.sensitivity(grid, FACTOR) if axes and (grid >= 0).all() else None,
        selection_bias=float(chosen.selection_bias) if splits and axes else None,
        selecting=chosen.selection_errors.values,
        times=dataset["time"].values[times],
        curve=statistics.interval(curves, statistic, num_resamples=CURVE_RESAMPLES),
        num_windows=dataset.sizes["time"],
        panels={
            axis: _panel(section, measure, axis, axes, selecting, independent) for axis in axes
        },
    )


def _any_choice(section: Section, measure: str) -> bool:
    """Whether some learner has hyper-parameters to choose: then all keep the choosing runs out."""
    fixed = {"learner", "run", "time", *section.cases}
    return any(
        each.sizes[name] > 1
        for each in section.datasets
        if measure in each
        for name in each["diverged"].dims
        if name not in fixed
    )


def _runs(errors: "xarray.DataArray") -> np.ndarray:
    return errors.transpose("run").values


def _curves(dataset: "xarray.Dataset", measure: str) -> np.ndarray:
    """Errors over (time, run), infinite from where a run diverged."""
    curves = dataset[measure].transpose("time", "run").values.astype(np.float64)
    bad = np.maximum.accumulate(dataset["diverged"].transpose("time", "run").values, axis=0)
    return np.where(bad | np.isnan(curves), np.inf, curves)


def _lost(dataset: "xarray.Dataset", measure: str) -> "xarray.DataArray":
    """Whether a run diverged: by its state, or by an error too large for a number."""
    too_large = abs(dataset[measure]) == np.inf
    return (dataset["diverged"] | dataset[measure].isnull() | too_large).any("time")


def _at_edge(values: np.ndarray, value: Any) -> bool:
    """Whether a larger grid might have had something better."""
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
    others = [each for each in axes if each != axis]
    found = statistics.select(selecting, independent, measure, others, RULES[section.rule])
    errors = found.errors.transpose(axis, "run").values
    bad = _lost(found.dataset, measure).transpose(axis, "run").values
    interval = statistics.interval(errors, STATISTICS[section.statistic])
    return Panel(independent[axis].values, interval, bad.sum(axis=1), bad.shape[1])


def _compare(section: Section, one: LearnerResults, other: LearnerResults) -> Comparison | None:
    """The two on the runs that both have, the one with the smaller error first."""
    shared = np.intersect1d(one.errors["run"].values, other.errors["run"].values)
    if not len(shared):
        return None
    statistic = STATISTICS[section.statistic]
    pairs = [(each.name, _runs(each.errors.sel(run=shared))) for each in (one, other)]
    if statistic(pairs[1][1]) < statistic(pairs[0][1]):
        pairs.reverse()
    (first, smaller), (second, larger) = pairs
    test, opposite = statistics.sign_test(smaller, larger), statistics.sign_test(larger, smaller)
    both = min(1.0, 2 * min(test["p_value"], opposite["p_value"]))
    found = statistics.interval(smaller, statistic, minus=larger)
    wins, losses = int(test["wins"]), int(test["losses"])
    return Comparison(first, second, found, wins, losses, len(shared), both)


def pool_cases(cases: Sequence[Case]) -> list[tuple[str, Interval, int, int]]:
    """Learners over all cases of a measure: errors in units of the best, runs drawn within cases.

    The unit of a case is the smallest mean error of the runs that chose, which are not those that
    are reported. Each row has the name, the interquartile mean, and the runs that are infinite.
    """
    found = []
    for name in learner_names(cases):
        pairs = [(case, each) for case in cases for each in case.learners if each.name == name]
        strata = [_runs(each.errors) / _unit(case) for case, each in pairs]
        if len(strata) == len(cases):
            bad = sum(int(np.isinf(part).sum()) for part in strata)
            interval = statistics.stratified_interval(strata, statistics.iqm)
            found.append((name, interval, bad, sum(map(len, strata))))
    return found


def _unit(case: Case) -> float:
    smallest = min(float(np.mean(each.selecting)) for each in case.learners)
    return smallest if np.isfinite(smallest) and smallest > 0 else 1.0
