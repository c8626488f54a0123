"""TDERC, semi-gradient emphasis learning with a regularised correction."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from .. import _validation as checks
from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from ._decay import as_decay
from ._initial import standard_normal


class TDERCState(eqx.Module):
    r"""The weights of TDERC and TDEC; the emphasis estimate is $x^\top w$."""

    kappa: Float[Array, " k"]
    w: Float[Array, " k"]


def tderc(
    step_size: StepSize,
    regularization: Number = 1.0,
    correction_step_size: StepSize | None = None,
    decay: Number | None = None,
) -> Learner[TDERCState, Transition]:
    r"""TDERC: estimates the emphasis $m_\pi$ by $Xw$, as TDRC does the values.

    Between [reverse_td] ($\beta \to \infty$) and [tdec] ($\beta = 0$), it follows the semi-gradient
    with a regularised correction,

    $$
    \begin{aligned}
    \bar\delta_t &= i(S_{t+1}) + \gamma_{t+1}\rho_tx_t^\top w_t - x_{t+1}^\top w_t, \\
    \kappa_{t+1} &= \kappa_t + \zeta_t\big((\bar\delta_t - x_{t+1}^\top\kappa_t)x_{t+1} -
        \beta\kappa_t\big), \\
    w_{t+1} &= w_t + \alpha_t\big(\bar\delta_tx_{t+1} -
        \gamma_{t+1}\rho_tx_tx_{t+1}^\top\kappa_t\big).
    \end{aligned}
    $$

    The limit, where it converges, is the solution of [tderc_system], that of GEM without a ridge.
    It starts from $\kappa_0 = 0$ and a standard normal $w_0$. ("Temporal-difference emphasis
    learning with regularized correction", Applied Intelligence, 2023; TDRC: Ghiassian et al.,
    2020.)

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$ of the emphasis, a schedule or a number.
    - `regularization`: $\beta \ge 0$.
    - `correction_step_size`: The step sizes $\zeta_t$ of the correction; by default $\alpha_t$.
    - `decay`: A number in place of the discount where that is positive, as for [followon].
    """
    alpha_of = zeta_of = as_schedule(step_size)
    if correction_step_size is not None:
        zeta_of = as_schedule(correction_step_size, "correction_step_size")
    checks.ridge(regularization, "regularization")
    gamma_of = as_decay(decay)

    def init(key: Key, y: Transition) -> TDERCState:
        return TDERCState(jnp.zeros_like(y.x), standard_normal(key, "w", y.x))

    def step(state: TDERCState, y: Transition) -> TDERCState:
        kappa, w, alpha, zeta = state.kappa, state.w, alpha_of(y.time), zeta_of(y.time)
        back = gamma_of(y) * y.rho
        delta = y.interest_next + back * (y.x @ w) - y.x_next @ w
        correction = y.x_next @ kappa
        return TDERCState(
            kappa=kappa + zeta * ((delta - correction) * y.x_next - regularization * kappa),
            w=w + alpha * (delta * y.x_next - back * correction * y.x),
        )

    def predict(state: TDERCState, y: Transition) -> Scalar:
        return y.x @ state.w

    return Learner(init, step, predict, alpha_of, name="tderc", estimates="emphasis")
