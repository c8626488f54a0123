"""Off-policy temporal differences."""

from ..types import Learner, Number, StepSize, Transition
from . import _trace as traces
from .constant import constant
from .etd import ETDState, weighted_td


def td(step_size: StepSize, trace_decay: Number = 0.0) -> Learner[ETDState[tuple[()]], Transition]:
    r"""Off-policy TD($\lambda$): estimates the values $v_\pi$ by $X\nu$, and may diverge.

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t - x_t^\top\nu_t, \\
    z_t &= \rho_t(\lambda\gamma_tz_{t-1} + x_t), \qquad z_{-1} = 0, \\
    \nu_{t+1} &= \nu_t + \alpha_t\delta_tz_t.
    \end{aligned}
    $$

    TD(0) is [etd] with an emphasis of 1 everywhere; with a trace that is true only if the interest
    is 1, too. The limit, where it converges, is the solution of [td_system]: with $\lambda = 1$ the
    projection $\Pi v_\pi$, on-policy and off-policy (Precup, Sutton and Dasgupta, 2001). It starts
    from a standard normal $\nu_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `trace_decay`: The trace's decay $\lambda\in[0, 1]$; 0 keeps no trace.
    """
    traces.require_decay(trace_decay)
    return weighted_td(constant(1.0), step_size, trace_decay, "td")
