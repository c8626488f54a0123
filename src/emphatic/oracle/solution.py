"""All exact quantities of a problem at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _checks as checks
from . import oracle
from .mdp import Problem
from .oracle.systems import weighted_norm

NOISE = 1e-12  # the smallest d_mu(s) at which a division by it is believed
LARGE = 20_000  # states above which what needs thousands of passes is left out
LEARNERS = {
    "gem_system": ("GEM", "emphasis"),
    "gq2_system": ("GQ2", "action_values"),
    "gtd2_system": ("GTD2", "values"),
    "tdc_system": ("TDC", "values"),
    "etd_system": ("ETD(0)", "values"),
    "td_system": ("TD(0)", "values"),
    "reverse_td_system": ("reversed TD(0)", "emphasis"),
}
"""The linear learners: the oracle's system, the name, and the function that is estimated."""


@dataclass(frozen=True)
class FixedPoint:
    """Where a linear learner settles, how far that is from the truth, and whether it gets there."""

    solution: np.ndarray
    """The fixed point of the mean field (the shortest one, if there are several)."""
    unique: bool
    """Whether the mean matrix is nonsingular."""
    error: float
    """The distance from its estimate to the exact function, in the norm of the behaviour."""
    slowest: float | None
    """The smallest real part of an eigenvalue of the mean matrix: below 0 the learner diverges."""


def _fixed_point(problem: Problem, system: oracle.LinearSystem, truth) -> FixedPoint:
    features = problem.xa_rows if truth.ndim == 2 else problem.x
    weight = (problem.stationary_actions if truth.ndim == 2 else problem.stationary).ravel()
    try:
        solution, unique = system.solution(), True
    except ValueError:
        solution, unique = system.least_norm_solution(), False
    estimate = features @ solution[-features.shape[1] :]
    error = weighted_norm(weight, estimate - truth.ravel())
    return FixedPoint(solution, unique, error, system.slowest_mode())


def solve(
    problem: Problem, target: ArrayLike | None = None, ridge: float = 0.0
) -> tuple[dict[str, Any], list[str]]:
    """Every exact quantity of a problem, keyed by the name of the oracle's function.

    Where $d_\\mu(s)$ is below 1e-12, a division by it gives noise: what needs one is NaN there,
    and a note says so. What would take too long for the size is left out, and a note says that
    too.

    **Arguments:**

    - `problem`: The problem.
    - `target`: The target policy; by default the problem's own.
    - `ridge`: The ridge $\\eta$ of GEM and GQ2.

    **Returns:**

    The quantities (linear systems as [FixedPoint]), and notes.
    """
    checks.ridge(ridge)
    target = problem.require_target(target)
    d, notes = oracle.stationary(problem), []
    values, m = oracle.values(problem, target), oracle.emphasis(problem, target)
    q = oracle.action_values(problem, target)
    exact: dict[str, Any] = {
        "stationary": d,
        "values": values,
        "action_values": q,
        "emphasis": m,
        "density_ratio": oracle.density_ratio(problem, target),
        "objective": oracle.objective(problem, target),
        "followon_variance": oracle.followon_variance(problem, target),
        "contraction": oracle.contraction(problem, target),
    }
    if len(d) <= LARGE:
        exact["followon_radius"] = oracle.followon_radius(problem, target)
        exact["truncation_length"] = oracle.truncation_length(problem, target)
    else:
        notes.append(f"more than {LARGE} states: no followon_radius, no truncation_length")
    for name, (_, truth) in LEARNERS.items():
        arguments = (ridge,) if name in ("gem_system", "gq2_system") else ()
        try:
            system = getattr(oracle, name)(problem, target, *arguments)
            exact[name] = _fixed_point(problem, system, exact[truth])
        except ValueError as error:
            notes.append(f"{name}: {error}")
    rare = d < NOISE
    if rare.any():
        notes.append(
            f"d is below {NOISE:g} at {rare.sum()} states (smallest {d.min():.3g}): emphasis, "
            "density_ratio and followon_variance are noise there and not shown"
        )
        for name in ("emphasis", "density_ratio", "followon_variance"):
            exact[name] = np.where(rare, np.nan, exact[name])
    return exact, notes
