"""The step of a learner as a function of one vector of weights, and its linearization."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, PyTree

from ..mdp import Problem
from ..types import Critic, named_leaves, Sample, Scalar

Output = TypeVar("Output")
Weights: TypeAlias = Float[jax.Array, " n"]
VectorStep: TypeAlias = Callable[[Critic, Weights, Sample], tuple[Weights, Scalar]]


def weight_names(state: PyTree) -> list[str]:
    """Returns what the numbers of a learner's state are called, such as `emphasis.w[0]`."""
    return [
        name + "".join(f"[{n}]" for n in index)
        for name, leaf in named_leaves(state).items()
        for index in np.ndindex(leaf.shape)
    ]


def is_trace(name: str) -> bool:
    """Whether a number of a state is called a trace, such as `trace[0]`: it is not learned."""
    return name.partition("[")[0].endswith("trace")


def vector_step(
    problem: Problem, target: Float[np.ndarray, "s a"], unravel: Callable[[Weights], PyTree]
) -> VectorStep:
    r"""Returns the function of learner, $d_t$ and sample to $d_{t+1}$ and the prediction before."""

    def step(learner: Critic, d: Weights, sample: Sample) -> tuple[Weights, Scalar]:
        pi, state = jnp.asarray(target, jnp.result_type(float)), unravel(d)
        y = problem.view(pi[sample.state], pi[sample.state_next], sample)
        return ravel_pytree(learner.step(state, y))[0], learner.predict(state, y)

    return step


def linearize(fn: Callable[[Weights], Output], d: Weights) -> tuple[Output, Output]:
    """Returns the value of a function of the weights and its Jacobian."""
    return fn(d), jax.jacfwd(fn)(d)
