"""The one way to run learners: checks what is asked, chooses engines, gathers the results."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args, Literal, TYPE_CHECKING

import jax
import numpy as np
from numpy.typing import ArrayLike

from .._names import unknown
from .._types import Learner
from ..mdp import Problem
from . import request, scan
from .lower import FusionError
from .measures import Make, Measure
from .stream import Stream
from .sweep import samples, Sweep, transitions
from .tasks import Job, Progress, Results, Task, Windows, work

if TYPE_CHECKING:
    import xarray

BLOCK = 4096  # lanes that one call advances
Engine = Literal["auto", "fused", "scan"]
"""What runs learners: `fused` is vector code of the CPU, `scan` is JAX, `auto` chooses."""


def run(
    problem: Problem,
    learners: Mapping[str, Make | Learner] | Sequence[str],
    grid: Mapping[str, ArrayLike] | None = None,
    *,
    num_steps: int,
    seeds: int | Sequence[int] = 1,
    target: ArrayLike | Mapping[Any, ArrayLike] | None = None,
    record_every: int = 1000,
    measures: Sequence[str] | Mapping[str, Measure] = ("emphasis_error",),
    engine: Engine = "auto",
    dtype: Literal["float32", "float64"] = "float32",
    num_threads: int | None = None,
    progress: Progress | None = None,
) -> "xarray.Dataset":
    r"""Runs learners on every point of a grid and every seed, and returns what was measured.

    All learners of a seed learn from one stream of experience of the behaviour, which depends on
    the problem and the seed only: comparisons are paired. Ctrl-C ends the run early, with the
    windows that are finished (`interrupted` is then 1 in the attributes).

    **Arguments:**

    - `problem`: The problem.
    - `learners`: By name, functions that make a learner from values of the grid, such as
      `gem` or `lambda step_size: etd(followon(), step_size)`; or learners. A list of names
      stands for the functions of `emphatic.learners`.
    - `grid`: For each argument of those functions the values to try; a learner that does not
      take an argument is the same along that axis.
    - `num_steps`: How many steps $t = 0, 1, \dots$ to run.
    - `seeds`: Whole numbers below $2^{64}$, one for each run; a number $n$ stands for
      $0, \dots, n - 1$.
    - `target`: A target policy, or several by label; by default the problem's own.
    - `record_every`: How many steps a window has. Measures are means over its steps; the last
      window may be shorter.
    - `measures`: Names from [MEASURES], and `weights` for the state at the end of each window; or
      measures of your own by name.
    - `engine`: `fused` (vector code of the CPU), `scan` (`lax.scan` on JAX's device), or
      `auto`, which is fused wherever that is possible.
    - `dtype`: The working type. Streams are the same in both.
    - `num_threads`: By default as many as there are cores.
    - `progress`: Called now and then with the updates done and the updates of the whole run.

    **Returns:**

    A dataset with the dimensions learner, target (if there are several), the axes of the grid,
    seed, and time, the number of steps at the end of a window. For each measure there is a
    variable, `diverged` says whether a number of the state was not finite at that time, and
    `engine` and `reason` say for each learner what ran it and why. `weights` are a variable
    `NAME_weights` for each learner, over `NAME_weight`.
    """
    cores = os.cpu_count() or 1
    count = request.count("num_threads", cores if num_threads is None else num_threads)
    words = request.seeds(seeds)
    prepared = prepare(
        problem,
        learners,
        grid,
        num_steps=num_steps,
        target=target,
        record_every=record_every,
        measures=measures,
        engine=engine,
        dtype=dtype,
        num_parts=-(-count // len(words)),
    )
    return prepared.run(words, count, progress)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Learners that are checked and compiled: what is left to say is the seeds."""

    jobs: Sequence[Job]
    makes: Mapping[str, Make]
    targets: Mapping[Any, np.ndarray]
    axes: Mapping[str, np.ndarray]
    windows: Windows
    keep_weights: bool
    chosen: Mapping[str, tuple[str, str]]
    attributes: Mapping[str, Any]

    def run(
        self, seeds: Sequence[int], num_threads: int, progress: Progress | None = None
    ) -> "xarray.Dataset":
        """The dataset of these seeds; see [run]."""
        jobs = [
            replace(job, results=Results(job, self.windows, len(seeds), self.keep_weights))
            for job in self.jobs
        ]
        finished, interrupted = work(
            _tasks(jobs, list(seeds), BLOCK), self.windows, num_threads, progress
        )
        dataset = _dataset(jobs, self.makes, self.targets, self.axes, self.windows, list(seeds))
        dataset = dataset.assign(
            engine=("learner", [self.chosen[name][0] for name in self.makes]),
            reason=("learner", [self.chosen[name][1] for name in self.makes]),
        )
        if list(self.targets) == [""]:
            dataset = dataset.squeeze("target", drop=True)
        dataset.attrs = {**self.attributes, "interrupted": int(interrupted)}
        return dataset.isel(time=slice(finished))


def prepare(
    problem: Problem,
    learners: Mapping[str, Make | Learner] | Sequence[str],
    grid: Mapping[str, ArrayLike] | None = None,
    *,
    num_steps: int,
    target: ArrayLike | Mapping[Any, ArrayLike] | None = None,
    record_every: int = 1000,
    measures: Sequence[str] | Mapping[str, Measure] = ("emphasis_error",),
    engine: Engine = "auto",
    dtype: Literal["float32", "float64"] = "float32",
    num_parts: int = 1,
) -> Prepared:
    """What [run] does before it runs: checks everything, chooses engines, and compiles.

    The arguments are those of [run], and `num_parts`, into how many parts the lanes of a seed are
    cut for threads that would be idle. Only the fused engine does so, whose bits do not depend on
    it: what a scan computes follows from its lanes and seeds alone.
    """
    num_steps = request.count("num_steps", num_steps)
    record_every = request.count("record_every", record_every)
    if engine not in get_args(Engine):
        raise unknown("engine", engine, get_args(Engine))
    if dtype not in ("float32", "float64"):
        raise unknown("dtype", dtype, ("float32", "float64"))
    axes = request.axes(grid or {})
    makes = request.makes(learners, axes)
    agents = request.agents(makes, axes)
    targets = request.targets(problem, target, agents == set(makes))
    chosen = request.measures(problem, measures, makes, axes, agents)
    counts = {name: request.num_lanes(make, axes) for name, make in makes.items()}
    part = min(BLOCK, max(64, -(-sum(counts.values()) * len(targets) // num_parts)))
    engines = Engines(Stream(problem), engine)
    sights = [transitions(problem, policy, np.dtype(dtype)) for policy in targets.values()]

    def jobs(name: str, block: int) -> list[Job]:
        make, lanes, found = makes[name], request.lanes(makes[name], axes), []
        for number, (policy, sight) in enumerate(zip(targets.values(), sights, strict=True)):
            sight = samples(np.dtype(dtype)) if name in agents else sight
            for first in range(0, counts[name], block):
                some = {axis: each[first : first + block] for axis, each in lanes.items()}
                try:
                    sweep = Sweep(make, some, problem, policy, sight, chosen, np.dtype(dtype))
                except ValueError as error:
                    raise ValueError(f"learner {name!r}: {error}") from None
                except jax.errors.JAXTypeError:
                    raise ValueError(
                        f"grid: {name!r} needs the values of {', '.join(some)} for its structure, "
                        "which all lanes share; make one learner for each value"
                    ) from None
                found.append(engines.job(name, number, sweep))
        if block < min(BLOCK, counts[name]) and engines.chosen[name][0] == "scan":
            return jobs(name, BLOCK)
        return found

    return Prepared(
        jobs=[job for name in makes for job in jobs(name, part)],
        makes=makes,
        targets=targets,
        axes=axes,
        windows=Windows(num_steps, record_every),
        keep_weights="weights" in measures,
        chosen=engines.chosen,
        attributes={"num_steps": num_steps, "record_every": record_every, "dtype": dtype},
    )


class Engines:
    """Chooses an engine for each learner, and remembers why."""

    def __init__(self, stream: Stream, asked: Engine):
        self.stream, self.asked = stream, asked
        self.experience: dict[str, Any] = {}
        self.chosen: dict[str, tuple[str, str]] = {}

    def job(self, name: str, target: int, sweep: Sweep) -> Job:
        """The sweep on the engine that runs it."""
        reason = "asked for"
        if self.asked != "scan":
            try:
                from . import cpu

                program = cpu.Program(sweep, self.stream)
                if self.asked == "auto":
                    reason = f"every primitive lowers, and a state has {sweep.num_state} numbers"
                return self._job(name, target, sweep, "fused", reason, cpu, program)
            except ImportError:
                reason = "llvmlite is not installed"
                if self.asked == "auto" and not self.chosen:
                    warnings.warn(f"the fused engine is not used: {reason}", stacklevel=3)
            except FusionError as why:
                reason = str(why)
            if self.asked == "fused":
                raise ValueError(f"engine: {name!r} cannot be fused: {reason}; scan would run it")
        program = scan.Program(sweep, self.stream)
        return self._job(name, target, sweep, "scan", reason, scan, program)

    def _job(self, name, target, sweep, engine, reason, module, program) -> Job:
        if engine not in self.experience:
            self.experience[engine] = module.Experience(self.stream)
        self.chosen[name] = engine, reason
        return Job(name, target, sweep, program, self.experience[engine])


def _tasks(jobs: Sequence[Job], seeds: list[int], block: int) -> list[Task]:
    """Jobs bundled to the size of a block, for every seed (scan: for blocks of seeds)."""
    tasks = []
    for experience in dict.fromkeys(job.experience for job in jobs):
        bundles: list[list[Job]] = []
        for job in (job for job in jobs if job.experience is experience):
            size = sum(each.sweep.num_lanes for each in bundles[-1]) if bundles else block
            if size + job.sweep.num_lanes > block:
                bundles.append([])
            bundles[-1].append(job)
        for bundle in bundles:
            together = 1
            if isinstance(experience, scan.Experience):
                lanes = sum(job.sweep.num_lanes for job in bundle)
                together = min(max(1, scan.BATCH // lanes), -(-len(seeds) // scan.TASKS))
                together = len(seeds) if jax.default_backend() != "cpu" else together
            for first in range(0, len(seeds), together):
                part = seeds[first : first + together]
                tasks.append(Task(experience, bundle, first, part))
    return tasks


# What was measured


def _dataset(
    jobs: Sequence[Job],
    makes: Mapping[str, Make],
    targets: Mapping[Any, np.ndarray],
    axes: Mapping[str, np.ndarray],
    windows: Windows,
    seeds: list[int],
) -> "xarray.Dataset":
    import xarray

    coordinates = {
        "learner": list(makes),
        "target": list(targets),
        **axes,
        "seed": np.array(seeds, np.uint64),
        "time": windows.ends,
    }
    shape = tuple(len(values) for values in coordinates.values())
    chosen = list(jobs[0].sweep.measures)
    found: dict[str, Any] = {name: np.empty(shape) for name in chosen}
    found["diverged"] = np.empty(shape, bool)
    dataset = xarray.Dataset(coords=coordinates)
    for row, (name, make) in enumerate(makes.items()):
        own = list(request.lanes(make, axes))
        lanes = tuple(len(axes[axis]) if axis in own else 1 for axis in axes)
        weights = []
        for column in range(len(targets)):
            parts = [job.results for job in jobs if (job.learner, job.target) == (name, column)]

            def gathered(pick, parts=parts, lanes=lanes):
                """From (window, ..., seed, lane) to (..., axes, seed, window)."""
                whole = np.concatenate([pick(part) for part in parts], axis=-1)
                whole = np.moveaxis(whole, 0, -1)  # ..., seed, lane, window
                whole = np.moveaxis(whole, -2, -3)
                return whole.reshape(*whole.shape[:-3], *lanes, *whole.shape[-2:])

            means = gathered(lambda part: part.sums) / windows.lengths
            for number, measure in enumerate(chosen):
                found[measure][row, column] = means[number]
            found["diverged"][row, column] = gathered(lambda part: part.diverged)
            weights.append(gathered(lambda part: part.weights))
        if weights[0].shape[0]:
            every = np.moveaxis(np.stack(weights), 1, -1)
            every = every.squeeze(tuple(1 + n for n, axis in enumerate(axes) if axis not in own))
            dataset[f"{name}_weights"] = ("target", *own, "seed", "time", f"{name}_weight"), every
            first = next(job.sweep for job in jobs if job.learner == name)
            dataset[f"{name}_weight"] = f"{name}_weight", first.names
    for name, values in found.items():
        dataset[name] = tuple(coordinates), values
    return dataset
