"""Semi-gradient emphasis learning, the update that GEM makes convergent."""

import equinox as eqx
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from ._decay import as_decay
from ._initial import standard_normal


class ReverseTDState(eqx.Module):
    r"""The weights of reversed TD; the emphasis estimate is $x^\top w$."""

    w: Float[Array, " k"]


def reverse_td(
    step_size: StepSize, decay: Number | None = None
) -> Learner[ReverseTDState, Transition]:
    r"""Reversed TD(0): estimates the emphasis $m_\pi$ by $Xw$, and may diverge (Section 3).

    $$
    w_{t+1} = w_t + \alpha_t\big(i(S_{t+1}) + \gamma_{t+1}\rho_tx_t^\top w_t - x_{t+1}^\top w_t\big)
    x_{t+1}.
    $$

    The limit, where it converges, is the solution of [reverse_td_system]. It starts from a
    standard normal $w_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `decay`: A $\beta$ in place of the discount where that is positive, as for [followon].
    """
    alpha_of, gamma_of = as_schedule(step_size), as_decay(decay)

    def init(key: Key, y: Transition) -> ReverseTDState:
        return ReverseTDState(standard_normal(key, "w", y.x))

    def step(state: ReverseTDState, y: Transition) -> ReverseTDState:
        w, alpha = state.w, alpha_of(y.time)
        delta = y.interest_next + gamma_of(y) * y.rho * (y.x @ w) - y.x_next @ w
        return ReverseTDState(w + alpha * delta * y.x_next)

    def predict(state: ReverseTDState, y: Transition) -> Scalar:
        return y.x @ state.w

    return Learner(init, step, predict, alpha_of, name="reverse_td", estimates="emphasis")
