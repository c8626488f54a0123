"""Conclusions from runs, worked out by hand: divergence is infinite, and a NaN never wins."""

from math import comb

import numpy as np
import pytest
import xarray
from hypothesis import given, strategies as st
from scipy import integrate, stats

from emphatic import statistics

NAN, INF = np.nan, np.inf


def results(curves, diverged=None) -> xarray.Dataset:
    """A dataset of runs with these curves, float32 as engines write them."""
    curves = np.array(curves, np.float32)
    bad = np.zeros(curves.shape, bool) if diverged is None else np.array(diverged, bool)
    axes = ("run", "time")
    time = 1000 * np.arange(1, curves.shape[1] + 1)
    return xarray.Dataset({"error": (axes, curves), "diverged": (axes, bad)}, {"time": time})


# One number for each run


def test_the_final_error_is_the_last_window_and_the_area_the_mean_of_all():
    found = results([[4.0, 2.0, 3.0], [8.0, 1.0, 0.0]])
    assert statistics.final(found, "error").values.tolist() == [3.0, 0.0]
    assert statistics.area(found, "error").values.tolist() == [3.0, 3.0]
    assert statistics.diverged(found).values.tolist() == [False, False]


def test_a_run_that_diverged_in_the_middle_is_infinite_though_it_ends_finite():
    found = results([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], [[0, 1, 0], [0, 0, 0]])
    assert statistics.diverged(found).values.tolist() == [True, False]
    assert statistics.final(found, "error").values.tolist() == [INF, 3.0]
    assert statistics.area(found, "error").values.tolist() == [INF, 2.0]


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_what_is_not_finite_is_infinite_and_is_never_left_out_of_a_mean(bad):
    found = results([[bad, 2.0, 3.0], [1.0, bad, 3.0], [1.0, 2.0, bad], [1.0, 2.0, 3.0]])
    assert statistics.final(found, "error").values.tolist() == [3.0, 3.0, INF, 3.0]
    assert statistics.area(found, "error").values.tolist() == [INF, INF, INF, 2.0]


def test_an_area_is_summed_in_double_precision():
    """The sum of these windows is beyond float32, their mean is not."""
    found = results([[3e38, 3e38, 3e38]])
    np.testing.assert_allclose(statistics.area(found, "error").values, [3e38], rtol=1e-6)
    assert statistics.area(found, "error").dtype == np.float64
    assert statistics.final(found, "error").dtype == np.float64


def test_other_axes_are_kept():
    one, other = results([[1.0, 2.0]]), results([[3.0, 6.0]], [[1, 0]])
    found = xarray.concat([one, other], "step_size", data_vars="all")
    area = statistics.area(found, "error")
    assert area.dims == ("step_size", "run")
    assert area.values.tolist() == [[1.5], [INF]]
    assert statistics.diverged(found).values.tolist() == [[False], [True]]


def test_the_time_to_a_threshold_is_the_end_of_the_first_window_below_it():
    found = results([[4.0, 2.0, 1.0], [4.0, 3.0, 3.0], [1.0, 5.0, 5.0], [NAN, 2.0, 2.0]])
    times = statistics.time_to(found, "error", 2.0)
    assert times.values.tolist() == [2000.0, INF, 1000.0, 2000.0]
    assert times.dims == ("run",)
    assert "time" not in times.coords


def test_a_run_that_passes_a_threshold_and_diverges_later_never_gets_there():
    found = results([[1.0, 9.0, INF], [1.0, 9.0, 9.0]], [[0, 0, 1], [0, 0, 0]])
    assert statistics.time_to(found, "error", 2.0).values.tolist() == [INF, 1000.0]


# A number for many runs

SAMPLES = st.lists(
    st.sampled_from([0.0, 0.5, 1.0, 2.5, 7.0, 40.0, INF]), min_size=1, max_size=9
).map(np.array)


@given(SAMPLES)
def test_the_interquartile_mean_is_the_integral_of_the_quantiles(errors):
    ordered = np.sort(errors)

    def quantile(p: float) -> float:
        return float(ordered[min(int(p * len(ordered)), len(ordered) - 1)])

    found, middle = float(statistics.iqm(errors)), np.linspace(0.25, 0.75, 4001)
    centres = (middle[1:] + middle[:-1]) / 2
    expected = np.mean([quantile(p) for p in centres])
    np.testing.assert_allclose(found, expected, rtol=1e-2)


@pytest.mark.parametrize("count", [4, 8, 20])
def test_the_interquartile_mean_is_the_trimmed_mean_where_quarters_are_whole(count):
    errors = np.random.default_rng(count).lognormal(size=(3, count))
    np.testing.assert_allclose(
        statistics.iqm(errors), stats.trim_mean(errors, 0.25, axis=-1), rtol=1e-14
    )


def test_how_many_infinite_runs_a_statistic_bears():
    def errors(bad: int) -> np.ndarray:
        return np.array([INF] * bad + [1.0] * (8 - bad))

    statistic_of = {statistics.mean: 0, statistics.iqm: 2, statistics.median: 3}
    for statistic, bears in statistic_of.items():
        assert [float(statistic(errors(bad))) for bad in (bears, bears + 1)] == [1.0, INF]


@given(SAMPLES)
def test_the_median_is_numpys(errors):
    assert float(statistics.median(errors)) == float(np.median(errors))


def test_statistics_work_along_any_axis():
    errors = np.random.default_rng(0).normal(size=(5, 7))
    for statistic in (statistics.mean, statistics.median, statistics.iqm):
        np.testing.assert_allclose(
            statistic(errors, axis=0), [statistic(column) for column in errors.T], rtol=1e-14
        )


# The choice among step sizes


@pytest.mark.parametrize(
    ("errors", "place"),
    [
        ([[1.0, 1.0, 10.0], [3.0, 3.0, 3.0]], 1),  # by the mean, not the median or the best run
        ([[2.0, 4.0], [3.0, 3.0], [1.0, 5.0]], 0),  # the first of equals
        ([[5.0], [4.0], [6.0]], 1),  # one run
        ([[INF, 0.0], [9.0, 9.0]], 1),
        ([[NAN, 0.0], [9.0, 9.0]], 1),
        ([[9.0, 9.0], [NAN, NAN], [8.0, 8.0]], 2),
        ([[-INF, 0.0], [9.0, 9.0]], 1),
        ([[INF, INF, 0.0], [INF, 9.0, 9.0], [NAN, INF, 0.0]], 1),  # the fewest that diverged
        ([[NAN, INF, 0.0], [INF, 9.0, 9.0]], 1),
        ([[INF, INF], [NAN, NAN]], 0),
        ([[NAN], [INF]], 0),
    ],
)
def test_the_best_has_the_smallest_mean_and_all_its_runs(errors, place):
    assert statistics.best_index(np.array(errors)) == place


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1.0, 2.5, 7.0, INF, NAN]), min_size=3, max_size=3),
        min_size=1,
        max_size=6,
    )
)
def test_what_diverged_wins_only_where_everything_did(rows):
    errors = np.array(rows)
    place = statistics.best_index(errors)
    whole = [n for n, row in enumerate(rows) if np.isfinite(row).all()]
    if whole:
        assert place in whole
        assert sum(rows[place]) == min(sum(rows[n]) for n in whole)
    else:
        lost = (~np.isfinite(errors)).sum(axis=1)
        assert lost[place] == lost.min()


def noise(num_points: int, num_runs: int, seed: int = 0) -> xarray.Dataset:
    """Results of a learner that is equally good at every point: only chance tells them apart."""
    rng = np.random.default_rng(seed)
    axes = ("learner", "step_size", "ridge", "run", "time")
    curves = rng.normal(10.0, 1.0, (2, num_points, 3, num_runs, 2))
    return xarray.Dataset(
        {"error": (axes, curves), "diverged": (axes, np.zeros(curves.shape, bool))},
        {
            "learner": ["one", "other"],
            "step_size": 2.0 ** -np.arange(num_points),
            "ridge": [0.0, 1.0, 2.0],
            "time": [10, 20],
        },
    )


def test_runs_are_split_in_two_sets_that_share_none():
    found = noise(2, 7).assign_coords(run=np.arange(7))
    first, second = statistics.split(found)
    assert [*first["run"].values, *second["run"].values] == list(range(7))
    assert [part.sizes["run"] for part in statistics.split(found, 0.01)] == [1, 6]
    assert [part.sizes["run"] for part in statistics.split(found, 0.99)] == [6, 1]
    with pytest.raises(ValueError, match=r"dataset: got 1 run; at least 2"):
        statistics.split(found.isel(run=[0]))
    with pytest.raises(ValueError, match=r"share: got 1;"):
        statistics.split(found, 1.0)


def test_the_selection_is_that_of_a_loop_over_everything():
    first, second = statistics.split(noise(4, 6))
    found = statistics.select(first, second, "error", ("step_size", "ridge"), statistics.area)
    for learner in ("one", "other"):
        parts = [part.sel(learner=learner) for part in (first, second)]
        places = [(size, ridge) for size in range(4) for ridge in range(3)]
        means = [
            parts[0]["error"].isel(step_size=size, ridge=ridge).values.mean()
            for size, ridge in places
        ]
        size, ridge = places[int(np.argmin(means))]
        point = found.points.sel(learner=learner)
        assert float(point["step_size"]) == 2.0**-size
        assert float(point["ridge"]) == float(ridge)
        reported = parts[1]["error"].isel(step_size=size, ridge=ridge)
        np.testing.assert_array_equal(found.dataset["error"].sel(learner=learner), reported)
        np.testing.assert_allclose(
            found.errors.sel(learner=learner), reported.values.mean(axis=-1), rtol=1e-14
        )
        np.testing.assert_allclose(found.selection_errors.sel(learner=learner).mean(), min(means))


def test_the_best_of_many_is_flattered_by_the_expected_minimum_of_normal_numbers():
    """Means of 4 runs have a deviation of a half; the least of 60 is 2.32 deviations too small."""
    found = []
    for seed in range(40):
        parts = statistics.split(noise(20, 8, seed))
        selection = statistics.select(*parts, "error", ("step_size", "ridge"))
        found += selection.selection_bias.tolist()

    def density(x: float) -> float:
        return 60 * x * stats.norm.pdf(x) * stats.norm.sf(x) ** 59

    expected = -0.5 * integrate.quad(density, -8, 8)[0]
    assert abs(np.mean(found) - expected) < 4 * np.std(found) / np.sqrt(len(found))
    assert expected > 1.1


def test_a_choice_that_diverged_in_both_sets_has_no_selection_bias():
    found = noise(1, 4)
    found["diverged"][:] = True
    selection = statistics.select(*statistics.split(found), "error", ("step_size", "ridge"))
    assert selection.selection_bias.tolist() == [0.0, 0.0]
    assert np.isinf(selection.errors).all()


def test_runs_on_another_grid_are_refused():
    with pytest.raises(
        ValueError, match=r"axes: the two sets of runs have different values of ridge"
    ):
        statistics.select(
            noise(2, 2), noise(2, 2).assign_coords(ridge=[0.0, 1.0, 3.0]), "error", ("ridge",)
        )


def test_without_axes_there_is_no_choice():
    parts = statistics.split(noise(2, 4))
    selection = statistics.select(*parts, "error", ())
    assert not selection.points
    assert selection.dataset.identical(parts[1])


def test_sensitivity_counts_the_points_within_a_factor_of_the_best():
    errors = np.array([[1.0, 3.0], [4.0, 4.0], [2.0, 2.2], [0.5, INF], [NAN, 1.0]])
    assert statistics.sensitivity(errors) == 3 / 5
    assert statistics.sensitivity(errors, 1.06) == 2 / 5
    assert statistics.sensitivity(errors, 1.0) == 1 / 5
    assert statistics.sensitivity(np.array([[INF], [NAN]])) == 0.0
    with pytest.raises(ValueError, match=r"factor: got 0.5; at least 1"):
        statistics.sensitivity(errors, 0.5)
    with pytest.raises(ValueError, match=r"errors: the smallest is -1"):
        statistics.sensitivity(np.array([[-1.0]]))


# Spread


def test_the_spread_is_the_standard_deviation_of_a_sample():
    errors = np.array([[1.0, 3.0], [2.0, 2.0], [INF, 1.0], [NAN, 1.0], [INF, INF]])
    assert statistics.spread(errors).tolist() == [np.sqrt(2.0), 0.0, INF, INF, INF]


def test_one_run_has_no_spread():
    assert float(statistics.spread(np.array([4.0]))) == 0.0
    assert float(statistics.spread(np.array([INF]))) == INF


# Intervals


LAWS = {
    "normal": (lambda rng, shape: rng.normal(3.0, 2.0, shape), 3.0),
    "exponential": (lambda rng, shape: rng.exponential(2.0, shape), 2.0),
    "lognormal": (lambda rng, shape: rng.lognormal(size=shape), np.exp(0.5)),
}
# Means of few lognormal numbers are the hardest: quantiles of resamples cover .79, .85 and .87.
LEAST = {
    "normal": {10: 0.94, 20: 0.94, 30: 0.94},
    "exponential": {10: 0.93, 20: 0.93, 30: 0.93},
    "lognormal": {10: 0.89, 20: 0.91, 30: 0.92},
}


def coverage(law: str, num_runs: int, num_samples: int, **options) -> float:
    """How often an interval of the mean covers it."""
    draw, truth = LAWS[law]
    errors = draw(np.random.default_rng(num_runs), (num_samples, num_runs))
    found = statistics.interval(errors, **options)
    return float(((found.low <= truth) & (truth <= found.high)).mean())


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("num_runs", [10, 20, 30])
def test_an_interval_of_the_mean_covers_it_as_often_as_it_says(law, num_runs):
    covered = coverage(law, num_runs, 1000, num_resamples=600)
    assert LEAST[law][num_runs] - 0.02 < covered < 0.975
    if law == "lognormal":
        assert covered > coverage(law, num_runs, 300, method="percentile", num_resamples=400)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("num_runs", [10, 20, 30])
def test_an_interval_of_the_mean_covers_it_in_many_samples(law, num_runs):
    assert LEAST[law][num_runs] < coverage(law, num_runs, 20_000) < 0.96


@pytest.mark.parametrize("num_runs", [2, 3, 4])
def test_an_interval_of_few_runs_is_students(num_runs):
    errors = np.random.default_rng(0).normal(size=(50, num_runs))
    found = statistics.interval(errors)
    low, high = stats.t.interval(0.95, num_runs - 1, errors.mean(axis=-1), stats.sem(errors, -1))
    np.testing.assert_allclose([found.low, found.high], [low, high], rtol=1e-9, atol=1e-12)


def test_a_studentised_interval_is_that_of_resampled_ratios():
    """A loop over the same draws, with the standard error of every resample."""
    errors, num_runs = np.random.default_rng(5).lognormal(size=12), 12
    found = statistics.interval(errors, num_resamples=400, level=0.9)
    draws = np.random.default_rng(0).multinomial(num_runs, np.full(num_runs, 1 / 12), size=400)
    ratios = []
    for counts in draws:
        resample = np.repeat(errors, counts)
        ratios.append((resample.mean() - errors.mean()) / stats.sem(resample))
    ratios.sort()
    low, high = (errors.mean() - ratios[k] * stats.sem(errors) for k in (400 - 1 - 20, 20))
    np.testing.assert_allclose([found.low, found.high], [low, high], rtol=1e-9)
    assert high - errors.mean() > 1.2 * (errors.mean() - low)  # longer where the tail is


@pytest.mark.parametrize("other", [0.0, 2.0])
def test_an_interval_of_runs_that_are_nearly_all_equal_is_bounded(other):
    """A third of its resamples miss the one that is different, and have no standard error."""
    errors = np.array([1.0] * 9 + [other])
    found = statistics.interval(errors)
    expected = stats.t.interval(0.95, 9, errors.mean(), stats.sem(errors))
    np.testing.assert_allclose([found.low, found.high], expected, rtol=1e-9)


def test_rows_with_and_without_a_run_that_diverged_are_bounded_side_by_side():
    errors = np.random.default_rng(6).normal(5.0, 1.0, size=(2, 3, 10))
    errors[1, 2, 0] = INF
    found = statistics.interval(errors)
    for place in np.ndindex(2, 3):
        alone = statistics.interval(errors[place])
        bounds = [
            [getattr(x, end)[k] for end in ("value", "low", "high")]
            for x, k in ((found, place), (alone, ()))
        ]
        np.testing.assert_allclose(*bounds, rtol=1e-12)
    assert found.high[1, 2] == INF
    assert np.isfinite(found.low).all()


def test_an_interval_of_the_mean_has_the_width_of_the_normal_one():
    errors = np.random.default_rng(1).normal(size=(1, 500))
    found = statistics.interval(errors, num_resamples=4000)
    width = 2 * 1.96 * errors.std() / np.sqrt(500)
    np.testing.assert_allclose(found.high - found.low, [width], rtol=0.05)


def test_all_resamples_of_three_runs_are_what_enumeration_gives():
    """The 27 means of three draws from three runs; 90 % leave the 3.7 % at either end out."""
    errors = np.array([1.0, 2.0, 4.0])
    means = sorted(np.mean([a, b, c]) for a in errors for b in errors for c in errors)
    found = statistics.interval(errors, level=0.9, method="percentile", num_resamples=20_000)
    assert float(found.low) == pytest.approx(means[1])
    assert float(found.high) == pytest.approx(means[-2])


def test_an_interval_says_infinity_where_a_run_diverged():
    errors = np.array([1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0, INF])
    for method in ("percentile", "BCa"):
        found = statistics.interval(errors, method=method)
        assert (found.value, found.high) == (INF, INF)
        assert 1.0 < found.low < 2.0
        found = statistics.interval(errors, statistics.median, method=method)
        assert found.value == 2.0
        assert found.high <= 3.0
    found = statistics.interval(np.full(5, INF))
    assert (found.low, found.value, found.high) == (INF, INF, INF)
    found = statistics.interval(np.array([1.0, NAN, NAN, NAN, NAN, NAN]))
    assert (found.low, found.value, found.high) == (INF, INF, INF)


def test_one_run_bounds_nothing_and_equal_runs_everything():
    found = statistics.interval(np.array([3.0]))
    assert (found.low, found.value, found.high) == (-INF, 3.0, INF)
    for method in ("percentile", "BCa"):
        found = statistics.interval(np.full((2, 6), 3.0), method=method)
        assert found.low.tolist() == found.high.tolist() == [3.0, 3.0]


def test_the_same_runs_are_drawn_for_everything_and_batches_change_nothing(monkeypatch):
    errors = np.random.default_rng(2).normal(size=(3, 2, 9))
    whole = statistics.interval(errors, statistics.iqm, num_resamples=300)
    alone = statistics.interval(errors[1, 0], statistics.iqm, num_resamples=300)
    assert whole.low[1, 0] == alone.low
    monkeypatch.setattr(statistics.intervals, "_BATCH", 200)
    again = statistics.interval(errors, statistics.iqm, num_resamples=300)
    np.testing.assert_array_equal(again.high, whole.high)


def test_cases_of_their_own_are_drawn_within_themselves():
    """Two cases without any noise: drawn together they would vary, each by itself they do not."""
    strata = [np.full(5, 1.0), np.full(9, 3.0)]
    found = statistics.stratified_interval(strata, statistics.mean)
    expected = (5 * 1.0 + 9 * 3.0) / 14
    assert float(found.low) == float(found.value) == float(found.high) == pytest.approx(expected)
    together = statistics.interval(np.concatenate(strata))
    assert together.high - together.low > 0.5


def test_a_stratified_mean_has_the_variance_of_its_strata():
    rng = np.random.default_rng(3)
    strata = [rng.normal(0.0, 1.0, 200), rng.normal(50.0, 2.0, 100)]
    found = statistics.stratified_interval(strata, statistics.mean, num_resamples=4000)
    variance = sum(len(part) * part.var() for part in strata) / 300**2
    np.testing.assert_allclose(found.high - found.low, 2 * 1.96 * np.sqrt(variance), rtol=0.06)


def test_what_two_share_by_a_seed_cancels_in_their_difference():
    rng = np.random.default_rng(4)
    shared = rng.normal(0.0, 100.0, 20)
    found = statistics.interval(shared + 1.0, minus=shared)
    np.testing.assert_allclose([found.low, found.value, found.high], 1.0, rtol=1e-9)
    apart = statistics.interval(shared + 1.0, minus=rng.permutation(shared))
    assert apart.high - apart.low > 50.0
    for statistic in (statistics.median, statistics.iqm):
        found = statistics.interval(shared + 1.0, statistic, minus=shared)
        np.testing.assert_allclose([found.low, found.high], 1.0, rtol=1e-9)


def test_differences_of_infinite_errors_are_infinite_or_a_tie_but_never_nan():
    fine, bad = np.array([1.0, 2.0, 3.0]), np.array([INF, INF, INF])
    for first, second, expected in ((fine, bad, -INF), (bad, fine, INF), (bad, bad, 0.0)):
        found = statistics.interval(first, minus=second)
        assert (found.low, found.value, found.high) == (expected,) * 3
    mixed = statistics.interval(np.array([INF, 1.0, 1.0]), minus=np.array([1.0, INF, 1.0]))
    assert (mixed.low, mixed.value, mixed.high) == (-INF, 0.0, INF)
    with pytest.raises(ValueError, match=r"minus: got shape \(2,\)"):
        statistics.interval(fine, minus=fine[:2])


def test_the_rate_of_divergence_lies_in_wilsons_interval():
    bad = np.array([[True] * 3 + [False] * 27, [False] * 30, [True] * 30])
    found = statistics.divergence_rate(bad)
    assert found.value.tolist() == [0.1, 0.0, 1.0]
    for k, low, high in zip((3, 0, 30), found.low, found.high, strict=True):
        z, n = stats.norm.ppf(0.975), 30
        for end in (low, high):  # the ends are the rates that a score test just does not reject
            if 0.0 < end < 1.0:
                score = abs(k / n - end) / np.sqrt(end * (1 - end) / n)
                np.testing.assert_allclose(score, z, rtol=1e-9)
    assert found.high[1] < 0.115
    assert (found.low[1], found.high[2]) == (0.0, 1.0)


def test_what_intervals_are_asked_for_must_make_sense():
    errors = np.arange(3.0)
    with pytest.raises(ValueError, match=r"level: got 95; a number between 0 and 1"):
        statistics.interval(errors, level=95.0)
    with pytest.raises(ValueError, match=r"level: got 0;"):
        statistics.divergence_rate(np.array([True]), level=0.0)


# The paired sign test


@pytest.mark.parametrize("wins", range(31))
def test_a_side_chosen_after_looking_counts_twice(wins):
    """Fifteen wins of thirty are what a coin does: a p-value of 1, not of 0.57."""
    first, second = np.array([1.0] * wins + [3.0] * (30 - wins)), np.full(30, 2.0)
    found = statistics.sign_test(first, second, two_sided=True)
    tail = binomial_tail(max(wins, 30 - wins), 30)
    np.testing.assert_allclose(found["p_value"], min(1.0, 2 * tail), rtol=1e-12)
    turned = statistics.sign_test(second, first, two_sided=True)
    assert turned["p_value"] == pytest.approx(found["p_value"], rel=1e-12)


def binomial_tail(wins: int, count: int) -> float:
    """The chance of that many heads or more."""
    return sum(comb(count, k) for k in range(wins, count + 1)) / 2**count


@pytest.mark.parametrize(
    ("wins", "losses", "ties"), [(30, 0, 0), (20, 10, 0), (3, 5, 4), (0, 7, 1)]
)
def test_the_p_value_is_the_binomial_sum(wins, losses, ties):
    first = np.array([1.0] * wins + [3.0] * losses + [2.0] * ties)
    second = np.full(wins + losses + ties, 2.0)
    found = statistics.sign_test(first, second)
    assert (found["wins"], found["losses"]) == (wins, losses)
    assert found["runs"] == wins + losses + ties
    np.testing.assert_allclose(found["p_value"], binomial_tail(wins, wins + losses), rtol=1e-12)


def test_the_sign_test_pairs_runs_and_sees_no_sizes():
    first, second = np.array([1.0, 2.0, 3.0, 90.0]), np.array([2.0, 3.0, 4.0, 5.0])
    assert statistics.sign_test(first, second)["wins"] == 3
    swapped = statistics.sign_test(second, first)
    assert (swapped["wins"], swapped["losses"]) == (1, 3)
    assert swapped["p_value"] == 15 / 16


def test_infinite_errors_lose_and_two_of_them_are_a_tie():
    found = statistics.sign_test(np.array([1.0, INF, INF]), np.array([INF, 1.0, INF]))
    assert (found["wins"], found["losses"], found["runs"]) == (1, 1, 3)
    assert found["p_value"] == 0.75


def test_ties_alone_show_nothing():
    for value in (2.0, INF):
        same = np.full(5, value)
        assert statistics.sign_test(same, same)["p_value"] == 1.0


def test_a_nan_wins_no_comparison():
    found = statistics.sign_test(np.array([NAN, NAN]), np.array([1.0, INF]))
    assert (found["wins"], found["p_value"]) == (0, 1.0)
