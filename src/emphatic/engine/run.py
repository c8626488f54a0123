"""The one way to run learners: parses the request, chooses engines, and collects the results."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args, Literal, TYPE_CHECKING, TypeAlias

import jax
import numpy as np
from jaxtyping import Float, Shaped
from numpy.typing import ArrayLike

from .._validation import unknown
from .._work import require_memory
from ..mdp import Problem
from ..types import DeviceName, LearnerFactory
from . import request
from .batch import Batch, sample_view, transition_view
from .choice import BLOCK, Choice, Compiler, Engine, GPU_BLOCK, Work
from .request import Axes, Learners, Measures, Targets
from .stream import Stream
from .tasks import CHUNK, Job, num_cores, OnProgress, Results, run_tasks, seed_load, Task, Windows

if TYPE_CHECKING:
    import xarray

# Of memory: what a window takes before anything is measured, a seed, and a curve with its state.
WINDOW_BYTES, SEED_BYTES, CURVE_BYTES = 64, 128, 64
WINDOWS_ADVICE = "take fewer seeds, values or windows"
DType: TypeAlias = Literal["float32", "float64"]
"""The working type of a run."""


def run(
    problem: Problem,
    learners: Learners,
    grid: Mapping[str, ArrayLike] | None = None,
    *,
    num_steps: int,
    seeds: int | Sequence[int] = 1,
    target: ArrayLike | Targets | None = None,
    record_every: int = 1000,
    measures: Measures | None = None,
    engine: Engine = "auto",
    device: DeviceName = "cpu",
    dtype: DType = "float32",
    num_threads: int | None = None,
    on_progress: OnProgress | None = None,
) -> "xarray.Dataset":
    r"""Runs learners on every point of a grid and every seed, and returns what was measured.

    All learners of a seed learn from one stream of the behaviour's experience, which depends on
    the problem and the seed only: comparisons are paired. Ctrl-C ends the run early, with the
    windows that are finished (`interrupted` is then 1 in the attributes).

    **Arguments:**

    - `problem`: The problem.
    - `learners`: By name, functions that make a learner from values of the grid, such as
      `gem` or `lambda step_size: etd(followon(), step_size)`; or learners; or expressions, such as
      `"etd(exact(emphasis), step_size)"`, which [parse_learner] reads for each target. A list has
      expressions that are their own names. Or a function from the problem to these, which is
      called for each target with the problem that has it.
    - `grid`: For each argument of those functions the values to try; a learner that does not
      take an argument is the same along that axis.
    - `num_steps`: How many steps $t = 0, 1, \dots$ to run.
    - `seeds`: Whole numbers below $2^{64}$, one for each run; a number $n$ stands for
      $0, \dots, n - 1$.
    - `target`: A target policy, or several by label; by default the problem's own.
    - `record_every`: How many steps a window has. Measures are means over its steps; the last
      window may be shorter.
    - `measures`: Names from [MEASURES], and `weights` for the state at the end of each window; or
      measures of your own by name. By default the error of what the learners estimate.
    - `engine`: `fused` (native code), `scan` (`lax.scan` on JAX's device), or `auto`, which is
      fused wherever that is possible.
    - `device`: Where fused learners run: `cpu`, `gpu` (the first one of NVIDIA; experimental), or
      `auto`, which takes a GPU that is there where the work is worth it.
    - `dtype`: The working type. Streams are the same in both.
    - `num_threads`: By default as many as there are cores.
    - `on_progress`: Called now and then with the updates done and the updates of the whole run.

    **Returns:**

    A dataset with the dimensions learner, target (if there are several), the axes of the grid,
    seed, and time, the number of steps at the end of a window. For each measure there is a
    variable, `diverged` says whether a number of the state was not finite at that time, and
    `engine` and `reason` say for each learner what ran it and why. `weights` are a variable
    `NAME_weights` for each learner, over `NAME_weight`.
    """
    count = num_cores() if num_threads is None else request.parse_count("num_threads", num_threads)
    seed_list = request.parse_seeds(seeds)
    prepared = prepare(
        problem,
        learners,
        grid,
        num_steps=num_steps,
        target=target,
        record_every=record_every,
        measures=measures,
        engine=engine,
        device=device,
        dtype=dtype,
        num_parts=-(-count // len(seed_list)),
        num_seeds=len(seed_list),
    )
    return prepared.run(seed_list, count, on_progress)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Learners that are checked and compiled: only the seeds are missing."""

    jobs: Sequence[Job]
    factories: Mapping[str, LearnerFactory]
    targets: Mapping[object, Float[np.ndarray, "s a"]]
    axes: Axes
    windows: Windows
    record_weights: bool
    choices: Mapping[str, Choice]
    on_gpu: bool  # all of them
    attributes: Mapping[str, int | str]

    @property
    def num_lanes(self) -> int:
        """How many curves a seed has."""
        return sum(job.batch.num_lanes for job in self.jobs)

    @property
    def seed_bytes(self) -> int:
        """How much memory the results of a seed take."""
        numbers = max(job.batch.num_state for job in self.jobs) if self.record_weights else 0
        window_bytes = 2 + 16 * len(self.jobs[0].batch.measures) + 8 * numbers
        return self.num_lanes * (CURVE_BYTES + len(self.windows.ends) * window_bytes) + SEED_BYTES

    def run(
        self, seeds: Sequence[int], num_threads: int, on_progress: OnProgress | None = None
    ) -> "xarray.Dataset":
        """Runs these seeds, and returns their dataset; see [run]."""
        curves = f"seeds: {len(seeds) * self.num_lanes:,} curves"
        size = f"{curves} of {len(self.windows.ends):,} windows"
        require_memory(size, self.seed_bytes * len(seeds), WINDOWS_ADVICE)
        jobs = [
            replace(job, results=Results(job, self.windows, len(seeds), self.record_weights))
            for job in self.jobs
        ]
        block = max(BLOCK, *(job.batch.num_lanes for job in jobs))
        tasks = bundle_tasks(jobs, list(seeds), block)
        finished, interrupted = run_tasks(tasks, self.windows, num_threads, on_progress)
        dataset = self._to_dataset(jobs, list(seeds))
        if list(self.targets) == [""]:
            dataset = dataset.squeeze("target", drop=True)
        dataset.attrs = {**self.attributes, "interrupted": int(interrupted)}
        return dataset.isel(time=slice(finished))

    def _to_dataset(self, jobs: Sequence[Job], seeds: list[int]) -> "xarray.Dataset":
        import xarray

        coordinates = {
            "learner": list(self.factories),
            "target": list(self.targets),
            **self.axes,
            "seed": np.array(seeds, np.uint64),
            "time": self.windows.ends,
        }
        shape = tuple(len(values) for values in coordinates.values())
        variables = {name: np.empty(shape) for name in jobs[0].batch.measures}
        diverged = np.empty(shape, bool)
        dataset = xarray.Dataset(coords=coordinates)
        for row, (name, factory) in enumerate(self.factories.items()):
            axes = request.learner_axes(factory, self.axes)
            sizes = [len(values) if axis in axes else 1 for axis, values in self.axes.items()]
            weights: list[np.ndarray] = []
            for column in range(len(self.targets)):
                matching = [job for job in jobs if (job.learner, job.target) == (name, column)]
                results = [job.results for job in matching if job.results is not None]
                sums = _join([part.sums for part in results], sizes)
                for values, total in zip(variables.values(), sums, strict=True):
                    for number in range(len(seeds)):  # since few numbers at a time stay in cache
                        mean = values[row, column][..., number, :]
                        np.divide(total[..., number, :], self.windows.lengths, out=mean)
                        _unify_nan(mean)
                diverged[row, column] = _join([part.diverged for part in results], sizes)
                weights.append(_join([part.weights for part in results], sizes))
            if weights[0].shape[0]:
                unused = tuple(1 + n for n, axis in enumerate(self.axes) if axis not in axes)
                array = _unify_nan(np.moveaxis(np.stack(weights), 1, -1).squeeze(unused))
                dimensions = "target", *axes, "seed", "time", f"{name}_weight"
                dataset[f"{name}_weights"] = dimensions, array
                batch = next(job.batch for job in jobs if job.learner == name)
                dataset[f"{name}_weight"] = f"{name}_weight", batch.names
        for name, values in {**variables, "diverged": diverged}.items():
            dataset[name] = tuple(coordinates), values
        engines, reasons = zip(*(self.choices[name] for name in self.factories), strict=True)
        return dataset.assign(engine=("learner", list(engines)), reason=("learner", list(reasons)))


def _unify_nan(values: Shaped[np.ndarray, "*n"]) -> Shaped[np.ndarray, "*n"]:
    """Gives all that is not a number the same bits: of those, processors have different ones."""
    is_nan = np.isnan(values)
    if is_nan.any():
        values[is_nan] = np.nan
    return values


def _join(parts: Sequence[np.ndarray], sizes: Sequence[int]) -> Shaped[np.ndarray, "..."]:
    """Joins lanes: from the axes (window, ..., seed, lane) to (..., grid's axes, seed, window)."""
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
    joined = np.moveaxis(whole, 0, -1)  # ..., seed, lane, window
    joined = np.moveaxis(joined, -2, -3)
    return joined.reshape(*joined.shape[:-3], *sizes, *joined.shape[-2:])


def prepare(
    problem: Problem,
    learners: Learners,
    grid: Mapping[str, ArrayLike] | None = None,
    *,
    num_steps: int,
    target: ArrayLike | Targets | None = None,
    record_every: int = 1000,
    measures: Measures | None = None,
    engine: Engine = "auto",
    device: DeviceName = "cpu",
    dtype: DType = "float32",
    num_parts: int = 1,
    num_seeds: int = 1,
    gpu: int = 0,
) -> Prepared:
    """Does what [run] does before it runs: parses the request, chooses engines, and compiles.

    The arguments are those of [run], and `num_parts`, into how many parts the lanes of a seed are
    cut for threads that would be idle. Only the fused engine on a CPU does so: a scan would compile
    each. `num_seeds` says how many seeds are expected, and `gpu` is the number of the GPU, if
    there are several. No bit depends on any of them.
    """
    num_steps = request.parse_count("num_steps", num_steps)
    record_every = request.parse_count("record_every", record_every)
    if engine not in get_args(Engine):
        raise unknown("engine", engine, get_args(Engine))
    if device not in get_args(DeviceName):
        raise unknown("device", device, get_args(DeviceName))
    if dtype not in get_args(DType):
        raise unknown("dtype", dtype, get_args(DType))
    num_windows = -(-num_steps // record_every)
    advice = f"record_every: {num_windows:,} windows"
    require_memory(advice, WINDOW_BYTES * num_windows + 16 * num_steps // CHUNK, WINDOWS_ADVICE)
    axes = request.parse_axes(grid or {})

    def make_factories(problem: Problem) -> dict[str, LearnerFactory]:
        named = learners(problem) if callable(learners) else learners
        return request.parse_learners(named, axes, problem)

    factories = make_factories(problem)
    agents = request.find_agents(factories, axes)
    targets = request.parse_targets(problem, target, agents == set(factories))
    of_target = [
        make_factories(replace(problem, target=policy)) if target is not None else factories
        for policy in targets.values()
    ]
    measures = request.default_measures(factories, axes) if measures is None else measures
    parsed = request.parse_measures(problem, measures, factories, axes, agents)
    counts = {
        name: math.prod(map(len, request.learner_axes(factory, axes).values()))
        for name, factory in factories.items()
    }
    block_size = min(BLOCK, max(64, -(-sum(counts.values()) * len(targets) // num_parts)))
    records_weights = "weights" in measures
    work = Work(num_seeds, num_steps, num_windows, records_weights, num_parts * num_seeds)
    compiler = Compiler(Stream(problem), engine, device, work, gpu)
    blocks = {"cpu": block_size, "scan": BLOCK}
    precision = np.dtype(dtype)
    views = [transition_view(problem, policy, precision) for policy in targets.values()]

    def compile_jobs(name: str, block: int) -> list[Job]:
        lanes, jobs = request.lane_values(factories[name], axes), list[Job]()
        for number, (policy, view) in enumerate(zip(targets.values(), views, strict=True)):
            view = sample_view(precision) if name in agents else view
            for first in range(0, counts[name], block):
                part = {axis: values[first : first + block] for axis, values in lanes.items()}
                try:
                    factory = of_target[number][name]
                    batch = Batch(factory, part, problem, policy, view, parsed, precision)
                except ValueError as error:
                    raise ValueError(f"learner {name!r}: {error}") from None
                except jax.errors.JAXTypeError:
                    raise ValueError(
                        f"grid: {name!r} needs the values of {', '.join(part)} for its structure, "
                        "which all lanes share; make one learner for each value"
                    ) from None
                jobs.append(compiler.compile(name, number, batch))
        if (place := compiler.places[name]) == "gpu":
            fitting = min(block, compiler.lanes_per_task(jobs[0], counts[name]))
        else:
            fitting = blocks[place]
        if min(block, counts[name]) != min(fitting, counts[name]):
            return compile_jobs(name, fitting)
        return jobs

    first_block = GPU_BLOCK if compiler.gpu is not None else block_size
    jobs = [job for name in factories for job in compile_jobs(name, first_block)]
    attributes = {"num_steps": num_steps, "record_every": record_every, "dtype": dtype}
    return Prepared(
        jobs=jobs,
        factories=factories,
        targets=targets,
        axes=axes,
        windows=Windows(num_steps, record_every),
        record_weights=records_weights,
        choices=compiler.choices,
        on_gpu=set(compiler.places.values()) == {"gpu"},
        attributes={**attributes, "device": compiler.device_name},
    )


def bundle_tasks(jobs: Sequence[Job], seeds: list[int], block: int) -> list[Task]:
    """Bundles jobs that share their experience to at most `block` lanes, for some seeds each."""
    tasks: list[Task] = []
    for experience in dict.fromkeys(job.experience for job in jobs):
        bundles: list[list[Job]] = []
        for job in (job for job in jobs if job.experience is experience):
            size = sum(other.batch.num_lanes for other in bundles[-1]) if bundles else block
            if size + job.batch.num_lanes > block:
                bundles.append([])
            bundles[-1].append(job)
        for bundle in bundles:
            count = experience.seeds_per_task(len(seeds), seed_load(bundle))
            tasks += [
                Task(experience, bundle, first, seeds[first : first + count])
                for first in range(0, len(seeds), count)
            ]
    return tasks
