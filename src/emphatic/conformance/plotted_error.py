"""The error that an implementation plots, beside the exact one."""

from dataclasses import replace
from typing import Any

import numpy as np

from .. import oracle
from ..types import Estimand
from .implementation import advance, begin, FaultError, Implementation, predict, tolerant
from .iterates import Ours

TRUTH = {
    "emphasis": oracle.emphasis,
    "values": oracle.values,
    "action_values": oracle.action_values,
}


def check_error(theirs: Implementation, ours: Ours) -> str | None:
    """Says what is wrong with the error of an implementation: $\\|\\hat v - v\\|_D$, if anything.

    The slips are those of broadcasting, of a missing distribution, and of a missing root.
    """
    estimates: Estimand | None = ours.learner.estimates
    if theirs.error is None or estimates not in TRUTH:
        return None
    problem = ours.trial.problem
    with tolerant():
        try:
            state = begin(theirs, ours.trial, ours.weights)
            state = advance(theirs, state, ours.trial.streams[0][0])
            plotted = theirs.error(state, problem)
            predictions = _predictions(theirs, state, ours, estimates)
        except FaultError as fault:
            return str(fault)
        except Exception as error:
            return f"error raises {type(error).__name__}: {error}"
    shape = tuple(getattr(plotted, "shape", ()))
    if shape != ():
        return f"error returns an array of shape {shape}; a number is required"
    truth = np.asarray(TRUTH[estimates](problem)).ravel()
    d = problem.stationary_actions.ravel() if estimates == "action_values" else problem.stationary
    difference = predictions - truth
    right = np.sqrt(d @ difference**2)
    if abs(float(plotted) - right) <= 1e-5 * right:
        return None
    for words, wrong in _slips(d, predictions, truth):
        if abs(float(plotted) - wrong) <= 1e-5 * wrong:
            return f"error is {float(plotted):.4g} where {right:.4g} is right: {words}"
    return f"error is {float(plotted):.4g} where {right:.4g} is right"


def _slips(d: np.ndarray, v: np.ndarray, truth: np.ndarray) -> list[tuple[str, float]]:
    """Returns wrong errors, in words and in numbers."""
    square, n = (v - truth) ** 2, len(d)
    pairs = (v[:, None] - truth) ** 2
    return [
        (
            "no distribution, as where (states,) times (states, 1) broadcasts to a matrix; that is "
            f"sqrt({n}) times too large if the distribution is uniform",
            np.sqrt(square.sum()),
        ),
        ("(states,) times (states, 1) broadcasts to a matrix, whose mean is taken", 0.0),
        ("values minus values broadcast to a matrix of all pairs", np.sqrt((pairs @ d).sum())),
        ("values minus values broadcast to a matrix of all pairs", np.sqrt((d @ pairs).sum())),
        ("values minus values broadcast to a matrix of all pairs", np.sqrt(pairs.mean())),
        ("all states count alike, not by the distribution", np.sqrt(square.mean())),
        ("the root is missing", d @ square),
        ("the root is missing, and all states count alike", square.mean()),
        ("the root is missing, and the distribution", square.sum()),
        ("the absolute error, not the root of the mean square", d @ np.sqrt(square)),
        ("divided by the number of states once more", np.sqrt(d @ square / n)),
    ]


def _predictions(theirs: Implementation, state: Any, ours: Ours, estimates: Estimand) -> np.ndarray:
    """Returns the predictions in all states, or for all pairs of states and actions."""
    x, xa = ours.trial.problem.dense_features
    y = ours.trial.streams[0][0]
    if estimates == "action_values":
        rows = [replace(y, xa=row) for row in xa.reshape(-1, xa.shape[-1])]
    else:
        rows = [replace(y, x=row, state=s) for s, row in enumerate(x)]
    return np.array([predict(theirs, state, row) for row in rows])
