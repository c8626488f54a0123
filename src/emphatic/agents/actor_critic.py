"""Actor-critic agents: any source of emphasis, any critic of action values, one actor."""

import dataclasses
import warnings
from collections.abc import Callable
from math import inf
from typing import Any, Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from .. import _validation as checks
from ..mdp import Problem
from ..schedules import as_schedule, Polynomial
from ..types import Agent, Array, Key, Learner, Number, Sample, Scalar, Schedule, Transition
from .damping import Damping, Konda, undamped, violation
from .policies import Index, Policy, Theta

CriticState: TypeAlias = Any
"""The state of a [Learner], which only the learner itself can read; () of an exact critic."""
Critic: TypeAlias = Learner[CriticState, Transition]
"""A learner of the emphasis or of action values."""
ExactCritic: TypeAlias = Callable[[Float[Array, "s a"]], Float[Array, "s *a"]]
"""A critic that knows: a function of the (s, a) probabilities of the current policy."""
_Source: TypeAlias = Critic | ExactCritic
ActionValue: TypeAlias = Callable[[Index, Index, Float[Array, " l"]], Number]
r"""The critic's $\hat q(s, a)$, from a state, an action and the features of both."""
Features: TypeAlias = Callable[[Theta, ActionValue, Sample, Transition], Transition]
"""Replaces a transition's features, from theta, the critic, the sample and the transition."""


class AgentState(eqx.Module):
    r"""The parameters $\theta$ of the policy, and the states of both critics."""

    theta: Theta
    emphasis: CriticState
    critic: CriticState


def actor_critic(
    problem: Problem,
    policy: Policy,
    emphasis: Critic | ExactCritic,
    critic: Critic | ExactCritic,
    step_size: Number | Schedule,
    damping: Damping | tuple[Damping, Damping] | None = None,
    delay: Number = 0,
    theta: Array | None = None,
    features: Features | None = None,
) -> Agent[AgentState, Sample]:
    r"""Builds an agent that ascends the excursion objective $J$ by estimates of $m_\pi$, $q_\pi$.

    $$
    \begin{aligned}
    \Delta_t &= \rho_t\,M_t\,q_t\,\nabla\log\pi_{\theta_t}(A_t|S_t), \\
    \theta_{t+1} &= \theta_t + \beta_t\,\Gamma_1(w_t)\,\Gamma_2(u_t)\,\Delta_t,
    \end{aligned}
    $$

    where $M_t$ and $q_t$ are what the source of emphasis predicts at $S_t$ and the critic at
    $(S_t, A_t)$, before both learn from the same transition; $\rho_t$ and $\rho_{t+1}$ are those of
    $\pi_{\theta_t}$, and $A_{t+1}$ is drawn from $\mu$. With [gem] and [gq2] it is COF-PAC
    (Algorithm 1), with [followon] ACE, and with `followon(0)`, which is the interest, Off-PAC.

    **Arguments:**

    - `problem`: The problem.
    - `policy`: The policy, a [Softmax] or a [NetworkSoftmax].
    - `emphasis`: A [Learner] of the emphasis, or the exact one, [exact_emphasis].
    - `critic`: A [Learner] of action values, or [exact_action_values].
    - `step_size`: The actor's step sizes $\beta_t$, a schedule or a number.
    - `damping`: $\Gamma$, a function of a critic's weights, one for both critics or one for each;
      by default [Konda]'s. What has no weights is not damped.
    - `delay`: The number of steps for which the actor waits.
    - `theta`: The first parameters; by default the policy's own.
    - `features`: What the critics see in place of the problem's features: [compatible] ones.
    """
    sources, beta_of = (emphasis, critic), as_schedule(step_size)
    damping = Konda() if damping is None else damping
    dampings = damping if isinstance(damping, tuple) else (damping, damping)
    _require_kinds(policy, emphasis, critic)
    _require_fit(problem, policy, theta, delay)
    _require_action_values(critic, compatible=features is not None)
    sizes = [
        policy.num_parameters if features is not None else x.shape[-1]
        for x in (problem.x, problem.xa_rows)
    ]
    for gamma, size in zip(dampings, sizes, strict=True):
        condition = None if gamma is undamped else violation(gamma, size)
        if condition is not None:
            raise ValueError(f"damping: violates {condition}; Section 4 asks for it (see Konda)")
    for source in sources:
        if isinstance(source, Learner):
            _warn_unless_slower(source.step_size, beta_of)

    def view(theta: Theta, state: CriticState, sample: Sample) -> Transition:
        pi = policy.probabilities(theta, sample.state)
        pi_next = policy.probabilities(theta, sample.state_next)
        y = problem.view(pi, pi_next, sample)
        if features is None:
            return y

        def q(s: Index, a: Index, xa: Float[Array, " l"]) -> Number:
            if not isinstance(critic, Learner):
                return critic(policy(theta))[s, a]
            if state is None:
                return 0.0
            return critic.predict(state, dataclasses.replace(y, xa=xa, xa_next=xa))

        return features(theta, q, sample, y)

    def estimate(
        source: _Source, state: CriticState, theta: Theta, y: Transition, sample: Sample
    ) -> Scalar:
        if isinstance(source, Learner):
            return source.predict(state, y)
        exact = source(policy(theta))
        return exact[sample.state] if exact.ndim == 1 else exact[sample.state, sample.action]

    def damp(
        gamma: Damping, source: _Source, state: CriticState, y: Transition, name: Literal["x", "xa"]
    ) -> Number:
        if not isinstance(source, Learner):
            return 1.0

        def predict(x: Float[Array, " k"]) -> Scalar:  # linear: its gradient is the weights
            return source.predict(state, dataclasses.replace(y, **{name: x}))

        return gamma(jax.grad(predict)(getattr(y, name)))

    def init(key: Key, sample: Sample) -> AgentState:
        initial_theta = policy.init(key) if theta is None else jnp.asarray(theta)
        initial_theta = initial_theta.astype(sample.reward.dtype)
        shapes = jax.eval_shape(lambda: view(initial_theta, None, sample))
        y = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        states = [source.init(key, y) if isinstance(source, Learner) else () for source in sources]
        return AgentState(initial_theta, *states)

    def step(state: AgentState, sample: Sample) -> AgentState:
        theta, states = state.theta, (state.emphasis, state.critic)
        y = view(theta, state.critic, sample)
        M, q = (estimate(*pair, theta, y, sample) for pair in zip(sources, states, strict=True))
        gamma_1 = damp(dampings[0], emphasis, state.emphasis, y, "x")
        gamma_2 = damp(dampings[1], critic, state.critic, y, "xa")
        beta = jnp.where(sample.time < delay, 0.0, beta_of(sample.time))
        size = beta * gamma_1 * gamma_2 * y.rho * M * q
        score = policy.score(theta, sample.state, sample.action)
        states = [
            source.step(state, y) if isinstance(source, Learner) else ()
            for source, state in zip(sources, states, strict=True)
        ]
        return AgentState((theta + size * score).astype(theta.dtype), *states)

    def predict(state: AgentState, sample: Sample) -> Scalar:
        return policy.probabilities(state.theta, sample.state)[sample.action]

    return Agent(
        init,
        step,
        predict,
        beta_of,
        policy=policy,
        emphasis=emphasis,
        critic=critic,
        dampings=dampings,
        theta=theta,
        features=features,
    )


def _require_kinds(policy: object, emphasis: object, critic: object) -> None:
    if not isinstance(policy, Policy):
        raise ValueError(
            f"policy: got a {type(policy).__name__}; a policy is required, such as tabular()"
        )
    for name, source in (("emphasis", emphasis), ("critic", critic)):
        if not isinstance(source, Learner) and not callable(source):
            raise ValueError(f"{name}: got a {type(source).__name__}; a learner is required")


def _require_fit(problem: Problem, policy: Policy, theta: Array | None, delay: Number) -> None:
    if policy.shape != problem.behavior.shape:
        raise ValueError(
            f"policy: got one of {policy.shape} states and actions; the problem has "
            f"{problem.behavior.shape}"
        )
    if theta is not None and jnp.shape(theta) != (policy.num_parameters,):
        raise ValueError(
            f"theta: got shape {jnp.shape(theta)}; {(policy.num_parameters,)} is required"
        )
    required = "the number of steps must be finite and >= 0"
    checks.number("delay", delay, required, lambda steps: 0.0 <= steps < inf)


def _require_action_values(critic: _Source, compatible: bool) -> None:
    """Raises a `ValueError` if a critic's prediction ignores the action."""
    if not isinstance(critic, Learner):
        return
    number = jnp.zeros(())
    example = {field.name: number for field in dataclasses.fields(Transition)}
    example |= {name: jnp.zeros((), int) for name in ("time", "state")}
    example |= {name: jnp.zeros(1) for name in ("x", "x_next", "xa", "xa_next")}
    y = Transition(**example)

    def predict(xa: Float[Array, " l"]) -> Scalar:
        state = critic.init(jax.random.key(0), y)
        return critic.predict(state, dataclasses.replace(y, xa=xa))

    jaxpr = jax.make_jaxpr(predict)(y.xa).jaxpr
    used = {id(variable) for variable in jaxpr.outvars}
    for equation in reversed(jaxpr.eqns):
        if any(id(variable) in used for variable in equation.outvars):
            used |= {id(variable) for variable in equation.invars}
    if id(jaxpr.invars[0]) in used:
        return
    reason = "an actor needs action values, from gq2 for example"
    if compatible:
        reason = (
            "its compatible features would involve the transition kernel p, to which a learner has "
            "no access (Section 4): use a critic of action values"
        )
    raise ValueError(
        f"critic: predicts without the features of the action, a state value; {reason}"
    )


def _warn_unless_slower(alpha: Schedule | None, beta: Schedule) -> None:
    """Warns of an actor whose step sizes do not decay faster than a critic's that do."""
    if not (isinstance(alpha, Polynomial) and isinstance(beta, Polynomial)):
        return
    if checks.is_traced(alpha.power) or checks.is_traced(beta.power):
        return
    if alpha.power > 0 and not beta.slower_than(alpha):
        warnings.warn(
            f"step_size: the actor's {beta} decays no faster than a critic's {alpha}, so that the "
            "sum of (beta/alpha)^d is infinite for every d and Theorem 3 does not apply",
            stacklevel=3,
        )
