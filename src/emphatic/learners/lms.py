"""Least mean squares: the average of a trace of emphasis, as a linear function."""

from typing import Generic

import equinox as eqx
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Scalar, State, StepSize, Transition
from ._initial import standard_normal


class LMSState(eqx.Module, Generic[State]):
    r"""The state of the source of emphasis and the weights $w$; the estimate is $x^\top w$."""

    emphasis: State
    w: Float[Array, " k"]


def lms(
    emphasis: Learner[State, Transition], step_size: StepSize
) -> Learner[LMSState[State], Transition]:
    r"""Estimates the emphasis $m_\pi$ by least mean squares on a trace of it.

    $$
    w_{t+1} = w_t + \alpha_t(M_t - x_t^\top w_t)x_t.
    $$

    With the followon trace it minimises $\|m_\pi - Xw\|_D$: the limit is the projection of $m_\pi$
    itself, as of the analogue of GEM with $\lambda = 1$ that Section 4 suggests for compatible
    features. It has the variance of the trace. It starts from a standard normal $w_0$.

    **Arguments:**

    - `emphasis`: What predicts $M_t$: [followon].
    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    """
    alpha_of = as_schedule(step_size)

    def init(key: Key, y: Transition) -> LMSState[State]:
        return LMSState(emphasis.init(key, y), standard_normal(key, "w", y.x))

    def step(state: LMSState[State], y: Transition) -> LMSState[State]:
        w, alpha, M = state.w, alpha_of(y.time), emphasis.predict(state.emphasis, y)
        return LMSState(emphasis.step(state.emphasis, y), w + alpha * (M - y.x @ w) * y.x)

    def predict(state: LMSState[State], y: Transition) -> Scalar:
        return y.x @ state.w

    return Learner(init, step, predict, alpha_of, name="lms", estimates="emphasis")
