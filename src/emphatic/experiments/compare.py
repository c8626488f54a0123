"""Learners side by side on one problem, in one call."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from .. import statistics
from .._validation import unknown
from ..engine import MEASURES, request
from ..engine.expressions import trace_expression
from ..engine.tasks import OnProgress
from ..mdp import Problem
from ..types import DeviceName
from .completion import announce, complete, OnStart
from .compute import require_room, run
from .dataset import measure_names
from .experiment import Experiment
from .store import load_dataset

if TYPE_CHECKING:
    import xarray


class Row(TypedDict):
    """The errors of a learner: the mean final one, its interval, and the area under the curve."""

    learner: str
    final: float
    low: float
    high: float
    area: float
    diverged_runs: int
    runs: int


class Comparison(TypedDict):
    """What [compare] finds."""

    measure: str
    steps: int
    runs: int
    rows: list[Row]
    pairs: list[dict[str, object]]


def run_learners(
    problem: Problem,
    learners: Sequence[str],
    measure: str | None = None,
    *,
    num_steps: int = 1_000_000,
    num_runs: int = 30,
    seed: int = 0,
    folder: Path | None = None,
    title: str = "the problem",
    command: str = "",
    device: DeviceName = "cpu",
    on_start: OnStart | None = None,
    on_progress: OnProgress | None = None,
) -> "xarray.Dataset":
    """Runs learners, as [parse_learner] reads them, on the same streams; returns their errors.

    With a folder the errors are kept in a store, with the title of the problem and the command,
    and the same call resumes. `on_start` is called with what is left of long work. `device` is
    where they run, as [run] of the engine takes it.
    """
    if len(set(learners)) < max(2, len(learners)):
        raise ValueError(f"learners: got {len(learners)}; two or more different ones are required")
    factories = request.parse_learners(learners, {}, problem)
    request.find_estimand(factories, {})  # of which there must be one
    measure = measure or request.default_measures(factories, {})[0]
    if measure not in MEASURES:
        raise unknown("measure", measure, MEASURES)
    problems = {title: problem}
    experiment = Experiment(
        "comparison",
        lambda problem: problems[problem],
        {"problem": [title]},
        lambda problem: {text: text for text in learners},
        (measure,),
        num_steps,
        num_runs=num_runs,
        seed=seed,
        record_every=max(1, num_steps // 100),
        definitions={text: trace_expression(text).definition for text in learners},
        metadata={"measures": [measure], "runs": num_runs, "command": command},
        device=device,
    )
    require_room(experiment, in_memory=True)
    announce(experiment, folder, on_start)
    if folder is None:
        dataset = run(experiment, on_progress=on_progress)
        if dataset.attrs["interrupted"]:
            raise KeyboardInterrupt
    else:
        dataset = load_dataset(complete(experiment, folder, on_progress=on_progress))
    return dataset.squeeze("problem", drop=True)


def rank(dataset: "xarray.Dataset") -> Comparison:
    """Ranks learners by the errors of their runs, for [compare]."""
    rows: list[Row] = []
    errors: dict[str, np.ndarray] = {}
    (measure,) = measure_names(dataset)
    for text in dataset["learner"].values.tolist():
        curves = dataset.sel(learner=text)
        errors[text] = statistics.final(curves, measure).values
        mean = statistics.interval(errors[text])
        row: Row = {
            "learner": text,
            "final": float(mean.value),
            "low": float(mean.low),
            "high": float(mean.high),
            "area": float(np.mean(statistics.area(curves, measure).values)),
            "diverged_runs": int(statistics.diverged(curves).sum()),
            "runs": dataset.sizes["run"],
        }
        rows.append(row)
    rows.sort(key=lambda row: row["final"])
    pairs: list[dict[str, object]] = []
    for smaller, larger in pairwise(row["learner"] for row in rows):
        gap = statistics.interval(errors[smaller], minus=errors[larger])
        test = statistics.sign_test(errors[smaller], errors[larger], two_sided=True)
        ends = {"difference": float(gap.value), "low": float(gap.low), "high": float(gap.high)}
        pairs.append({"smaller": smaller, "larger": larger, **ends, **test})
    steps, runs = int(dataset["time"][-1]), dataset.sizes["run"]
    return {"measure": measure, "steps": steps, "runs": runs, "rows": rows, "pairs": pairs}


def compare(
    problem: Problem,
    learners: Sequence[str],
    measure: str | None = None,
    *,
    num_steps: int = 1_000_000,
    num_runs: int = 30,
    seed: int = 0,
    device: DeviceName = "cpu",
    on_progress: OnProgress | None = None,
) -> Comparison:
    """Compares the errors of learners, as [parse_learner] reads them, on the same streams.

    Learners that estimate different things are refused. By default the measure is the error of
    what they estimate. `device` is where they run, as [run] of the engine takes it.

    **Returns:**

    `rows`, the learners from the smallest to the largest mean final error, with bootstrap intervals
    (`low` and `high`, 95 %), the area under the curve and the runs that diverged; and `pairs`, for
    each learner and the next one the paired difference of their means and the two-sided sign test.
    """
    dataset = run_learners(
        problem,
        learners,
        measure,
        num_steps=num_steps,
        num_runs=num_runs,
        seed=seed,
        device=device,
        on_progress=on_progress,
    )
    return rank(dataset)
