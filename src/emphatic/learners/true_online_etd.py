"""True online emphatic TD: the online forward view, exactly."""

from typing import Generic

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, State, StepSize, Transition
from . import _trace as traces
from ._initial import standard_normal


class TrueOnlineETDState(eqx.Module, Generic[State]):
    r"""The state of the emphasis' source, the weights, $\gamma_{t+1}z_t$, and by how much the last
    update changed the estimate of what is now $S_t$; that estimate is $x^\top\nu$."""

    emphasis: State
    nu: Float[Array, " k"]
    trace: Float[Array, " k"]
    change: Scalar


def true_online_etd(
    emphasis: Learner[State, Transition], step_size: StepSize, trace_decay: Number
) -> Learner[TrueOnlineETDState[State], Transition]:
    r"""True online emphatic TD($\lambda$) (Sutton, Mahmood and White, 2016): estimates $v_\pi$ by
    $X\nu$.

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t - x_t^\top\nu_t, \qquad
        \eta_t = \alpha_t\rho_tM_t, \qquad M_t = \lambda i(S_t) + (1-\lambda)F_t, \\
    z_t &= \rho_t\lambda\gamma_tz_{t-1} + \eta_t(1 - \rho_t\lambda\gamma_tz_{t-1}^\top x_t)x_t,
        \qquad z_{-1} = 0, \\
    \nu_{t+1} &= \nu_t + \delta_tz_t + (\nu_t - \nu_{t-1})^\top x_t\,(z_t - \eta_tx_t).
    \end{aligned}
    $$

    At every time $t$ the weights are those of the online forward view, which starts again from
    $\nu_0$ and updates $\nu \leftarrow \nu + \eta_k(G_k^t - x_k^\top\nu)x_k$ for $k < t$ in turn
    (van Hasselt, Mahmood and Sutton, 2014), with the returns

    $$
    G_k^t = R_{k+1} + \gamma_{k+1}\big(x_{k+1}^\top\nu_k +
    \lambda\rho_{k+1}(G_{k+1}^t - x_{k+1}^\top\nu_k)\big), \qquad G_t^t = x_t^\top\nu_{t-1}.
    $$

    It is [etd] with $\lambda = 0$, and as the step sizes go to 0 its mean field with every
    $\lambda$, [etd_system], is that of [etd]. It starts from a standard normal $\nu_0$.

    **Arguments:**

    - `emphasis`: The source of emphasis, a [Learner] that learns from the same stream.
    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `trace_decay`: The trace's decay $\lambda\in[0, 1]$.
    """
    traces.require_decay(trace_decay)
    alpha_of, source = as_schedule(step_size), traces.emphasize(emphasis, trace_decay)

    def init(key: Key, y: Transition) -> TrueOnlineETDState[State]:
        nu = standard_normal(key, "nu", y.x)
        return TrueOnlineETDState(
            source.init(key, y), nu, jnp.zeros_like(y.x), jnp.zeros((), y.x.dtype)
        )

    def step(state: TrueOnlineETDState[State], y: Transition) -> TrueOnlineETDState[State]:
        nu, M = state.nu, source.predict(state.emphasis, y)
        delta = y.reward + y.discount * (y.x_next @ nu) - y.x @ nu
        eta, past = alpha_of(y.time) * y.rho * M, y.rho * trace_decay * state.trace
        fresh = eta * (1.0 - y.x @ past)
        z = past + fresh * y.x
        move = (delta + state.change) * z - state.change * eta * y.x
        return TrueOnlineETDState(
            emphasis=source.step(state.emphasis, y),
            nu=nu + move,
            trace=y.discount * z,
            change=y.x_next @ move,
        )

    def predict(state: TrueOnlineETDState[State], y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name="true_online_etd", estimates="values")
