"""GradientDICE: the density ratio as a saddle point."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from .. import _validation as checks
from ..schedules import as_ridge, as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from ._initial import standard_normal


class GradientDICEState(eqx.Module):
    r"""The weights of GradientDICE; the estimate of the ratio is $\tau = x^\top w$."""

    kappa: Float[Array, " k"]
    u: Float[Array, ""]
    w: Float[Array, " k"]


def gradient_dice(
    step_size: StepSize, discount: Number, ridge: StepSize = 0.0, penalty: Number = 1.0
) -> Learner[GradientDICEState, Transition]:
    r"""GradientDICE (Zhang, Liu and Whiteson, 2020) for states: the density ratio by $Xw$.

    With $\tau = x^\top w$ and $f = x^\top\kappa$ it descends in $w$ and ascends in $\kappa$ and $u$

    $$
    L = (1 - \hat\gamma)\mathbb E[f_t] + \hat\gamma\mathbb E[\tau_t\rho_tf_{t+1}] -
    \mathbb E[\tau_tf_t] - \tfrac12\mathbb E[f_t^2] + \lambda\big(u(\mathbb E[\tau_t] - 1) -
    \tfrac12u^2\big) + \tfrac12\xi\|w\|^2
    $$

    by

    $$
    \begin{aligned}
    \kappa_{t+1} &= \kappa_t + \alpha_t\big((1 - \hat\gamma)x_t + \hat\gamma\rho_t\tau_tx_{t+1} -
        \tau_tx_t - f_tx_t\big), \\
    u_{t+1} &= u_t + \alpha_t\lambda(\tau_t - 1 - u_t), \\
    w_{t+1} &= w_t - \alpha_t\big(\hat\gamma\rho_tf_{t+1}x_t - f_tx_t + \lambda u_tx_t +
        \xi w_t\big).
    \end{aligned}
    $$

    Without $u$ it is [gradient_cop_td]; $u$ holds the mean of the ratio at 1, which determines it
    even at $\hat\gamma = 1$. Excursions start from $d_\mu$: an interest $i$ in the first term would
    have to be normalised, $\mathbb E[i(S_t)] = 1$, lest both conditions contradict each other, and
    a learner cannot see whether it is. Ends of episodes do not matter, as for [ratio]. The limit is
    the solution of [gradient_dice_system]. It starts from $\kappa_0 = 0$, $u_0 = 0$ and a standard
    normal $w_0$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `discount`: $\hat\gamma$ in [0, 1], which goes on where episodes end.
    - `ridge`: The ridge $\xi \ge 0$, a schedule or a number.
    - `penalty`: The weight $\lambda > 0$ of the mean of the ratio.
    """
    alpha_of, xi_of = as_schedule(step_size), as_ridge(ridge)
    checks.probability("discount", discount, "a number")
    checks.positive("penalty", penalty, "a positive and finite number is required")

    def init(key: Key, y: Transition) -> GradientDICEState:
        u = jnp.zeros((), y.x.dtype)
        return GradientDICEState(jnp.zeros_like(y.x), u, standard_normal(key, "w", y.x))

    def step(state: GradientDICEState, y: Transition) -> GradientDICEState:
        kappa, u, w, alpha, xi = state.kappa, state.u, state.w, alpha_of(y.time), xi_of(y.time)
        tau, f, f_next, ahead = y.x @ w, y.x @ kappa, y.x_next @ kappa, discount * y.rho
        return GradientDICEState(
            kappa=kappa + alpha * ((1 - discount - tau - f) * y.x + ahead * tau * y.x_next),
            u=u + alpha * penalty * (tau - 1 - u),
            w=w - alpha * ((ahead * f_next - f + penalty * u) * y.x + xi * w),
        )

    def predict(state: GradientDICEState, y: Transition) -> Scalar:
        return y.x @ state.w

    return Learner(
        init,
        step,
        predict,
        alpha_of,
        ridge,
        name="gradient_dice",
        estimates="ratio",
        discount=discount,
    )
