"""What is no pure function of its arguments, or no learner at all."""

from dataclasses import replace

import numpy as np

from .wrong import ALPHA, functions, predict_nu, td

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
    return RIGHT.step(d, replace(y, rho=rho))


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
