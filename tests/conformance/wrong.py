"""Learners in NumPy as people write them, each with a slip, and what it must be found to be."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

ALPHA, ETA = 0.1, 0.3


class Wrong(NamedTuple):
    """A claim, a learner that does not meet it, and words that name its slip."""

    claim: str
    learner: SimpleNamespace
    words: str


def functions(step: Any, predict: Any, init: Any = dict) -> SimpleNamespace:
    return SimpleNamespace(init=init, step=step, predict=predict)


def predict_nu(d, y):
    return y.x @ d["nu"]


def predict_w(d, y):
    return y.x @ d["w"]


def predict_u(d, y):
    return y.xa @ d["u"]


# Each function takes what may be wrong about it.


def td(rho=lambda y: y.rho, gamma=lambda y: y.discount, alpha=ALPHA, update=None):
    def step(d, y):
        delta = y.reward + gamma(y) * (y.x_next @ d["nu"]) - y.x @ d["nu"]
        return {"nu": d["nu"] + alpha * rho(y) * delta * y.x}

    return functions(update or step, predict_nu)


def tdc(in_kappa: str | None = "rho", in_nu="rho", sign=-1.0, decay=1.0, order="old"):
    def step(d, y):
        kappa, nu = d["kappa"], d["nu"]
        delta = y.reward + y.discount * (y.x_next @ nu) - y.x @ nu
        ratio = 1.0 if in_kappa is None else getattr(y, in_kappa)
        new = kappa + ALPHA * (ratio * delta - decay * (y.x @ kappa)) * y.x
        used = new if order == "new" else kappa
        pull = delta * y.x + sign * y.discount * y.x_next * (y.x @ used)
        return {"kappa": new, "nu": nu + ALPHA * getattr(y, in_nu) * pull}

    return functions(step, predict_nu)


def gem(order="old", ridge=ETA, terminal=None, wiped=False, gamma=lambda d, y: y.discount):
    def init(weights):
        return {**weights, "gamma": 1.0}

    def step(d, y):
        kappa, w = d["kappa"], d["w"]
        x_next = y.x_next if y.discount or terminal is None else np.full_like(y.x, terminal)
        back = gamma(d, y) * y.rho
        delta = y.interest_next + back * (y.x @ w) - x_next @ w
        new = kappa + ALPHA * (delta - x_next @ kappa) * x_next
        used = new if order == "new" else kappa
        w = w + ALPHA * ((x_next - back * y.x) * (x_next @ used) - ridge * w)
        return {"kappa": new, "w": 0 * w if wiped and not y.discount else w, "gamma": y.discount}

    return functions(step, predict_w, init)


def gq2(xa_next=lambda y: y.xa_next, rho_next=lambda y: y.rho_next):
    def step(d, y):
        kappa, u, back = d["kappa"], d["u"], y.discount * rho_next(y)
        delta = y.reward + back * (xa_next(y) @ u) - y.xa @ u
        return {
            "kappa": kappa + ALPHA * (delta - y.xa @ kappa) * y.xa,
            "u": u + ALPHA * ((y.xa - back * xa_next(y)) * (y.xa @ kappa) - ETA * u),
        }

    return functions(step, predict_u)


def next_action_here(y):
    """The features of the next action in this state."""
    return np.concatenate([bool(block.any()) * y.x for block in y.xa_next.reshape(-1, len(y.x))])


def followon(trace):
    """A trace that keeps its last step: M_t from the state and the transition."""

    def step(d, y):
        return {"M": trace(d, y), "rho": y.rho, "gamma": y.discount, "begun": True}

    def init(weights):
        return {"M": 0.0, "rho": 0.0, "gamma": 0.0, "begun": False}

    return functions(step, trace, init)


def etd(gamma):
    """ETD whose trace takes another discount."""

    def step(d, y):
        M = d["emphasis.terms"] + y.interest
        delta = y.reward + y.discount * (y.x_next @ d["nu"]) - y.x @ d["nu"]
        return {
            "emphasis.terms": gamma(y) * y.rho * M,
            "nu": d["nu"] + ALPHA * M * y.rho * delta * y.x,
        }

    return functions(step, predict_nu)


def etq(d, y):
    """The action-value analogue of ETD(1), which accumulates after the update."""
    M = y.interest + d["interest.terms"]
    delta = y.reward + y.discount * y.rho_next * (y.xa_next @ d["u"]) - y.xa @ d["u"]
    old = y.rho * d["trace"]
    return {
        "interest.terms": y.discount * y.rho * M,
        "trace": y.discount * (old + M * y.xa),
        "u": d["u"] + ALPHA * delta * old,
    }


def with_problem(table):
    """ETD with a table of the problem for its emphasis."""

    def init(weights, problem):
        return {"nu": weights["nu"], "m": table(problem)}

    def step(d, y):
        delta = y.reward + y.discount * (y.x_next @ d["nu"]) - y.x @ d["nu"]
        return {"m": d["m"], "nu": d["nu"] + ALPHA * d["m"][y.state] * y.rho * delta * y.x}

    return functions(step, predict_nu, init)


def wrong_emphasis(problem):
    """The inverse of the operator of values, not of its transpose."""
    P = np.einsum("sa,sat->st", problem.target, problem.mdp.dense_discounted())
    return np.linalg.solve(np.eye(len(P)) - P, problem.interest)


def swapped_ratios():
    """TD with the ratio of the next action in the list."""

    def init(weights, problem):
        return {"nu": weights["nu"], "table": problem.target / problem.behavior}

    def step(d, y):
        row = d["table"][y.state]
        action = int(np.abs(y.xa).reshape(len(row), -1).sum(1).argmax())
        delta = y.reward + y.discount * (y.x_next @ d["nu"]) - y.x @ d["nu"]
        rho = row[(action + 1) % len(row)]
        return {"table": d["table"], "nu": d["nu"] + ALPHA * rho * delta * y.x}

    return functions(step, predict_nu, init)


def with_error(error):
    """A right TD that plots a wrong error."""
    learner = td()
    learner.error = error
    return learner


def broadcast_error(d, problem):
    from emphatic import oracle

    values, estimates = oracle.values(problem)[:, None], problem.x @ d["nu"][:, None]
    return np.sqrt(np.sum(problem.stationary * (values - estimates) ** 2))


def broadcast_difference(d, problem):
    from emphatic import oracle

    difference = oracle.values(problem) - problem.x @ d["nu"][:, None]
    return np.sqrt(np.sum(problem.stationary * difference**2))


GEM = f"gem({ALPHA}, {ETA})"
GQ2 = f"gq2({ALPHA}, {ETA})"
TDC, TD = f"tdc({ALPHA})", f"td({ALPHA})"

WRONG = {
    "ratio of the wrong step, in a trace": Wrong(
        "followon()",
        followon(lambda d, y: y.interest + d["gamma"] * y.rho * d["M"]),
        "`rho_next` in place of `rho`",
    ),
    "next ratio": Wrong(
        TDC, tdc(in_nu="rho_next"), "`rho_next` in place of `rho`, in the update of nu"
    ),
    "discount of the wrong step": Wrong(
        GEM, gem(gamma=lambda d, y: d["gamma"]), "the last step's `discount`"
    ),
    "discount of the wrong step, in a trace": Wrong(
        "followon()",
        followon(lambda d, y: y.interest + y.discount * d["rho"] * d["M"]),
        "the next step's `discount`",
    ),
    "mask one step late": Wrong(
        "followon()",
        followon(
            lambda d, y: (
                y.interest + bool(y.discount) * (d["gamma"] or d["begun"]) * d["rho"] * d["M"]
            )
        ),
        "ends of episodes one step early",
    ),
    "weights wiped": Wrong(GEM, gem(wiped=True), "w wiped at the ends of episodes"),
    "new kappa, in GEM": Wrong(GEM, gem("new"), "the new kappa instead of the old"),
    "new kappa, in TDC": Wrong(TDC, tdc(order="new"), "the new kappa instead of the old"),
    "ratio twice": Wrong(TD, td(lambda y: y.rho**2), "`rho` twice: its square"),
    "ratio inverted": Wrong(TD, td(lambda y: np.divide(1, y.rho)), "1/rho in place of `rho`"),
    "ratio clipped": Wrong(TD, td(lambda y: min(y.rho, 1.0)), "`rho` clipped at 1"),
    "ratios swapped between actions": Wrong(TD, swapped_ratios(), "`rho` of another action"),
    "no ratio": Wrong(TDC, tdc(in_kappa=None), "no `rho`: 1 in its place, in the update of kappa"),
    "next action at the wrong state": Wrong(
        GQ2, gq2(next_action_here), "`xa_next`: the next action taken at the wrong state"
    ),
    "no next ratio": Wrong(GQ2, gq2(rho_next=lambda y: 1.0), "no `rho_next`: 1 in its place"),
    "next features of the terminal state are 0": Wrong(
        GEM, gem(terminal=0.0), "0 for `x_next` at the ends of episodes"
    ),
    "next features of the terminal state are kept": Wrong(
        TD, td(gamma=lambda y: y.discount or 1.0), "ends of episodes ignored"
    ),
    "trace not reset": Wrong(
        f"etd(followon(), {ALPHA})",
        etd(lambda y: y.discount or 1.0),
        "ends of episodes ignored: `discount` is not 0 there, in the update of emphasis.terms",
    ),
    "accumulated after the update": Wrong(
        f"etq(followon(), {ALPHA})",
        functions(etq, predict_u),
        "without the term `M * y.xa`, in the update of u",
    ),
    "the inverse of the right operator": Wrong(
        f"etd(exact(emphasis), {ALPHA})", with_problem(wrong_emphasis), "values, not an emphasis"
    ),
    "no interest": Wrong(
        "followon()",
        followon(lambda d, y: 1.0 + d["gamma"] * d["rho"] * d["M"]),
        "no `interest`: 1 in its place",
    ),
    "sign": Wrong(TDC, tdc(sign=1.0), "with the other sign of `x_ahead * correction`"),
    "no correction": Wrong(TDC, tdc(sign=0.0), "without the term `x_ahead * correction`"),
    "no decay of kappa": Wrong(TDC, tdc(decay=0.0), "without the term `y.x @ kappa`"),
    "no ridge": Wrong(GEM, gem(ridge=0.0), "no ridge: 0"),
    "ridge without the step size": Wrong(
        GEM, gem(ridge=ETA / ALPHA), "the ridge not multiplied by the step_size"
    ),
    "step size twice": Wrong(TD, td(alpha=ALPHA**2), "the step_size twice: its square"),
}
