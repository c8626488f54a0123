"""The density ratio by gradients, as GEM has the emphasis."""

from dataclasses import replace

from ..types import Learner, Number, StepSize, Transition
from .gem import gem, GEMState
from .ratio import ratio


def gradient_cop_td(
    step_size: StepSize, discount: Number, ridge: StepSize = 0.0
) -> Learner[GEMState, Transition]:
    r"""Gradient COP-TD: estimates the density ratio $c_{\hat\gamma}$ by $Xw$, and converges.

    It is the [ratio] that [gem] learns: with $\bar\delta_w = 1 - \hat\gamma + \hat\gamma
    D^{-1}P_\pi^\top DXw - Xw$ it descends $\tfrac12\|\Pi\bar\delta_w\|_D^2 +
    \tfrac12\eta\|w\|^2$ by

    $$
    \begin{aligned}
    \bar\delta_t &= 1 - \hat\gamma + \hat\gamma\rho_tx_t^\top w_t - x_{t+1}^\top w_t, \\
    \kappa_{t+1} &= \kappa_t + \alpha_t(\bar\delta_t - x_{t+1}^\top\kappa_t)x_{t+1}, \\
    w_{t+1} &= w_t + \alpha_t\big((x_{t+1} - \hat\gamma\rho_tx_t)x_{t+1}^\top\kappa_t -
        \eta w_t\big).
    \end{aligned}
    $$

    The limit is the solution of [gradient_cop_td_system]. By the argument of Theorem 1 it converges
    for every $\hat\gamma < 1$ at which the matrix of [cop_td] is regular, and with $\eta > 0$ for
    every one. It starts from $\kappa_0 = 0$ and a standard normal $w_0$. (The paper says that GEM's
    technique applies to discounted COP-TD; Gelada and Bellemare, 2019.)

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `discount`: $\hat\gamma$ in [0, 1), which goes on where episodes end.
    - `ridge`: The ridge $\eta \ge 0$, a schedule or a number.
    """
    return replace(ratio(gem(step_size, ridge), discount), name="gradient_cop_td")
