"""Experiments as data: what is compared, cut into units of work, and gathered in one dataset."""

import dataclasses
import itertools
import os
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Literal, TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from . import _checks as checks
from . import engine as engines
from ._files import checksum
from ._types import Learner
from .engine import request
from .engine.tasks import Progress
from .gathering import gather
from .mdp import Problem
from .problems import digest

if TYPE_CHECKING:
    import xarray

FORMAT = 1  # of what a definition means: a change of it makes every result another one
BLOCK = 10  # runs of a unit
KEPT = 4  # compiled programs that wait for more units
PROBE = 10_000  # steps of a run that shows how fast a learner is

Target = Callable[[Problem], ArrayLike | None]
"""A target policy of a problem; None is the problem's own."""


@dataclass(frozen=True)
class Experiment:
    r"""Cases of a problem, learners on a grid of hyper-parameters, and runs of them.

    **Arguments:**

    - `name`: What it is called.
    - `build`: Makes the problem of a case.
    - `cases`: The arguments of `build` and their values; every combination is a case.
    - `learners`: Gives the learners of a problem by name, as [run] of the engine takes them.
    - `measures`: What is measured; see [MEASURES].
    - `num_steps`: Steps of a run.
    - `grid`: The hyper-parameters and their values.
    - `num_runs`: How many runs there are of everything, each on a stream of its own.
    - `seed`: Chooses the streams: run $n$ has the seed $2^{32}\,\mathrm{seed} + n$, so that
      different seeds share no stream.
    - `record_every`: Steps of a window.
    - `num_records`: In its place, the number of windows, which then have equal lengths.
    - `dtype`: The working type.
    - `engine`: What runs the learners; see [Engine].
    - `targets`: Target policies by label, if not the problem's own.
    - `derive`: What is computed afterwards from the results of a case, such as the exact meaning of
      recorded weights: a function from the problem and its dataset to another dataset.
    - `definitions`: What each learner is, and what is derived from it, in words that change when
      it does. Only a store needs them: results are kept under what defines them.
    - `about`: What else a reader should know, as JSON can hold it.
    """

    name: str
    build: Callable[..., Problem]
    cases: Mapping[str, Sequence[Any]]
    learners: Callable[[Problem], Mapping[str, Callable[..., Learner] | Learner]]
    measures: Sequence[str]
    num_steps: int
    grid: Mapping[str, ArrayLike] = dataclasses.field(default_factory=dict)
    num_runs: int = 30
    seed: int = 0
    record_every: int = 1000
    num_records: int | None = None
    dtype: Literal["float32", "float64"] = "float32"
    engine: engines.Engine = "auto"
    targets: Mapping[str, Target] | None = None
    derive: Callable[[Problem, "xarray.Dataset"], "xarray.Dataset"] | None = None
    definitions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        checks.count("num_runs", self.num_runs)
        checks.count("num_steps", self.num_steps)
        if self.num_records is not None:
            checks.count("num_records", self.num_records)
        checks.seed(self.seed)
        if self.seed >= 2**31:  # as a netCDF file can hold it
            raise ValueError(f"seed: got {self.seed}; below 2^31 is required")

    def points(self) -> list[dict[str, Any]]:
        """The arguments of every case."""
        combinations = itertools.product(*self.cases.values())
        return [dict(zip(self.cases, values, strict=True)) for values in combinations]

    def window(self) -> int:
        """Steps of a window."""
        if self.num_records is None:
            return self.record_every
        return -(-self.num_steps // self.num_records)

    def num_updates(self) -> int:
        """How many updates of learners a run of the experiment makes."""
        return sum(unit.num_updates for unit in units(self))


@dataclass(frozen=True, eq=False)
class Unit:
    """What one call of an engine computes: a learner on its grid, for a block of runs of a case.

    **Arguments:**

    - `experiment`: The experiment that it is a part of.
    - `problem`: The problem of its case.
    - `case`: The number of the case.
    - `learner`: The name of the learner.
    - `grid`: The values of those axes that the learner takes.
    - `runs`: Which runs.
    """

    experiment: Experiment
    problem: Problem
    case: int
    learner: str
    grid: Mapping[str, tuple[float, ...]]
    runs: tuple[int, ...]

    @property
    def num_cells(self) -> int:
        """How many curves it has: one for each point of the grid and each run."""
        return int(np.prod([len(values) for values in self.grid.values()])) * len(self.runs)

    @property
    def num_updates(self) -> int:
        """How many updates of learners it makes."""
        several = len(self.experiment.targets or [None])
        return self.num_cells * several * self.experiment.num_steps

    @property
    def title(self) -> str:
        """What it is called, for a person."""
        point = self.experiment.points()[self.case]
        words = [f"{name}={value}" for name, value in point.items()]
        first, last = self.runs[0], self.runs[-1]
        return ", ".join([self.learner, *words, f"runs {first} to {last}"])

    @cached_property
    def definition(self) -> dict[str, Any]:
        """All that its curves depend on, except for the grid and the runs."""
        experiment = self.experiment
        if self.learner not in experiment.definitions:
            raise ValueError(
                f"definitions: {self.learner!r} has none; results are kept under what defines them"
            )
        targets = {
            label: checksum(label, {"target": self.problem.require_target(target(self.problem))})
            for label, target in (experiment.targets or {}).items()
        }
        return {
            "format": FORMAT,
            "problem": digest(self.problem),
            "learner": experiment.definitions[self.learner],
            "targets": targets,
            "measures": sorted(experiment.measures),
            "num_steps": experiment.num_steps,
            "record_every": experiment.window(),
            "seed": experiment.seed,
            "dtype": experiment.dtype,
            "engine": experiment.engine,
        }

    @cached_property
    def address(self) -> str:
        """Where curves with its definition are, for any grid and any runs."""
        return checksum(self.definition, {})[:24]


def units(experiment: Experiment) -> list[Unit]:
    """The units of an experiment, in order; all that can be wrong with it is found here.

    They follow from the experiment alone, never from who computes them.
    """
    axes = request.axes(experiment.grid)
    found = []
    for case, point in enumerate(experiment.points()):
        problem = experiment.build(**point)
        makes = request.makes(experiment.learners(problem), axes)
        agents = request.agents(makes, axes)
        request.measures(problem, experiment.measures, makes, axes, agents)
        request.targets(problem, _targets(experiment, problem), agents == set(makes))
        for name, make in makes.items():
            own = request.lanes(make, axes)
            grid = {axis: tuple(axes[axis].tolist()) for axis in axes if axis in own}
            for first in range(0, experiment.num_runs, BLOCK):
                runs = tuple(range(first, min(first + BLOCK, experiment.num_runs)))
                found.append(Unit(experiment, problem, case, name, grid, runs))
    request.count("record_every", experiment.window())
    return found


def _targets(experiment: Experiment, problem: Problem) -> Mapping[str, Any] | None:
    if experiment.targets is None:
        return None
    return {label: target(problem) for label, target in experiment.targets.items()}


_compiled: dict[Any, tuple[Unit, engines.Prepared]] = {}
_lock = Lock()


def _prepared(unit: Unit, num_threads: int) -> engines.Prepared:
    """The program of a unit: compiled once for all runs, if they come one after the other."""
    experiment, known = unit.experiment, unit.learner in unit.experiment.definitions
    same = unit.address if known else (id(experiment), unit.case, unit.learner)
    key = same, tuple(unit.grid.items()), num_threads
    with _lock:
        if key not in _compiled:
            while len(_compiled) >= KEPT:
                _compiled.pop(next(iter(_compiled)))
            program = engines.prepare(
                unit.problem,
                {unit.learner: experiment.learners(unit.problem)[unit.learner]},
                {axis: np.array(values) for axis, values in unit.grid.items()},
                num_steps=experiment.num_steps,
                target=_targets(experiment, unit.problem),
                record_every=experiment.window(),
                measures=experiment.measures,
                engine=experiment.engine,
                dtype=experiment.dtype,
                num_parts=-(-num_threads // BLOCK),
            )
            _compiled[key] = unit, program  # the unit keeps what an id stands for
        return _compiled[key][1]


def compute(
    unit: Unit, num_threads: int | None = None, progress: Progress | None = None
) -> "xarray.Dataset":
    """The curves of a unit, with the axes of its grid, `run` and `time`.

    Ctrl-C raises `KeyboardInterrupt`: a unit is computed whole or not at all.

    **Arguments:**

    - `unit`: The unit.
    - `num_threads`: By default as many as there are cores. No bit depends on it.
    - `progress`: Called with the updates done and those of the unit.
    """
    experiment, threads = unit.experiment, num_threads or os.cpu_count() or 1
    seeds = [(experiment.seed << 32) + run for run in unit.runs]
    dataset = _prepared(unit, threads).run(seeds, threads, progress)
    if dataset.attrs["interrupted"]:
        raise KeyboardInterrupt
    dataset = dataset.rename(seed="run").assign_coords(run=list(unit.runs))
    for name in set(experiment.measures) & set(dataset):  # in the precision worked in
        dataset[name] = dataset[name].astype(experiment.dtype)
    if experiment.derive is not None:
        dataset = experiment.derive(unit.problem, dataset)
    dataset = dataset.squeeze("learner", drop=True)
    chosen = {name: str(dataset[name].item()) for name in ("engine", "reason")}
    dataset = dataset.drop_vars(list(chosen))
    dataset.attrs = chosen
    return dataset


@dataclass(frozen=True)
class Estimate:
    """What an experiment takes: cells (curves), units, updates, seconds and bytes of results."""

    num_cells: int
    num_units: int
    num_updates: int
    seconds: float
    num_bytes: int


def estimate(asked: Sequence[Unit]) -> Estimate:
    """What units take, from a short run of each learner on the first problem that it has.

    **Arguments:**

    - `asked`: The [units] of an experiment.
    """
    seconds, num_bytes = 0.0, 0
    for name in dict.fromkeys(unit.learner for unit in asked):
        of_learner = [unit for unit in asked if unit.learner == name]
        first, experiment = of_learner[0], of_learner[0].experiment
        steps = min(experiment.num_steps, PROBE)
        few = dataclasses.replace(experiment, num_steps=steps, num_records=1)
        short = dataclasses.replace(first, experiment=few)
        began = clock.perf_counter()
        compute(short)
        compiled = clock.perf_counter()
        dataset = compute(short)
        each = clock.perf_counter() - compiled
        programs = len({unit.case for unit in of_learner})
        windows = -(-experiment.num_steps // experiment.window())
        for unit in of_learner:
            seconds += each * unit.num_updates / short.num_updates
            num_bytes += dataset.nbytes * windows * unit.num_cells // short.num_cells
        seconds += programs * max(0.0, compiled - began - each)
    return Estimate(
        sum(unit.num_cells for unit in asked),
        len(asked),
        sum(unit.num_updates for unit in asked),
        seconds,
        num_bytes,
    )


def layout(experiment: Experiment, asked: Sequence[Unit]) -> dict[str, Any]:
    """What a dataset of the experiment looks like, as JSON can hold it.

    **Arguments:**

    - `experiment`: The experiment.
    - `asked`: Its [units].
    """
    return {
        "cases": {name: list(values) for name, values in experiment.cases.items()},
        "learners": {unit.learner: list(unit.grid) for unit in asked},
        "grid": {name: values.tolist() for name, values in request.axes(experiment.grid).items()},
        "num_runs": experiment.num_runs,
        "attributes": {
            "experiment": experiment.name,
            "seed": experiment.seed,
            "num_steps": experiment.num_steps,
            "record_every": experiment.window(),
            "dtype": experiment.dtype,
        },
    }


def run(
    experiment: Experiment, *, num_threads: int | None = None, progress: Progress | None = None
) -> "xarray.Dataset":
    """Runs every case of an experiment, and returns one dataset with the cases as dimensions.

    Its dimensions are the cases, learner, the axes of the grid, run, and time; see
    [run] of the engine for the variables. After Ctrl-C it holds the units that were finished, NaN
    elsewhere, and `interrupted` is 1. Where not even one was finished there is nothing to return,
    and `KeyboardInterrupt` is raised.

    **Arguments:**

    - `experiment`: What to run.
    - `num_threads`: As for [run] of the engine.
    - `progress`: Called with the updates done and the updates of all cases.
    """
    asked, done = units(experiment), 0
    total = sum(unit.num_updates for unit in asked)
    found: dict[tuple[int, str], list[xarray.Dataset]] = {}

    def move(updates: int, _: int) -> None:
        if progress is not None:
            progress(done + updates, total)

    try:
        for unit in asked:
            part = compute(unit, num_threads, move)
            found.setdefault((unit.case, unit.learner), []).append(part)
            done += unit.num_updates
    except KeyboardInterrupt:
        if not found:
            raise
    complete = done == total
    return gather(layout(experiment, asked), lambda *place: found.get(place, []), complete)
