"""Discounted COP-TD: the density ratio by semi-gradients."""

from dataclasses import replace

from ..types import Learner, Number, StepSize, Transition
from .ratio import ratio
from .reverse_td import reverse_td, ReverseTDState


def cop_td(step_size: StepSize, discount: Number) -> Learner[ReverseTDState, Transition]:
    r"""Discounted COP-TD (Hallak and Mannor, 2017; Gelada and Bellemare, 2019): the density ratio.

    It estimates $c_{\hat\gamma}$ ([density_ratio]) by $Xw$, and may diverge:

    $$
    w_{t+1} = w_t + \alpha_t\big(1 - \hat\gamma + \hat\gamma\rho_tx_t^\top w_t -
    x_{t+1}^\top w_t\big)x_{t+1},
    $$

    which is the [ratio] that [reverse_td] learns. The limit, where it converges, is the solution of
    [cop_td_system]. It starts from a standard normal $w_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `discount`: $\hat\gamma$ in [0, 1), which goes on where episodes end.
    """
    return replace(ratio(reverse_td(step_size), discount), name="cop_td")
