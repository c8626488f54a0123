"""GTD2, the second gradient temporal-difference algorithm."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Scalar, StepSize, Transition
from ._initial import standard_normal


class GTD2State(eqx.Module):
    r"""The weights of GTD2; the value estimate is $x^\top\nu$."""

    kappa: Float[Array, " k"]
    nu: Float[Array, " k"]


def gtd2(step_size: StepSize) -> Learner[GTD2State, Transition]:
    r"""GTD2 (Sutton et al., 2009): estimates the values $v_\pi$ by $X\nu$.

    Descends $\tfrac12\|\Pi\mathcal T v - v\|_D^2$ by

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}x_{t+1}^\top\nu_t - x_t^\top\nu_t, \\
    \kappa_{t+1} &= \kappa_t + \alpha_t(\rho_t\delta_t - x_t^\top\kappa_t)x_t, \\
    \nu_{t+1} &= \nu_t + \alpha_t\rho_t(x_t - \gamma_{t+1}x_{t+1})x_t^\top\kappa_t.
    \end{aligned}
    $$

    The limit is the solution of [gtd2_system]. It starts from $\kappa_0 = 0$ and a standard
    normal $\nu_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    """
    alpha_of = as_schedule(step_size)

    def init(key: Key, y: Transition) -> GTD2State:
        return GTD2State(jnp.zeros_like(y.x), standard_normal(key, "nu", y.x))

    def step(state: GTD2State, y: Transition) -> GTD2State:
        kappa, nu, alpha = state.kappa, state.nu, alpha_of(y.time)
        x_ahead = y.discount * y.x_next
        delta = y.reward + x_ahead @ nu - y.x @ nu
        return GTD2State(
            kappa=kappa + alpha * (y.rho * delta - y.x @ kappa) * y.x,
            nu=nu + alpha * y.rho * (y.x - x_ahead) * (y.x @ kappa),
        )

    def predict(state: GTD2State, y: Transition) -> Scalar:
        return y.x @ state.nu

    return Learner(init, step, predict, alpha_of, name="gtd2", estimates="values")
