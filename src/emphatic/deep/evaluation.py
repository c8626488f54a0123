r"""What a policy is worth, $J(\pi)$ by excursions, and how well its emphasis is calibrated."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _checks as check
from .environment import Environment


def excursions(
    environment: Environment,
    act: Callable[[Any, Any, Any], Any],
    discount: float = 0.99,
    num_excursions: int = 10,
    num_episodes: int = 10,
) -> Callable[[Any, Any], dict[str, Any]]:
    r"""A function that estimates $J(\pi)$ and the return of whole episodes, all side by side.

    An excursion is $t$ steps of uniform behaviour, with a reset where an episode ends, and then the
    policy until the episode ends: the start is a state from $d_\mu$. Here $t$ is uniform on
    $\{0, \dots, h - 1\}$ with the horizon $h$; where all episodes are $h$ steps long this is a
    uniform position in an episode, as with any multiple of $h$.

    **Arguments:**

    - `environment`: The environment.
    - `act`: `(theta, observation, key)` to an action; the environment sees it as it is.
    - `discount`: $\gamma$.
    - `num_excursions`: How many excursions $J$ is the mean of.
    - `num_episodes`: How many episodes from a reset the return is the mean of.

    **Returns:**

    A function of theta and a random key. Its answers: `J`, the mean discounted return of the
    excursions, and `return`, the mean undiscounted return of the episodes.
    """
    check.count("num_excursions", num_excursions)
    check.count("num_episodes", num_episodes)
    low, high = environment.low, environment.high

    def follow(theta: Any, key: Any, wait: Any) -> tuple[Any, Any]:
        """The discounted and the undiscounted return after a number of random steps."""
        for_reset, key = jax.random.split(key)
        state = environment.reset(for_reset)
        zero = jnp.zeros((), environment.observe(state).dtype)

        def unfinished(carry: tuple) -> Any:
            return ~carry[-1]

        def step(carry: tuple) -> tuple:
            t, state, weight, discounted, total, _ = carry
            keys = jax.random.split(jax.random.fold_in(key, t), 3)
            observation = environment.observe(state)
            action = act(theta, observation, keys[0])
            explored = jax.random.uniform(keys[0], action.shape, action.dtype, low, high)
            following = t >= wait
            action = jnp.where(following, action, explored)
            state, reward, terminated, truncated = environment.step(state, action, keys[1])
            ended = terminated | truncated
            counted = jnp.where(following, reward, 0.0)
            begun = environment.reset(keys[2])
            state = jax.tree.map(lambda new, old: jnp.where(ended, new, old), begun, state)
            return (
                t + 1,
                state,
                jnp.where(following, discount * weight, weight),
                discounted + weight * counted,
                total + counted,
                following & ended,
            )

        first = (jnp.int32(0), state, zero + 1, zero, zero, jnp.bool_(False))
        _, _, _, discounted, total, _ = jax.lax.while_loop(unfinished, step, first)
        return discounted, total

    def evaluate(theta: Any, key: Any) -> dict[str, Any]:
        for_wait, key = jax.random.split(key)
        wait = jax.random.randint(for_wait, (num_excursions,), 0, environment.horizon)
        wait = jnp.concatenate([wait, jnp.zeros(num_episodes, wait.dtype)])
        keys = jax.random.split(key, len(wait))
        discounted, total = jax.vmap(follow, (None, 0, 0))(theta, keys, wait)
        return {"J": discounted[:num_excursions].mean(), "return": total[num_excursions:].mean()}

    return evaluate


def calibration(seen: dict[str, Any]) -> dict[str, Any]:
    r"""What a window of learning says about the ratios and the emphasis.

    **Arguments:**

    - `seen`: Arrays `ratio`, `trace` and `m`: $\rho_t$, $M_t$ and $m(S_t)$, of any equal shape.

    **Returns:**

    `ratio`, the mean ratio, which is the probability of the box under a [Gaussian];
    `sample_size`, the effective share $(\sum\rho)^2/(n\sum\rho^2)$ of the sample; `emphasis` and
    `trace`, the means of $m(S_t)$ and $M_t$; `slope`, of the least-squares line of $M_t$ on
    $m(S_t)$, which is 1 for the true $m$.
    """
    rho, M, m = seen["ratio"], seen["trace"], seen["m"]
    centred = m - m.mean()
    return {
        "ratio": rho.mean(),
        "sample_size": rho.sum() ** 2 / (rho.size * (rho**2).sum()),
        "emphasis": m.mean(),
        "trace": M.mean(),
        "slope": (centred * M).sum() / (centred**2).sum(),
    }


def emphasis_by_position(discount: float, horizon: int) -> np.ndarray:
    r"""$E[M_t] = (1 - \gamma^{j+1})/(1 - \gamma)$ at the positions $j < h$ of an episode.

    It holds for every policy with $E_\mu[\rho] = 1$ and interest 1, whatever the environment. For
    $\gamma = 0.99$ and $h = 50$ the mean is 21.8.

    **Arguments:**

    - `discount`: $\gamma$.
    - `horizon`: The length $h$ of all episodes.
    """
    return np.cumsum(float(discount) ** np.arange(horizon))
