"""Units on an engine: their curves, what they cost, and whole experiments in memory."""

import dataclasses
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from .. import engine as engines
from .._work import require_memory
from ..engine.tasks import num_cores, OnProgress
from .dataset import assemble, describe
from .experiment import BLOCK, Experiment, Unit, UNIT_BYTES

if TYPE_CHECKING:
    import xarray

MAX_PROGRAMS = 4  # compiled programs that wait for more units
PROBE = 10_000  # steps of a run that shows how fast a learner is
PROBE_CELLS = 4096  # and how many curves it has at most
UNIT_CELL_BYTES = 24  # of memory for a number of a unit: its sum, its mean, its copies
CELL_BYTES = 10  # for a number of all results, while they are assembled

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
    """What is left of an experiment: cells (curves), updates, seconds and bytes of results."""

    num_cells: int
    num_updates: int
    seconds: float
    num_bytes: int


def require_room(experiment: Experiment, in_memory: bool) -> None:
    """A `ValueError` if the units, or all of the results, are more than there is memory for.

    It is found from the numbers of learners, runs and windows alone.
    """
    wholes = experiment.wholes  # of an experiment that is sound
    num_windows = -(-experiment.num_steps // experiment.window())
    curve = num_windows * max(1, len(experiment.measures)) * len(experiment.targets or [None])
    num_cells = sum(whole.num_cells for whole in wholes)
    num_runs = min(BLOCK, experiment.num_runs)
    largest = max(whole.num_cells // len(whole.runs) for whole in wholes) * num_runs
    num_bytes = UNIT_BYTES * experiment.num_units + UNIT_CELL_BYTES * largest * curve
    num_bytes += CELL_BYTES * num_cells * curve if in_memory else 0
    size = f"{num_cells:,} curves of {num_windows:,} windows"
    require_memory(f"{experiment.name}: {size}", num_bytes, "take fewer runs, values or windows")


def estimate(experiment: Experiment, num_left: Sequence[int] | None = None) -> Estimate:
    """Estimates what an experiment takes, from a short run of each learner on its first problem.

    By default that is all of it; else of each of its `wholes` so many cells are left.
    """
    wholes, seconds, num_bytes, num_updates = experiment.wholes, 0.0, 0, 0
    num_left = [whole.num_cells for whole in wholes] if num_left is None else num_left
    num_steps = min(experiment.num_steps, PROBE)
    short = dataclasses.replace(experiment, num_steps=num_steps, num_records=1)
    num_windows = -(-experiment.num_steps // experiment.window())
    left = {whole: count for whole, count in zip(wholes, num_left, strict=True) if count}
    for name in dict.fromkeys(whole.learner for whole in left):
        parts = [whole for whole in left if whole.learner == name]
        probe = cut(dataclasses.replace(parts[0], experiment=short))
        started = time.perf_counter()
        compute(probe)
        compiled = time.perf_counter()
        dataset = compute(probe)
        duration = time.perf_counter() - compiled
        for whole in parts:
            updates = left[whole] * whole.num_updates // whole.num_cells
            seconds += duration * updates / probe.num_updates
            num_bytes += dataset.nbytes * num_windows * left[whole] // probe.num_cells
            num_updates += updates
        seconds += len(parts) * max(0.0, compiled - started - duration)
    return Estimate(sum(left.values()), num_updates, seconds, num_bytes)


def cut(unit: Unit) -> Unit:
    """Returns a part of a unit with few cells: of its first runs and of the first of its values."""
    unit, grid = dataclasses.replace(unit, runs=tuple(unit.runs[:BLOCK])), dict(unit.grid)
    for axis, values in unit.grid.items():
        num_others = unit.num_cells // len(values)
        grid[axis] = values[: max(1, PROBE_CELLS // num_others)]
        unit = dataclasses.replace(unit, grid=dict(grid))
    return unit


def run(
    experiment: Experiment, *, num_threads: int | None = None, on_progress: OnProgress | None = None
) -> "xarray.Dataset":
    """Runs every case of an experiment, and returns one dataset with the cases as dimensions.

    Its dimensions are the cases, learner, the axes of the grid, run, and time; see
    [run] of the engine for the variables. After Ctrl-C it holds the units that were finished, NaN
    elsewhere, and `interrupted` is 1. Where not even one was finished there is nothing to return,
    and `KeyboardInterrupt` is raised.
    """
    require_room(experiment, in_memory=True)
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
