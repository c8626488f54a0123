"""TDC, temporal differences with a gradient correction."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from . import _trace as traces
from ._initial import standard_normal


class TDCState(eqx.Module):
    r"""The weights of TDC, and $\gamma_{t+1}z_t$ if there is a trace; the value estimate is
    $x^\top\nu$."""

    kappa: Float[Array, " k"]
    nu: Float[Array, " k"]
    trace: traces.Trace = ()


def tdc(
    step_size: StepSize, correction_step_size: StepSize | None = None, trace_decay: Number = 0.0
) -> Learner[TDCState, Transition]:
    r"""TDC($\lambda$), also called GTD($\lambda$) (Sutton et al., 2009; Maei, 2011): estimates the
    values $v_\pi$ by $X\nu$.

    Descends $\tfrac12\|\Pi\mathcal T_\lambda v - v\|_D^2$ by

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t - x_t^\top\nu_t, \\
    z_t &= \rho_t(\lambda\gamma_tz_{t-1} + x_t), \qquad z_{-1} = 0, \\
    \kappa_{t+1} &= \kappa_t + \beta_t(\delta_tz_t - x_tx_t^\top\kappa_t), \\
    \nu_{t+1} &= \nu_t + \alpha_t\big(\delta_tz_t -
        (1-\lambda)\gamma_{t+1}x_{t+1}z_t^\top\kappa_t\big).
    \end{aligned}
    $$

    The limit is the solution of [tdc_system]. It starts from $\kappa_0 = 0$ and a standard
    normal $\nu_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$ of the values, a schedule or a number.
    - `correction_step_size`: The step sizes $\beta_t$ of the correction; by default $\alpha_t$.
    - `trace_decay`: The trace's decay $\lambda\in[0, 1]$; 0 keeps no trace.
    """
    traces.require_decay(trace_decay)
    alpha_of = beta_of = as_schedule(step_size)
    if correction_step_size is not None:
        beta_of = as_schedule(correction_step_size, "correction_step_size")

    def init(key: Key, y: Transition) -> TDCState:
        kappa, nu = jnp.zeros_like(y.x), standard_normal(key, "nu", y.x)
        return TDCState(kappa, nu, traces.start(trace_decay, y.x))

    def step(state: TDCState, y: Transition) -> TDCState:
        kappa, nu, trace = state.kappa, state.nu, state.trace
        alpha, beta = alpha_of(y.time), beta_of(y.time)
        x_ahead = y.discount * y.x_next
        delta = y.reward + x_ahead @ nu - y.x @ nu
        e = traces.add(y.x, trace_decay, trace)  # z_t / rho_t
        moved = kappa + beta * (y.rho * delta - y.x @ kappa) * y.x
        correction = (1.0 - trace_decay) * (e @ kappa)
        return TDCState(
            kappa=traces.add(moved, beta * y.rho * delta * trace_decay, trace),
            nu=nu + alpha * y.rho * (delta * e - x_ahead * correction),
            trace=traces.carry(trace, y.discount * y.rho, e),
        )

    def predict(state: TDCState, y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name="tdc", estimates="values")
