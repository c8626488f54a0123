"""The top Lyapunov exponent: whether the paths of a learner forget where they started."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .. import _validation as checks
from ..mdp import Problem
from ..types import Array, Critic, Key
from .affine import affine_map, AffineMap
from .learner import as_learner

NUM_STEPS, NUM_CHAINS = 100_000, 64  # by default
SLICE_STEPS = 1000  # between which Ctrl-C is answered

Carry = tuple[Array, Array]  # where every chain is, and its vector


@dataclass(frozen=True)
class Lyapunov:
    r"""The top Lyapunov exponent of a learner, estimated.

    **Arguments:**

    - `estimate`: Of $\lim_t\frac1t\log\|B(Y_t)\cdots B(Y_1)\|$. Below 0 paths forget where they
      started, almost surely; above 0 they diverge.
    - `low`, `high`: The ends of a confidence interval.
    """

    estimate: float
    low: float
    high: float


def lyapunov(
    problem: Problem,
    learner: Critic | str,
    *,
    target: ArrayLike | None = None,
    num_steps: int = NUM_STEPS,
    num_chains: int = NUM_CHAINS,
    confidence: float = 0.95,
    seed: int = 0,
) -> Lyapunov:
    r"""Estimates the top Lyapunov exponent from the growth of random vectors on many chains.

    Chains start from the stationary distribution, and the first fifth of each is left out: the
    vectors need that time to turn to the slowest direction. The interval is Student's, over the
    chains.

    **Arguments:**

    - `problem`, `learner`, `target`: As for [learning_curve].
    - `num_steps`: The length of each chain.
    - `num_chains`: The number of independent chains, at least 2.
    - `confidence`: The level of the interval.
    - `seed`: The seed of all random numbers.
    """
    learner = as_learner(problem, learner, target)
    affine = affine_map(problem, learner, target).observable()
    return estimate_lyapunov(affine, num_steps, num_chains, confidence, seed)


def estimate_lyapunov(
    affine: AffineMap,
    num_steps: int = NUM_STEPS,
    num_chains: int = NUM_CHAINS,
    confidence: float = 0.95,
    seed: int = 0,
) -> Lyapunov:
    """Estimates the exponent of an observable map; see [lyapunov]."""
    from scipy import stats

    checks.count("num_steps", num_steps)
    checks.count("num_chains", num_chains)
    checks.seed(seed)
    if num_chains < 2:
        raise ValueError(f"num_chains: got {num_chains}; at least 2 are required for an interval")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence: got {confidence}; a number in (0, 1) is required")
    if not affine.matrix.shape[1]:
        return Lyapunov(-np.inf, -np.inf, -np.inf)
    growth = _simulate_growth(affine, num_steps, num_chains, seed)
    if not np.isfinite(growth).all():  # a product of steps is 0
        return Lyapunov(-np.inf, -np.inf, -np.inf)
    mean, deviation = growth.mean(), growth.std(ddof=1) / np.sqrt(num_chains)
    width = stats.t.ppf(0.5 + confidence / 2, num_chains - 1) * deviation
    return Lyapunov(float(mean), float(mean - width), float(mean + width))


def _simulate_growth(
    affine: AffineMap, num_steps: int, num_chains: int, seed: int
) -> Float[np.ndarray, " n"]:
    """Simulates the mean growth of the logarithm of a vector's length on each chain."""
    order = np.argsort(affine.source, kind="stable")
    source, size = affine.source[order], affine.matrix.shape[1]
    first = np.searchsorted(source, np.arange(len(affine.start) + 1))
    cumulative = np.cumsum(affine.probability[order]) - np.unique(source, return_inverse=True)[1]
    tables = affine.matrix[order], affine.destination[order], source + cumulative, first
    with jax.enable_x64(True):
        matrix, destination, upper, first = map(jnp.asarray, tables)
        keys = jax.random.split(jax.random.key(seed), 3)

        def step(carry: Carry, key: Key) -> tuple[Carry, Array]:
            z, v = carry
            y = jnp.searchsorted(upper, z + jax.random.uniform(key, (num_chains,)), side="right")
            y = jnp.clip(y, first[z], first[z + 1] - 1)  # where rounding leaves a gap
            v = jnp.einsum("cij,cj->ci", matrix[y], v)
            length = jnp.linalg.norm(v, axis=1)
            return (destination[y], v / length[:, None]), jnp.log(length)

        @jax.jit
        def run(carry: Carry, keys: jax.Array) -> tuple[Carry, Array]:
            return jax.lax.scan(step, carry, keys)

        stationary = jnp.asarray(affine.stationary)
        z = jax.random.choice(keys[0], len(stationary), (num_chains,), p=stationary)
        v = jax.random.normal(keys[1], (num_chains, size))
        carry, slices = (z, v / jnp.linalg.norm(v, axis=1, keepdims=True)), []
        step_keys = jax.random.split(keys[2], num_steps)
        for start in range(0, num_steps, SLICE_STEPS):
            carry, growth = run(carry, step_keys[start : start + SLICE_STEPS])
            slices.append(np.asarray(growth))
    return np.concatenate(slices)[num_steps // 5 :].mean(0)
