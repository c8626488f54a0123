"""Conclusions from runs, worked out by hand: divergence is infinite, and a NaN never wins."""

from math import comb

import numpy as np
import pytest
import xarray
from hypothesis import given
from hypothesis import strategies as st

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
    assert statistics.best(np.array(errors)) == place


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1.0, 2.5, 7.0, INF, NAN]), min_size=3, max_size=3),
        min_size=1,
        max_size=6,
    )
)
def test_what_diverged_wins_only_where_everything_did(rows):
    errors = np.array(rows)
    place = statistics.best(errors)
    whole = [n for n, row in enumerate(rows) if np.isfinite(row).all()]
    if whole:
        assert place in whole
        assert sum(rows[place]) == min(sum(rows[n]) for n in whole)
    else:
        lost = (~np.isfinite(errors)).sum(axis=1)
        assert lost[place] == lost.min()


# Spread


def test_the_spread_is_the_standard_deviation_of_a_sample():
    errors = np.array([[1.0, 3.0], [2.0, 2.0], [INF, 1.0], [NAN, 1.0], [INF, INF]])
    assert statistics.spread(errors).tolist() == [np.sqrt(2.0), 0.0, INF, INF, INF]


def test_one_run_has_no_spread():
    assert float(statistics.spread(np.array([4.0]))) == 0.0
    assert float(statistics.spread(np.array([INF]))) == INF


# The paired sign test


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
