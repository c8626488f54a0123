r"""Statistics over runs, in which divergence is an infinite error and is never left out.

Each run is reduced to one number, by [final], [area] or [time_to]; a statistic of many runs is a
function of an array of such numbers, with runs on its last axis. A run that diverged is the number
$\infty$: a mean over runs is infinite if one of them is, and so is the end of an interval.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

if TYPE_CHECKING:
    import xarray

Numbers = Float[np.ndarray, "..."] | np.floating
"""An array, or one number."""

Statistic = Callable[..., Numbers]
"""One number for many runs: [mean], [median] or [iqm], of an array along an axis."""

Rule = Callable[["xarray.Dataset", str], "xarray.DataArray"]
"""One number for each run: [final] or [area], of a dataset and a measure."""

_BATCH = 1 << 21  # resampled numbers that are in memory at once

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


# The choice among hyper-parameters


def best_index(errors: Float[np.ndarray, "grid run"]) -> int:
    """The index of the smallest mean over runs; if all are infinite, of the fewest such runs."""
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
    """Hyper-parameters chosen on some runs, and the results of other runs at them."""

    points: "xarray.Dataset"
    """The chosen values, for each learner and along every other dimension of the results."""
    selection_errors: "xarray.DataArray"
    """The errors at these points of the runs on which the choice was made."""
    errors: "xarray.DataArray"
    """The errors at these points of the independent runs, which are the ones to report."""
    dataset: "xarray.Dataset"
    """The results of the independent runs at these points."""

    @property
    def selection_bias(self) -> Float[np.ndarray, "..."]:
        r"""The mean error of the independent runs minus that of the runs that made the choice.

        The smallest of many means is too small on average, $\mathbb E\min_g\bar e(g) \le \min_g
        \mathbb E\,\bar e(g)$, and the more so the more points there are and the noisier they are.
        """
        both = self.errors, self.selection_errors
        return _subtract(*(mean(errors.transpose(..., "run").values) for errors in both))


def split(
    dataset: "xarray.Dataset", share: float = 0.5
) -> tuple["xarray.Dataset", "xarray.Dataset"]:
    """Splits runs into a share of them to choose on, the first ones, and the others to report."""
    if not 0.0 < share < 1.0:
        raise ValueError(f"share: got {share:g}; a number between 0 and 1 is required")
    count = dataset.sizes["run"]
    if count < 2:
        raise ValueError(f"dataset: got {count} run; at least 2 are required, one for each set")
    first = min(max(1, round(share * count)), count - 1)
    return dataset.isel(run=slice(first)), dataset.isel(run=slice(first, None))


def select(
    selecting: "xarray.Dataset",
    independent: "xarray.Dataset",
    measure: str,
    axes: Sequence[str],
    rule: Rule = final,
) -> Selection:
    """Chooses hyper-parameters on some runs, and reports them on others.

    The choice is that of [best_index], made separately for each learner, case and other dimension.
    Pass the two parts of [split], or the results of two seeds.

    **Arguments:**

    - `selecting`, `independent`: The results to choose on and to report, on the same grid.
    - `measure`, `axes`: The variable that is the error; the dimensions over which to choose.
    - `rule`: How each run is reduced to one number.
    """
    import xarray

    for axis in axes:
        if not np.array_equal(selecting[axis].values, independent[axis].values):
            raise ValueError(f"axes: the two sets of runs have different values of {axis}")
    errors = rule(selecting, measure)
    sizes = [selecting.sizes[axis] for axis in axes]
    rest = [name for name in errors.dims if name not in (*axes, "run")]
    values = errors.transpose(*rest, *axes, "run").values
    blocks = values.reshape(-1, int(np.prod(sizes)), values.shape[-1])
    flat = np.array([*map(best_index, blocks)], int).reshape(values.shape[: len(rest)])
    indices = {
        axis: xarray.DataArray(index, dims=rest)
        for axis, index in zip(axes, np.unravel_index(flat, sizes) if sizes else (), strict=True)
    }
    chosen = independent.isel(indices)
    return Selection(
        points=xarray.Dataset({axis: chosen[axis] for axis in axes}).reset_coords(),
        selection_errors=errors.isel(indices),
        errors=rule(chosen, measure),
        dataset=chosen,
    )


# Intervals


@dataclass(frozen=True)
class Interval:
    """An estimate with a confidence interval; arrays of one shape, `()` for a single number."""

    value: Float[np.ndarray, "..."]
    """The estimate."""
    low: Float[np.ndarray, "..."]
    """The lower end; minus infinity if the runs do not bound it."""
    high: Float[np.ndarray, "..."]
    """The upper end; infinite if the runs do not bound it."""


def interval(
    errors: Float[np.ndarray, "... run"],
    statistic: Statistic = mean,
    *,
    minus: Float[np.ndarray, "..."] | None = None,
    level: float = 0.95,
    method: Literal["percentile", "BCa"] = "percentile",
    num_resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    r"""A bootstrap interval for the mean, the median or the interquartile mean over runs.

    Runs are resampled with replacement, the same ones for every entry of the array. An end is the
    largest (smallest) resampled number with at least (at most) its share below it, and nothing is
    interpolated: where one run of ten diverged, the mean lies in $[a, \infty]$. A single run bounds
    nothing, and its interval is $[-\infty, \infty]$.

    With `minus` it is a paired interval for $\theta(e) - \theta(e')$: pairs of runs are resampled
    together, so that what both owe to a stream cancels. Two infinite numbers are equal, as in
    [sign_test].

    **Arguments:**

    - `errors`: A number for each run, on the last axis.
    - `statistic`: [mean], [median] or [iqm].
    - `minus`: The numbers $e'$ to compare with, in the same order of seeds.
    - `level`: How often the interval should cover the truth.
    - `method`: Quantiles of the resampled numbers, or those corrected for bias and acceleration
      (Efron, 1987), which fall back to the plain ones where a run is infinite.
    - `num_resamples`, `seed`: How many resamples to draw, and which.
    """
    if minus is None:
        return _bootstrap((errors,), statistic, False, level, method, num_resamples, seed)
    if errors.shape != minus.shape:
        raise ValueError(f"minus: got shape {minus.shape}; that of errors is {errors.shape}")

    def difference(first: np.ndarray, second: np.ndarray, axis: int = -1) -> Numbers:
        return _subtract(statistic(first, axis=axis), statistic(second, axis=axis))

    return _bootstrap((errors, minus), difference, True, level, method, num_resamples, seed)


def stratified_interval(
    strata: Sequence[Float[np.ndarray, " _"]],
    statistic: Statistic = iqm,
    *,
    level: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """A bootstrap interval for the runs of several cases together.

    Runs are resampled within each case, so that every resample has all cases in their sizes. The
    errors of different problems must be made comparable first, for example by dividing them by
    those of a reference.
    The other arguments are those of [interval].
    """

    def pooled(*parts: np.ndarray, axis: int = -1) -> Numbers:
        return statistic(np.concatenate(parts, axis=axis), axis=axis)

    return _bootstrap(tuple(strata), pooled, False, level, "percentile", num_resamples, seed)


def _subtract(first: Numbers, second: Numbers) -> Float[np.ndarray, "..."]:
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
    from scipy import stats

    _check_level(level)
    if method not in ("percentile", "BCa"):
        raise ValueError(f"method: got {method!r}; percentile or BCa is required")
    samples = tuple(np.where(np.isnan(sample), np.inf, sample) for sample in samples)
    value = np.asarray(statistic(*samples, axis=-1))
    if min(sample.shape[-1] for sample in samples) < 2:
        return Interval(value, np.full_like(value, -np.inf), np.full_like(value, np.inf))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        result = stats.bootstrap(
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
    ordered = np.sort(result.bootstrap_distribution, axis=-1)
    outside = int((1.0 - level) / 2 * num_resamples)
    low, high = ordered[..., outside], ordered[..., num_resamples - 1 - outside]
    if method == "BCa":
        ends = result.confidence_interval
        finite = np.isfinite(ends.low) & np.isfinite(ends.high)
        low, high = np.where(finite, ends.low, low), np.where(finite, ends.high, high)
    return Interval(value, np.asarray(low), np.asarray(high))


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: got {level:g}; a number between 0 and 1 is required")


def divergence_rate(diverged: Bool[np.ndarray, "... run"], level: float = 0.95) -> Interval:
    r"""The share of runs that diverged, with Wilson's interval.

    $$
    \frac{\hat p + z^2/2n \pm z\sqrt{\hat p(1-\hat p)/n + z^2/4n^2}}{1 + z^2/n}
    $$

    for $k = n\hat p$ of $n$ runs. No divergence in 30 runs does not mean that nothing ever
    diverges: the rate is then below 0.11.
    """
    from scipy import stats

    _check_level(level)
    num_runs, count = diverged.shape[-1], diverged.sum(axis=-1)
    tests = [stats.binomtest(k, num_runs) for k in range(num_runs + 1)]
    ends = np.array([tuple(test.proportion_ci(level, "wilson")) for test in tests])
    return Interval(*map(np.asarray, (count / num_runs, ends[count, 0], ends[count, 1])))


def sign_test(
    smaller: Float[np.ndarray, " run"], larger: Float[np.ndarray, " run"]
) -> dict[str, float | int]:
    """The paired sign test of whether the first is smaller than the second, run by run.

    It assumes nothing about the distribution, which may have no variance or not even a mean: under
    the null hypothesis each run is as likely to be smaller as larger, ties aside.
    """
    from scipy import stats

    wins, losses = int((smaller < larger).sum()), int((smaller > larger).sum())
    p = stats.binomtest(wins, wins + losses, alternative="greater").pvalue if wins + losses else 1.0
    return {"wins": wins, "losses": losses, "runs": len(smaller), "p_value": float(p)}
