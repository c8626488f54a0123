"""What an agent is, and how its parameters descend a loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import optax

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


def rmsprop() -> optax.GradientTransformation:
    r"""The optimiser of the paper's experiment, with one average for each parameter.

    $$
    n \leftarrow 0.99\,n + 0.01\,g^2, \qquad
    \theta \leftarrow \theta - 10^{-3} g/(\sqrt n + 10^{-8})
    $$

    It is one for all networks: a loss that does not reach a parameter gives it $g = 0$, and its
    average decays all the same.
    """
    return optax.rmsprop(1e-3, decay=0.99, eps=1e-8, eps_in_sqrt=False)


def mean_loss(loss: Callable, axes: tuple[int | None, ...]) -> Callable:
    """The mean of a single-transition loss over the mapped arguments."""
    return lambda *args: jax.vmap(loss, axes)(*args).mean()


def apply(optimiser: Any, gradient: Any, params: Any, averages: Any) -> tuple[Any, Any]:
    """Parameters and averages after one step."""
    change, averages = optimiser.update(gradient, averages, params)
    return optax.apply_updates(params, change), averages


def name(function: Callable) -> str:
    """What a function is called, for a definition."""
    return getattr(function, "__qualname__", repr(function))
