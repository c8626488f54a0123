"""Emphatic temporal differences, over any source of emphasis."""

from typing import Generic

import equinox as eqx
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, State, StepSize, Transition
from . import _trace as traces
from ._initial import standard_normal


class ETDState(eqx.Module, Generic[State]):
    r"""The state of the emphasis' source, the weights, and $\gamma_{t+1}z_t$ if there is a trace;
    the value estimate is $x^\top\nu$."""

    emphasis: State
    nu: Float[Array, " k"]
    trace: traces.Trace = ()


def etd(
    emphasis: Learner[State, Transition], step_size: StepSize, trace_decay: Number = 0.0
) -> Learner[ETDState[State], Transition]:
    r"""Emphatic TD($\lambda$): estimates the values $v_\pi$ by $X\nu$ (Eq. 2 is $\lambda = 0$).

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t - x_t^\top\nu_t, \\
    M_t &= \lambda i(S_t) + (1-\lambda)F_t, \\
    z_t &= \rho_t(\lambda\gamma_tz_{t-1} + M_tx_t), \qquad z_{-1} = 0, \\
    \nu_{t+1} &= \nu_t + \alpha_t\delta_tz_t,
    \end{aligned}
    $$

    where $F_t$ is what the source of emphasis predicts at $S_t$: [followon] gives ETD($\lambda$)
    (Sutton, Mahmood and White, 2016), with a decay $\beta$ ETD($\lambda$, $\beta$) (Hallak et al.,
    2016); [gem] gives GEM-ETD($\lambda$), [exact] ETD with the true emphasis, and [constant]
    off-policy TD(0). With a converged source the limit is the solution of [etd_system]. It starts
    from a standard normal $\nu_0$.

    **Arguments:**

    - `emphasis`: The source of emphasis, a [Learner] that learns from the same stream.
    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `trace_decay`: The trace's decay $\lambda\in[0, 1]$; 0 keeps no trace.
    """
    traces.require_decay(trace_decay)
    return weighted_td(traces.emphasize(emphasis, trace_decay), step_size, trace_decay, "etd")


def weighted_td(
    emphasis: Learner[State, Transition], step_size: StepSize, trace_decay: Number, name: str
) -> Learner[ETDState[State], Transition]:
    r"""Returns TD($\lambda$) with features that are weighted by $M_t$ as they enter the trace."""
    alpha_of = as_schedule(step_size)

    def init(key: Key, y: Transition) -> ETDState[State]:
        nu = standard_normal(key, "nu", y.x)
        return ETDState(emphasis.init(key, y), nu, traces.start(trace_decay, y.x))

    def step(state: ETDState[State], y: Transition) -> ETDState[State]:
        nu, alpha, M = state.nu, alpha_of(y.time), emphasis.predict(state.emphasis, y)
        delta = y.reward + y.discount * (y.x_next @ nu) - y.x @ nu
        moved = nu + alpha * M * y.rho * delta * y.x
        return ETDState(
            emphasis=emphasis.step(state.emphasis, y),
            nu=traces.add(moved, alpha * y.rho * delta * trace_decay, state.trace),
            trace=traces.carry(
                state.trace, y.discount * y.rho, traces.add(M * y.x, trace_decay, state.trace)
            ),
        )

    def predict(state: ETDState[State], y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name=name, estimates="values")
