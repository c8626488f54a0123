"""ABTD: a trace whose decay depends on the action, so that it needs no ratio."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from .. import _validation as checks
from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from . import _trace as traces
from ._initial import standard_normal


class ABTDState(eqx.Module):
    r"""The weights, and $b(S_t, A_t)\pi(A_t|S_t)\gamma_{t+1}z_t$ if there is a trace; the value
    estimate is $x^\top\nu$."""

    nu: Float[Array, " k"]
    trace: traces.Trace = ()


def abtd(
    step_size: StepSize, zeta: Number, xi_0: Number = 1.0, xi_max: Number = 2.0
) -> Learner[ABTDState, Transition]:
    r"""ABTD($\zeta$) (Mahmood, Yu and Sutton, 2017): estimates $v_\pi$ by $X\nu$, may diverge.

    TD($\lambda$) whose decay depends on state and action, $\lambda(s, a) = b(s, a)\mu(a|s)$, so
    that the trace grows by no ratio:

    $$
    \begin{aligned}
    \xi &= 2\zeta\xi_0 + \max(0, 2\zeta - 1)(\xi_{\max} - 2\xi_0), \\
    b(s, a) &= \min\Big(\xi, \frac{1}{\max(\pi(a|s), \mu(a|s))}\Big), \\
    \delta_t &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t - x_t^\top\nu_t, \\
    z_t &= \gamma_tb(S_{t-1}, A_{t-1})\pi(A_{t-1}|S_{t-1})z_{t-1} + x_t, \qquad z_{-1} = 0, \\
    \nu_{t+1} &= \nu_t + \alpha_t\rho_t\delta_tz_t.
    \end{aligned}
    $$

    The limit, where it converges, is the solution of [abtd_system]. It starts from a standard
    normal $\nu_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `zeta`: How long the trace is, $\zeta\in[0, 1]$: TD(0) with 0, and with 1 the longest trace
      that needs no ratio, which is that of [vtrace] with $\lambda = \bar c = 1$.
    - `xi_0`, `xi_max`: $\xi_0 > 0$ and $\xi_{\max} > 0$, the smallest and the largest of
      $1/\max(\pi, \mu)$ over states and actions. By default those of Collision.
    """
    checks.probability("zeta", zeta, "a number")
    for name, value in (("xi_0", xi_0), ("xi_max", xi_max)):
        checks.positive(name, value, "a positive and finite number is required")
    alpha_of = as_schedule(step_size)

    def init(key: Key, y: Transition) -> ABTDState:
        return ABTDState(standard_normal(key, "nu", y.x), traces.start(zeta, y.x))

    def step(state: ABTDState, y: Transition) -> ABTDState:
        nu, alpha = state.nu, alpha_of(y.time)
        delta = y.reward + y.discount * (y.x_next @ nu) - y.x @ nu
        z = traces.add(y.x, 1.0, state.trace)
        xi = 2.0 * zeta * xi_0 + jnp.maximum(0.0, 2.0 * zeta - 1.0) * (xi_max - 2.0 * xi_0)
        b = jnp.minimum(xi, 1.0 / jnp.maximum(y.pi, y.mu))
        return ABTDState(
            nu=nu + alpha * y.rho * delta * z,
            trace=traces.carry(state.trace, y.discount * b * y.pi, z),
        )

    def predict(state: ABTDState, y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name="abtd", estimates="values")
