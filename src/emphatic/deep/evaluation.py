r"""What a policy is worth: returns of episodes, $J(\pi)$ by excursions, calibrated emphasis."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Integer, Shaped

from .. import _validation as check
from ..types import Array, Key, Params, Scalar
from .agents.agent import Act, Diagnostics
from .environments import gymnasium as gym
from .environments.environment import Environment, select, State
from .task import Task

Evaluate: TypeAlias = Callable[[Params, Key], Mapping[str, Scalar]]
"""From the parameters of a policy and a random key to numbers by name; it can be compiled."""


def excursions(
    environment: Environment,
    act: Act,
    discount: float = 0.99,
    num_excursions: int = 10,
    num_episodes: int = 10,
) -> Evaluate:
    r"""Makes a function that estimates $J(\pi)$ and the return of whole episodes, side by side.

    An excursion is $t$ steps of uniform behaviour, with a reset where an episode ends, and then the
    policy until the episode ends: the start is a state from $d_\mu$. Here $t$ is uniform on
    $\{0, \dots, h - 1\}$ with the horizon $h$; where all episodes are $h$ steps long this is a
    uniform position in an episode, as with any multiple of $h$. The environment gets the actions
    of the policy `act` as they are. The function returns `J`, the mean discounted return of the
    excursions, and `return`, the mean undiscounted return of the episodes from a reset.
    """
    check.count("num_excursions", num_excursions)
    check.count("num_episodes", num_episodes)
    low, high = environment.low, environment.high

    def follow(theta: Params, key: Key, num_random: Integer[Array, ""]) -> tuple[Scalar, Scalar]:
        """Returns the discounted and the undiscounted return after a number of random steps."""
        reset_key, key = jax.random.split(key)
        state = environment.reset(reset_key)
        zero = jnp.zeros((), environment.observe(state).dtype)

        def step(carry: tuple) -> tuple:
            t, state, weight, discounted, total, _ = carry
            keys = jax.random.split(jax.random.fold_in(key, t), 3)
            observation = environment.observe(state)
            action = act(theta, observation, keys[0])
            random_action = jax.random.uniform(keys[0], action.shape, action.dtype, low, high)
            follows = t >= num_random
            action = jnp.where(follows, action, random_action)
            state, reward, terminated, truncated = environment.step(state, action, keys[1])
            ended = terminated | truncated
            reward = jnp.where(follows, reward, 0.0)
            state = select(ended, environment.reset(keys[2]), state)
            discounted, total = discounted + weight * reward, total + reward
            weight = jnp.where(follows, discount * weight, weight)
            return t + 1, state, weight, discounted, total, follows & ended

        first = (jnp.int32(0), state, zero + 1, zero, zero, jnp.bool_(False))
        return jax.lax.while_loop(lambda carry: ~carry[-1], step, first)[3:5]

    def evaluate(theta: Params, key: Key) -> dict[str, Scalar]:
        start_key, key = jax.random.split(key)
        num_random = jax.random.randint(start_key, (num_excursions,), 0, environment.horizon)
        num_random = jnp.concatenate([num_random, jnp.zeros(num_episodes, num_random.dtype)])
        keys = jax.random.split(key, len(num_random))
        discounted, total = jax.vmap(follow, (None, 0, 0))(theta, keys, num_random)
        return {"J": discounted[:num_excursions].mean(), "return": total[num_excursions:].mean()}

    return evaluate


def rollout(
    environment: Environment, act: Act, theta: Params, key: Key
) -> tuple[State, Float[Array, " t"], Bool[Array, " t"]]:
    """Plays one episode from a reset; returns states, rewards, and which of the rewards count."""
    reset_key, key = jax.random.split(key)

    def step(carry: tuple, t: Integer[Array, ""]) -> tuple[tuple, tuple]:
        state, counts = carry
        action_key, step_key = jax.random.split(jax.random.fold_in(key, t))
        action = act(theta, environment.observe(state), action_key)
        state_next, reward, terminated, truncated = environment.step(state, action, step_key)
        return (state_next, counts & ~(terminated | truncated)), (state, reward, counts)

    first = environment.reset(reset_key), jnp.bool_(True)
    return jax.lax.scan(step, first, jnp.arange(environment.horizon))[1]


@partial(jax.jit, static_argnums=(0, 1))
def _rollouts(
    environment: Environment, act: Act, theta: Params, keys: Shaped[jax.Array, " n"]
) -> tuple[State, Float[Array, "n t"], Bool[Array, "n t"]]:
    return jax.vmap(partial(rollout, environment, act), (None, 0))(theta, keys)


@partial(jax.jit, static_argnums=0)
def _choose(act: Act, theta: Params, observations: gym.Observations, key: Key) -> gym.Actions:
    keys = jax.random.split(key, len(observations))
    return jax.vmap(act, (None, 0, 0))(theta, observations, keys)


def play(
    task: Task,
    act: Act,
    theta: Params,
    num_episodes: int = 10,
    *,
    seed: int = 0,
    discount: float = 0.99,
    random_steps: int = 0,
) -> gym.Returns:
    """Plays episodes with a policy; in Gymnasium's environments also after random steps, of which
    there are fewer than `random_steps`."""
    check.count("num_episodes", num_episodes)
    check.seed(seed)
    if task.environment is None:
        choose = partial(_choose, act, theta)
        return gym.play(task.name, choose, num_episodes, seed, discount, random_steps, task.horizon)
    keys = jax.random.split(jax.random.key(seed), num_episodes)
    _, reward, counts = _rollouts(task.environment, act, theta, keys)
    reward, counts = np.where(counts, reward, 0.0).astype(np.float64), np.asarray(counts)
    weights = discount ** np.arange(task.horizon)
    return gym.Returns(reward @ weights, reward.sum(1), counts.sum(1))


def calibration(window: Diagnostics) -> dict[str, Scalar]:
    r"""Measures how well ratios and emphasis were calibrated over a window of learning.

    The window has arrays `ratio`, `trace` and `m`: $\rho_t$, $M_t$ and $m(S_t)$. The result has
    `ratio`, the mean ratio, which is the probability of the box under a [Gaussian];
    `sample_size`, the effective share $(\sum\rho)^2/(n\sum\rho^2)$ of the sample; `emphasis` and
    `trace`, the means of $m(S_t)$ and $M_t$; `slope`, of the least-squares line of $M_t$ on
    $m(S_t)$, which is 1 for the true $m$.
    """
    rho, M, m = window["ratio"], window["trace"], window["m"]
    centred = m - m.mean()
    return {
        "ratio": rho.mean(),
        "sample_size": rho.sum() ** 2 / (rho.size * (rho**2).sum()),
        "emphasis": m.mean(),
        "trace": M.mean(),
        "slope": (centred * M).sum() / (centred**2).sum(),
    }
