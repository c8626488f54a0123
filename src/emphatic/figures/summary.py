"""The summary of a figure: the choice of step sizes, rows of errors, and their table."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from .. import statistics
from ..problems.baird import Features
from ..statistics import Rule
from .figure import Datasets, Number, Summary, Table

if TYPE_CHECKING:
    import xarray

SCALE = 0.1  # step sizes are 0.1 x 2^p
FEATURES: tuple[Features, ...] = ("original", "one-hot", "zero-hot", "aliased")


class Row(TypedDict):
    """What [table] needs of a row."""

    algorithm: str
    features: str
    solid: float
    exponent: int | None
    ridge: float | None
    final_mean: Number
    final_std: Number
    auc_mean: Number
    auc_std: Number
    diverged_runs: int
    runs: int
    best: bool


def select(datasets: Datasets, algorithm: str, **coordinates: str | float) -> "xarray.Dataset":
    """Selects the results of an algorithm at coordinates, from the dataset that has them."""
    for dataset in datasets:
        point = {"learner": algorithm, **coordinates}
        if all(value in dataset[axis].values for axis, value in point.items()):
            return dataset.sel(point)
    raise KeyError(f"no results of {algorithm} with {coordinates}")


def select_best(
    dataset: "xarray.Dataset", measure: str, rule: Rule, judging: "xarray.Dataset | None" = None
) -> "xarray.Dataset":
    """Selects the best step size, if there are several; at it, the results of these runs.

    With `judging` they are those of other runs, which had no part in the choice.
    """
    judging = dataset if judging is None else judging
    if "step_size" not in dataset.dims:
        return judging
    errors = rule(dataset, measure).transpose("step_size", "run").values
    return judging.isel(step_size=statistics.best_index(errors))


def halves(datasets: Datasets) -> tuple[Datasets, Datasets] | None:
    """Splits the runs of all datasets in those that choose and those that judge, if there are 2."""
    if min(dataset.sizes["run"] for dataset in datasets) < 2:
        return None
    choosing, judging = zip(*map(statistics.split, datasets), strict=True)
    return choosing, judging


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


def format_number(value: float | None, digits: str) -> str:
    """Formats a number, or a dash if it is missing: NaN, or None, as JSON stores NaN."""
    return "-" if value is None or np.isnan(value) else f"{value:{digits}}"


def format_mean(mean: float | None, std: float | None, digits: int | None = None) -> str:
    """Formats a mean and its standard deviation, or a dash if the mean is missing.

    Both have as many decimals, by default so many that the deviation has two digits.
    """
    if mean is None or std is None or np.isnan(mean) or np.isnan(std):
        return "-"
    if not (np.isfinite(mean) and np.isfinite(std)) or max(abs(mean), std) >= 1e6:
        return f"{mean:.4g} +- {std:.2g}"
    if digits is None:
        digits = int(np.clip(1 - np.floor(np.log10(std)), 0, 6)) if std > 0 else 4
    return f"{mean:.{digits}f} +- {std:.{digits}f}"


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
