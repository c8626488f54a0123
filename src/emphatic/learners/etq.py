"""The action-value analogue of emphatic TD with an eligibility trace."""

from typing import Generic

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ..schedules import as_schedule
from ..types import Array, Key, Learner, Scalar, State, StepSize, Transition
from ._initial import standard_normal


class ETQState(eqx.Module, Generic[State]):
    r"""The state of the source of interest, $\gamma_t e_{t-1}$, and $u$; the estimate is $\tilde
    x^\top u$."""

    interest: State
    trace: Float[Array, " l"]
    u: Float[Array, " l"]


def etq(
    interest: Learner[State, Transition], step_size: StepSize
) -> Learner[ETQState[State], Transition]:
    r"""The action-value analogue of ETD(1): estimates $q_\pi$ by $\tilde Xu$.

    $$
    \begin{aligned}
    \delta_t &= R_{t+1} + \gamma_{t+1}\rho_{t+1}\tilde x_{t+1}^\top u_t - \tilde x_t^\top u_t, \\
    e_t &= \gamma_t\rho_t e_{t-1} + M_t\tilde x_t, \qquad e_{-1} = 0, \\
    u_{t+1} &= u_t + \alpha_t\delta_t e_t.
    \end{aligned}
    $$

    Its limit minimises the error of $\tilde Xu$ in the norm of $d_\mu(s)\,\mathbb
    E[M_t|s]\,\mu(a|s)$: with the followon trace as $M_t$ that is the inner product for which the
    features $\psi_\theta$ are compatible (Section 4); with the interest, as ETD(1) has it, it is
    another. It starts from a standard normal $u_0$.

    **Arguments:**

    - `interest`: What predicts $M_t$: [followon], or `followon(0)` for the interest itself.
    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    """
    alpha_of = as_schedule(step_size)

    def init(key: Key, y: Transition) -> ETQState[State]:
        u = standard_normal(key, "u", y.xa)
        return ETQState(interest.init(key, y), jnp.zeros_like(y.xa), u)

    def step(state: ETQState[State], y: Transition) -> ETQState[State]:
        u, alpha, M = state.u, alpha_of(y.time), interest.predict(state.interest, y)
        delta = y.reward + y.discount * y.rho_next * (y.xa_next @ u) - y.xa @ u
        e = y.rho * state.trace + M * y.xa
        return ETQState(interest.step(state.interest, y), y.discount * e, u + alpha * delta * e)

    def predict(state: ETQState[State], y: Transition) -> Scalar:
        return y.xa @ state.u

    return Learner(init, step, predict, alpha_of, name="etq", estimates="action_values")
