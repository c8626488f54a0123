"""Units on an engine: their curves, what they cost, and whole experiments in memory."""

import json
import time
import warnings
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from .. import engine as engines
from .._work import available_memory, require_memory
from ..engine.choice import count_gpus
from ..engine.tasks import num_cores, OnProgress
from .claims import max_claims
from .dataset import assemble, describe
from .experiment import BLOCK, Experiment, Unit, UNIT_BYTES
from .groups import Claims, compute_groups, GPU_CELLS, group_claims, Progress
from .provenance import provenance

if TYPE_CHECKING:
    import xarray

MAX_PROGRAMS = 4  # compiled programs that wait for more units, for each GPU
PROBE = 10_000  # steps of a run that shows how fast a learner is
PROBE_CELLS = 4096  # and how many curves it has at most
MEMORY_SHARE = 4  # parts of the memory, one of which the results of a call on GPUs may take
UNIT_CELL_BYTES = 24  # of memory for a number of a unit: its sum, its mean, its copies
CELL_BYTES = 10  # for a number of all results, while they are assembled

_programs: dict[Hashable, tuple[Unit, engines.Prepared]] = {}
_lock = Lock()


def _program(unit: Unit, num_threads: int, gpu: int = 0) -> engines.Prepared:
    """Returns the program of a unit, compiled once for all runs if they follow each other."""
    experiment = unit.experiment
    is_defined = unit.learner in experiment.definitions
    identity = unit.address if is_defined else (id(experiment), unit.case, unit.learner)
    key = identity, tuple(unit.grid.items()), num_threads, experiment.device, gpu
    with _lock:
        if key not in _programs:
            while len(_programs) >= MAX_PROGRAMS * (1 + gpu):
                _programs.pop(next(iter(_programs)))
            num_gpus, _ = count_gpus(experiment.device, experiment.engine, gpu)
            program = engines.prepare(
                unit.problem,
                lambda problem: {unit.learner: experiment.learner(problem, unit.learner)},
                {axis: np.array(values) for axis, values in unit.grid.items()},
                num_steps=experiment.num_steps,
                target=experiment.target_policies(unit.problem),
                record_every=experiment.window(),
                measures=experiment.measures,
                engine=experiment.engine,
                device=experiment.device if num_gpus else "cpu",
                dtype=experiment.dtype,
                num_parts=-(-num_threads // BLOCK),
                num_seeds=max(1, min(experiment.num_runs, GPU_CELLS // unit.num_lanes)),
                gpu=gpu,
            )
            _programs[key] = unit, program  # the unit keeps alive what an id stands for
        return _programs[key][1]


def compute(
    unit: Unit, num_threads: int | None = None, on_progress: OnProgress | None = None
) -> "xarray.Dataset":
    """Computes the curves of a unit, with the axes of its grid, `run` and `time`.

    Ctrl-C raises `KeyboardInterrupt`: a unit is computed whole or not at all. No bit depends on
    the number of threads, or on the device. The attribute `provenance` says what computed it.
    """
    return compute_together([unit], num_threads, on_progress)[0]


def compute_together(
    units: Sequence[Unit],
    num_threads: int | None = None,
    on_progress: OnProgress | None = None,
    gpu: int = 0,
) -> "list[xarray.Dataset]":
    """Computes units that differ in their runs alone in one call of an engine; see [compute].

    `gpu` is the number of the GPU, if there are several.
    """
    experiment, num_threads = units[0].experiment, num_threads or num_cores()
    runs = [run for unit in units for run in unit.runs]
    seeds = [(experiment.seed << 32) + run for run in runs]
    dataset = _program(units[0], num_threads, gpu).run(seeds, num_threads, on_progress)
    if dataset.attrs["interrupted"]:
        raise KeyboardInterrupt
    dataset = dataset.rename(seed="run").assign_coords(run=runs)
    for name in set(experiment.measures) & set(dataset):  # in the precision worked in
        dataset[name] = dataset[name].astype(experiment.dtype)
    if len(units) == 1:
        return [_finish(units[0], dataset)]
    ends = np.cumsum([len(unit.runs) for unit in units]).tolist()
    return [
        _finish(unit, dataset.isel(run=slice(end - len(unit.runs), end)).copy(deep=True))
        for unit, end in zip(units, ends, strict=True)
    ]


def _finish(unit: Unit, dataset: "xarray.Dataset") -> "xarray.Dataset":
    """Derives what a unit has of what an engine measured in its runs."""
    device = dataset.attrs["device"]
    if unit.experiment.derive is not None:
        dataset = unit.experiment.derive(unit.problem, dataset)
    dataset = dataset.squeeze("learner", drop=True)
    choice = {name: str(dataset[name].item()) for name in ("engine", "reason")}
    dataset = dataset.drop_vars(list(choice))
    origin = provenance(choice["engine"], None if choice["engine"] == "scan" else device)
    dataset.attrs = {**choice, "provenance": origin}
    return dataset


def find_gpus(experiment: Experiment, on_message: Callable[[str], None]) -> int:
    """Returns how many GPUs an experiment may use; where it has to, a `ValueError` if it cannot.

    If it may and there is none, a message says why.
    """
    num_gpus, reason = count_gpus(experiment.device, experiment.engine)
    if reason:
        on_message(f"device: {reason}; the CPU is used")
    if experiment.device == "gpu":  # those with most features are most likely to be too large
        wholes = sorted(experiment.wholes, key=lambda whole: whole.problem.xa.shape[1])
        for whole in {whole.learner: whole for whole in wholes}.values():
            _program(whole, num_cores())
    return num_gpus


def _units_per_call(unit: Unit, num_gpus: int, num_threads: int) -> int:
    """Returns how many units like this one a call computes: those that fill a GPU, if there are."""
    program = _program(unit, num_threads)
    if not program.on_gpu:
        return 1
    share = -(-unit.experiment.num_runs // (BLOCK * num_gpus))
    fitting = int(available_memory()) // (MEMORY_SHARE * num_gpus * program.seed_bytes * BLOCK)
    filling = GPU_CELLS // (unit.num_lanes * BLOCK)
    return max(1, min(share, fitting, filling, max_claims() // (1 + num_gpus)))


def compute_on_gpus(
    claims: Claims, num_gpus: int, num_threads: int | None = None
) -> Generator[tuple[Unit, "xarray.Dataset"], None, None]:
    """Computes units on GPUs, as many of a learner and a case in one call as fill one.

    Units that are not worth it are computed on the CPU, each by itself.
    """
    count = num_threads or num_cores()
    per_call = partial(_units_per_call, num_gpus=num_gpus, num_threads=count)

    def compute_group(
        units: Sequence[Unit], on_progress: OnProgress, gpu: int
    ) -> "list[xarray.Dataset]":
        return compute_together(units, count, on_progress, gpu)

    yield from compute_groups(group_claims(claims, per_call), num_gpus, compute_group)


@dataclass(frozen=True)
class Estimate:
    """What is left of an experiment: cells (curves), updates, seconds and bytes of results.

    `devices` are those that its learners are to run on.
    """

    num_cells: int
    num_updates: int
    seconds: float
    num_bytes: int
    devices: tuple[str, ...] = ()


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
    num_gpus, devices = count_gpus(experiment.device, experiment.engine)[0], dict[str, None]()
    num_left = [whole.num_cells for whole in wholes] if num_left is None else num_left
    num_steps = min(experiment.num_steps, PROBE)
    short = replace(experiment, num_steps=num_steps, num_records=1, device="cpu")
    num_windows = -(-experiment.num_steps // experiment.window())
    left = {whole: count for whole, count in zip(wholes, num_left, strict=True) if count}
    for name in dict.fromkeys(whole.learner for whole in left):
        parts = [whole for whole in left if whole.learner == name]
        probe, num_side_by_side = cut(replace(parts[0], experiment=short)), 1
        if num_gpus and _program(parts[0], num_cores()).on_gpu:  # as many cells as one call has
            needed = -(-left[parts[0]] * experiment.num_runs // parts[0].num_cells)
            size = min(needed, BLOCK * _units_per_call(parts[0], num_gpus, num_cores()))
            probe = replace(
                parts[0], experiment=replace(short, device="gpu"), runs=tuple(range(size))
            )
            num_side_by_side = num_gpus
        started = time.perf_counter()
        compute(probe)
        compiled = time.perf_counter()
        dataset = compute(probe)
        duration = time.perf_counter() - compiled
        devices[dataset.attrs["provenance"]["device"]] = None
        for whole in parts:
            updates = left[whole] * whole.num_updates // whole.num_cells
            seconds += duration * updates / probe.num_updates / num_side_by_side
            num_bytes += dataset.nbytes * num_windows * left[whole] // probe.num_cells
            num_updates += updates
        seconds += len(parts) * max(0.0, compiled - started - duration)
    return Estimate(sum(left.values()), num_updates, seconds, num_bytes, tuple(devices))


def cut(unit: Unit) -> Unit:
    """Returns a part of a unit with few cells: of its first runs and of the first of its values."""
    unit, grid = replace(unit, runs=tuple(unit.runs[:BLOCK])), dict(unit.grid)
    for axis, values in unit.grid.items():
        num_others = unit.num_cells // len(values)
        grid[axis] = values[: max(1, PROBE_CELLS // num_others)]
        unit = replace(unit, grid=dict(grid))
    return unit


def run(
    experiment: Experiment, *, num_threads: int | None = None, on_progress: OnProgress | None = None
) -> "xarray.Dataset":
    """Runs every case of an experiment, and returns one dataset with the cases as dimensions.

    Its dimensions are the cases, learner, the axes of the grid, run, and time; see
    [run] of the engine for the variables. After Ctrl-C it holds the units that were finished, NaN
    elsewhere, and `interrupted` is 1. Where not even one was finished there is nothing to return,
    and `KeyboardInterrupt` is raised. The attribute `provenance` says, in JSON, what computed it.
    """
    require_room(experiment, in_memory=True)
    num_gpus = find_gpus(experiment, warnings.warn)
    progress = Progress(experiment.num_updates(), 0, on_progress)
    claims = ((unit, progress.track(unit)) for unit in experiment.units)
    if num_gpus:
        computed = compute_on_gpus(claims, num_gpus, num_threads)
    else:
        computed = ((unit, compute(unit, num_threads, report)) for unit, report in claims)
    results: dict[tuple[int, str], list[xarray.Dataset]] = {}
    origins: dict[str, object] = {}
    try:
        for unit, result in computed:
            results.setdefault((unit.case, unit.learner), []).append(result)
            origin = result.attrs["provenance"]
            origins[json.dumps(origin, sort_keys=True)] = origin
            progress.end(unit)
    except KeyboardInterrupt:
        if not results:
            raise
    layout, is_complete = describe(experiment), progress.done == progress.total
    dataset = assemble(layout, lambda case, name: results.get((case, name), []), is_complete)
    return dataset.assign_attrs(provenance=json.dumps(list(origins.values())))
