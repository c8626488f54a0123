"""HTD, the hybrid of temporal differences and a gradient method."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from . import _trace as traces
from ._initial import standard_normal


class HTDState(eqx.Module):
    r"""The weights of HTD, and $\gamma_{t+1}z_t$ and $\gamma_{t+1}z^\mu_t$ if there are traces; the
    value estimate is $x^\top\nu$."""

    kappa: Float[Array, " k"]
    nu: Float[Array, " k"]
    trace: traces.Trace = ()
    behavior_trace: traces.Trace = ()


def htd(
    step_size: StepSize, correction_step_size: StepSize | None = None, trace_decay: Number = 0.0
) -> Learner[HTDState, Transition]:
    r"""HTD($\lambda$) (Hackman, 2012; White and White, 2016): estimates $v_\pi$ by $X\nu$.

    On-policy, where every ratio is 1, it is TD($\lambda$). Else it follows, as [tdc] does, a
    gradient, $A^\top A_\mu^{-\top}(b - A\nu)$ instead of $A^\top C^{-1}(b - A\nu)$, with $A_\mu$
    the mean matrix of TD($\lambda$) for the behaviour itself:

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t - x_t^\top\nu_t, \\
    z_t &= \rho_t(\lambda\gamma_tz_{t-1} + x_t), \qquad
        z^\mu_t = \lambda\gamma_tz^\mu_{t-1} + x_t, \qquad z_{-1} = z^\mu_{-1} = 0, \\
    \kappa_{t+1} &= \kappa_t + \beta_t\big(\delta_tz_t -
        (x_t - \gamma_{t+1}x_{t+1})z^{\mu\top}_t\kappa_t\big), \\
    \nu_{t+1} &= \nu_t + \alpha_t\big(\delta_tz_t +
        (x_t - \gamma_{t+1}x_{t+1})(z_t - z^\mu_t)^\top\kappa_t\big).
    \end{aligned}
    $$

    A version of Ghiassian and Sutton's public code carries $z_t$ where $z^\mu_t$ belongs, in
    $z^\mu_t = \lambda\gamma_tz_t + x_t$; that is another algorithm. The limit is the solution of
    [htd_system]. It starts from $\kappa_0 = 0$ and a standard normal $\nu_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$ of the values, a schedule or a number.
    - `correction_step_size`: The step sizes $\beta_t$ of the correction; by default $\alpha_t$.
    - `trace_decay`: The decay $\lambda\in[0, 1]$ of both traces; 0 keeps none.
    """
    traces.require_decay(trace_decay)
    alpha_of = beta_of = as_schedule(step_size)
    if correction_step_size is not None:
        beta_of = as_schedule(correction_step_size, "correction_step_size")

    def init(key: Key, y: Transition) -> HTDState:
        kappa, nu = jnp.zeros_like(y.x), standard_normal(key, "nu", y.x)
        trace = traces.start(trace_decay, y.x)
        return HTDState(kappa, nu, trace, trace)

    def step(state: HTDState, y: Transition) -> HTDState:
        kappa, nu, alpha, beta = state.kappa, state.nu, alpha_of(y.time), beta_of(y.time)
        back = y.x - y.discount * y.x_next
        delta = y.reward - back @ nu
        z = y.rho * traces.add(y.x, trace_decay, state.trace)
        z_mu = traces.add(y.x, trace_decay, state.behavior_trace)
        return HTDState(
            kappa=kappa + beta * (delta * z - (z_mu @ kappa) * back),
            nu=nu + alpha * (delta * z + ((z - z_mu) @ kappa) * back),
            trace=traces.carry(state.trace, y.discount, z),
            behavior_trace=traces.carry(state.behavior_trace, y.discount, z_mu),
        )

    def predict(state: HTDState, y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name="htd", estimates="values")
