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
    learners = {
        name: [part for case in cases for part in case.learners if part.name == name]
        for name in learner_names(cases)
    }
    learners = {name: parts for name, parts in learners.items() if len(parts) == len(cases)}
    levels = [
        [float(statistic(run_values(p.errors))) for p in parts] for parts in learners.values()
    ]
    levels = np.reshape(levels, (len(learners), len(cases)))
    is_better, is_equal = levels[:, None] > levels, levels[:, None] == levels
    ranks = is_better.sum(axis=1) + (1 + is_equal.sum(axis=1)) / 2  # equals share theirs
    units = np.array([_unit(case) for case in cases])
    rows = []
    for (name, parts), row, row_ranks in zip(learners.items(), levels, ranks, strict=True):
        strata = [run_values(p.errors) / unit for p, unit in zip(parts, units, strict=True)]
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
