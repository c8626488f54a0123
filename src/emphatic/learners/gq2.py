"""GQ2, the action-value analogue of GTD2."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ..schedules import as_ridge, as_schedule
from ..types import Array, Key, Learner, Scalar, StepSize, Transition
from ._initial import standard_normal


class GQ2State(eqx.Module):
    r"""The weights of GQ2; the estimate of the action value is $\tilde x^\top u$."""

    kappa: Float[Array, " l"]
    u: Float[Array, " l"]


def gq2(step_size: StepSize, ridge: StepSize = 0.0) -> Learner[GQ2State, Transition]:
    r"""GQ2: estimates the action values $q_\pi$ by $\tilde Xu$ (Eq. 9).

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}\rho_{t+1}\tilde x_{t+1}^\top u_t - \tilde x_t^\top u_t, \\
    \tilde\kappa_{t+1} &= \tilde\kappa_t + \alpha_t(\delta_t - \tilde x_t^\top\tilde\kappa_t)
        \tilde x_t, \\
    u_{t+1} &= u_t + \alpha_t\big((\tilde x_t - \gamma_{t+1}\rho_{t+1}\tilde x_{t+1})
        \tilde x_t^\top\tilde\kappa_t - \eta u_t\big).
    \end{aligned}
    $$

    The limit is the solution of [gq2_system] (Theorem 2). It starts from $\tilde\kappa_0 = 0$ and a
    standard normal $u_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `ridge`: The ridge $\eta \ge 0$, a schedule or a number.
    """
    alpha_of, eta_of = as_schedule(step_size), as_ridge(ridge)

    def init(key: Key, y: Transition) -> GQ2State:
        return GQ2State(jnp.zeros_like(y.xa), standard_normal(key, "u", y.xa))

    def step(state: GQ2State, y: Transition) -> GQ2State:
        kappa, u, alpha, eta = state.kappa, state.u, alpha_of(y.time), eta_of(y.time)
        ahead = y.discount * y.rho_next
        delta = y.reward + ahead * (y.xa_next @ u) - y.xa @ u
        return GQ2State(
            kappa=kappa + alpha * (delta - y.xa @ kappa) * y.xa,
            u=u + alpha * ((y.xa - ahead * y.xa_next) * (y.xa @ kappa) - eta * u),
        )

    def predict(state: GQ2State, y: Transition) -> Scalar:
        return y.xa @ state.u

    return Learner(init, step, predict, alpha_of, ridge, name="gq2", estimates="action_values")
