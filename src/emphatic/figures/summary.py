"""The summary of a figure: rows of errors, and the paper's claims with their evidence."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .. import statistics
from ..problems.baird import Features
from ..statistics import Rule
from .figure import Datasets, Runs, Summary, Table

if TYPE_CHECKING:
    import xarray

SCALE = 0.1  # step sizes are 0.1 x 2^p
LEVEL = 0.05  # the largest p-value with which a claim holds
FEATURES: tuple[Features, ...] = ("original", "one-hot", "zero-hot", "aliased")


def select(datasets: Datasets, algorithm: str, **coordinates: str | float) -> "xarray.Dataset":
    """Selects the results of an algorithm at coordinates, from the dataset that has them."""
    for dataset in datasets:
        point = {"learner": algorithm, **coordinates}
        if all(value in dataset[axis].values for axis, value in point.items()):
            return dataset.sel(point)
    raise KeyError(f"no results of {algorithm} with {coordinates}")


def select_best(dataset: "xarray.Dataset", measure: str, rule: Rule) -> "xarray.Dataset":
    """Selects the best step size, if the results have several."""
    if "step_size" not in dataset.dims:
        return dataset
    errors = rule(dataset, measure).transpose("step_size", "run").values
    return dataset.isel(step_size=statistics.best_index(errors))


def error_rows(figure: str, datasets: Datasets, measure: str, rule: Rule) -> list[Summary]:
    """Returns a row for each algorithm at each point of its grid; `best` marks its step size."""
    rows = []
    for dataset in datasets:
        errors = dataset.assign(
            final=statistics.final(dataset, measure),
            auc=statistics.area(dataset, measure),
            diverged=statistics.diverged(dataset),
            rule=rule(dataset, measure),
        )[["final", "auc", "diverged", "rule"]]
        axes = [axis for axis in ("features", "solid", "learner", "ridge") if axis in errors.dims]
        for values in itertools.product(*(errors[axis].values for axis in axes)):
            point = dict(zip(axes, values, strict=True))
            rows += _step_size_rows(figure, point, errors.sel(point))
    return rows


def _step_size_rows(
    figure: str, point: dict[str, str | float], errors: "xarray.Dataset"
) -> list[Summary]:
    sizes = errors["step_size"].values if "step_size" in errors.dims else [None]
    errors = errors if "step_size" in errors.dims else errors.expand_dims("step_size")
    errors = errors.transpose("step_size", "run")
    final, auc, diverged = (errors[name].values for name in ("final", "auc", "diverged"))
    best = statistics.best_index(errors["rule"].values)
    return [
        {
            "figure": figure,
            "features": str(point["features"]),
            "solid": float(point["solid"]),
            "algorithm": str(point["learner"]),
            "step_size": None if size is None else float(size),
            "exponent": None if size is None else round(np.log2(size / SCALE)),
            "ridge": float(point["ridge"]) if "ridge" in point else None,
            "final_mean": float(final[index].mean()),
            "final_std": float(statistics.spread(final[index])),
            "auc_mean": float(auc[index].mean()),
            "auc_std": float(statistics.spread(auc[index])),
            "diverged_runs": int(diverged[index].sum()),
            "runs": int(diverged.shape[1]),
            "best": index == best,
        }
        for index, size in enumerate(sizes)
    ]


def medians(names: Sequence[str], *errors: Runs) -> dict[str, float]:
    """Returns the medians of several errors over runs, by name."""
    return dict(zip(names, (float(np.median(runs)) for runs in errors), strict=True))


def compare(first: Runs, second: Runs, names: Sequence[str]) -> Summary:
    """Tests by paired signs whether the first is smaller; returns this and both medians by name."""
    return {"medians": medians(names, first, second), **statistics.sign_test(first, second)}


def assess_claim(text: str, cases: Sequence[Summary], num_needed: int | None = None) -> Summary:
    """Returns a claim, whether it holds, and its evidence case by case.

    A case holds if its p-value is at most 0.05 and its further `condition`, if any, is true.
    All cases must hold, or as many as are needed.
    """
    for case in cases:
        case["holds"] = bool(case.pop("condition", True) and case["p_value"] <= LEVEL)
    num_held = sum(case["holds"] for case in cases)
    evidence = {"test": "paired sign test, one-sided", "held": num_held, "cases": list(cases)}
    required = len(cases) if num_needed is None else num_needed
    return {"claim": text, "holds": num_held >= required, "evidence": evidence}


def assess(
    texts: Mapping[str, str], cases: Mapping[str, Sequence[Summary]], **num_needed: int
) -> list[Summary]:
    """Assesses claims by name, each with all its cases or with as many as are needed."""
    return [assess_claim(text, cases[name], num_needed.get(name)) for name, text in texts.items()]


def format_number(value: float | None, digits: str) -> str:
    """Formats a number, or a dash if it is missing: NaN, or None, as JSON stores NaN."""
    return "-" if value is None or np.isnan(value) else f"{value:{digits}}"


def format_mean(mean: float | None, std: float | None, *digits: str) -> str:
    """Formats a mean and its standard deviation, or a dash if the mean is missing."""
    mean_text, std_text = map(format_number, (mean, std), digits or (".4g", ".2g"))
    return mean_text if mean_text == "-" else f"{mean_text} +- {std_text}"


def table(rows: Sequence[Summary]) -> Table:
    """Returns the table of [error_rows]: a line for each chosen step size without a ridge."""
    columns = ["algorithm", "features", "pi(solid)", "step size", "final error", "area", "diverged"]
    return columns, [
        [
            *(row["algorithm"], row["features"], f"{row['solid']:g}"),
            "-" if row["exponent"] is None else f"0.1 x 2^{row['exponent']}",
            *(format_mean(row[f"{name}_mean"], row[f"{name}_std"]) for name in ("final", "auc")),
            f"{row['diverged_runs']} of {row['runs']}",
        ]
        for row in rows
        if row["best"] and not row["ridge"]
    ]
