r"""Losses of a single transition, as functions of the outputs of networks and of data.

Gradients flow through the first argument only; every other one is data. The discount $\gamma_{t+1}$
is data too: it is 0 where an episode ends.
"""

import jax

from ..types import Number


def td_error(v: Number, reward: Number, discount: Number, v_next: Number) -> Number:
    r"""$\delta_t = R_{t+1} + \gamma_{t+1}\bar v(S_{t+1}) - v(S_t)$, with a target $\bar v$."""
    return reward + discount * v_next - v


def value_loss(v: Number, reward: Number, discount: Number, v_next: Number, rho: Number) -> Number:
    r"""The off-policy TD loss $\tfrac12\rho_t\delta_t^2$ of $v(S_t)$; see [td_error].

    **Arguments:**

    - `v`: $v(S_t)$, which is learned.
    - `reward`, `discount`: $R_{t+1}$ and $\gamma_{t+1}$.
    - `v_next`: $\bar v(S_{t+1})$, of the target network.
    - `rho`: $\rho_t$, clipped or not.
    """
    reward, discount, v_next, rho = jax.lax.stop_gradient((reward, discount, v_next, rho))
    return 0.5 * rho * td_error(v, reward, discount, v_next) ** 2


def emphasis_loss(m_next: Number, interest_next: Number, continues: Number, back: Number) -> Number:
    r"""The semi-gradient emphasis loss $\tfrac12(i(S_{t+1}) + c\,b - m(S_{t+1}))^2$.

    Here $b = \gamma\rho_t\bar m(S_t)$, and $c$ is 0 where the episode ends. $S_{t+1}$ is then the
    state in which the next episode starts, so that $m(s_0)$ learns $i(s_0)$: a trace starts anew.

    **Arguments:**

    - `m_next`: $m(S_{t+1})$, which is learned.
    - `interest_next`: $i(S_{t+1})$.
    - `continues`: $c$, whether the episode goes on.
    - `back`: $b$, with $\bar m$ a target network.
    """
    interest_next, continues, back = jax.lax.stop_gradient((interest_next, continues, back))
    return 0.5 * (interest_next + continues * back - m_next) ** 2


def masked_emphasis_loss(
    m_next: Number, interest_next: Number, continues: Number, back: Number
) -> Number:
    r"""The loss $\tfrac12(i(S_{t+1}) + b - c\,m(S_{t+1}))^2$ of the authors' code.

    Where an episode ends its gradient is 0: nothing teaches $m$ where episodes start. The arguments
    are those of [emphasis_loss].
    """
    interest_next, continues, back = jax.lax.stop_gradient((interest_next, continues, back))
    return 0.5 * (interest_next + back - continues * m_next) ** 2


def actor_loss(
    log_density: Number,
    entropy: Number,
    emphasis: Number,
    rho: Number,
    delta: Number,
    entropy_weight: Number,
) -> Number:
    r"""The emphatic actor's loss $-M_t\rho_t\delta_t\log\pi(A_t|S_t) - c_HH(\pi(\cdot|S_t))$.

    **Arguments:**

    - `log_density`, `entropy`: $\log\pi(A_t|S_t)$ and $H$, which are learned.
    - `emphasis`: $M_t$: a network's $m(S_t)$ (COF-PAC), a trace (ACE) or the interest (Off-PAC).
    - `rho`: $\rho_t$, clipped or not.
    - `delta`: The TD error $\delta_t$.
    - `entropy_weight`: $c_H$.
    """
    emphasis, rho, delta = jax.lax.stop_gradient((emphasis, rho, delta))
    return -emphasis * rho * delta * log_density - entropy_weight * entropy


def density_loss(
    c_next: Number, discount_hat: Number, back: Number, normaliser: Number, others: Number
) -> Number:
    r"""The loss $\tfrac12(b + 1 - \hat\gamma - c(S_{t+1}))^2 + k\,(e - 1)\,c(S_{t+1})$ of COP-TD.

    Here $b = \hat\gamma\rho_t\bar c(S_t)$ with a target network $\bar c$. The mean $e$ of $c$ over
    the rest of the batch makes the second gradient an unbiased one of $\tfrac12k(E[c] - 1)^2$.

    **Arguments:**

    - `c_next`: $c(S_{t+1})$, which is learned.
    - `discount_hat`: $\hat\gamma$.
    - `back`: $b$, with a ratio that is clipped or not.
    - `normaliser`: The weight $k$.
    - `others`: $e$, the mean of $c$ over the other transitions of the batch.
    """
    back, others = jax.lax.stop_gradient((back, others))
    fit = 0.5 * (back + 1 - discount_hat - c_next) ** 2
    return fit + normaliser * (others - 1) * c_next
