"""All exact quantities of a problem at once."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .. import _validation as checks
from ..mdp import Problem
from ..types import Estimand
from .chain import action_values, contraction, density_ratio, emphasis, objective, values
from .followon import followon_radius, followon_variance, truncation_length
from .linear import LinearSystem, weighted_norm
from .ratio_systems import choose_discount
from .systems import SYSTEMS

NOISE = 1e-12  # the smallest d_mu(s) at which a division by it is believed
ROUNDING = 1e-9  # errors below it are shown as 0
RESIDUAL = 1e-8  # relative to the vector, of a system that has a solution
SYMBOLS: dict[Estimand, str] = {"emphasis": "m", "values": "v", "action_values": "q", "ratio": "c"}
MOST_STATES = 64  # that a table lists one by one
LARGE = 20_000  # states above which what needs thousands of passes is left out
LONG = 1e5  # discounted steps above which what passes through each is left out


@dataclass(frozen=True)
class FixedPoint:
    """The fixed point of a linear learner, its distance from the truth, and its stability."""

    solution: Float[np.ndarray, " n"]
    """The fixed point of the mean field (the shortest one, if there are several; the nearest to
    one, if there is none)."""
    unique: bool
    """Whether the mean matrix is nonsingular."""
    error: float
    """The distance from its estimate to the exact function, in the norm of the behaviour; infinite
    if there is no fixed point, so that the weights drift for ever."""
    slowest: float | None
    """The smallest real part of an eigenvalue of the mean matrix: below 0 the learner diverges."""
    estimates: Estimand = field(repr=False)
    """The exact function that the learner estimates."""
    label: str = field(repr=False)
    """The learner's name in tables."""
    variance: float | None = None
    """The variance of its estimate in the long run for each unit of a small step size, where it is
    known: that of a mean square error, which adds to the square of the error."""

    @property
    def row(self) -> tuple[str, str, float, float | None, str]:
        """A row of a table: label, symbol of the estimand, error, slowest mode, and a remark."""
        diverges = self.slowest is not None and self.slowest < 0
        singular = "least norm" if np.isfinite(self.error) else "no fixed point"
        remarks = ["diverges"] * diverges + [f"singular: {singular}"] * (not self.unique)
        error = self.error if self.error >= ROUNDING else 0.0
        return self.label, SYMBOLS[self.estimates], error, self.slowest, "; ".join(remarks)


def settle(system: LinearSystem) -> tuple[Float[np.ndarray, " n"], bool, bool]:
    """Returns the fixed point of a mean field, whether it is unique, and whether there is one."""
    try:
        return system.solution(), True, True
    except ValueError:
        nearest = system.least_norm_solution()
    residual, size = np.linalg.norm(system.drift(nearest)), np.linalg.norm(system.vector)
    return nearest, False, bool(residual <= RESIDUAL * size)


def _fixed_point(
    problem: Problem, system: LinearSystem, truth: Float[np.ndarray, "s *a"], estimates: Estimand
) -> FixedPoint:
    has_actions = estimates == "action_values"
    features = problem.xa_rows if has_actions else problem.x
    weight = (problem.stationary_actions if has_actions else problem.stationary).ravel()
    solution, unique, exists = settle(system)
    estimate = features @ solution[-features.shape[1] :]
    error = weighted_norm(weight, estimate - truth.ravel()) if exists else np.inf
    return FixedPoint(solution, unique, error, system.slowest_mode(), estimates, system.label)


def solve(
    problem: Problem,
    target: ArrayLike | None = None,
    ridge: float = 0.0,
    trace_decay: float = 0.0,
    ratio_discount: float | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Computes every exact quantity of a problem, keyed by the name of the oracle's function.

    Where $d_\\mu(s)$ is below 1e-12, a division by it gives noise: what needs one is NaN there,
    and a note says so. What would take too long for the size is left out, and a note says that
    too. Returns the quantities, linear systems as [FixedPoint] (with the ridge $\\eta$, those with
    a trace with its decay $\\lambda$, which is also the $\\zeta$ of ABTD, and those of density
    ratios with their discount, by default the problem's or 0.9), and the notes.
    """
    checks.ridge(ridge)
    checks.probability("trace_decay", trace_decay, "a number")
    discount = choose_discount(problem, ratio_discount)
    checks.probability("ratio_discount", discount, "a number")
    settings = {"ridge": ridge, "discount": discount}
    settings |= {"trace_decay": trace_decay, "zeta": trace_decay}
    target = problem.require_target(target)
    d, notes = problem.stationary, []
    functions: list[Callable[..., Any]] = [values, action_values, emphasis, density_ratio]
    functions += [objective, followon_variance, contraction]
    exact: dict[str, Any] = {"stationary": d}
    exact |= {function.__name__: function(problem, target) for function in functions}
    if len(d) > LARGE:
        notes.append(f"more than {LARGE} states: no followon_radius, no truncation_length")
    else:
        exact["followon_radius"] = followon_radius(problem, target)
        if exact["contraction"].weights.max() <= LONG:
            exact["truncation_length"] = truncation_length(problem, target)
        else:
            notes.append(f"more than {LONG:g} discounted steps: no truncation_length")
    truths = exact | {"ratio": density_ratio(problem, target, discount)}
    for name, build in SYSTEMS.items():
        parameters = inspect.signature(build).parameters
        options = {option: settings[option] for option in settings if option in parameters}
        try:
            system = build(problem, target, **options)
            if system.estimates is not None:
                truth = truths[system.estimates]
                exact[name] = _fixed_point(problem, system, truth, system.estimates)
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


def scalar_rows(exact: Mapping[str, Any]) -> list[tuple[str, float | None, str]]:
    """Returns label, value (if there is one) and remark of each single number of [solve]."""
    rows: list[tuple[str, float | None, str]] = [("objective J", exact["objective"], "")]
    if "followon_radius" in exact:
        infinite = np.isinf(exact["followon_variance"]).any()  # NaN is what is too rare to show
        verdict = "infinite variance" if infinite else "finite variance"
        rows.append(("radius of the trace's second moment", exact["followon_radius"], verdict))
    rows.append(("contraction modulus (Proposition 1)", exact["contraction"].modulus, ""))
    if "truncation_length" in exact:
        n = exact["truncation_length"]
        remark = "not stable, however long it is"
        if n is not None:
            at_least = f"with {n} ratio{'s' * (n != 1)} or more"
            remark = f"stable {at_least if n else 'at any length'}"
        rows.append(("ETD with a truncated trace", None, remark))
    return rows


def state_columns(
    problem: Problem, exact: Mapping[str, Any]
) -> tuple[list[str], dict[str, Float[np.ndarray, " rows"]]]:
    """Returns the row labels, after their heading, and the columns of a table of the quantities of
    [solve] for each state, or of a summary where there are many states."""
    columns = {
        "d": exact["stationary"],
        "m": exact["emphasis"],
        "sd of trace": np.sqrt(exact["followon_variance"]),
        "ratio": exact["density_ratio"],
        "v": exact["values"],
    }
    if problem.mdp.num_actions <= 6:
        q = exact["action_values"]
        columns |= {f"q({a})": q[:, a] for a in range(problem.mdp.num_actions)}
    if problem.mdp.num_states <= MOST_STATES:
        return ["state", *map(str, problem.labels)], columns
    d = exact["stationary"]

    def summarize(column: Float[np.ndarray, " s"]) -> Float[np.ndarray, " 3"]:
        defined = ~np.isnan(column)
        return np.array([np.nanmin(column), d[defined] @ column[defined], np.nanmax(column)])

    labels = ["over states", "smallest", "mean under d", "largest"]
    return labels, {name: summarize(column) for name, column in columns.items()}
