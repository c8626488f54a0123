"""Exact expectations over one step of stationary experience."""

from collections.abc import Callable
from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from ..mdp import Problem
from ..types import Sample

CHUNK = 2**15  # samples evaluated at once


class EnumeratedSamples(NamedTuple):
    """Every sample that can occur in one step, with its probability."""

    probability: Float[np.ndarray, " n"]
    """The probability of each sample."""
    sample: Sample
    """The samples, with an axis of length n, at time 0."""
    outcome: Int[np.ndarray, " n"]
    """The position of each sample's outcome $(s, a, s')$ in `problem.mdp.outcomes`, increasing."""


def enumerate_samples(
    problem: Problem, distribution: Float[np.ndarray, " s"] | None = None
) -> EnumeratedSamples:
    r"""Enumerates the samples of positive probability, $p_0(s)\,\mu(a|s)\,p(s'|s,a)\,\mu(a'|s')$.

    The distribution $p_0$ is by default the stationary one, $d_\mu$. With ones, the probabilities
    are conditional on the state.
    """
    mdp, mu = problem.mdp, problem.behavior
    weight = problem.stationary if distribution is None else distribution
    pair, state_next, p, reward, discount = mdp.outcomes
    state, action = np.divmod(pair, mdp.num_actions)
    joint = (weight[state] * mu[state, action] * p)[:, None] * mu[state_next]
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
    return EnumeratedSamples(joint[outcome, action_next], sample, outcome)


def expectation(problem: Problem, fn: Callable[[Sample], PyTree]) -> PyTree:
    r"""$\mathbb E[f(Y_t)]$ in the stationary regime of the behaviour, by enumeration.

    $$
    \sum_{s,a,s',a'} d_\mu(s)\,\mu(a|s)\,p(s'|s,a)\,\mu(a'|s')\,f(t, s, a, r, \gamma, s', a').
    $$

    $f$ is a JAX function of one [Sample] (with $t = 0$) that returns a pytree. It is vectorised
    over all samples, in float64; the result is the same pytree of expectations, as NumPy arrays.
    """
    probability, sample, _ = enumerate_samples(problem)
    evaluate = jax.jit(jax.vmap(fn))

    def chunk(first: int) -> PyTree:
        rows = slice(first, first + CHUNK)
        values = evaluate(jax.tree.map(lambda leaf: jnp.asarray(leaf[rows]), sample))
        return jax.tree.map(lambda leaf: np.tensordot(probability[rows], leaf, axes=1), values)

    with jax.enable_x64(True):
        chunks = map(chunk, range(0, len(probability), CHUNK))
        return reduce(partial(jax.tree.map, np.add), chunks)
