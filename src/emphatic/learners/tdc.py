"""TDC, temporal differences with a gradient correction."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Scalar, StepSize, Transition
from ._initial import standard_normal


class TDCState(eqx.Module):
    r"""The weights of TDC; the value estimate is $x^\top\nu$."""

    kappa: Float[Array, " k"]
    nu: Float[Array, " k"]


def tdc(
    step_size: StepSize, correction_step_size: StepSize | None = None
) -> Learner[TDCState, Transition]:
    r"""TDC (Sutton et al., 2009): estimates the values $v_\pi$ by $X\nu$.

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t - x_t^\top\nu_t, \\
    \kappa_{t+1} &= \kappa_t + \beta_t(\rho_t\delta_t - x_t^\top\kappa_t)x_t, \\
    \nu_{t+1} &= \nu_t + \alpha_t\rho_t(\delta_tx_t - \gamma_{t+1}x_{t+1}x_t^\top\kappa_t).
    \end{aligned}
    $$

    The limit is the solution of [tdc_system]. It starts from $\kappa_0 = 0$ and a standard
    normal $\nu_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$ of the values, a schedule or a number.
    - `correction_step_size`: The step sizes $\beta_t$ of the correction; by default $\alpha_t$.
    """
    alpha_of = beta_of = as_schedule(step_size)
    if correction_step_size is not None:
        beta_of = as_schedule(correction_step_size, "correction_step_size")

    def init(key: Key, y: Transition) -> TDCState:
        return TDCState(jnp.zeros_like(y.x), standard_normal(key, "nu", y.x))

    def step(state: TDCState, y: Transition) -> TDCState:
        kappa, nu, alpha, beta = state.kappa, state.nu, alpha_of(y.time), beta_of(y.time)
        x_ahead = y.discount * y.x_next
        delta = y.reward + x_ahead @ nu - y.x @ nu
        return TDCState(
            kappa=kappa + beta * (y.rho * delta - y.x @ kappa) * y.x,
            nu=nu + alpha * y.rho * (delta * y.x - x_ahead * (y.x @ kappa)),
        )

    def predict(state: TDCState, y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name="tdc", estimates="values")
