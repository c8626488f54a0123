"""Certificates: the paper's assumptions, each with a verdict and the evidence behind it."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .. import _validation as checks, oracle
from .._validation import unknown
from ..agents.damping import Damping
from ..agents.policies import NetworkSoftmax, Softmax
from ..mdp import Problem
from ..oracle.gradient import PolicyFunction
from ..oracle.ridge import require_tolerance
from ..types import Agent, Number, Params, Schedule
from . import assumptions, conditions
from .assumptions import Assumption, HOLDS, Setting
from .bias import Bias, bias_at_ends, TOLERANCE

Target: TypeAlias = ArrayLike | PolicyFunction | None
"""A fixed target policy, a policy that an actor changes, or the problem's own target."""
ACTOR_NEEDS = ("ridge", "alpha", "beta", "timescales", "damping")  # of Theorem 3, of both critics
Pair: TypeAlias = tuple[object, ...]
"""Two settings, that of the critic of the emphasis and that of the critic of values."""


@dataclass(frozen=True)
class Theorem:
    """One result, and whether it covers the set-up."""

    name: str
    """The result, as the paper numbers it."""
    claim: str
    """What it gives."""
    needs: tuple[str, ...]
    """The keys of the assumptions that must hold."""
    missing: tuple[str, ...]
    """Those that do not."""
    converges: bool = True
    """Whether it states convergence; a bound on the bias alone covers no set-up."""

    @property
    def covers(self) -> bool:
        """Whether every assumption that the result needs holds."""
        return not self.missing


@dataclass(frozen=True)
class Certificate:
    """The assumptions, the theorems that follow, and what the ridge costs."""

    rows: tuple[Assumption, ...]
    """The assumptions, a row of the table for each."""
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

    def __getitem__(self, key: str) -> Assumption:
        """Returns the assumption with this key."""
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
        return self.end.gradient_norm <= self.end.bias_norm + TOLERANCE * self.start.gradient_norm

    @property
    def advice(self) -> str:
        """Which theorem covers the set-up; if none does, what to change for the nearest one."""
        results = [theorem for theorem in self.theorems if theorem.converges]
        covering = [theorem for theorem in results if theorem.covers]
        if covering:
            return "; ".join(f"{theorem.name}: {theorem.claim}" for theorem in covering)
        nearest = min(results, key=lambda theorem: len(theorem.missing))
        rows = [self[key] for key in nearest.missing]
        changes = "; ".join(f"{row.statement}: {row.remedy or row.evidence}" for row in rows)
        return f"no theorem covers this set-up. For {nearest.name}: {changes}"


def certify(
    problem: Problem,
    target: Target | Agent = None,
    ridge: Number | Schedule | Pair | None = None,
    step_size: Number | Schedule | Pair | None = None,
    actor_step_size: Number | Schedule | None = None,
    damping: Number | Damping | Pair | None = None,
    theta: Params | None = None,
    tolerance: float | None = None,
    theta_end: Params | None = None,
) -> Certificate:
    r"""Checks each assumption of the paper, and says which theorem covers the set-up.

    What is not given leaves its assumption open, and the remedy names what would decide it.
    Statements about every $\theta$ are decided for linear [Softmax] policies; for other policies
    they are checked at one $\theta$ only and stay open unless they fail there.

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
    target_policy: Target = target.policy if isinstance(target, Agent) else target
    if agent is not None:
        arguments = {"ridge": ridge, "step_size": step_size, "actor_step_size": actor_step_size}
        for name, value in {**arguments, "damping": damping, "theta": theta}.items():
            if value is not None:
                raise ValueError(f"{name}: given beside an agent, which has its own")
        ridge = conditions.critic_settings(agent, "ridge")
        step_size = conditions.critic_settings(agent, "step_size")
        actor_step_size, damping, theta = agent.step_size, agent.dampings, agent.theta
    policy = target_policy if callable(target_policy) else None
    if policy is not None:
        theta, theta_end = _check_parameters(problem, policy, theta, theta_end)
    elif theta_end is not None:
        raise ValueError("theta_end: a fixed target has no parameters; give a policy as target")
    probability = _probabilities(problem, target_policy, theta)
    require_tolerance(tolerance)
    ridges = conditions.as_ridges(ridge)
    alphas = conditions.as_schedules("step_size", step_size)
    beta = conditions.as_schedule("actor_step_size", actor_step_size)
    sizes = [x.shape[1] for x in (problem.x, problem.xa_rows)]
    if agent is not None and agent.features is not None:
        sizes = [agent.policy.num_parameters] * 2
    dampings = conditions.check_dampings(damping, sizes)
    critics = [] if agent is None else [conditions.check_critics(agent)]
    is_fixed = policy is None
    robbins_monro = conditions.check_robbins_monro

    rows = [
        assumptions.check_discount(problem),
        *assumptions.check_behavior(problem),
        *assumptions.check_features(problem),
        assumptions.check_policy(problem, policy, theta),
        *critics,
        *conditions.split(*(conditions.check_ridge(ridge, is_fixed) for ridge in ridges)),
        *conditions.split(
            *(robbins_monro("alpha", "the critics'", "step_size", a) for a in alphas)
        ),
    ]
    if not is_fixed:
        rows += [
            robbins_monro("beta", "the actor's", "actor_step_size", beta),
            *conditions.split(*(conditions.check_timescales(alpha, beta) for alpha in alphas)),
            dampings,
        ]
    rows += conditions.check_slow_change(rows, is_fixed)
    separate = assumptions.separate_features(problem)
    rows += assumptions.check_closeness(separate, probability, policy)
    rows += assumptions.check_mean_fields(problem, probability, ridges)
    rows += assumptions.check_expressiveness(separate, probability)

    eta = ridges[0] if isinstance(ridges[0], float) and ridges[0] == ridges[1] else None
    cost, note = None, "give ridge, one number for both critics, to learn what it costs"
    if eta is not None:
        try:
            cost = oracle.ridge_cost(problem, policy or probability, eta, theta, tolerance)
            note = ""
        except ValueError as error:
            note = str(error)
    certificate = Certificate(tuple(rows), _theorems(rows, ridges[0], is_fixed), cost, note)
    if policy is None:
        return certificate
    if any(row.verdict != HOLDS for row in critics):
        eta = None
    start, end, end_note = bias_at_ends(problem, policy, theta, theta_end, eta)
    return replace(certificate, start=start, end=end, end_note=end_note)


def _check_parameters(
    problem: Problem, policy: PolicyFunction, theta: Params | None, theta_end: Params | None
) -> tuple[Params, Params | None]:
    """Checks the first and the last parameters where the policy knows their number."""
    if not isinstance(policy, Softmax | NetworkSoftmax):
        if theta is None:
            raise ValueError("theta: not given; a policy that is a function needs its parameters")
        return theta, theta_end
    if policy.shape != problem.behavior.shape:
        raise ValueError(
            f"target: got a policy of {policy.shape} states and actions; the problem has "
            f"{problem.behavior.shape}"
        )
    shape = (policy.num_parameters,)
    theta = policy.init(jax.random.key(0)) if theta is None else theta
    theta = checks.shaped("theta", theta, shape, "parameters")
    if theta_end is not None:
        theta_end = checks.shaped("theta_end", theta_end, shape, "parameters")
    return theta, theta_end


def _probabilities(
    problem: Problem, target: Target, theta: Params | None
) -> Float[np.ndarray, "s a"]:
    """Returns the target's probabilities; a fixed one must not take what the behaviour skips."""
    if not callable(target):
        return problem.require_target(target)
    shape = problem.behavior.shape
    probability = checks.policy("target", oracle.probabilities(target, theta), shape)
    takes_skipped = probability[problem.behavior == 0].any()
    return probability if takes_skipped else problem.require_target(probability)


def _theorems(rows: list[Assumption], ridge: Setting, is_fixed: bool) -> tuple[Theorem, ...]:
    critics = tuple(row.key for row in rows if row.key == "critics")  # an agent's
    common = ("discount", "1.ergodic", "1.positive", *critics)
    both = ("2.C", "2.C~")
    actor = [row.key for row in rows if row.key.rstrip("~") in ACTOR_NEEDS]
    bias = ("3", "4a.F", "4a.F~", "4b.A", "4b.A~", "4c")
    verdict = {row.key: row.verdict for row in rows}
    gem_needs = ("ridge", "alpha", "condition")
    gq2_needs = tuple(key if f"{key}~" not in verdict else f"{key}~" for key in gem_needs)

    def theorem(name: str, claim: str, *keys: str, converges: bool = True) -> Theorem:
        needs = tuple(dict.fromkeys((*common, *keys)))
        missing = tuple(key for key in needs if verdict[key] != HOLDS)
        return Theorem(name, claim, needs, missing, converges)

    gem, gq2 = "w_t - w*(eta) -> 0 almost surely", "u_t - u*(eta) -> 0 almost surely"
    results = [
        theorem("Theorem 1", f"GEM converges: {gem}", "2.C", *gem_needs),
        theorem("Theorem 2", f"GQ2 converges: {gq2}", "2.C~", *gq2_needs),
    ]
    if is_fixed and ridge == 0.0:
        claim = "with a fixed target GEM without a ridge converges to w*(0) = A^{-1}X'Di"
        name = "Yu (2017), as cited in Section 3"
        results.append(theorem(name, claim, "2.C", "4b.A", "alpha", "condition"))
    if not is_fixed:
        claim = "COF-PAC visits every neighbourhood of {|grad J| <= |b|} infinitely often"
        results.append(theorem("Theorem 3", claim, *both, "3", *actor))
        claim = "the bias of COF-PAC is bounded by the projection errors and the ridge"
        results.append(theorem("Proposition 3", claim, *both, *bias, converges=False))
    return tuple(results)
