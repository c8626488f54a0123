"""What is concluded from runs, with divergence as an infinite error and never left out."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy import stats

if TYPE_CHECKING:
    import xarray


def diverged(dataset: "xarray.Dataset") -> "xarray.DataArray":
    """Whether a run had a number that was not finite at a recorded time."""
    return dataset["diverged"].any("time")


def final(dataset: "xarray.Dataset", measure: str) -> "xarray.DataArray":
    """The mean over the last window of each run; infinite if the run has diverged."""
    return _finite_or_infinite(dataset[measure].isel(time=-1), diverged(dataset))


def area(dataset: "xarray.Dataset", measure: str) -> "xarray.DataArray":
    """The area under the curve of each run, as its mean over windows; infinite if diverged."""
    curves = dataset[measure].astype(np.float64)
    return _finite_or_infinite(curves.mean("time", skipna=False), diverged(dataset))


def _finite_or_infinite(values: "xarray.DataArray", bad: "xarray.DataArray") -> "xarray.DataArray":
    values = values.astype(np.float64)
    return values.where(np.isfinite(values) & ~bad, np.inf)


def best(errors: Float[np.ndarray, "grid run"]) -> int:
    """The place of the smallest mean over runs; where all are infinite, of the fewest such runs."""
    finite = np.isfinite(errors)
    if not finite.all(axis=1).any():
        return int((~finite).sum(axis=1).argmin())
    return int(np.where(finite, errors, np.inf).mean(axis=1).argmin())


def spread(errors: Float[np.ndarray, "... run"]) -> Float[np.ndarray, "..."]:
    """The standard deviation over runs (0 for a single one, infinite if a run is)."""
    finite = np.isfinite(errors).all(axis=-1, keepdims=True)
    found = np.where(finite, errors, 0.0).std(axis=-1, ddof=min(1, errors.shape[-1] - 1))
    return np.where(np.squeeze(finite, -1), found, np.inf)


def sign_test(
    smaller: Float[np.ndarray, " run"], larger: Float[np.ndarray, " run"]
) -> dict[str, float | int]:
    """The paired sign test of whether the first is smaller than the second, run by run.

    It asks nothing of the distribution, which may have no variance or not even a mean: under the
    null hypothesis each run is as likely to be smaller as larger, ties aside.
    """
    wins, losses = int((smaller < larger).sum()), int((smaller > larger).sum())
    p = stats.binomtest(wins, wins + losses, alternative="greater").pvalue if wins + losses else 1.0
    return {"wins": wins, "losses": losses, "runs": len(smaller), "p_value": float(p)}
