"""Units on an engine: their curves, what they cost, and whole experiments in memory."""

import dataclasses
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from .. import engine as engines
from ..engine.tasks import num_cores, OnProgress
from .dataset import assemble, describe
from .experiment import BLOCK, Experiment, Unit

if TYPE_CHECKING:
    import xarray

MAX_PROGRAMS = 4  # compiled programs that wait for more units
PROBE = 10_000  # steps of a run that shows how fast a learner is

_programs: dict[Hashable, tuple[Unit, engines.Prepared]] = {}
_lock = Lock()


def _program(unit: Unit, num_threads: int) -> engines.Prepared:
    """Returns the program of a unit, compiled once for all runs if they follow each other."""
    experiment = unit.experiment
    is_defined = unit.learner in experiment.definitions
    identity = unit.address if is_defined else (id(experiment), unit.case, unit.learner)
    key = identity, tuple(unit.grid.items()), num_threads
    with _lock:
        if key not in _programs:
            while len(_programs) >= MAX_PROGRAMS:
                _programs.pop(next(iter(_programs)))
            program = engines.prepare(
                unit.problem,
                lambda problem: {unit.learner: experiment.learner(problem, unit.learner)},
                {axis: np.array(values) for axis, values in unit.grid.items()},
                num_steps=experiment.num_steps,
                target=experiment.target_policies(unit.problem),
                record_every=experiment.window(),
                measures=experiment.measures,
                engine=experiment.engine,
                dtype=experiment.dtype,
                num_parts=-(-num_threads // BLOCK),
            )
            _programs[key] = unit, program  # the unit keeps alive what an id stands for
        return _programs[key][1]


def compute(
    unit: Unit, num_threads: int | None = None, on_progress: OnProgress | None = None
) -> "xarray.Dataset":
    """Computes the curves of a unit, with the axes of its grid, `run` and `time`.

    Ctrl-C raises `KeyboardInterrupt`: a unit is computed whole or not at all. No bit depends on
    the number of threads.
    """
    experiment, num_threads = unit.experiment, num_threads or num_cores()
    seeds = [(experiment.seed << 32) + run for run in unit.runs]
    dataset = _program(unit, num_threads).run(seeds, num_threads, on_progress)
    if dataset.attrs["interrupted"]:
        raise KeyboardInterrupt
    dataset = dataset.rename(seed="run").assign_coords(run=list(unit.runs))
    for name in set(experiment.measures) & set(dataset):  # in the precision worked in
        dataset[name] = dataset[name].astype(experiment.dtype)
    if experiment.derive is not None:
        dataset = experiment.derive(unit.problem, dataset)
    dataset = dataset.squeeze("learner", drop=True)
    choice = {name: str(dataset[name].item()) for name in ("engine", "reason")}
    dataset = dataset.drop_vars(list(choice))
    dataset.attrs = choice
    return dataset


@dataclass(frozen=True)
class Estimate:
    """What units take: cells (curves), units, updates, seconds and bytes of results."""

    num_cells: int
    num_units: int
    num_updates: int
    seconds: float
    num_bytes: int


def estimate(experiment: Experiment, units: Sequence[Unit] | None = None) -> Estimate:
    """Estimates what units take, from a short run of each learner on its first problem.

    By default they are all of the experiment; pass those that are left of it.
    """
    units, seconds, num_bytes = experiment.units if units is None else units, 0.0, 0
    num_steps = min(experiment.num_steps, PROBE)
    short = dataclasses.replace(experiment, num_steps=num_steps, num_records=1)
    num_windows = -(-experiment.num_steps // experiment.window())
    for name in dict.fromkeys(unit.learner for unit in units):
        learner_units = [unit for unit in units if unit.learner == name]
        probe = dataclasses.replace(learner_units[0], experiment=short)
        started = time.perf_counter()
        compute(probe)
        compiled = time.perf_counter()
        dataset = compute(probe)
        duration = time.perf_counter() - compiled
        for unit in learner_units:
            seconds += duration * unit.num_updates / probe.num_updates
            num_bytes += dataset.nbytes * num_windows * unit.num_cells // probe.num_cells
        num_programs = len({unit.case for unit in learner_units})
        seconds += num_programs * max(0.0, compiled - started - duration)
    num_cells = sum(unit.num_cells for unit in units)
    num_updates = sum(unit.num_updates for unit in units)
    return Estimate(num_cells, len(units), num_updates, seconds, num_bytes)


def run(
    experiment: Experiment, *, num_threads: int | None = None, on_progress: OnProgress | None = None
) -> "xarray.Dataset":
    """Runs every case of an experiment, and returns one dataset with the cases as dimensions.

    Its dimensions are the cases, learner, the axes of the grid, run, and time; see
    [run] of the engine for the variables. After Ctrl-C it holds the units that were finished, NaN
    elsewhere, and `interrupted` is 1. Where not even one was finished there is nothing to return,
    and `KeyboardInterrupt` is raised.
    """
    done, total = 0, experiment.num_updates()
    results: dict[tuple[int, str], list[xarray.Dataset]] = {}

    def report(updates: int, _: int) -> None:
        if on_progress is not None:
            on_progress(done + updates, total)

    try:
        for unit in experiment.units:
            result = compute(unit, num_threads, report)
            results.setdefault((unit.case, unit.learner), []).append(result)
            done += unit.num_updates
    except KeyboardInterrupt:
        if not results:
            raise
    layout = describe(experiment)
    return assemble(layout, lambda case, learner: results.get((case, learner), []), done == total)
