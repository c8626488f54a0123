"""Intervals for statistics over runs, and the paired test."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from .._validation import unknown
from .runs import iqm, mean, Numbers, Statistic, subtract

METHODS = ("auto", "percentile", "BCa")
FEWEST_RUNS = 5  # whose resamples are studentised: of fewer, too many are all the same run
_BATCH = 1 << 21  # resampled numbers that are in memory at once


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
    method: Literal["auto", "percentile", "BCa"] = "auto",
    num_resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    r"""A bootstrap interval for the mean, the median or the interquartile mean over runs.

    Runs are resampled with replacement, the same ones for every entry of the array. For the mean of
    finite numbers the interval is studentised: with the resampled quantiles $q$ of $t^* = (\bar e^*
    - \bar e)/\hat\sigma^*$,

    $$
    [\bar e - q_{1-\alpha/2}\,\hat\sigma,\ \bar e - q_{\alpha/2}\,\hat\sigma],
    \qquad \hat\sigma = \text{standard error of } \bar e,
    $$

    and Student's where these are not bounded or there are fewer than five runs. It covers the mean
    as often as it says for normal numbers, and nearly so for skewed ones, where quantiles of the
    resampled means are too narrow.

    Otherwise an end is the largest (smallest) resampled number with at least (at most) its share
    below it, and nothing is interpolated: where one run of ten diverged, the mean lies in
    $[a, \infty]$. A single run bounds nothing, and its interval is $[-\infty, \infty]$.

    With `minus` it is a paired interval for $\theta(e) - \theta(e')$: pairs of runs are resampled
    together, so that what both owe to a stream cancels. Two infinite numbers are equal, as in
    [sign_test].

    **Arguments:**

    - `errors`: A number for each run, on the last axis.
    - `statistic`: [mean], [median] or [iqm].
    - `minus`: The numbers $e'$ to compare with, in the same order of seeds.
    - `level`: How often the interval should cover the truth.
    - `method`: As above, or always quantiles of the resampled numbers, or those corrected for bias
      and acceleration (Efron, 1987), which fall back to the plain ones where a run is infinite.
    - `num_resamples`, `seed`: How many resamples to draw, and which.

    **References:** Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 12.
    """
    _check_level(level)
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if minus is not None and errors.shape != minus.shape:
        raise ValueError(f"minus: got shape {minus.shape}; that of errors is {errors.shape}")
    samples = (errors,) if minus is None else (errors, minus)
    if method == "auto" and statistic is mean and errors.shape[-1] > 1:
        return _interval_of_mean(samples, level, num_resamples, seed)
    method = "percentile" if method == "auto" else method
    return _resampled_interval(samples, statistic, level, method, num_resamples, seed)


def _resampled_interval(
    samples: tuple[np.ndarray, ...],
    statistic: Statistic,
    level: float,
    method: str,
    num_resamples: int,
    seed: int,
) -> Interval:
    """Takes quantiles of a resampled statistic, or of its differences between pairs."""
    if len(samples) == 1:
        return _bootstrap(samples, statistic, False, level, method, num_resamples, seed)

    def difference(first: np.ndarray, second: np.ndarray, axis: int = -1) -> Numbers:
        return subtract(statistic(first, axis=axis), statistic(second, axis=axis))

    return _bootstrap(samples, difference, True, level, method, num_resamples, seed)


def _interval_of_mean(
    samples: tuple[np.ndarray, ...], level: float, num_resamples: int, seed: int
) -> Interval:
    """Bounds means of finite numbers by studentised resamples, and others by plain ones."""
    finite = np.all([np.isfinite(sample).all(axis=-1) for sample in samples], axis=0)
    numbers = samples[0] if len(samples) == 1 else subtract(*samples)
    rows = np.asarray(numbers, np.float64)[finite]
    value, low, high = (np.full(finite.shape, np.nan) for _ in range(3))
    value[finite] = rows.mean(axis=-1)
    low[finite], high[finite] = _studentise(rows, level, num_resamples, seed)
    if not finite.all():
        others = tuple(sample[~finite] for sample in samples)
        bounds = _resampled_interval(others, mean, level, "percentile", num_resamples, seed)
        value[~finite], low[~finite], high[~finite] = vars(bounds).values()
    return Interval(value, low, high)


def _studentise(
    rows: Float[np.ndarray, "row run"], level: float, num_resamples: int, seed: int
) -> tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
    """Bounds the mean of each row."""
    from scipy import stats

    num_runs = rows.shape[-1]
    center, spread = rows.mean(axis=-1), rows.std(axis=-1)
    is_constant = spread <= 1e-14 * np.abs(center)
    scaled = (rows - center[:, None]) / np.where(is_constant, 1.0, spread)[:, None]
    quantile = float(stats.t.ppf((1.0 + level) / 2, num_runs - 1))
    low, high = np.full(len(rows), -quantile), np.full(len(rows), quantile)
    if num_runs >= FEWEST_RUNS:
        draws = np.random.default_rng(seed).multinomial(
            num_runs, np.full(num_runs, 1.0 / num_runs), size=num_resamples
        )
        outside = _num_outside(level, num_resamples)
        for part in np.array_split(np.arange(len(rows)), 1 + num_resamples * len(rows) // _BATCH):
            means = scaled[part] @ draws.T / num_runs
            variances = scaled[part] ** 2 @ draws.T / num_runs - means**2
            variances = np.where(variances > 1e-12, variances, 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.sort(means / np.sqrt(variances / (num_runs - 1)), axis=-1)
            ends = ratios[:, outside], ratios[:, num_resamples - 1 - outside]
            is_bounded = np.isfinite(ends).all(axis=0)
            low[part], high[part] = np.where(is_bounded, ends, (low[part], high[part]))
    error = np.where(is_constant, 0.0, spread / np.sqrt(num_runs - 1))
    return center - high * error, center - low * error


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

    _check_level(level)
    return _bootstrap(tuple(strata), pooled, False, level, "percentile", num_resamples, seed)


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
    outside = _num_outside(level, num_resamples)
    low, high = ordered[..., outside], ordered[..., num_resamples - 1 - outside]
    if method == "BCa":
        ends = result.confidence_interval
        finite = np.isfinite(ends.low) & np.isfinite(ends.high)
        low, high = np.where(finite, ends.low, low), np.where(finite, ends.high, high)
    return Interval(value, np.asarray(low), np.asarray(high))


def _num_outside(level: float, num_resamples: int) -> int:
    """Returns how many resampled numbers are left out at either end."""
    return int((1.0 - level) / 2 * num_resamples + 1e-9)  # 0.05 * 400 is not 19


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
    smaller: Float[np.ndarray, " run"],
    larger: Float[np.ndarray, " run"],
    *,
    two_sided: bool = False,
) -> dict[str, float | int]:
    """The paired sign test of whether the first is smaller than the second, run by run.

    It assumes nothing about the distribution, which may have no variance or not even a mean: under
    the null hypothesis each run is as likely to be smaller as larger, ties aside. Where the data
    themselves say which of two is called the first, the test has to be two-sided.
    """
    from scipy import stats

    wins, losses = int((smaller < larger).sum()), int((smaller > larger).sum())
    side = "two-sided" if two_sided else "greater"
    p = stats.binomtest(wins, wins + losses, alternative=side).pvalue if wins + losses else 1.0
    return {"wins": wins, "losses": losses, "runs": len(smaller), "p_value": float(p)}
