"""Environments inside the compiled program, and what happens in them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _checks as check


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Step:
    r"""What happened at time $t$: $(O_t, A_t, R_{t+1}, O_{t+1})$, and where episodes begin and end.

    Arrays may have leading axes, usually (iteration, worker). `observation_next` is the true
    successor $O_{t+1}$, also where the episode ends and the next observation is that of a reset.

    **Arguments:**

    - `observation`, `observation_next`: $O_t$ and $O_{t+1}$.
    - `action`: $A_t$, a vector, or a number of an action.
    - `reward`: $R_{t+1}$.
    - `terminated`: Whether the task ended with this step; the value of its successor is 0.
    - `truncated`: Whether a limit of time cut the episode here; its successor has a value.
    - `start`: Whether $O_t$ is the first observation of an episode.
    """

    observation: Any
    action: Any
    reward: Any
    observation_next: Any
    terminated: Any
    truncated: Any
    start: Any


@dataclass(frozen=True, eq=False)
class Environment:
    """An environment of pure JAX functions, for one copy and without automatic resets.

    **Arguments:**

    - `name`: What it is called, for reports and files.
    - `observation_size`: The length of an observation.
    - `low`, `high`: The bounds of an action, one for each of its entries.
    - `horizon`: The number of steps after which an episode is truncated.
    - `reset`: A first state, from a random key.
    - `observe`: The observation of a state.
    - `step`: `(state, action, key)` to `(state, reward, terminated, truncated)`.
    """

    name: str
    observation_size: int
    low: np.ndarray
    high: np.ndarray
    horizon: int
    reset: Callable[[Any], Any]
    observe: Callable[[Any], Any]
    step: Callable[[Any, Any, Any], tuple[Any, Any, Any, Any]]


def clipped(environment: Environment) -> Environment:
    r"""The environment behind a clip: of an action only what is nearest to it in the box is seen.

    For uniform behaviour it is the same. A [Gaussian] is worth more in it where actions cost.

    **Arguments:**

    - `environment`: The environment.
    """

    def step(state: Any, action: Any, key: Any) -> tuple[Any, Any, Any, Any]:
        low, high = (jnp.asarray(b, action.dtype) for b in (environment.low, environment.high))
        return environment.step(state, jnp.clip(action, low, high), key)

    return replace(environment, name=f"{environment.name}, actions clipped", step=step)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Workers:
    """Copies of an environment, side by side: their states, and which have just been reset."""

    state: Any
    start: Any


def _choose(condition: Any, first: Any, second: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), first, second)


def uniform_density(low: Any, high: Any) -> float:
    r"""The density of uniform behaviour on a box, $\mu(a|s) = \prod_j 1/(h_j - l_j)$.

    **Arguments:**

    - `low`, `high`: The bounds $l$ and $h$ of an action.
    """
    return float(np.prod(1.0 / (np.asarray(high, np.float64) - np.asarray(low, np.float64))))


def uniform_steps(
    environment: Environment, num_workers: int
) -> tuple[Callable[[Any], Workers], Callable[[Workers, Any], tuple[Workers, Step]]]:
    r"""The experience of uniform random behaviour, with a reset wherever an episode ends.

    Both functions are pure, so that a training loop can generate its experience inside the
    compiled program. The stream depends on the keys alone: whoever learns from it, it is the same.

    **Arguments:**

    - `environment`: The environment.
    - `num_workers`: How many copies of it act side by side.

    **Returns:**

    - `init(key)`: [Workers] that have been reset.
    - `advance(workers, key)`: The workers after one step of each, and that [Step], with the workers
      as its leading axis.
    """
    check.count("num_workers", num_workers)

    def reset(key):
        return jax.vmap(environment.reset)(jax.random.split(key, num_workers))

    def init(key) -> Workers:
        return Workers(reset(key), jnp.ones(num_workers, bool))

    def advance(workers: Workers, key) -> tuple[Workers, Step]:
        for_action, for_step, for_reset = jax.random.split(key, 3)
        shape = (num_workers, *environment.low.shape)
        low, high = (jnp.broadcast_to(b, shape) for b in (environment.low, environment.high))
        action = jax.random.uniform(for_action, shape, minval=low, maxval=high)
        state, reward, terminated, truncated = jax.vmap(environment.step)(
            workers.state, action, jax.random.split(for_step, num_workers)
        )
        ended = terminated | truncated
        step = Step(
            observation=jax.vmap(environment.observe)(workers.state),
            action=action,
            reward=reward,
            observation_next=jax.vmap(environment.observe)(state),
            terminated=terminated,
            truncated=truncated,
            start=workers.start,
        )
        begun = jax.vmap(_choose)(ended, reset(for_reset), state)
        return Workers(begun, ended), step

    return init, advance
