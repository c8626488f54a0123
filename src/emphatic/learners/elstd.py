"""Emphatic least squares: the limit of ETD, solved for what has been seen."""

from typing import Generic

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from .. import _validation as checks
from ..types import Array, Key, Learner, Number, Scalar, State, Transition
from . import _trace as traces


class LSTDState(eqx.Module, Generic[State]):
    r"""The state of the emphasis' source, $A_t^{-1}$, the weights, and $\gamma_{t+1}z_t$ if there
    is a trace; the value estimate is $x^\top\nu$."""

    emphasis: State
    inverse: Float[Array, "k k"]
    nu: Float[Array, " k"]
    trace: traces.Trace = ()


def elstd(
    emphasis: Learner[State, Transition], trace_decay: Number = 0.0, ridge: Number = 1.0
) -> Learner[LSTDState[State], Transition]:
    r"""Emphatic LSTD($\lambda$) (Yu, 2015): estimates the values $v_\pi$ by $X\nu$.

    $$
    \begin{aligned}
    M_t &= \lambda i(S_t) + (1-\lambda)F_t, \qquad
        z_t = \rho_t(\lambda\gamma_tz_{t-1} + M_tx_t), \qquad z_{-1} = 0, \\
    A_{t+1} &= A_t + z_t(x_t - \gamma_{t+1}x_{t+1})^\top, \qquad
        b_{t+1} = b_t + R_{t+1}z_t, \qquad A_0 = \epsilon I, \quad b_0 = 0, \\
    \nu_{t+1} &= A_{t+1}^{-1}b_{t+1}.
    \end{aligned}
    $$

    The inverse is updated by the formula of Sherman and Morrison, in $O(k^2)$. The limit is that of
    [etd], the solution of [etd_system], with no step size; the ridge fades as $\epsilon/t$. It
    starts from $\nu_0 = 0$.

    **Arguments:**

    - `emphasis`: The source of emphasis $F_t$, a [Learner] that learns from the same stream.
    - `trace_decay`: The trace's decay $\lambda\in[0, 1]$; 0 keeps no trace.
    - `ridge`: The ridge $\epsilon > 0$ of the start.
    """
    traces.require_decay(trace_decay)
    return weighted_lstd(traces.emphasize(emphasis, trace_decay), trace_decay, ridge, "elstd")


def weighted_lstd(
    emphasis: Learner[State, Transition], trace_decay: Number, ridge: Number, name: str
) -> Learner[LSTDState[State], Transition]:
    r"""Returns LSTD($\lambda$) with features that are weighted by $M_t$ as they enter the trace."""
    checks.positive("ridge", ridge, "least squares need a positive and finite ridge")

    def init(key: Key, y: Transition) -> LSTDState[State]:
        inverse = jnp.eye(len(y.x), dtype=y.x.dtype) / ridge
        nu, trace = jnp.zeros_like(y.x), traces.start(trace_decay, y.x)
        return LSTDState(emphasis.init(key, y), inverse, nu, trace)

    def step(state: LSTDState[State], y: Transition) -> LSTDState[State]:
        nu, M = state.nu, emphasis.predict(state.emphasis, y)
        back = y.x - y.discount * y.x_next
        z = y.rho * traces.add(M * y.x, trace_decay, state.trace)
        column, row = state.inverse @ z, back @ state.inverse
        gain = column / (1.0 + back @ column)
        return LSTDState(
            emphasis=emphasis.step(state.emphasis, y),
            inverse=state.inverse - gain[:, None] * row[None, :],
            nu=nu + (y.reward - back @ nu) * gain,
            trace=traces.carry(state.trace, y.discount, z),
        )

    def predict(state: LSTDState[State], y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, name=name, estimates="values")
