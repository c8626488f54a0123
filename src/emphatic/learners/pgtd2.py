"""PGTD2, proximal GTD2: gradients are taken half a step ahead."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from . import _trace as traces
from ._initial import standard_normal


class PGTD2State(eqx.Module):
    r"""The weights of PGTD2, and $\gamma_{t+1}z_t$ if there is a trace; the value estimate is
    $x^\top\nu$."""

    kappa: Float[Array, " k"]
    nu: Float[Array, " k"]
    trace: traces.Trace = ()


def pgtd2(
    step_size: StepSize, correction_step_size: StepSize | None = None, trace_decay: Number = 0.0
) -> Learner[PGTD2State, Transition]:
    r"""PGTD2($\lambda$), also called GTD2-MP (Liu et al., 2015): estimates the values $v_\pi$ by
    $X\nu$.

    [gtd2] by mirror-prox, the extragradient method for the saddle point that GTD2 seeks: it takes
    GTD2's step to a middle, and then from where it was the step that GTD2 takes in the middle. With
    $z_t = \rho_t(\lambda\gamma_tz_{t-1} + x_t)$ and

    $$
    \begin{aligned}
    \delta_t(\nu) &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu - x_t^\top\nu, \\
    g_t(\kappa, \nu) &= \big(\beta_t(\delta_t(\nu)z_t - x_tx_t^\top\kappa),\;
        \alpha_t(\rho_tx_tx_t^\top\kappa - (1-\lambda)\gamma_{t+1}x_{t+1}z_t^\top\kappa)\big), \\
    (\kappa^m_t, \nu^m_t) &= (\kappa_t, \nu_t) + g_t(\kappa_t, \nu_t), \\
    (\kappa_{t+1}, \nu_{t+1}) &= (\kappa_t, \nu_t) + g_t(\kappa^m_t, \nu^m_t).
    \end{aligned}
    $$

    Both gradients are those of the same transition, so that their product is correlated: the mean
    field is that of GTD2, [gtd2_system], up to a term of order $\alpha$, and the limit with step
    sizes that decay is its solution. It starts from $\kappa_0 = 0$ and a standard normal $\nu_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$ of the values, a schedule or a number.
    - `correction_step_size`: The step sizes $\beta_t$ of $\kappa$; by default $\alpha_t$.
    - `trace_decay`: The trace's decay $\lambda\in[0, 1]$; 0 keeps no trace.
    """
    traces.require_decay(trace_decay)
    alpha_of = beta_of = as_schedule(step_size)
    if correction_step_size is not None:
        beta_of = as_schedule(correction_step_size, "correction_step_size")

    def init(key: Key, y: Transition) -> PGTD2State:
        kappa, nu = jnp.zeros_like(y.x), standard_normal(key, "nu", y.x)
        return PGTD2State(kappa, nu, traces.start(trace_decay, y.x))

    def step(state: PGTD2State, y: Transition) -> PGTD2State:
        kappa, nu, alpha, beta = state.kappa, state.nu, alpha_of(y.time), beta_of(y.time)
        x_ahead = y.discount * y.x_next
        e = traces.add(y.x, trace_decay, state.trace)  # z_t / rho_t

        def move(kappa_at: Array, nu_at: Array) -> tuple[Array, Array]:
            delta = y.reward + x_ahead @ nu_at - y.x @ nu_at
            ahead = (1.0 - trace_decay) * (e @ kappa_at) * x_ahead
            return (
                kappa + beta * (y.rho * delta * e - (y.x @ kappa_at) * y.x),
                nu + alpha * y.rho * ((y.x @ kappa_at) * y.x - ahead),
            )

        trace = traces.carry(state.trace, y.discount * y.rho, e)
        return PGTD2State(*move(*move(kappa, nu)), trace)

    def predict(state: PGTD2State, y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name="pgtd2", estimates="values")
