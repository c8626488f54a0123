"""TDRC, temporal differences with a regularized correction."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from .. import _validation as checks
from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from . import _trace as traces
from ._initial import standard_normal


class TDRCState(eqx.Module):
    r"""The weights of TDRC, and $\gamma_{t+1}z_t$ if there is a trace; the value estimate is
    $x^\top\nu$."""

    kappa: Float[Array, " k"]
    nu: Float[Array, " k"]
    trace: traces.Trace = ()


def tdrc(
    step_size: StepSize, regularization: Number = 1.0, trace_decay: Number = 0.0
) -> Learner[TDRCState, Transition]:
    r"""TDRC($\lambda$) (Ghiassian et al., 2020): estimates the values $v_\pi$ by $X\nu$.

    [tdc] whose correction is regularized, so that one step size serves both:

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t - x_t^\top\nu_t, \\
    z_t &= \rho_t(\lambda\gamma_tz_{t-1} + x_t), \qquad z_{-1} = 0, \\
    \kappa_{t+1} &= \kappa_t + \alpha_t(\delta_tz_t - x_tx_t^\top\kappa_t - \beta\kappa_t), \\
    \nu_{t+1} &= \nu_t + \alpha_t\big(\delta_tz_t -
        (1-\lambda)\gamma_{t+1}x_{t+1}z_t^\top\kappa_t\big).
    \end{aligned}
    $$

    It is TDC with $\beta = 0$ and tends to TD as $\beta$ grows: where TD diverges, so does TDRC
    with a $\beta$ that is too large (on [two_state] with $\gamma = 0.9$ one above 0.2). The fixed
    point is that of both, the solution of [tdrc_system], if $\beta I + A^\top$ is not singular. It
    starts from $\kappa_0 = 0$ and a standard normal $\nu_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$ of both weights, a schedule or a number.
    - `regularization`: The regularization $\beta \ge 0$.
    - `trace_decay`: The trace's decay $\lambda\in[0, 1]$; 0 keeps no trace.
    """
    traces.require_decay(trace_decay)
    checks.ridge(regularization, "regularization")
    alpha_of = as_schedule(step_size)

    def init(key: Key, y: Transition) -> TDRCState:
        kappa, nu = jnp.zeros_like(y.x), standard_normal(key, "nu", y.x)
        return TDRCState(kappa, nu, traces.start(trace_decay, y.x))

    def step(state: TDRCState, y: Transition) -> TDRCState:
        kappa, nu, alpha = state.kappa, state.nu, alpha_of(y.time)
        x_ahead = y.discount * y.x_next
        delta = y.reward + x_ahead @ nu - y.x @ nu
        e = traces.add(y.x, trace_decay, state.trace)  # z_t / rho_t
        shrunk = kappa - alpha * regularization * kappa
        moved = shrunk + alpha * (y.rho * delta - y.x @ kappa) * y.x
        correction = (1.0 - trace_decay) * (e @ kappa)
        return TDRCState(
            kappa=traces.add(moved, alpha * y.rho * delta * trace_decay, state.trace),
            nu=nu + alpha * y.rho * (delta * e - x_ahead * correction),
            trace=traces.carry(state.trace, y.discount * y.rho, e),
        )

    def predict(state: TDRCState, y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name="tdrc", estimates="values")
