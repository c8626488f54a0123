"""Experiments as data: what is compared, and the units of work that this comes to."""

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .. import _validation as checks
from .._files import checksum, Json
from .._schema import show
from .._work import require_memory
from ..engine import Engine, request
from ..engine.expressions import parse_learner
from ..engine.source import trace
from ..mdp import Problem
from ..problems import digest
from ..types import DeviceName, Learner, LearnerFactory

if TYPE_CHECKING:
    import xarray

FORMAT = 1  # of what a definition means: a change of it makes every result another one
BLOCK = 10  # runs of a unit
MAX_NAME = 200  # bytes; results of a trial and temporary files need more
ADDRESS = re.compile("[0-9a-f]{24}")  # of curves, by their definition
UNIT_BYTES = 4000  # of memory that a unit takes while it is listed

Target: TypeAlias = Callable[[Problem], ArrayLike | None]
"""A target policy of a problem; None is the problem's own."""
Learners: TypeAlias = Mapping[str, LearnerFactory | Learner[Any, Any] | str]
"""Learners by name, functions that make them from values of the grid, or expressions."""


def require_name(name: str) -> None:
    """Raises a `ValueError` for a name that no folder can have, or that leads out of its folder."""
    is_plain = isinstance(name, str) and name.isprintable() and name.strip() and "/" not in name
    if not is_plain or name in (".", "..") or len(name.encode()) > MAX_NAME:
        raise ValueError(
            f"name: got {show(name)}; that of a folder is required: printable, without /, and of "
            f"at most {MAX_NAME} bytes"
        )


@dataclass(frozen=True)
class Selection:
    """How hyper-parameters are chosen: by a measure, of which less is better.

    Its value at the end, or the area under its curve, is compared on `runs` that are used for
    nothing else; with 0 a report takes half of them.
    """

    measure: str
    by: Literal["final", "area"] = "area"
    runs: int = 0


@dataclass(frozen=True)
class Experiment:
    r"""Cases of a problem, learners on a grid of hyper-parameters, and runs of them.

    **Arguments:**

    - `build`: Makes the problem of a case.
    - `cases`: The arguments of `build` and their values; every combination is a case.
    - `learners`: Gives the learners of a problem by name, as [run] of the engine takes them; it is
      called for each target with the problem that has it.
    - `measures`: What is measured; see [MEASURES].
    - `num_runs`: How many runs there are of everything, each on a stream of its own.
    - `seed`: Chooses the streams: run $n$ has the seed $2^{32}\,\mathrm{seed} + n$, so that
      different seeds share no stream.
    - `num_records`: The number of windows, of equal lengths, instead of `record_every`.
    - `targets`: Target policies by label, if not the problem's own.
    - `derive`: What is computed afterwards from the results of a case, such as the exact meaning of
      recorded weights: a function from the problem and its dataset to another dataset.
    - `definitions`: What each learner is, and what is derived from it, as text that changes when
      it does; else the source that it consists of. A store keeps results under what defines them.
    - `metadata`: What else a reader should know, as JSON can hold it.
    - `device`: Where fused learners run, as [run] of the engine takes it. No result and no name
      of a result depends on it.
    """

    name: str
    build: Callable[..., Problem]
    cases: Mapping[str, Sequence[object]]
    learners: Callable[[Problem], Learners]
    measures: Sequence[str]
    num_steps: int
    grid: Mapping[str, ArrayLike] = dataclasses.field(default_factory=dict[str, ArrayLike])
    num_runs: int = 30
    seed: int = 0
    record_every: int = 1000
    num_records: int | None = None
    dtype: Literal["float32", "float64"] = "float32"
    engine: Engine = "auto"
    targets: Mapping[str, Target] | None = None
    derive: Callable[[Problem, "xarray.Dataset"], "xarray.Dataset"] | None = None
    definitions: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    selection: Selection | None = None
    metadata: Json = dataclasses.field(default_factory=dict[str, object])
    device: DeviceName = "cpu"

    def __post_init__(self):
        require_name(self.name)
        checks.count("num_runs", self.num_runs)
        checks.count("num_steps", self.num_steps)
        if self.num_records is not None:
            checks.count("num_records", self.num_records)
        checks.seed(self.seed)
        for axis in self.grid:
            if axis in self.cases:
                raise ValueError(
                    f"grid: {axis!r} is an argument of the problem, and so already an axis of the "
                    "results; in the expressions of learners give it another name"
                )
        if self.seed >= 2**31:  # as a netCDF file can hold it
            raise ValueError(f"seed: got {self.seed}; below 2^31 is required")

    def __getstate__(self) -> dict[str, object]:
        """Leaves out the units: each is sent to a worker with its own problem alone."""
        return {name: v for name, v in vars(self).items() if name not in ("units", "wholes")}

    def points(self) -> list[dict[str, object]]:
        """Returns the arguments of every case."""
        combinations = itertools.product(*self.cases.values())
        return [dict(zip(self.cases, values, strict=True)) for values in combinations]

    def window(self) -> int:
        """Returns the number of steps of a window."""
        if self.num_records is None:
            return self.record_every
        return -(-self.num_steps // self.num_records)

    def target_policies(self, problem: Problem) -> dict[str, np.ndarray] | None:
        """Returns the target policies of a problem by label; None if there is only its own."""
        if self.targets is None:
            return None
        policies = {label: target(problem) for label, target in self.targets.items()}
        return {label: problem.require_target(policy) for label, policy in policies.items()}

    @cached_property
    def units(self) -> tuple["Unit", ...]:
        """The units of work, in order, which are [wholes] in blocks of runs.

        They follow from the experiment alone, never from who computes them.
        """
        advice = "take fewer runs"
        require_memory(f"runs: {self.num_units:,} units", UNIT_BYTES * self.num_units, advice)
        blocks = (range(n, min(n + BLOCK, self.num_runs)) for n in range(0, self.num_runs, BLOCK))
        runs = [tuple(block) for block in blocks]
        return tuple(replace(whole, runs=block) for whole in self.wholes for block in runs)

    @property
    def num_units(self) -> int:
        """How many units of work there are."""
        return len(self.wholes) * -(-self.num_runs // BLOCK)

    @cached_property
    def wholes(self) -> tuple["Unit", ...]:
        """Each learner in each case, as a unit with all runs, from which sizes are computed before
        units are listed; whatever is wrong with the experiment is raised here."""
        axes = request.parse_axes(self.grid)
        wholes: list[Unit] = []
        for case, point in enumerate(self.points()):
            problem = self.build(**point)
            factories = request.parse_learners(self.learners(problem), axes, problem)
            agents = request.find_agents(factories, axes)
            request.parse_measures(problem, self.measures, factories, axes, agents)
            request.parse_targets(problem, self.target_policies(problem), agents == set(factories))
            for name, factory in factories.items():
                learner_axes = request.learner_axes(factory, axes)
                grid = {axis: tuple(values.tolist()) for axis, values in learner_axes.items()}
                wholes.append(Unit(self, problem, case, name, grid, range(self.num_runs)))
        request.parse_count("record_every", self.window())
        return tuple(wholes)

    def learner(self, problem: Problem, name: str) -> LearnerFactory | Learner[Any, Any]:
        """Returns a learner of a problem, or the function that makes it; expressions are parsed."""
        learner = self.learners(problem)[name]
        return parse_learner(learner, self.grid)(problem) if isinstance(learner, str) else learner

    def define(self, problem: Problem, learner: str) -> str:
        """Returns what a learner is: its definition, or the source that it consists of."""
        if learner in self.definitions:
            return self.definitions[learner]
        factory = self.learner(problem, learner)
        try:
            return trace(factory if self.derive is None else (factory, self.derive)).definition
        except ValueError as error:
            raise ValueError(
                f"definitions: {learner!r} has none, and results are kept under what defines them; "
                f"{error}"
            ) from None

    def num_updates(self) -> int:
        """Returns how many updates of learners a run of the experiment makes."""
        return sum(whole.num_updates for whole in self.wholes)


@dataclass(frozen=True, eq=False)
class Unit:
    """What one call of an engine computes: a learner on its grid, for a block of runs of a case."""

    experiment: Experiment
    problem: Problem
    case: int
    learner: str
    grid: Mapping[str, tuple[float, ...]]  # the axes that the learner takes
    runs: Sequence[int]

    @property
    def num_cells(self) -> int:
        """How many curves it has: one for each point of the grid and each run."""
        return math.prod(map(len, self.grid.values())) * len(self.runs)

    @property
    def num_updates(self) -> int:
        """How many updates of learners it makes."""
        return self.num_lanes * len(self.runs) * self.experiment.num_steps

    @property
    def num_lanes(self) -> int:
        """How many learners learn from the stream of a run: at each point, for each target."""
        return math.prod(map(len, self.grid.values())) * len(self.experiment.targets or [None])

    @property
    def title(self) -> str:
        """A name for people to read."""
        point = self.experiment.points()[self.case]
        arguments = [f"{name}={value}" for name, value in point.items()]
        return ", ".join([self.learner, *arguments, f"runs {self.runs[0]} to {self.runs[-1]}"])

    @cached_property
    def definition(self) -> dict[str, object]:
        """All that its curves depend on, except for the grid and the runs."""
        experiment = self.experiment
        targets = {
            label: checksum(label, {"target": policy})
            for label, policy in (experiment.target_policies(self.problem) or {}).items()
        }
        return {
            "format": FORMAT,
            "problem": digest(self.problem),
            "learner": experiment.define(self.problem, self.learner),
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
        """The address of curves with its definition, for any grid and any runs."""
        return checksum(self.definition, {})[:24]

    @property
    def file_name(self) -> str:
        """The name of its file in a store, without the suffix."""
        return f"{self.address}-{checksum([dict(self.grid), list(self.runs)], {})[:16]}"
