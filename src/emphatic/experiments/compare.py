"""Learners side by side on one problem, in one call."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from . import experiment, expressions, statistics
from ._names import unknown
from .engine import MEASURES
from .engine.tasks import Progress
from .mdp import Problem


def compare(
    problem: Problem,
    learners: Sequence[str],
    measure: str = "rmsve",
    *,
    num_steps: int = 100_000,
    num_runs: int = 30,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Which learner has the smaller error, and how sure that is: all learn from the same streams.

    **Arguments:**

    - `problem`: The problem.
    - `learners`: Two or more expressions; see [learner].
    - `measure`: What is compared, from [MEASURES].
    - `num_steps`, `num_runs`, `seed`: As for [Experiment].
    - `progress`: Called with the updates done and all updates.

    **Returns:**

    `rows`, the learners from the smallest to the largest mean final error, with bootstrap intervals
    (`low` and `high`, 95 %), the area under the curve and the runs that diverged; and `pairs`, for
    each learner and the next one the paired difference of their means and the sign test.
    """
    if len(set(learners)) < max(2, len(learners)):
        raise ValueError(f"learners: got {len(learners)}; two or more different ones are required")
    if measure not in MEASURES:
        raise unknown("measure", measure, MEASURES)
    makes = {text: expressions.learner(text, {}) for text in learners}
    asked = experiment.Experiment(
        "comparison",
        lambda problem_of: problem,
        {"problem_of": ("",)},
        lambda problem: {text: make(problem) for text, make in makes.items()},
        (measure,),
        num_steps,
        num_runs=num_runs,
        seed=seed,
        record_every=max(1, num_steps // 100),
    )
    dataset = experiment.run(asked, progress=progress).squeeze("problem_of")
    if dataset.attrs["interrupted"]:
        raise KeyboardInterrupt
    rows = []
    for text in learners:
        part = dataset.sel(learner=text)
        errors, areas = statistics.final(part, measure), statistics.area(part, measure)
        found = statistics.interval(errors.values)
        rows.append(
            {
                "learner": text,
                "final": float(found.value),
                "low": float(found.low),
                "high": float(found.high),
                "area": float(np.mean(areas.values)),
                "diverged_runs": int(statistics.diverged(part).sum()),
                "runs": num_runs,
                "errors": errors.values,
            }
        )
    rows.sort(key=lambda row: row["final"])
    pairs = []
    for first, second in pairwise(rows):
        gap = statistics.difference(first["errors"], second["errors"])
        test = statistics.sign_test(first["errors"], second["errors"])
        ends = {"difference": float(gap.value), "low": float(gap.low), "high": float(gap.high)}
        pairs.append({"smaller": first["learner"], "larger": second["learner"], **ends, **test})
    for row in rows:
        del row["errors"]
    return {"measure": measure, "steps": num_steps, "rows": rows, "pairs": pairs}
