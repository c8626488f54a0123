"""Off-policy temporal differences."""

from ..types import Learner, StepSize, Transition
from .constant import constant
from .etd import etd, ETDState


def td(step_size: StepSize) -> Learner[ETDState[tuple[()]], Transition]:
    r"""Off-policy TD(0): estimates the values $v_\pi$ by $X\nu$, and may diverge.

    It is [etd] with an emphasis of 1 everywhere:

    $$
    \nu_{t+1} = \nu_t + \alpha_t\rho_t\big(R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t -
    x_t^\top\nu_t\big)x_t.
    $$

    The limit, where it converges, is the solution of [td_system].

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    """
    return etd(constant(1.0), step_size)
