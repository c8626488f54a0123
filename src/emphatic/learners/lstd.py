"""Least squares temporal differences."""

from ..types import Learner, Number, Transition
from . import _trace as traces
from .constant import constant
from .elstd import LSTDState, weighted_lstd


def lstd(
    trace_decay: Number = 0.0, ridge: Number = 1.0
) -> Learner[LSTDState[tuple[()]], Transition]:
    r"""Off-policy LSTD($\lambda$) (Bradtke and Barto, 1996; Yu, 2010): estimates $v_\pi$ by $X\nu$.

    $$
    \begin{aligned}
    z_t &= \rho_t(\lambda\gamma_tz_{t-1} + x_t), \qquad z_{-1} = 0, \\
    A_{t+1} &= A_t + z_t(x_t - \gamma_{t+1}x_{t+1})^\top, \qquad
        b_{t+1} = b_t + R_{t+1}z_t, \qquad A_0 = \epsilon I, \quad b_0 = 0, \\
    \nu_{t+1} &= A_{t+1}^{-1}b_{t+1}.
    \end{aligned}
    $$

    The inverse is updated by the formula of Sherman and Morrison, in $O(k^2)$. The limit is the
    solution of [td_system], whether TD converges to it or not; the ridge fades as $\epsilon/t$. It
    starts from $\nu_0 = 0$.

    **Arguments:**

    - `trace_decay`: The trace's decay $\lambda\in[0, 1]$; 0 keeps no trace.
    - `ridge`: The ridge $\epsilon > 0$ of the start.
    """
    traces.require_decay(trace_decay)
    return weighted_lstd(constant(1.0), trace_decay, ridge, "lstd")
