"""What is no pure function of its arguments, or no learner at all: one clear line each."""

import numpy as np
import pytest

from emphatic.conformance import assert_conforms, check

from .wrong import ALPHA, functions, predict_nu, TD, td

RIGHT = td()
GENERATOR = np.random.default_rng(0)
KEPT = {"rho": 1.0}


def changes_the_transition(d, y):
    y.x_next[:] *= y.discount
    return RIGHT.step(d, y)


def changes_the_state(d, y):
    d["nu"] += ALPHA * y.rho * (y.reward + y.discount * y.x_next @ d["nu"] - y.x @ d["nu"]) * y.x
    return d


def forgets_to_return(d, y):
    RIGHT.step(d, y)


def returns_a_column(d, y):
    return {"nu": RIGHT.step(d, y)["nu"][:, None] + np.zeros(len(y.x))}


def raises(d, y):
    return {"nu": RIGHT.step(d, y)["nu"] + 0 * (1 / y.rho)}


def keeps_hidden_state(d, y):
    rho, KEPT["rho"] = KEPT["rho"], y.rho
    return RIGHT.step(d, y._replace(rho=rho))


def draws_random_numbers(d, y):
    return {"nu": RIGHT.step(d, y)["nu"] + 1e-9 * GENERATOR.normal(size=len(y.x))}


def init_with_another_name(weights):
    return {"nu": weights["theta"]}


class NoPredict:
    """A class that lacks a method."""

    def __init__(self, weights):
        self.nu = weights["nu"]

    def step(self, y):
        self.nu = self.nu + y.x


class HiddenInTheClass:
    """A class whose objects share what they have learned."""

    shared = np.zeros(3)

    def __init__(self, weights):
        self.shared[:] = 0.5 * (self.shared + weights["nu"])

    def step(self, y):
        self.shared[:] = RIGHT.step({"nu": self.shared}, y)["nu"]

    def predict(self, y):
        return y.x @ self.shared


BAD = {
    "changes its arguments": (
        functions(changes_the_transition, predict_nu),
        "step changes the transition, which is read-only",
    ),
    "changes its state": (
        functions(changes_the_state, predict_nu),
        "step changes the state that it is given; return a new one",
    ),
    "returns nothing": (functions(forgets_to_return, predict_nu), "step returns None"),
    "returns another shape": (
        functions(returns_a_column, lambda d, y: float(y.x @ np.atleast_2d(d["nu"])[0])),
        "step changes the shape of nu from (3,) to (3, 3)",
    ),
    "predicts an array": (
        functions(RIGHT.step, lambda d, y: y.x[None] @ d["nu"]),
        "predict returns an array of shape (1,); a number is required",
    ),
    "predicts a text": (
        functions(RIGHT.step, lambda d, y: "much"),
        "predict returns 'str'; a number is required",
    ),
    "raises": (
        functions(raises, predict_nu),
        "step raises ZeroDivisionError: float division by zero (step",
    ),
    "keeps hidden state": (functions(keeps_hidden_state, predict_nu), "keeps hidden state"),
    "is random": (functions(draws_random_numbers, predict_nu), "keeps hidden state or is random"),
    "shares its state": (HiddenInTheClass, "hidden state"),
    "asks for another name": (
        functions(RIGHT.step, predict_nu, init_with_another_name),
        "init raises KeyError: 'theta'; the weights are nu (3,)",
    ),
    "lacks a method": (NoPredict, "lacks step(y) or predict(y)"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_pure_function_gets_a_verdict_of_one_line(name):
    learner, words = BAD[name]
    verdict = check(learner, TD)
    assert not verdict.conforms
    assert words in verdict.reason
    assert "\n" not in verdict.reason


def test_what_becomes_nan_is_no_conforming_learner():
    def step(d, y):
        return {"nu": RIGHT.step(d, y)["nu"] * (np.nan if y.time == 7 else 1.0)}

    verdict = check(functions(step, predict_nu), TD)
    assert "predicts nan, not" in verdict.reason
    assert "after 8 steps" in verdict.reason


def test_a_difference_without_a_name_is_placed():
    """The reward is wrong where rho is above 1, which is no slip of the catalogue."""

    def step(d, y):
        return RIGHT.step(d, y._replace(reward=y.reward + 0.1 * (y.rho > 1)))

    verdict = check(functions(step, predict_nu), TD)
    assert verdict.slips == ()
    assert verdict.place == "Differences begin only where rho is above 1."


@pytest.mark.parametrize(
    ("learner", "claim", "message"),
    [
        (3, TD, "learner: 'int' has no functions init, step and predict"),
        (RIGHT, "td", "as: td lacks step_size, as in td"),
        (RIGHT, "tdd(0.1)", "did you mean 'td'"),
        (RIGHT, "td(-0.1)", "as: td: step_size"),
        ("no_such_module", TD, "cannot be imported: ModuleNotFoundError"),
        ("json:lods", TD, "did you mean 'loads'"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(learner, claim, message):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        check(learner, claim)
    assert message in str(error.value)


def test_the_assertion_says_what_the_verdict_says():
    assert_conforms(RIGHT, TD)
    wrong = functions(keeps_hidden_state, predict_nu)
    with pytest.raises(AssertionError, match="does not conform\n  step gives two results"):
        assert_conforms(wrong, TD)
