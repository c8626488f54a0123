"""Transitions, from which agents learn: steps, and what follows where an episode ends."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool, Float, Integer

from ..types import Array
from .experience import Step


class Transition(eqx.Module):
    r"""A [Step] as the losses see it: there is no terminal state, and discounts are data.

    The end of an episode is a transition straight to the state in which the next one starts, and no
    emphasis crosses it. Values may look further: where only a time limit ended the episode, the
    observation that was cut off has a value.

    Here `behavior` is $\mu(A_t|S_t)$; `observation_next` is what followed, whose value counts if
    `bootstraps` is 1 and not 0; `successor` is $S_{t+1}$, which is what followed, or the start of
    the next episode; `continues` is 0 where the episode ended, else 1.
    """

    observation: Float[Array, "*batch o"]
    action: Float[Array, "*batch a"] | Integer[Array, "*batch"]
    behavior: Float[Array, "*batch"]
    reward: Float[Array, "*batch"]
    observation_next: Float[Array, "*batch o"]
    bootstraps: Float[Array, "*batch"]
    successor: Float[Array, "*batch o"]
    continues: Float[Array, "*batch"]
    start: Bool[Array, "*batch"]


def transitions(
    steps: Step,
    behavior: float | Float[Array, "t n"],
    last_successor: Float[Array, "n o"],
    limit_ends: bool = True,
) -> Transition:
    r"""Makes [Transition]s of consecutive [Step]s, with the axes (iteration, worker).

    Where an episode of a worker ends, its next step begins with the start of the next episode: that
    is the successor, so that a stored transition is complete. The workers would begin the next
    iteration with `last_successor`. If `limit_ends`, a time limit counts as the end of the task, as
    in the paper's experiment: the value of what follows is then 0.
    """
    ended = steps.terminated | steps.truncated
    final = ended if limit_ends else steps.terminated
    dtype = steps.reward.dtype
    return Transition(
        observation=steps.observation,
        action=steps.action,
        behavior=jnp.broadcast_to(jnp.asarray(behavior, dtype), ended.shape),
        reward=steps.reward,
        observation_next=steps.observation_next,
        bootstraps=1 - final.astype(dtype),
        successor=jnp.concatenate([steps.observation[1:], last_successor[None]]),
        continues=1 - ended.astype(dtype),
        start=steps.start,
    )
