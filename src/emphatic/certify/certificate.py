"""Certificates: the paper's assumptions, each with a verdict and the figure behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from . import _assumptions as assume
from . import _checks as checks
from . import _settings as settings
from . import oracle
from ._assumptions import HOLDS
from ._assumptions import Row as Row
from ._ends import Bias as Bias
from ._ends import CLOSE, ends
from ._names import unknown
from ._types import Agent
from .agents.policies import Policy
from .mdp import Problem
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
    start: Bias | None = None
    """The bias at the first parameters of a policy that changes."""
    end: Bias | None = None
    """The bias at the last ones: at `theta_end`, or where the mean field of COF-PAC leads."""
    end_note: str = ""
    """Where that is, or why it is not known; empty for a fixed target."""

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
    def reached(self) -> bool | None:
        r"""Whether $\|\nabla J\| \le \|b\|$ at the end, up to $10^{-4}$ of the first gradient.

        Where the mean field rests the two are equal, because $\hat g = \nabla J - b$ is 0 there.
        """
        if self.start is None or self.end is None:
            return None
        rounding = CLOSE * self.start.gradient_norm
        return self.end.gradient_norm <= self.end.bias_norm + rounding

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
    target: ArrayLike | Callable[[Any], Any] | Agent | None = None,
    ridge: float | tuple | None = None,
    step_size: Polynomial | float | Callable | tuple | None = None,
    actor_step_size: Polynomial | float | Callable | None = None,
    damping: float | Callable | tuple | None = None,
    theta: Any = None,
    tolerance: float | None = None,
    theta_end: Any = None,
) -> Certificate:
    r"""Checks each assumption of the paper, and says which theorem covers the set-up.

    What is not given leaves its row open, and the row names what would decide it. Statements about
    every $\theta$ are decided for linear [Softmax] policies; for other policies they are checked at
    one $\theta$ only and stay open unless they fail there.

    With a ridge, and a policy that changes, the certificate says how large the gradient and the
    bias $b(\theta) = \nabla J(\theta) - \hat g(\theta)$ are at the start and at the end, because
    Theorem 3 leads to the set $\{\theta: \|\nabla J(\theta)\| \le \|b(\theta)\|\}$. This is no
    assumption, and changes no verdict.

    **Arguments:**

    - `problem`: The problem.
    - `target`: A fixed target policy (an (s, a) array; by default the problem's own), or a policy
      that an actor changes: a [Softmax], a [NetworkSoftmax] or any JAX function from theta to
      (s, a) probabilities. Or an agent, made by [actor_critic] for this problem, which brings its
      policy, theta, ridges, step sizes and dampings.
    - `ridge`: The ridge $\eta$ of both critics, or a pair: that of the emphasis and that of values.
    - `step_size`: The critics' step sizes $\alpha_t$, or a pair: a schedule, or a number for a
      constant.
    - `actor_step_size`: The actor's step sizes $\beta_t$, likewise.
    - `damping`: The $C_0$ of the paper's $\Gamma(d) = \mathbb I_{\|d\| < C_0} + \tfrac{1 + C_0}{1 +
      \|d\|}\mathbb I_{\|d\| \ge C_0}$; infinity is no damping. Or a function $\Gamma$, which
      conditions (1) to (4) can refute; or a pair.
    - `theta`: Where to check, the actor's first parameters; by default the policy's own.
    - `tolerance`: For the ridge's cost, what each distance may be.
    - `theta_end`: The actor's last parameters; by default those to which [follow] leads along the
      mean field of COF-PAC, if the policy is a [Softmax] and the problem small.
    """
    agent = target if isinstance(target, Agent) else None
    if agent is not None:
        given = {"ridge": ridge, "step_size": step_size, "actor_step_size": actor_step_size}
        for name, value in {**given, "damping": damping, "theta": theta}.items():
            if value is not None:
                raise ValueError(f"{name}: given beside an agent, which has its own")
        ridge, step_size = (settings.of_critics(agent, name) for name in ("ridge", "step_size"))
        actor_step_size, damping = agent.step_size, agent.dampings
        target, theta = agent.policy, agent.theta
    policy = target if callable(target) else None
    if policy is not None:
        theta, theta_end = _parameters(problem, policy, theta, theta_end)
    elif theta_end is not None:
        raise ValueError("theta_end: a fixed target has no parameters; give a policy as target")
    probability = _probabilities(problem, target, theta)
    require_tolerance(tolerance)
    ridges = settings.pair("ridge", ridge)
    alphas = settings.schedules("step_size", step_size)
    beta = settings.schedule("actor_step_size", actor_step_size)
    sizes = [x.shape[1] for x in (problem.x, problem.xa_rows)]
    if agent is not None and agent.features is not None:
        sizes = [agent.policy.num_parameters] * 2
    damped = settings.dampings(damping, sizes)
    critics = [] if agent is None else [settings.critics(agent)]

    rows = [assume.discount(problem), *assume.behavior(problem), *assume.features(problem)]
    rows.append(assume.policy_parameters(problem, policy, theta))
    rows += [*critics, settings.ridges(ridges, fixed=policy is None)]
    rows.append(settings.robbins_monro("alpha", "the critics'", "step_size", alphas))
    if policy is not None:
        rows.append(settings.robbins_monro("beta", "the actor's", "actor_step_size", (beta, beta)))
        rows += [settings.timescales(alphas, beta), damped]
    rows.append(settings.condition(rows, fixed=policy is None))
    rows += assume.closeness(problem, probability, policy)
    rows += assume.mean_fields(problem, probability, ridges)
    rows += assume.expressed(problem, probability)
    theorems = _theorems(rows, ridges[0], fixed=policy is None)

    same = isinstance(ridges[0], Real) and ridges[0] == ridges[1]
    eta = float(ridges[0]) if same else None
    cost, note = None, "give ridge, one number for both critics, to learn what it costs"
    if eta is not None:
        try:
            where = probability if policy is None else policy
            cost, note = oracle.ridge_cost(problem, where, eta, theta, tolerance), ""
        except ValueError as error:
            note = str(error)
    if policy is None:
        return Certificate(tuple(rows), theorems, cost, note)
    if any(row.verdict != HOLDS for row in critics):
        eta = None
    return Certificate(
        tuple(rows), theorems, cost, note, *ends(problem, policy, theta, theta_end, eta)
    )


def _parameters(problem: Problem, policy: Any, theta: Any, theta_end: Any) -> tuple[Any, Any]:
    """The first and the last parameters, checked where the policy knows their number."""
    if not isinstance(policy, Policy):
        if theta is None:
            raise ValueError("theta: not given; a policy that is a function needs its parameters")
        return theta, theta_end
    if policy.shape != problem.behavior.shape:
        raise ValueError(
            f"target: got a policy of {policy.shape} states and actions; the problem has "
            f"{problem.behavior.shape}"
        )
    theta = policy.init(jax.random.key(0)) if theta is None else theta
    first, last = (
        each if each is None else checks.shaped(name, each, (policy.num_parameters,), "parameters")
        for name, each in (("theta", theta), ("theta_end", theta_end))
    )
    return first, last


def _probabilities(problem: Problem, target: Any, theta: Any) -> np.ndarray:
    """The target's probabilities; what the behaviour skips is refused for a fixed one only."""
    if not callable(target):
        return problem.require_target(target)
    shape = problem.behavior.shape
    probability = checks.policy("target", oracle.probabilities(target, theta), shape)
    skipped = probability[problem.behavior == 0].any()
    return probability if skipped else problem.require_target(probability)


def _theorems(rows: list[Row], ridge: Any, fixed: bool) -> tuple[Theorem, ...]:
    critics = tuple(row.key for row in rows if row.key == "critics")  # an agent's
    common = ("discount", "1.ergodic", "1.positive", *critics)
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
