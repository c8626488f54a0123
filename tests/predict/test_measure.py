"""Errors are those of what a learner says it estimates."""

import dataclasses

import numpy as np
import pytest

from emphatic import learners, predict, problems

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


@pytest.mark.parametrize(
    ("learner", "measure", "message"),
    [
        (learners.gem(0.1), "value", "gem estimates the emphasis: the measure is 'emphasis'"),
        (learners.td(0.1), "emphasis", "got 'emphasis', but etd estimates values"),
        (learners.gq2(0.1), "emphasis", "gq2 estimates action values"),
        (learners.constant(1.0), None, "constant does not say what it estimates; 'emphasis' or"),
        (
            dataclasses.replace(learners.gem(0.1), estimates="ratio"),
            None,
            "gem estimates the ratio, whose exact error is not known",
        ),
    ],
)
def test_a_measure_that_does_not_fit_is_refused(learner, measure, message):
    with pytest.raises(ValueError, match=message):
        predict.learning_curve(PROBLEM, learner, [1], measure=measure)
    with pytest.raises(ValueError, match=message):
        predict.limit(PROBLEM, learner, measure=measure)
    with pytest.raises(ValueError, match=message):
        predict.best_step_size(PROBLEM, lambda step_size: learner, 1, measure=measure)
