"""Actor-critic agents: any source of emphasis, any critic of action values, one actor."""

import dataclasses
from collections.abc import Callable
from math import isfinite
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Agent, Learner, Sample, Transition
from ..schedules import as_schedule

_Damping = Callable[[Any], Any]
_Oracle = Callable[[Any], Any]


class AgentState(eqx.Module):
    r"""The parameters $\theta$ of the policy, and the states of both critics."""

    theta: Any
    emphasis: Any
    critic: Any


def konda(bound: float = 100.0) -> _Damping:
    r"""Konda's example of a damping, by the size of a critic's weights (Section 4).

    $$
    \Gamma(d) = \mathbb I_{\|d\| < C_0} + \frac{1 + C_0}{1 + \|d\|}\,\mathbb I_{\|d\| \ge C_0}.
    $$

    **Arguments:**

    - `bound`: $C_0 > 0$; below it nothing is damped.
    """
    if isinstance(bound, int | float) and not (isfinite(bound) and bound > 0):
        raise ValueError(f"bound: got {bound}; C_0 must be positive and finite")

    def damping(weights: Any) -> Any:
        size = jnp.sqrt(weights @ weights)
        return jnp.where(size < bound, 1.0, (1.0 + bound) / (1.0 + size))

    return damping


def undamped(weights: Any) -> Any:
    r"""No damping, $\Gamma = 1$, which Theorem 3 does not cover."""
    return 1.0


def actor_critic(
    view: Callable[[Any, Any, Sample], Transition],
    policy: Any,
    emphasis: Learner[Any, Transition] | _Oracle,
    critic: Learner[Any, Transition] | _Oracle,
    step_size: Any,
    damping: _Damping | tuple[_Damping, _Damping] | None = None,
    delay: Any = 0,
    theta: Any = None,
) -> Agent[AgentState, Sample]:
    r"""An agent that ascends the excursion objective $J$ by estimates of $m_\pi$ and $q_\pi$.

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

    - `view`: Makes transitions of samples, the problem's own `view`.
    - `policy`: The policy, a [Softmax].
    - `emphasis`: A [Learner] of the emphasis, or what is exact, [exact_emphasis].
    - `critic`: A [Learner] of action values, or [exact_action_values].
    - `step_size`: The actor's step sizes $\beta_t$, a schedule or a number.
    - `damping`: $\Gamma$, a function of a critic's weights, one for both critics or one for each;
      by default that of [konda]. What has no weights is not damped.
    - `delay`: The number of steps for which the actor waits.
    - `theta`: The first parameters; by default the policy's own.
    """
    beta_of = as_schedule(step_size)
    damping = konda() if damping is None else damping
    dampings = damping if isinstance(damping, tuple) else (damping, damping)

    def seen(theta: Any, sample: Sample) -> Transition:
        return view(policy.at(theta, sample.state), policy.at(theta, sample.state_next), sample)

    def estimate(source: Any, state: Any, theta: Any, y: Transition, sample: Sample) -> Any:
        if isinstance(source, Learner):
            return source.predict(state, y)
        exact = source(policy(theta))
        return exact[sample.state] if exact.ndim == 1 else exact[sample.state, sample.action]

    def damped(gamma: _Damping, source: Any, state: Any, y: Transition, features: str) -> Any:
        if not isinstance(source, Learner):
            return 1.0

        def predict(x: Any) -> Any:  # linear, so that its gradient is the weights
            return source.predict(state, dataclasses.replace(y, **{features: x}))

        return gamma(jax.grad(predict)(getattr(y, features)))

    def init(key: Any, sample: Sample) -> AgentState:
        first = policy.init(key) if theta is None else jnp.asarray(theta)
        first = first.astype(sample.reward.dtype)
        y = seen(first, sample)
        of = [each.init(key, y) if isinstance(each, Learner) else () for each in sources]
        return AgentState(first, *of)

    def step(state: AgentState, sample: Sample) -> AgentState:
        theta, states = state.theta, (state.emphasis, state.critic)
        y = seen(theta, sample)
        M, q = (estimate(*pair, theta, y, sample) for pair in zip(sources, states, strict=True))
        gamma_1 = damped(dampings[0], emphasis, state.emphasis, y, "x")
        gamma_2 = damped(dampings[1], critic, state.critic, y, "xa")
        beta = jnp.where(sample.time < delay, 0.0, beta_of(sample.time))
        Delta = y.rho * M * q * policy.score(theta, sample.state, sample.action)
        moved = [
            source.step(each, y) if isinstance(source, Learner) else ()
            for source, each in zip(sources, states, strict=True)
        ]
        return AgentState((theta + beta * gamma_1 * gamma_2 * Delta).astype(theta.dtype), *moved)

    def predict(state: AgentState, sample: Sample) -> Any:
        return policy.at(state.theta, sample.state)[sample.action]

    sources = emphasis, critic
    return Agent(init, step, predict)
