"""One number for each run, and one number for many runs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    import xarray

Numbers = Float[np.ndarray, "..."] | np.floating
"""An array, or one number."""

Statistic = Callable[..., Numbers]
"""One number for many runs: [mean], [median] or [iqm], of an array along an axis."""

Rule = Callable[["xarray.Dataset", str], "xarray.DataArray"]
"""One number for each run: [final] or [area], of a dataset and a measure."""

# One number for each run


def diverged(dataset: "xarray.Dataset") -> "xarray.DataArray":
    """Whether each run was not finite at some recorded time."""
    return dataset["diverged"].any("time")


def final(dataset: "xarray.Dataset", measure: str) -> "xarray.DataArray":
    """The mean over the last window of each run; infinite if the run diverged."""
    return _or_infinite(dataset[measure].isel(time=-1), dataset)


def area(dataset: "xarray.Dataset", measure: str) -> "xarray.DataArray":
    """The area under the curve of each run, as its mean over windows; infinite if diverged."""
    curves = dataset[measure].astype(np.float64)
    return _or_infinite(curves.mean("time", skipna=False), dataset)


def time_to(dataset: "xarray.Dataset", measure: str, threshold: float) -> "xarray.DataArray":
    r"""The steps until the measure is at most a threshold, $\min\{t: e_t \le c\}$, for each run.

    Time is counted at the ends of windows. It is infinite if the threshold is never reached, and
    for every run that diverges, even if it does so later: a curve that passes through a small error
    on its way to infinity has not arrived.
    """
    reached = dataset[measure] <= threshold
    first = dataset["time"].isel(time=reached.argmax("time")).drop_vars("time")
    return _or_infinite(first.where(reached.any("time")), dataset)


def _or_infinite(values: "xarray.DataArray", dataset: "xarray.Dataset") -> "xarray.DataArray":
    values = values.astype(np.float64)
    return values.where(np.isfinite(values) & ~diverged(dataset), np.inf)


# One number for many runs


def mean(errors: Float[np.ndarray, "..."], axis: int = -1) -> Numbers:
    r"""The mean $\frac1n\sum_j e_j$: infinite as soon as one run is."""
    return np.mean(errors, axis=axis)


def median(errors: Float[np.ndarray, "..."], axis: int = -1) -> Numbers:
    """The median: infinite as soon as half of the runs are."""
    ordered = np.sort(errors, axis=axis)
    last = errors.shape[axis] - 1
    low, high = (ordered.take(index, axis=axis) for index in (last // 2, last - last // 2))
    return low / 2 + high / 2


def iqm(errors: Float[np.ndarray, "..."], axis: int = -1) -> Numbers:
    r"""The interquartile mean, $2\int_{1/4}^{3/4}F^{-1}(p)\,dp$ with the runs' distribution $F$.

    This is the mean of the middle half of the runs, in which a run on the boundary counts in part.
    It is finite if at most a quarter of the runs are infinite, and has a smaller variance than the
    median.
    """
    count = errors.shape[axis]
    weights = 2.0 * np.diff(np.clip(np.arange(count + 1) / count, 0.25, 0.75))
    middle = np.flatnonzero(weights > 1e-12)  # zero times an infinite run would be NaN
    ordered = np.moveaxis(np.sort(errors, axis=axis), axis, -1)
    return ordered[..., middle] @ weights[middle]


def spread(errors: Float[np.ndarray, "... run"]) -> Float[np.ndarray, "..."]:
    """The standard deviation over runs (0 for a single one, infinite if a run is)."""
    finite = np.isfinite(errors).all(axis=-1, keepdims=True)
    deviation = np.where(finite, errors, 0.0).std(axis=-1, ddof=min(1, errors.shape[-1] - 1))
    return np.where(np.squeeze(finite, -1), deviation, np.inf)


def subtract(first: Numbers, second: Numbers) -> Float[np.ndarray, "..."]:
    """Subtracts numbers, of which two infinite ones are equal."""
    with np.errstate(invalid="ignore"):
        return np.where(first == second, 0.0, np.subtract(first, second))
