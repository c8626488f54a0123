"""TDEC, semi-gradient emphasis learning with a gradient correction."""

from dataclasses import replace

from ..types import Learner, Number, StepSize, Transition
from .tderc import tderc, TDERCState


def tdec(
    step_size: StepSize, correction_step_size: StepSize | None = None, decay: Number | None = None
) -> Learner[TDERCState, Transition]:
    r"""TDEC: estimates the emphasis $m_\pi$ by $Xw$, as TDC does the values.

    It descends the objective of [gem] without a ridge, whose gradient at $\kappa = C^{-1}\mathbb
    E[\bar\delta_tx_{t+1}]$ is written as reversed TD and a correction:

    $$
    \begin{aligned}
    \bar\delta_t &= i(S_{t+1}) + \gamma_{t+1}\rho_tx_t^\top w_t - x_{t+1}^\top w_t, \\
    \kappa_{t+1} &= \kappa_t + \zeta_t(\bar\delta_t - x_{t+1}^\top\kappa_t)x_{t+1}, \\
    w_{t+1} &= w_t + \alpha_t\big(\bar\delta_tx_{t+1} -
        \gamma_{t+1}\rho_tx_tx_{t+1}^\top\kappa_t\big).
    \end{aligned}
    $$

    It is [tderc] with a regularisation of 0. The limit is the solution of [tdec_system], that of
    GEM without a ridge. It starts from $\kappa_0 = 0$ and a standard normal $w_0$.
    ("Temporal-difference emphasis learning with regularized correction", Applied Intelligence,
    2023; TDC: Sutton et al., 2009.)

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$ of the emphasis, a schedule or a number.
    - `correction_step_size`: The step sizes $\zeta_t$ of the correction; by default $\alpha_t$.
    - `decay`: A $\beta$ in place of the discount where that is positive, as for [followon].
    """
    return replace(tderc(step_size, 0.0, correction_step_size, decay), name="tdec")
