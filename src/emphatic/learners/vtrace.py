"""V-trace: temporal differences with clipped ratios."""

from math import inf

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from .. import _validation as checks
from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from . import _trace as traces
from ._initial import standard_normal


class VTraceState(eqx.Module):
    r"""The weights, and $c_t\gamma_{t+1}z_t$ if there is a trace; the value estimate is
    $x^\top\nu$."""

    nu: Float[Array, " k"]
    trace: traces.Trace = ()


def vtrace(
    step_size: StepSize,
    trace_decay: Number = 0.0,
    trace_threshold: Number = 1.0,
    threshold: Number = 1.0,
) -> Learner[VTraceState, Transition]:
    r"""V-trace($\lambda$) (Espeholt et al., 2018), TD($\lambda$) with clipped ratios: estimates by
    $X\nu$ the values of a policy between the behaviour and the target, and may diverge.

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t - x_t^\top\nu_t, \\
    z_t &= \lambda\gamma_tc_{t-1}z_{t-1} + x_t, \qquad c_t = \min(\rho_t, \bar c),
        \qquad z_{-1} = 0, \\
    \nu_{t+1} &= \nu_t + \alpha_t\min(\rho_t, \bar\rho)\,\delta_tz_t.
    \end{aligned}
    $$

    That policy is proportional to $\min(\pi, \bar\rho\mu)$, whatever $\bar c$ is, and the target
    itself with $\bar\rho = \infty$, as Ghiassian and Sutton (2021) have it. The limit, where it
    converges, is the solution of [vtrace_system]. It starts from a standard normal $\nu_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `trace_decay`: The trace's decay $\lambda\in[0, 1]$; 0 keeps no trace.
    - `trace_threshold`: The largest ratio $\bar c > 0$ in the trace.
    - `threshold`: The largest ratio $\bar\rho > 0$ in the update; infinity does not clip.
    """
    traces.require_decay(trace_decay)
    for name, value in (("trace_threshold", trace_threshold), ("threshold", threshold)):
        checks.number(name, value, "a number above 0 is required", lambda known: 0.0 < known <= inf)
    alpha_of = as_schedule(step_size)

    def init(key: Key, y: Transition) -> VTraceState:
        return VTraceState(standard_normal(key, "nu", y.x), traces.start(trace_decay, y.x))

    def step(state: VTraceState, y: Transition) -> VTraceState:
        nu, alpha = state.nu, alpha_of(y.time)
        delta = y.reward + y.discount * (y.x_next @ nu) - y.x @ nu
        z = traces.add(y.x, trace_decay, state.trace)
        cut = jnp.minimum(y.rho, trace_threshold)
        return VTraceState(
            nu=nu + alpha * jnp.minimum(y.rho, threshold) * delta * z,
            trace=traces.carry(state.trace, y.discount * cut, z),
        )

    def predict(state: VTraceState, y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name="vtrace", estimates="values")
