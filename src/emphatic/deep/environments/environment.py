"""Environments inside the compiled program, and uniform behaviour in them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PyTree

from ... import _validation as check
from ...types import Array, Key, Scalar
from ..experience import Action, Observation, Step

State: TypeAlias = PyTree
"""The state of an environment: a pytree of arrays."""
Outcome: TypeAlias = tuple[State, Scalar, Bool[Array, ""], Bool[Array, ""]]
"""What a step leads to: the next state, the reward, and whether it terminated or was truncated."""


@dataclass(frozen=True, eq=False)
class Environment:
    """An environment of pure JAX functions, for one copy and without automatic resets; `low` and
    `high` bound an action, and after `horizon` steps an episode is truncated."""

    name: str
    observation_size: int
    low: Float[np.ndarray, " a"]
    high: Float[np.ndarray, " a"]
    horizon: int
    reset: Callable[[Key], State]
    observe: Callable[[State], Observation]
    step: Callable[[State, Action, Key], Outcome]


def clip_actions(environment: Environment) -> Environment:
    r"""Returns the environment with actions clipped to its box.

    For uniform behaviour it is the same. Where actions cost, a [Gaussian] is worth more in it.
    """

    def step(state: State, action: Action, key: Key) -> Outcome:
        low, high = (jnp.asarray(b, action.dtype) for b in (environment.low, environment.high))
        return environment.step(state, jnp.clip(action, low, high), key)

    return replace(environment, name=f"{environment.name}, actions clipped", step=step)


class Workers(eqx.Module):
    """Copies of an environment, side by side: their states, and which have just been reset."""

    state: State
    start: Bool[Array, " n"]


def select(condition: Bool[Array, ""], first: State, second: State) -> State:
    """Returns the first state if the condition holds, else the second."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), first, second)


def uniform_density(low: Float[Array, " a"], high: Float[Array, " a"]) -> float:
    r"""The density of uniform behaviour on a box, $\mu(a|s) = \prod_j 1/(h_j - l_j)$."""
    return float(np.prod(1.0 / (np.asarray(high, np.float64) - np.asarray(low, np.float64))))


def uniform_steps(
    environment: Environment, num_workers: int
) -> tuple[Callable[[Key], Workers], Callable[[Workers, Key], tuple[Workers, Step]]]:
    r"""Makes the functions of uniform behaviour, with a reset wherever an episode ends.

    Both functions are pure, so that a training loop can generate its experience inside the
    compiled program. The stream depends on the keys alone, not on the agent that learns from it.
    The first returns [Workers] that have been reset; the second the workers after one step of each,
    and that [Step], with the workers as its leading axis.
    """
    check.count("num_workers", num_workers)

    def reset(key: Key) -> State:
        return jax.vmap(environment.reset)(jax.random.split(key, num_workers))

    def init(key: Key) -> Workers:
        return Workers(reset(key), jnp.ones(num_workers, bool))

    def advance(workers: Workers, key: Key) -> tuple[Workers, Step]:
        action_key, step_key, reset_key = jax.random.split(key, 3)
        shape = (num_workers, *environment.low.shape)
        low, high = (jnp.broadcast_to(b, shape) for b in (environment.low, environment.high))
        action = jax.random.uniform(action_key, shape, minval=low, maxval=high)
        state, reward, terminated, truncated = jax.vmap(environment.step)(
            workers.state, action, jax.random.split(step_key, num_workers)
        )
        ended = terminated | truncated
        observe = jax.vmap(environment.observe)
        observation, observation_next = observe(workers.state), observe(state)
        step = Step(
            observation, action, reward, observation_next, terminated, truncated, workers.start
        )
        return Workers(jax.vmap(select)(ended, reset(reset_key), state), ended), step

    return init, advance
