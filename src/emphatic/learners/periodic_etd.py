"""PER-ETD: emphatic temporal differences with a trace that restarts periodically."""

from dataclasses import replace

import jax.numpy as jnp

from ..schedules import as_schedule
from ..types import Learner, Number, StepSize, Time, Transition
from .etd import etd, ETDState
from .followon import FollowonState
from .restarting import Periods, restarting


def periodic_etd(
    step_size: StepSize, length: int, growth: int = 1, decay: Number | None = None
) -> Learner[ETDState[FollowonState], Transition]:
    r"""PER-ETD(0) (Guan, Xu and Liang, 2022): estimates the values $v_\pi$ by $X\nu$.

    It is [etd] over a trace that starts afresh in every period ([restarting]), and moves only at
    the last time $t$ of a period $k$:

    $$
    \nu_{t+1} = \nu_t + \alpha_kM_t\rho_t\big(R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t -
    x_t^\top\nu_t\big)x_t.
    $$

    The periods have the lengths $b_k = b_0 + g\lfloor\log_2(k + 1)\rfloor$, so that the bias of
    the trace shrinks and its variance grows at most like powers of $k$. With $g = 0$ the limit,
    where it converges, is the solution of [etd_system] with the [truncated_emphasis] of $b_0 - 1$
    ratios; with $g > 0$ it is that of ETD(0). (If the behaviour's chain is periodic, the last times
    of periods of one length may not meet all states.) It starts from a standard normal $\nu_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_k$ of the periods, a schedule of $k$ or a number.
    - `length`: The first length $b_0 \ge 1$.
    - `growth`: How much longer, $g \ge 0$, the periods are whenever there are twice as many.
    - `decay`: A $\beta$ in place of the discount where that is positive, as for [followon].
    """
    alpha_of, periods = as_schedule(step_size), Periods(length, growth)

    def at_ends(time: Time) -> Number:
        return jnp.where(periods.ends(time), alpha_of(periods.number(time)), 0.0)

    return replace(etd(restarting(length, growth, decay), at_ends), name="periodic_etd")
