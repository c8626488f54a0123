"""Gradient Emphasis Learning (GEM)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ..schedules import as_ridge, as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from ._decay import as_decay
from ._initial import standard_normal


class GEMState(eqx.Module):
    r"""The weights of GEM; the emphasis estimate is $x^\top w$."""

    kappa: Float[Array, " k"]
    w: Float[Array, " k"]


def gem(
    step_size: StepSize, ridge: StepSize = 0.0, decay: Number | None = None
) -> Learner[GEMState, Transition]:
    r"""Gradient Emphasis Learning: estimates the emphasis $m_\pi$ by $Xw$.

    Descends $\tfrac12\|\Pi\bar\delta_w\|_D^2 + \tfrac12\eta\|w\|^2$ (Eq. 4), with $\kappa$
    estimating the projected error, by (Eq. 5)

    $$
    \begin{aligned}
    \bar\delta_t &= i(S_{t+1}) + \gamma_{t+1}\rho_t x_t^\top w_t - x_{t+1}^\top w_t, \\
    \kappa_{t+1} &= \kappa_t + \alpha_t(\bar\delta_t - x_{t+1}^\top\kappa_t) x_{t+1}, \\
    w_{t+1} &= w_t + \alpha_t\big((x_{t+1} - \gamma_{t+1}\rho_t x_t)
               x_{t+1}^\top\kappa_t - \eta w_t\big).
    \end{aligned}
    $$

    The limit is the solution of [gem_system] (Theorem 1). It starts from $\kappa_0 = 0$ and a
    standard normal $w_0$. With a decay $\beta$ it estimates the mean of the trace with this decay
    ([emphasis]): as a source of [etd] the GEM-ETD with $\beta$ that the paper leaves open.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `ridge`: The ridge $\eta \ge 0$, a schedule or a number. Convergence under a changing target
      needs $\eta > 0$.
    - `decay`: A $\beta$ in place of the discount where that is positive, as for [followon].
    """
    alpha_of, eta_of, gamma_of = as_schedule(step_size), as_ridge(ridge), as_decay(decay)

    def init(key: Key, y: Transition) -> GEMState:
        return GEMState(jnp.zeros_like(y.x), standard_normal(key, "w", y.x))

    def step(state: GEMState, y: Transition) -> GEMState:
        kappa, w, alpha, eta = state.kappa, state.w, alpha_of(y.time), eta_of(y.time)
        back = gamma_of(y) * y.rho
        delta = y.interest_next + back * (y.x @ w) - y.x_next @ w
        return GEMState(
            kappa=kappa + alpha * (delta - y.x_next @ kappa) * y.x_next,
            w=w + alpha * ((y.x_next - back * y.x) * (y.x_next @ kappa) - eta * w),
        )

    def predict(state: GEMState, y: Transition) -> Scalar:
        return y.x @ state.w

    name = "gem" if decay is None else "gem with a decay"  # of which no theorem is known
    return Learner(init, step, predict, alpha_of, ridge, name=name, estimates="emphasis")
