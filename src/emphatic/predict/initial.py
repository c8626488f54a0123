"""How the weights of a learner start: what they are called, their mean and their covariance."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, PyTree
from numpy.typing import ArrayLike

from .. import _validation as checks
from ..engine.linearization import weight_names
from ..engine.measures import example_transition
from ..mdp import Problem
from ..types import Critic

NUM_KEYS = 4096  # initial states that are drawn to see how a learner starts
TOLERANCE = 1e-9  # of symmetry, and of a negative eigenvalue

Initial = ArrayLike | tuple[ArrayLike, ArrayLike] | None
"""The initial weights: an array, a mean and a covariance, or None for the learner's own."""


def initial_weights(
    problem: Problem, learner: Critic, initial: Initial
) -> tuple[list[str], Callable[[jax.Array], PyTree], tuple[np.ndarray, np.ndarray]]:
    """Returns names of the weights, what makes a state of them, and their mean and covariance."""
    with jax.enable_x64(True):
        example = jax.tree.map(jnp.asarray, example_transition(problem, np.float64))
        first = learner.init(jax.random.key(0), example)
        if any(not jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(first)):
            raise ValueError(
                f"learner: the state of {learner_name(learner)} has numbers that are not real"
            )
        names, unravel = weight_names(first), ravel_pytree(first)[1]
        keys = jax.random.split(jax.random.key(0), NUM_KEYS)
        draws = jax.vmap(lambda key: ravel_pytree(learner.init(key, example))[0])(keys)
        draws = np.asarray(draws, np.float64).reshape(NUM_KEYS, -1)
    if initial is None:
        return names, unravel, _standard_moments(draws)
    return names, unravel, _validate_moments(initial, names)


def _standard_moments(draws: Float[np.ndarray, "m n"]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the mean and covariance of weights that are standard normal where they are random."""
    is_random = np.ptp(draws, axis=0) > 0
    mean, covariance = np.where(is_random, 0.0, draws[0]), np.diag(is_random.astype(float))
    deviation = draws - mean
    distance = max(
        np.abs(deviation.mean(0)).max(initial=0.0),
        np.abs(deviation.T @ deviation / NUM_KEYS - covariance).max(initial=0.0),
    )
    if distance > 8 / np.sqrt(NUM_KEYS):
        raise ValueError(
            "initial: not given, and the learner starts from random weights that are not "
            "standard normal; give their mean and covariance"
        )
    return mean, covariance


def _validate_moments(
    initial: ArrayLike | tuple[ArrayLike, ArrayLike], names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    size = len(names)
    mean, covariance = initial if isinstance(initial, tuple) else (initial, np.zeros((size, size)))
    axes = f"the weights {names[0]} to {names[-1]}" if names else "no weights"
    mean = checks.shaped("initial", mean, (size,), axes)
    covariance = checks.shaped("initial", covariance, (size, size), "a covariance")
    scale = np.abs(covariance).max(initial=0.0)
    if np.abs(covariance - covariance.T).max(initial=0.0) > TOLERANCE * scale:
        raise ValueError("initial: the covariance is not symmetric")
    if size and np.linalg.eigvalsh(covariance)[0] < -TOLERANCE * scale:
        raise ValueError("initial: the covariance has a negative eigenvalue")
    return mean, covariance


def learner_name(learner: Critic) -> str:
    """Returns what a learner is called in an error."""
    return learner.name or "the learner"
