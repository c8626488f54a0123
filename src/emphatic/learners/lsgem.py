"""Least-squares emphasis: the limit of GEM without a step size."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from .. import _validation as checks
from ..types import Array, Key, Learner, Number, Scalar, Transition
from ._decay import as_decay


class LSGEMState(eqx.Module):
    r"""The inverse of $A_t$ and the weights $w_t$; the emphasis estimate is $x^\top w$."""

    inverse: Float[Array, "k k"]
    w: Float[Array, " k"]


def lsgem(ridge: Number = 1.0, decay: Number | None = None) -> Learner[LSGEMState, Transition]:
    r"""Least-squares emphasis: estimates the emphasis $m_\pi$ by $Xw$, as LSTD does the values.

    $w_t$ solves $A_tw_t = b_t$, the equations of GEM's limit in what was seen so far:

    $$
    A_t = \eta I + \sum_{k<t}x_{k+1}(x_{k+1} - \gamma_{k+1}\rho_kx_k)^\top, \qquad
    b_t = \sum_{k<t}i(S_{k+1})x_{k+1},
    $$

    by the formula of Sherman and Morrison, in $O(k^2)$ a step: with $g_t = A_t^{-1}x_{t+1}/(1 +
    (x_{t+1} - \gamma_{t+1}\rho_tx_t)^\top A_t^{-1}x_{t+1})$,

    $$
    \begin{aligned}
    w_{t+1} &= w_t + g_t\big(i(S_{t+1}) + \gamma_{t+1}\rho_tx_t^\top w_t - x_{t+1}^\top w_t\big), \\
    A_{t+1}^{-1} &= A_t^{-1} - g_t(x_{t+1} - \gamma_{t+1}\rho_tx_t)^\top A_t^{-1}.
    \end{aligned}
    $$

    Since $A_t/t \to X^\top(I - \gamma P_\pi^\top)DX$, the limit is the solution of
    [reverse_td_system], that of GEM without a ridge, even where reversed TD diverges. It starts
    from $w_0 = 0$ and $A_0^{-1} = I/\eta$. Rounding accumulates in $A_t^{-1}$, so that float64 is
    advisable. (LSTD for the values: Bradtke and Barto, 1996.)

    **Arguments:**

    - `ridge`: The ridge $\eta > 0$ that $A_0$ starts from; it is forgotten like $1/t$.
    - `decay`: A $\beta$ in place of the discount where that is positive, as for [followon].
    """
    checks.positive("ridge", ridge, "least squares need a positive and finite ridge")
    gamma_of = as_decay(decay)

    def init(key: Key, y: Transition) -> LSGEMState:
        inverse = jnp.eye(len(y.x), dtype=y.x.dtype) / ridge
        return LSGEMState(inverse, jnp.zeros_like(y.x))

    def step(state: LSGEMState, y: Transition) -> LSGEMState:
        inverse, w = state.inverse, state.w
        difference = y.x_next - gamma_of(y) * y.rho * y.x
        column = inverse @ y.x_next
        gain = column / (1.0 + difference @ column)
        return LSGEMState(
            inverse=inverse - gain[:, None] * (difference @ inverse)[None],
            w=w + gain * (y.interest_next - difference @ w),
        )

    def predict(state: LSGEMState, y: Transition) -> Scalar:
        return y.x @ state.w

    return Learner(init, step, predict, name="lsgem", estimates="emphasis")
