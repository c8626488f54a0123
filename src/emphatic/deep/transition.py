"""What an agent learns from: steps, and what follows where an episode ends."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .environment import Step


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Transition:
    r"""A [Step] as the losses see it: there is no terminal state, and discounts are data.

    The end of an episode is a transition straight to the state in which the next one starts, and no
    emphasis crosses it. Values may look further: where only a limit of time ended the episode, the
    observation that was cut off has a value.

    **Arguments:**

    - `observation`, `action`, `reward`: $S_t$, $A_t$ and $R_{t+1}$.
    - `behavior`: $\mu(A_t|S_t)$.
    - `observation_next`: What followed, whose value counts if `bootstraps` is 1.
    - `bootstraps`: 0 where $R_{t+1}$ was the last reward, else 1.
    - `successor`: $S_{t+1}$, which is what followed, or the start of the next episode.
    - `continues`: 0 where the episode ended, else 1.
    - `start`: Whether $S_t$ is the start of an episode.
    """

    observation: Any
    action: Any
    behavior: Any
    reward: Any
    observation_next: Any
    bootstraps: Any
    successor: Any
    continues: Any
    start: Any


def transitions(steps: Step, behavior: Any, after: Any, limit_ends: bool = True) -> Transition:
    r"""The [Transition]s of consecutive [Step]s, with the axes (iteration, worker).

    Where an episode of a worker ends, its next step begins with the start of the next episode: that
    is the successor, so that a stored transition is complete.

    **Arguments:**

    - `steps`: The steps.
    - `behavior`: $\mu(A_t|S_t)$, a number or an array.
    - `after`: The observations that the workers would begin the next iteration with.
    - `limit_ends`: Whether a limit of time counts as the end of the task, as in the paper's
      experiment: the value of what follows is then 0.
    """
    ended = steps.terminated | steps.truncated
    final = ended if limit_ends else steps.terminated
    number = steps.reward.dtype
    return Transition(
        observation=steps.observation,
        action=steps.action,
        behavior=jnp.broadcast_to(jnp.asarray(behavior, number), ended.shape),
        reward=steps.reward,
        observation_next=steps.observation_next,
        bootstraps=1 - final.astype(number),
        successor=jnp.concatenate([steps.observation[1:], after[None]]),
        continues=1 - ended.astype(number),
        start=steps.start,
    )
