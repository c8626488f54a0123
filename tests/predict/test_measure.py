"""Errors are those of what a learner says it estimates."""

import dataclasses

import numpy as np
import pytest

from emphatic import learners, oracle, predict, problems

PROBLEM = problems.random_walk()


def test_the_curve_of_a_value_learner_is_its_value_error_without_being_told():
    plain = predict.learning_curve(PROBLEM, learners.tdc(0.03), [0, 100])
    told = predict.learning_curve(PROBLEM, learners.tdc(0.03), [0, 100], measure="value")
    np.testing.assert_array_equal(plain.rmse, told.rmse)
    unnamed = dataclasses.replace(learners.tdc(0.03), estimates=None)
    other = predict.learning_curve(PROBLEM, unnamed, [0, 100], measure="emphasis")
    assert (other.rmse != plain.rmse).all()
    settled = predict.limit(PROBLEM, learners.tdc(0.03))
    assert settled.rmse == predict.limit(PROBLEM, learners.tdc(0.03), measure="value").rmse
    best = predict.best_step_size(PROBLEM, learners.td, 50)
    assert best == predict.best_step_size(PROBLEM, learners.td, 50, measure="value")


def test_the_curve_of_an_emphasis_learner_is_its_emphasis_error():
    plain = predict.learning_curve(PROBLEM, learners.gem(0.03), [100])
    told = predict.learning_curve(PROBLEM, learners.gem(0.03), [100], measure="emphasis")
    assert plain.rmse == told.rmse


def test_the_curve_of_a_learner_of_the_ratio_is_its_distance_from_it():
    """Simulated, too; and one that says nothing of its discount has the problem's own ratio."""
    learner, problem = learners.gradient_dice(0.1, 0.5), problems.random_walk("dependent")
    times, errors = predict.simulate(problem, learner, 60, 400)
    exact = predict.learning_curve(problem, learner, times)
    np.testing.assert_allclose(errors[[9, -1]], exact.rmse[[9, -1]], rtol=0.15)
    w, truth = exact.mean[0][-3:], oracle.density_ratio(problem, discount=0.5)
    error = np.einsum("s,s->", problem.stationary, (problem.x @ w - truth) ** 2)
    spread = problem.x @ exact.covariance[0][-3:, -3:] @ problem.x.T
    error += problem.stationary @ spread.diagonal()
    np.testing.assert_allclose(exact.rmse[0] ** 2, error, rtol=1e-9)
    tabular = dataclasses.replace(problem, x=np.eye(5))
    unnamed = dataclasses.replace(learners.gem(1e-3), estimates=None)
    ratio = oracle.density_ratio(tabular)
    initial = np.append(np.zeros(5), ratio)
    curve = predict.learning_curve(tabular, unnamed, [0], measure="ratio", initial=initial)
    np.testing.assert_allclose(curve.rmse, 0.0, atol=1e-7)


@pytest.mark.parametrize(
    ("learner", "measure", "message"),
    [
        (learners.gem(0.1), "value", "gem estimates the emphasis: the measure is 'emphasis'"),
        (learners.td(0.1), "emphasis", "got 'emphasis', but td estimates values"),
        (learners.gq2(0.1), "emphasis", "gq2 estimates action values"),
        (learners.constant(1.0), None, "constant does not say what it estimates; 'emphasis', "),
        (learners.cop_td(0.1, 0.9), "emphasis", "estimates the ratio: the measure is 'ratio'"),
    ],
)
def test_a_measure_that_does_not_fit_is_refused(learner, measure, message):
    with pytest.raises(ValueError, match=message):
        predict.learning_curve(PROBLEM, learner, [1], measure=measure)
    with pytest.raises(ValueError, match=message):
        predict.limit(PROBLEM, learner, measure=measure)
    with pytest.raises(ValueError, match=message):
        predict.best_step_size(PROBLEM, lambda step_size: learner, 1, measure=measure)
