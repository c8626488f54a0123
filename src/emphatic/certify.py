"""Certificates: the paper's assumptions, each with a verdict and the figure behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _assumptions as assume
from . import _settings as settings
from . import oracle
from ._assumptions import HOLDS
from ._assumptions import Row as Row
from ._names import unknown
from .agents.policies import Softmax
from .mdp import Problem
from .oracle.gradient import resolve
from .oracle.ridge import require_tolerance
from .schedules import Polynomial


@dataclass(frozen=True)
class Theorem:
    """One result, and whether it covers the set-up."""

    name: str
    """The result, as the paper numbers it."""
    claim: str
    """What it gives."""
    needs: tuple[str, ...]
    """The keys of the rows that must hold."""
    missing: tuple[str, ...]
    """Those that do not."""
    converges: bool = True
    """Whether it states convergence; a bound on the bias alone covers no set-up."""

    @property
    def covers(self) -> bool:
        """Whether every row that the result needs holds."""
        return not self.missing


@dataclass(frozen=True)
class Certificate:
    """The assumptions, the theorems that follow, and what the ridge costs."""

    rows: tuple[Row, ...]
    """One row for each assumption."""
    theorems: tuple[Theorem, ...]
    """The results that could cover the set-up."""
    ridge_cost: oracle.RidgeCost | None
    """What the ridge costs, where it was given and the limits exist."""
    ridge_note: str
    """Why there is no ridge cost, or an empty string."""

    def __getitem__(self, key: str) -> Row:
        rows = {row.key: row for row in self.rows}
        if key not in rows:
            raise unknown("row", key, rows)
        return rows[key]

    @property
    def covered(self) -> bool:
        """Whether some theorem states convergence for this set-up."""
        return any(theorem.covers and theorem.converges for theorem in self.theorems)

    @property
    def advice(self) -> str:
        """Which theorem covers the set-up; if none does, what to change for the nearest one."""
        results = [theorem for theorem in self.theorems if theorem.converges]
        covering = [theorem for theorem in results if theorem.covers]
        if covering:
            return "; ".join(f"{theorem.name}: {theorem.claim}" for theorem in covering)
        nearest = min(results, key=lambda theorem: len(theorem.missing))
        rows = [self[key] for key in nearest.missing]
        changes = "; ".join(f"{row.statement}: {row.remedy or row.figure}" for row in rows)
        return f"no theorem covers this set-up. For {nearest.name}: {changes}"


def certify(
    problem: Problem,
    target: ArrayLike | Callable[[Any], Any] | None = None,
    ridge: float | None = None,
    step_size: Polynomial | float | Callable | None = None,
    actor_step_size: Polynomial | float | Callable | None = None,
    damping: float | Callable | None = None,
    theta: Any = None,
    tolerance: float | None = None,
) -> Certificate:
    r"""Checks each assumption of the paper, and says which theorem covers the set-up.

    What is not given leaves its row open, and the row names what would decide it. Statements about
    every $\theta$ are decided for linear [Softmax] policies; for other policies they are checked at
    one $\theta$ only and stay open unless they fail there.

    **Arguments:**

    - `problem`: The problem.
    - `target`: A fixed target policy (an (s, a) array; by default the problem's own), or a policy
      that an actor changes: a [Softmax] or any JAX function from theta to (s, a) probabilities.
    - `ridge`: The ridge $\eta$ of both critics.
    - `step_size`: The critics' step sizes $\alpha_t$: a schedule, or a number for a constant.
    - `actor_step_size`: The actor's step sizes $\beta_t$, likewise.
    - `damping`: The $C_0$ of the paper's $\Gamma(d) = \mathbb I_{\|d\| < C_0} + \tfrac{1 + C_0}{1 +
      \|d\|}\mathbb I_{\|d\| \ge C_0}$; infinity is no damping.
    - `theta`: Where to check; by default 0 for a softmax.
    - `tolerance`: For the ridge's cost, what each distance may be.
    """
    if isinstance(target, Softmax):
        if target.features.shape[:2] != problem.behavior.shape:
            raise ValueError(
                f"target: the policy's features have shape {target.features.shape}; "
                f"{(*problem.behavior.shape, 'n')} is required"
            )
        theta = np.zeros(target.features.shape[-1]) if theta is None else theta
    policy, probability = resolve(problem, target, theta)
    require_tolerance(tolerance)
    alpha = settings.schedule("step_size", step_size)
    beta = settings.schedule("actor_step_size", actor_step_size)
    damped = settings.damping(damping)

    rows = [assume.discount(problem), *assume.behavior(problem), *assume.features(problem)]
    rows.append(assume.policy_parameters(problem, policy, theta))
    rows.append(settings.ridge(ridge, fixed=policy is None))
    rows.append(settings.robbins_monro("alpha", "the critics'", "step_size", alpha))
    if policy is not None:
        rows.append(settings.robbins_monro("beta", "the actor's", "actor_step_size", beta))
        rows += [settings.timescales(alpha, beta), damped]
    rows.append(settings.condition(rows, fixed=policy is None))
    rows += assume.closeness(problem, probability, policy)
    rows += assume.mean_fields(problem, probability, ridge)
    rows += assume.expressed(problem, probability)

    cost, note = None, "give ridge to learn what it costs"
    if ridge is not None:
        try:
            where = probability if policy is None else policy
            cost, note = oracle.ridge_cost(problem, where, ridge, theta, tolerance), ""
        except ValueError as error:
            note = str(error)
    return Certificate(tuple(rows), _theorems(rows, ridge, fixed=policy is None), cost, note)


def _theorems(rows: list[Row], ridge: float | None, fixed: bool) -> tuple[Theorem, ...]:
    common = ("discount", "1.ergodic", "1.positive")
    both, actor = ("2.C", "2.C~"), ("beta", "timescales", "damping")
    bias = ("3", "4a.F", "4a.F~", "4b.A", "4b.A~", "4c")
    results: list[tuple[str, str, tuple[str, ...]]] = [
        (
            "Theorem 1",
            "GEM converges: w_t - w*(eta) -> 0 almost surely",
            (*common, "2.C", "ridge", "alpha", "condition"),
        ),
        (
            "Theorem 2",
            "GQ2 converges: u_t - u*(eta) -> 0 almost surely",
            (*common, "2.C~", "ridge", "alpha", "condition"),
        ),
    ]
    if fixed and ridge == 0.0:
        results.append(
            (
                "Yu (2017), as cited in Section 3",
                "with a fixed target GEM without a ridge converges to w*(0) = A^{-1}X'Di",
                (*common, "2.C", "4b.A", "alpha", "condition"),
            )
        )
    if not fixed:
        results.append(
            (
                "Theorem 3",
                "COF-PAC visits every neighbourhood of {|grad J| <= |b|} infinitely often",
                (*common, *both, "3", "ridge", "alpha", *actor),
            )
        )
        results.append(
            (
                "Proposition 3",
                "the bias of COF-PAC is bounded by the projection errors and the ridge",
                (*common, *both, *bias),
            )
        )
    verdict = {row.key: row.verdict for row in rows}
    return tuple(
        Theorem(
            name,
            claim,
            needs,
            missing=tuple(key for key in needs if verdict[key] != HOLDS),
            converges=name != "Proposition 3",
        )
        for name, claim, needs in results
    )
