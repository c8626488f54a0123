"""Experiments as data: what is compared, and nothing about how it is run or drawn."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal, TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from . import _checks as checks
from . import engine as engines
from ._types import Learner
from .engine import request
from .engine.tasks import Progress
from .mdp import Problem

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Experiment:
    r"""Cases of a problem, learners on a grid of hyper-parameters, and runs of them.

    **Arguments:**

    - `name`: What it is called.
    - `build`: Makes the problem of a case.
    - `cases`: The arguments of `build` and their values; every combination is a case.
    - `learners`: Gives the learners of a problem by name, as [run] takes them.
    - `measures`: What is measured; see [MEASURES].
    - `num_steps`: Steps of a run.
    - `grid`: The hyper-parameters and their values.
    - `num_runs`: How many runs there are of everything, each on a stream of its own.
    - `seed`: Chooses the streams: run $n$ has the seed $2^{32}\,\mathrm{seed} + n$, so that
      different seeds share no stream.
    - `record_every`: Steps of a window.
    - `num_records`: In its place, the number of windows, which then have equal lengths.
    - `dtype`: The working type.
    - `derive`: What is computed afterwards from the results of a case, such as the exact meaning of
      recorded weights: a function from the problem and its dataset to another dataset.
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
    derive: Callable[[Problem, "xarray.Dataset"], "xarray.Dataset"] | None = None

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
        axes = request.axes(self.grid)
        problem = self.build(**self.points()[0])
        makes = request.makes(self.learners(problem), axes)
        lanes = sum(request.num_lanes(make, axes) for make in makes.values())
        return lanes * self.num_runs * self.num_steps * len(self.points())


def run(
    experiment: Experiment,
    *,
    engine: engines.Engine = "auto",
    num_threads: int | None = None,
    progress: Progress | None = None,
) -> "xarray.Dataset":
    """Runs every case of an experiment, and returns one dataset with the cases as dimensions.

    Its dimensions are the cases, learner, the axes of the grid, run, and time; see
    [run] of the engine for the variables. After Ctrl-C it holds what was finished: cases
    that had begun have NaN from where they were stopped, and `interrupted` is 1. Where not even
    one window was finished there is nothing to return, and `KeyboardInterrupt` is raised.

    **Arguments:**

    - `experiment`: What to run.
    - `engine`, `num_threads`: As for [run] of the engine.
    - `progress`: Called with the updates done and the updates of all cases.
    """
    import xarray

    points, total, found = experiment.points(), experiment.num_updates(), []
    interrupted = False
    problems = [experiment.build(**point) for point in points]
    for number, (point, problem) in enumerate(zip(points, problems, strict=True)):

        def of_all(updates: int, of_case: int, number: int = number) -> None:
            if progress is not None:
                progress(number * of_case + updates, total)

        try:
            dataset = engines.run(
                problem,
                experiment.learners(problem),
                experiment.grid,
                num_steps=experiment.num_steps,
                seeds=[(experiment.seed << 32) + n for n in range(experiment.num_runs)],
                record_every=experiment.window(),
                measures=experiment.measures,
                engine=engine,
                dtype=experiment.dtype,
                num_threads=num_threads,
                progress=of_all,
            )
        except KeyboardInterrupt:  # while it was being compiled
            interrupted = True
            break
        dataset = dataset.rename(seed="run").assign_coords(run=np.arange(experiment.num_runs))
        for name in set(experiment.measures) & set(dataset):  # in the precision worked in
            dataset[name] = dataset[name].astype(experiment.dtype)
        if experiment.derive is not None and dataset.sizes["time"]:
            dataset = experiment.derive(problem, dataset)
        interrupted = bool(dataset.attrs["interrupted"])
        if dataset.sizes["time"]:
            found.append(dataset.expand_dims({name: [value] for name, value in point.items()}))
        if interrupted:
            break
    if not found:
        raise KeyboardInterrupt
    found[-1] = found[-1].reindex(time=found[0]["time"], fill_value={"diverged": False})
    merged = xarray.combine_by_coords(
        found,
        combine_attrs="override",
        data_vars="all",
        join="outer",
        fill_value={"diverged": False, "engine": "", "reason": ""},
    )
    assert isinstance(merged, xarray.Dataset)
    for name, values in experiment.cases.items():  # in their order, not sorted
        merged = merged.sel({name: [each for each in values if each in merged[name].values]})
    return merged.assign_attrs(
        experiment=experiment.name,
        seed=experiment.seed,
        num_steps=experiment.num_steps,
        interrupted=int(interrupted),
        versions=" ".join(f"{each} {version(each)}" for each in ("emphatic", "jax", "numpy")),
    )
