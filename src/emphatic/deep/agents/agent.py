"""What an agent is, and how its parameters descend a loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .transition import Transition


@dataclass(frozen=True, eq=False)
class Agent:
    """How a policy is learned from a fixed behaviour, for one run: pure functions, and their data.

    The state of every agent is a dataclass with the fields `params`, all that it learns, and
    `replay`, the ring of past transitions.

    **Arguments:**

    - `init`: `(key, example, capacity)` to the first state; the example is one iteration's
      [Transition] or its shapes, the capacity how many iterations the replay keeps.
    - `update`: `(state, batch, time, key)` to the state after one iteration, and what was seen.
    - `theta`: From a state to what the policy needs to act.
    - `act`: `(theta, observation, key)` to an action.
    - `definition`: The algorithm and its settings, for reports and files.
    """

    init: Callable[[Any, Transition, int], Any]
    update: Callable[[Any, Transition, Any, Any], tuple[Any, dict[str, Any]]]
    theta: Callable[[Any], Any]
    act: Callable[[Any, Any, Any], Any]
    definition: dict[str, Any]


def rmsprop(
    gradient: dict[str, Any], params: dict[str, Any], averages: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    r"""Parameters and averages after a step of the optimiser of the paper's experiment.

    $$
    n \leftarrow 0.99\,n + 0.01\,g^2, \qquad
    \theta \leftarrow \theta - 10^{-3} g/(\sqrt n + 10^{-8})
    $$

    It is one for all networks: a loss that does not reach a network gives it $g = 0$, and its
    averages decay all the same.

    **Arguments:**

    - `gradient`: $g$, of the networks that the loss reached, by name.
    - `params`, `averages`: $\theta$ and $n$, of all networks.
    """
    decayed = jax.tree.map(lambda n: 0.99 * n, averages)
    reached = {
        name: jax.tree.map(lambda n, g: n + 0.01 * g**2, decayed[name], of_network)
        for name, of_network in gradient.items()
    }
    moved = {
        name: jax.tree.map(
            lambda theta, g, n: theta - 1e-3 * g / (jnp.sqrt(n) + 1e-8),
            params[name],
            of_network,
            reached[name],
        )
        for name, of_network in gradient.items()
    }
    return {**params, **moved}, {**decayed, **reached}


def mean_loss(loss: Callable, axes: tuple[int | None, ...]) -> Callable:
    """The mean of a single-transition loss over the mapped arguments."""
    return lambda *args: jax.vmap(loss, axes)(*args).mean()


def name(function: Callable) -> str:
    """What a function is called, for a definition."""
    return getattr(function, "__qualname__", repr(function))
