"""Learners over all cases of a measure: ranks, and errors in units of the best learner's."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import statistics
from ..statistics import Interval
from .analysis import Case, learner_names, run_values, STATISTICS
from .section import Section


@dataclass(frozen=True)
class Overall:
    """A learner over all cases of a measure: its ranks, and its errors in units of the best.

    The unit of a case is the smallest mean error of the selection runs, which are not reported;
    resampling is within cases.
    """

    name: str
    ranks: tuple[float, ...]
    scaled: Interval
    worst: float
    num_diverged: int
    num_blown_up: int
    num_runs: int

    @property
    def mean_rank(self) -> float:
        """The mean over cases of the rank, which is 1 for the best."""
        return float(np.mean(self.ranks))


def pool_cases(section: Section, cases: Sequence[Case]) -> list[Overall]:
    """Pools the results of the learners that all cases of a measure have, the best rank first."""
    statistic = STATISTICS[section.statistic]
    errors = {
        name: [
            run_values(part.errors) for case in cases for part in case.learners if part.name == name
        ]
        for name in learner_names(cases)
    }
    errors = {name: parts for name, parts in errors.items() if len(parts) == len(cases)}
    levels = np.array([[float(statistic(part)) for part in parts] for parts in errors.values()])
    order = levels.reshape(len(errors), len(cases))
    ranks = 0.5 + (order[:, None] > order).sum(axis=1) + 0.5 * (order[:, None] == order).sum(axis=1)
    units = [_unit(case) for case in cases]
    rows = []
    for name, row, row_ranks in zip(errors, order, ranks, strict=True):
        parts = [part for case in cases for part in case.learners if part.name == name]
        strata = [part / unit for part, unit in zip(errors[name], units, strict=True)]
        rows.append(
            Overall(
                name=name,
                ranks=tuple(row_ranks.tolist()),
                scaled=statistics.stratified_interval(strata, statistics.iqm),
                worst=float((row / units).max()),
                num_diverged=sum(part.num_diverged for part in parts),
                num_blown_up=sum(part.num_blown_up for part in parts),
                num_runs=sum(part.num_runs for part in parts),
            )
        )
    return sorted(rows, key=lambda row: (row.mean_rank, float(row.scaled.value)))


def _unit(case: Case) -> float:
    smallest = min(float(np.mean(learner.selection_errors)) for learner in case.learners)
    return smallest if np.isfinite(smallest) and smallest > 0 else 1.0
