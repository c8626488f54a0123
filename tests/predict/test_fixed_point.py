"""Limits of learners from their own step, beside those of the oracle's linear systems."""

from functools import cache

import numpy as np
import pytest

from emphatic import learners, MDP, oracle, predict, Problem, problems
from emphatic.oracle.solution import solve

PROBLEM = problems.baird(features="aliased", solid=0.1)
EXPRESSIONS = {
    "gem_system": "gem(step_size, 1e-2)",
    "gq2_system": "gq2(step_size, 1e-2)",
    "gtd2_system": "gtd2(step_size)",
    "tdc_system": "tdc(0.1)",
    "td_system": "td",
    "etd_system": "etd(exact(emphasis), step_size)",
    "reverse_td_system": "reverse_td(step_size)",
    "tdec_system": "tdec(step_size)",
    "tderc_system": "tderc(step_size)",
    "cop_td_system": "cop_td(step_size, 0.8)",
    "gradient_cop_td_system": "gradient_cop_td(step_size, 0.8, 1e-2)",
    "gradient_dice_system": "gradient_dice(step_size, 0.8, 1e-2)",
}


PROBLEMS = {
    "baird": lambda: PROBLEM,
    "random walk": problems.random_walk,
    "garnet": lambda: problems.garnet(seed=3),
}


@cache
def solved(name):
    """A problem and all that the oracle knows of it."""
    problem = PROBLEMS[name]()
    return problem, solve(problem, ridge=1e-2, ratio_discount=0.8)[0]


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize(
    "label", ["baird", pytest.param("random walk", marks=pytest.mark.slow), "garnet"]
)
def test_the_mean_field_of_a_step_leads_where_the_oracle_says(name, label):
    problem, exact = solved(label)
    expected = exact[name]
    point = predict.fixed_point(problem, EXPRESSIONS[name])
    assert point.unique == expected.unique
    np.testing.assert_allclose(point.solution, expected.solution, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(point.error, expected.error, rtol=1e-7, atol=1e-7)
    assert point.slowest == pytest.approx(expected.slowest, rel=1e-7, abs=1e-11)
    assert point.estimates == expected.estimates


def test_where_the_mean_matrix_is_singular_it_is_said_and_nothing_is_made_up():
    """Two states, features 1 and 2, where the mean matrix of TD cancels and its vector not."""
    transition, ones = np.zeros((2, 2, 2)), np.ones((2, 2, 2))
    transition[:, [0, 1], [0, 1]] = 1.0
    behavior, target = np.array([[1 / 3, 2 / 3]] * 2), np.array([[0.0, 1.0]] * 2)
    x = np.array([[1.0], [2.0]])
    problem = Problem(MDP(transition, ones, 0.9), behavior, 1.0, x, target=target)
    for text, name in (("td", "td_system"), ("reverse_td", "reverse_td_system")):
        for point in (predict.fixed_point(problem, text), solve(problem)[0][name]):
            assert not point.unique
            assert (point.error, point.slowest, *point.solution) == (np.inf, 0.0, 0.0)
            assert point.row[-1] == "singular: no fixed point"
    for text in ("gtd2", "tdc", "tdc(step_size, 0.1)", "gem"):
        point = predict.fixed_point(problem, text)
        assert not point.unique
        assert point.row[-1] == "singular: least norm"
        np.testing.assert_allclose(point.solution, [5 / 9, 0.0], atol=1e-12)
    assert predict.fixed_point(problem, "gem(step_size, 1e-3)").unique


@pytest.mark.parametrize("learner", ["tdc(0.1, 1e-3)", "tdc(0.1, 1e3)"])
def test_step_sizes_of_other_weights_cost_no_digits_of_a_limit_that_is_not_unique(learner):
    problem = problems.baird(features="original", solid=0.1)
    point, expected = predict.fixed_point(problem, learner), solve(problem)[0]["tdc_system"]
    assert (point.unique, point.slowest) == (False, None)
    np.testing.assert_allclose(point.solution, expected.solution, rtol=1e-8, atol=1e-6)


def test_a_function_from_step_sizes_is_taken_as_an_expression_is():
    text, made = "gem(step_size, 1e-3)", lambda step_size: learners.gem(step_size, 1e-3)
    assert predict.fixed_point(PROBLEM, text).error == predict.fixed_point(PROBLEM, made).error


def test_the_target_is_that_of_exact_quantities_too():
    text, target = "etd(exact(emphasis), step_size)", PROBLEM.behavior
    limit = predict.fixed_point(PROBLEM, text, target=target).solution
    system = oracle.etd_system(PROBLEM, target)
    np.testing.assert_allclose(limit, system.solution(), rtol=1e-9)


def test_the_slowest_mode_depends_on_other_step_sizes_and_is_then_not_given():
    alone = predict.fixed_point(PROBLEM, "tdc(step_size)")
    apart = predict.fixed_point(PROBLEM, "tdc(step_size, 0.1)")
    assert alone.slowest is not None
    assert apart.slowest is None
    np.testing.assert_allclose(apart.solution, alone.solution, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("followon()", r"followon\(\) has no step size"),
        ('gem("1/t")', r"has no step size"),
        ("pgtd2(step_size)", "where pgtd2 settles depends on the step size"),
        ("lstd()", "has no step size"),
        ("ratio(lsgem(1.0), 0.9)", "has no step size"),
        ("gme(step_size)", "did you mean 'gem'"),
    ],
)
def test_what_has_no_exact_limit_is_refused_with_the_reason(text, message):
    with pytest.raises(ValueError, match=message):
        predict.fixed_point(PROBLEM, text)


def test_predictions_take_expressions_in_the_place_of_learners():
    times, gem = [0, 100], learners.gem(0.025)
    curve = predict.learning_curve(PROBLEM, "gem(0.025)", times)
    np.testing.assert_array_equal(curve.rmse, predict.learning_curve(PROBLEM, gem, times).rmse)
    assert predict.limit(PROBLEM, "gem(0.025)").rmse == predict.limit(PROBLEM, gem).rmse
    by_text = predict.lyapunov(PROBLEM, "gem(0.025)", num_steps=100, num_chains=2)
    assert by_text == predict.lyapunov(PROBLEM, gem, num_steps=100, num_chains=2)
    walk = problems.random_walk()
    assert predict.thresholds(walk, "td(step_size)") == predict.thresholds(walk, learners.td)
    best = predict.best_step_size(walk, "td", 50)
    assert best == predict.best_step_size(walk, learners.td, 50)
    with pytest.raises(ValueError, match=r"learner: gem lacks step_size, as in gem\(0.025\)"):
        predict.learning_curve(PROBLEM, "gem", times)
