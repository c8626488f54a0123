r"""What is concluded from runs, with divergence as an infinite error and never left out.

A run gives one number, by [final], [area] or [time_to]; what is said of many runs is a function
of an array of such numbers, with runs on its last axis. A run that diverged is the number $\infty$:
a mean over runs is infinite if one of them is, and the end of an interval says so too.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

if TYPE_CHECKING:
    import xarray

Statistic = Callable[..., Any]
"""A number for many runs: [mean], [median] or [iqm], of an array along an axis."""

Rule = Callable[["xarray.Dataset", str], "xarray.DataArray"]
"""A number for a run: [final] or [area], of a dataset and a measure."""

_BATCH = 1 << 21  # resampled numbers that are in memory at once

# A number for each run


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


def time_to(dataset: "xarray.Dataset", measure: str, threshold: float) -> "xarray.DataArray":
    r"""The steps until the measure is at most a threshold, $\min\{t: e_t \le c\}$, for each run.

    Time is counted at the ends of windows. It is infinite where that never happens, and for a run
    that diverges, even after it has: a curve that passes through a small error on its way to
    infinity has not arrived.
    """
    reached = dataset[measure] <= threshold
    first = dataset["time"].isel(time=reached.argmax("time")).drop_vars("time")
    return _finite_or_infinite(first.where(reached.any("time")), diverged(dataset))


def _finite_or_infinite(values: "xarray.DataArray", bad: "xarray.DataArray") -> "xarray.DataArray":
    values = values.astype(np.float64)
    return values.where(np.isfinite(values) & ~bad, np.inf)


# A number for many runs


def mean(errors: Float[np.ndarray, "..."], axis: int = -1) -> Any:
    r"""The mean $\frac1n\sum_j e_j$: infinite as soon as one run is."""
    return np.mean(errors, axis=axis)


def median(errors: Float[np.ndarray, "..."], axis: int = -1) -> Any:
    """The median: infinite as soon as half of the runs are."""
    ordered = np.sort(errors, axis=axis)
    last = errors.shape[axis] - 1
    low, high = (ordered.take(place, axis=axis) for place in (last // 2, last - last // 2))
    return low / 2 + high / 2


def iqm(errors: Float[np.ndarray, "..."], axis: int = -1) -> Any:
    r"""The interquartile mean, $2\int_{1/4}^{3/4}F^{-1}(p)\,dp$ with the runs' distribution $F$.

    It is the mean of the middle half of the runs, and takes a share of a run where the half does
    not end between two. Finite if at most a quarter of the runs is infinite, and steadier than the
    median.
    """
    count = errors.shape[axis]
    edges = np.clip(np.arange(count + 1) / count, 0.25, 0.75)
    share = 2.0 * np.diff(edges)
    kept = np.flatnonzero(share > 1e-12)  # nothing of an infinite run is nothing, and not NaN
    ordered = np.moveaxis(np.sort(errors, axis=axis), axis, -1)
    return ordered[..., kept] @ share[kept]


def spread(errors: Float[np.ndarray, "... run"]) -> Float[np.ndarray, "..."]:
    """The standard deviation over runs (0 for a single one, infinite if a run is)."""
    finite = np.isfinite(errors).all(axis=-1, keepdims=True)
    found = np.where(finite, errors, 0.0).std(axis=-1, ddof=min(1, errors.shape[-1] - 1))
    return np.where(np.squeeze(finite, -1), found, np.inf)


# The choice among hyper-parameters


def best(errors: Float[np.ndarray, "grid run"]) -> int:
    """The place of the smallest mean over runs; where all are infinite, of the fewest such runs."""
    finite = np.isfinite(errors)
    if not finite.all(axis=1).any():
        return int((~finite).sum(axis=1).argmin())
    return int(np.where(finite, errors, np.inf).mean(axis=1).argmin())


def sensitivity(errors: Float[np.ndarray, "grid run"], factor: float = 2.0) -> float:
    r"""The share of the grid that is nearly as good as its best point.

    $$
    \frac{|\{g\in G: \bar e(g) \le c\min_{h\in G}\bar e(h)\}|}{|G|}
    $$

    with the mean $\bar e(g)$ over runs and a factor $c$. It is 0 if runs diverge at every point: 1
    is a learner that needs no tuning, and $1/|G|$ one that has to be hit exactly.
    """
    if not factor >= 1.0:
        raise ValueError(f"factor: got {factor:g}; at least 1 is required")
    if (errors < 0).any():
        raise ValueError(f"errors: the smallest is {errors.min():g}; none may be negative")
    means = np.where(np.isfinite(errors), errors, np.inf).mean(axis=1)
    return float((np.isfinite(means) & (means <= factor * means.min())).mean())


@dataclass(frozen=True)
class Selection:
    """Hyper-parameters that some runs chose, and what other runs say of them."""

    points: "xarray.Dataset"
    """The chosen values, for each learner and whatever else the results have."""
    selecting: "xarray.DataArray"
    """At these points, the errors of the runs that chose."""
    errors: "xarray.DataArray"
    """At these points, the errors of the independent runs: what is to be reported."""
    dataset: "xarray.Dataset"
    """At these points, the whole results of the independent runs."""

    @property
    def flattery(self) -> Float[np.ndarray, "..."]:
        r"""By how much the choice flatters: the mean error of independent runs minus that of those
        which chose.

        The smallest of many means is too small on average, $\mathbb E\min_g\bar e(g) \le \min_g
        \mathbb E\,\bar e(g)$, and the more so the more points there are and the noisier they are.
        """
        means = [mean(part.transpose(..., "run").values) for part in (self.errors, self.selecting)]
        return _minus(*means)


def split(
    dataset: "xarray.Dataset", share: float = 0.5
) -> tuple["xarray.Dataset", "xarray.Dataset"]:
    """Two independent sets of runs: the first ones, to choose by, and the others, to report.

    **Arguments:**

    - `dataset`: Results with a dimension run, every run on a stream of its own.
    - `share`: How many of the runs are to choose; at least one, and one is left.
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"share: got {share:g}; a number between 0 and 1 is required")
    count = dataset.sizes["run"]
    if count < 2:
        raise ValueError(f"dataset: got {count} run; at least 2 are required, one for each set")
    place = min(max(1, round(share * count)), count - 1)
    return dataset.isel(run=slice(place)), dataset.isel(run=slice(place, None))


def select(
    selecting: "xarray.Dataset",
    independent: "xarray.Dataset",
    measure: str,
    axes: Sequence[str],
    rule: Rule = final,
) -> Selection:
    """Chooses hyper-parameters by some runs, and reports them by others.

    The choice is that of [best], made anew for each learner, case and whatever else there is. Give
    the two parts of [split], or results of two seeds.

    **Arguments:**

    - `selecting`: The results to choose by.
    - `independent`: The results to report, on the same grid.
    - `measure`: Which variable is the error.
    - `axes`: The dimensions over which to choose.
    - `rule`: The number of a run that counts.
    """
    import xarray

    for axis in axes:
        if not np.array_equal(selecting[axis].values, independent[axis].values):
            raise ValueError(f"axes: the two sets of runs have other values of {axis}")
    errors = rule(selecting, measure)
    sizes = [selecting.sizes[axis] for axis in axes]
    rest = [name for name in errors.dims if name not in (*axes, "run")]
    lined = errors.transpose(*rest, *axes, "run").values
    outer = lined.shape[: len(rest)]
    blocks = lined.reshape(-1, int(np.prod(sizes)), lined.shape[-1])
    flat = np.array([best(block) for block in blocks], int).reshape(outer)
    places = {
        axis: xarray.DataArray(index, dims=rest)
        for axis, index in zip(axes, np.unravel_index(flat, sizes) if sizes else (), strict=True)
    }
    chosen = independent.isel(places)
    return Selection(
        points=xarray.Dataset({axis: chosen[axis] for axis in axes}).reset_coords(),
        selecting=errors.isel(places),
        errors=rule(chosen, measure),
        dataset=chosen,
    )


# Intervals


@dataclass(frozen=True)
class Interval:
    """A number and an interval around it, or arrays of such."""

    value: Any
    """What was found."""
    low: Any
    """The lower end; minus infinity if the runs do not bound it."""
    high: Any
    """The upper end; infinite if the runs do not bound it."""


def interval(
    errors: Float[np.ndarray, "... run"],
    statistic: Statistic = mean,
    *,
    level: float = 0.95,
    method: Literal["percentile", "BCa"] = "percentile",
    num_resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    r"""A bootstrap interval for the mean, the median or the interquartile mean over runs.

    Runs are drawn again with replacement, the same ones for everything else in the array. An end
    is the largest (smallest) resampled number with at least (at most) its share below it, and
    nothing is interpolated: where one run of ten diverged, the mean lies in $[a, \infty]$. A single
    run bounds nothing, and its interval is $[-\infty, \infty]$.

    **Arguments:**

    - `errors`: A number for each run, on the last axis.
    - `statistic`: [mean], [median] or [iqm].
    - `level`: How often the interval should cover the truth.
    - `method`: Quantiles of what was resampled; or those corrected for bias and acceleration
      (Efron, 1987), which are the plain ones where a run is infinite.
    - `num_resamples`: How often to draw.
    - `seed`: Chooses the draws.
    """
    return _bootstrap((errors,), statistic, False, level, method, num_resamples, seed)


def stratified(
    strata: Sequence[Float[np.ndarray, " _"]],
    statistic: Statistic = iqm,
    *,
    level: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """A bootstrap interval for the runs of several cases together.

    Runs are drawn again within each case, so that every resample has all cases in their sizes. The
    errors of different problems must have been made comparable before, such as by division through
    those of a reference.

    **Arguments:**

    - `strata`: For each case a number for each run.
    - `statistic`, `level`, `num_resamples`, `seed`: As for [interval].
    """

    def pooled(*parts: np.ndarray, axis: int = -1) -> Any:
        return statistic(np.concatenate(parts, axis=axis), axis=axis)

    return _bootstrap(tuple(strata), pooled, False, level, "percentile", num_resamples, seed)


def difference(
    first: Float[np.ndarray, "... run"],
    second: Float[np.ndarray, "..."],
    statistic: Statistic = mean,
    *,
    level: float = 0.95,
    method: Literal["percentile", "BCa"] = "percentile",
    num_resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    r"""A paired bootstrap interval for $\theta(e) - \theta(e')$, where both runs $j$ share a seed.

    Pairs are drawn again together, so that what both owe to a stream cancels. Two infinite numbers
    are equal, as in [sign_test].

    **Arguments:**

    - `first`, `second`: A number for each run, in the same order of seeds.
    - `statistic`, `level`, `method`, `num_resamples`, `seed`: As for [interval].
    """
    if first.shape != second.shape:
        raise ValueError(f"second: got shape {second.shape}; that of first, {first.shape}, is due")

    def of(one: np.ndarray, other: np.ndarray, axis: int = -1) -> Any:
        return _minus(statistic(one, axis=axis), statistic(other, axis=axis))

    return _bootstrap((first, second), of, True, level, method, num_resamples, seed)


def _minus(first: Any, second: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.where(first == second, 0.0, np.subtract(first, second))


def _bootstrap(
    samples: tuple[np.ndarray, ...],
    statistic: Statistic,
    paired: bool,
    level: float,
    method: str,
    num_resamples: int,
    seed: int,
) -> Interval:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: got {level:g}; a number between 0 and 1 is required")
    if method not in ("percentile", "BCa"):
        raise ValueError(f"method: got {method!r}; percentile or BCa is required")
    samples = tuple(np.where(np.isnan(sample), np.inf, sample) for sample in samples)
    value = np.asarray(statistic(*samples, axis=-1))
    if min(sample.shape[-1] for sample in samples) < 2:
        return Interval(value, np.full_like(value, -np.inf), np.full_like(value, np.inf))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        found = stats.bootstrap(
            samples,
            statistic,
            n_resamples=num_resamples,
            batch=max(1, _BATCH // sum(sample.size for sample in samples)),
            vectorized=True,
            paired=paired,
            axis=-1,
            confidence_level=level,
            method=method,
            rng=np.random.default_rng(seed),
        )
    ordered = np.sort(found.bootstrap_distribution, axis=-1)
    outside = int((1.0 - level) / 2 * num_resamples)
    low, high = ordered[..., outside], ordered[..., num_resamples - 1 - outside]
    if method == "BCa":
        ends = found.confidence_interval
        good = np.isfinite(ends.low) & np.isfinite(ends.high)
        low, high = np.where(good, ends.low, low), np.where(good, ends.high, high)
    return Interval(value, low, high)


def divergence(bad: Bool[np.ndarray, "... run"], level: float = 0.95) -> Interval:
    r"""The share of runs that diverged, with Wilson's interval.

    $$
    \frac{\hat p + z^2/2n \pm z\sqrt{\hat p(1-\hat p)/n + z^2/4n^2}}{1 + z^2/n}
    $$

    for $k = n\hat p$ of $n$ runs. It does not claim that nothing ever diverges because nothing did:
    after no divergence in 30 runs, the rate is below 0.11.

    **Arguments:**

    - `bad`: Whether each run has diverged, as [diverged] says it; runs are on the last axis.
    - `level`: How often the interval should cover the truth.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: got {level:g}; a number between 0 and 1 is required")
    runs = bad.shape[-1]
    each = [stats.binomtest(k, runs).proportion_ci(level, "wilson") for k in range(runs + 1)]
    ends, count = np.array([(ci.low, ci.high) for ci in each]), bad.sum(axis=-1)
    return Interval(count / runs, ends[count, 0], ends[count, 1])


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
