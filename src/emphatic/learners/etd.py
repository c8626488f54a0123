"""Emphatic temporal differences, over any source of emphasis."""

from typing import Generic

import equinox as eqx
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Scalar, State, StepSize, Transition
from ._initial import standard_normal


class ETDState(eqx.Module, Generic[State]):
    r"""The state of the emphasis' source, and the weights; the value estimate is $x^\top\nu$."""

    emphasis: State
    nu: Float[Array, " k"]


def etd(
    emphasis: Learner[State, Transition], step_size: StepSize
) -> Learner[ETDState[State], Transition]:
    r"""Emphatic TD(0): estimates the values $v_\pi$ by $X\nu$ (Eq. 2).

    $$
    \nu_{t+1} = \nu_t + \alpha_tM_t\rho_t\big(R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t -
    x_t^\top\nu_t\big)x_t,
    $$

    where $M_t$ is what the source of emphasis predicts at $S_t$: [followon] gives ETD(0), [gem]
    GEM-ETD(0), [exact] ETD with the true emphasis, and [constant] off-policy TD(0). With a
    converged source the limit is the solution of [etd_system]. It starts from a standard
    normal $\nu_0$.

    **Arguments:**

    - `emphasis`: The source of emphasis, a [Learner] that learns from the same stream.
    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    """
    alpha_of = as_schedule(step_size)

    def init(key: Key, y: Transition) -> ETDState[State]:
        return ETDState(emphasis.init(key, y), standard_normal(key, "nu", y.x))

    def step(state: ETDState[State], y: Transition) -> ETDState[State]:
        nu, alpha, M = state.nu, alpha_of(y.time), emphasis.predict(state.emphasis, y)
        delta = y.reward + y.discount * (y.x_next @ nu) - y.x @ nu
        return ETDState(emphasis.step(state.emphasis, y), nu + alpha * M * y.rho * delta * y.x)

    def predict(state: ETDState[State], y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name="etd", estimates="values")
