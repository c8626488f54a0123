"""What a figure says in numbers: rows of errors, and the paper's statements with their evidence."""

import itertools
from collections.abc import Sequence
from typing import Any, TYPE_CHECKING

import numpy as np

from .. import statistics
from ..statistics import Rule

if TYPE_CHECKING:
    import xarray

SCALE = 0.1  # step sizes are 0.1 x 2^p
LEVEL = 0.05  # a statement holds when chance would show it less often than this


def select(datasets: Sequence["xarray.Dataset"], algorithm: str, **where: Any) -> "xarray.Dataset":
    """The part of the results that belongs to an algorithm, and to values of the axes."""
    for dataset in datasets:
        present = algorithm in dataset["learner"].values
        if present and all(value in dataset[axis].values for axis, value in where.items()):
            return dataset.sel(learner=algorithm, **where)
    raise KeyError(f"no results of {algorithm} with {where}")


def chosen(part: "xarray.Dataset", measure: str, rule: Rule) -> "xarray.Dataset":
    """The part at the best step size, where there is a choice."""
    if "step_size" not in part.dims:
        return part
    errors = rule(part, measure).transpose("step_size", "run").values
    return part.isel(step_size=statistics.best(errors))


def rows(
    figure: str, datasets: Sequence["xarray.Dataset"], measure: str, rule: Rule
) -> list[dict[str, Any]]:
    """One row for each algorithm at each point of its grid; `best` marks the chosen step size."""
    found = []
    for dataset in datasets:
        errors = dataset.assign(
            final=statistics.final(dataset, measure),
            auc=statistics.area(dataset, measure),
            bad=statistics.diverged(dataset),
            rule=rule(dataset, measure),
        )[["final", "auc", "bad", "rule"]]
        grid = [axis for axis in ("features", "solid", "learner", "ridge") if axis in errors.dims]
        for where in itertools.product(*(errors[axis].values for axis in grid)):
            place = dict(zip(grid, where, strict=True))
            part = errors.sel(place)
            sized = "step_size" in part.dims
            part = part.transpose("step_size", "run") if sized else part.expand_dims("step_size")
            final, auc, bad = (part[name].values for name in ("final", "auc", "bad"))
            winner = statistics.best(part["rule"].values)
            for number, size in enumerate(part["step_size"].values if sized else [None]):
                found.append(
                    {
                        "figure": figure,
                        "features": str(place["features"]),
                        "solid": float(place["solid"]),
                        "algorithm": str(place["learner"]),
                        "step_size": None if size is None else float(size),
                        "exponent": None if size is None else round(np.log2(size / SCALE)),
                        "ridge": float(place["ridge"]) if "ridge" in place else None,
                        "final_mean": float(final[number].mean()),
                        "final_std": float(statistics.spread(final[number])),
                        "auc_mean": float(auc[number].mean()),
                        "auc_std": float(statistics.spread(auc[number])),
                        "diverged_runs": int(bad[number].sum()),
                        "runs": int(bad.shape[1]),
                        "best": number == winner,
                    }
                )
    return found


def claim(text: str, cases: Sequence[dict[str, Any]], needed: int | None = None) -> dict[str, Any]:
    """A statement, whether it holds, and its evidence case by case.

    A case holds when its p-value is at most 0.05 and nothing else in it says no. All cases must
    hold, or as many as are needed.
    """
    for case in cases:
        case["holds"] = bool(case.pop("also", True) and case["p_value"] <= LEVEL)
    held = sum(case["holds"] for case in cases)
    required = len(cases) if needed is None else needed
    return {
        "claim": text,
        "holds": held >= required,
        "evidence": {"test": "paired sign test, one-sided", "held": held, "cases": list(cases)},
    }


def table(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """What a terminal shows: columns, and a line for each chosen step size without a ridge."""
    columns = ["algorithm", "features", "pi(solid)", "step size", "final error", "area", "diverged"]
    lines = []
    for row in rows:
        if row["best"] and not row["ridge"]:
            power = row["exponent"]
            lines.append(
                [
                    row["algorithm"],
                    row["features"],
                    f"{row['solid']:g}",
                    "-" if power is None else f"0.1 x 2^{power}",
                    f"{row['final_mean']:.4g} +- {row['final_std']:.2g}",
                    f"{row['auc_mean']:.4g} +- {row['auc_std']:.2g}",
                    f"{row['diverged_runs']} of {row['runs']}",
                ]
            )
    return columns, lines
