"""Exact expectations over one step of stationary experience."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Sample
from ..mdp import Problem

CHUNK = 2**15  # samples evaluated at once


def samples(problem: Problem) -> tuple[np.ndarray, Sample]:
    """Every sample of positive probability, and the probabilities."""
    mdp, mu = problem.mdp, problem.behavior
    pair, state_next, p, reward, discount = mdp.outcomes
    state, action = pair // mdp.num_actions, pair % mdp.num_actions
    joint = (problem.stationary[state] * mu[state, action] * p)[:, None] * mu[state_next]
    outcome, action_next = np.nonzero(joint)
    sample = Sample(
        time=np.zeros(len(outcome), int),
        state=state[outcome],
        action=action[outcome],
        reward=reward[outcome],
        discount=discount[outcome],
        state_next=state_next[outcome],
        action_next=action_next,
    )
    return joint[outcome, action_next], sample


def expectation(problem: Problem, fn: Callable[[Sample], Any]) -> Any:
    r"""$\mathbb E[f(Y_t)]$ in the stationary regime of the behaviour, by enumeration.

    $$
    \sum_{s,a,s',a'} d_\mu(s)\,\mu(a|s)\,p(s'|s,a)\,\mu(a'|s')\,f(t, s, a, r, \gamma, s', a').
    $$

    **Arguments:**

    - `problem`: The problem.
    - `fn`: A JAX function of one [Sample] (with $t = 0$) that returns a pytree. It is vectorised
      over all samples, in float64.

    **Returns:**

    The same pytree of expectations, as NumPy arrays.
    """
    probability, sample = samples(problem)
    total = None
    with jax.enable_x64(True):
        evaluate = jax.jit(jax.vmap(fn))
        for first in range(0, len(probability), CHUNK):
            part = slice(first, first + CHUNK)
            weight = probability[part]
            batch = jax.tree.map(lambda leaf, part=part: jnp.asarray(leaf[part]), sample)
            sums = jax.tree.map(
                lambda leaf, weight=weight: np.tensordot(weight, np.asarray(leaf), axes=1),
                evaluate(batch),
            )
            total = sums if total is None else jax.tree.map(np.add, total, sums)
    return total
