"""Step sizes that are stable: in mean, in mean square, almost surely."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .. import _validation as checks
from ..mdp import Problem
from ..types import Array, Critic, Key
from . import moments
from .affine import affine_map, affine_maps, AffineMap, Factory, require_memory

EXAMPLE = 0.125  # a step size at which the structure of a learner is derived
MAX_FACTOR = 2.0**30  # how far from the natural step size a threshold is sought
PRECISION = 1e-6  # of a threshold, relative
RESIDUAL = 0.1  # of an equation whose right-hand side is I, which then stays positive

Carry = tuple[Array, Array]  # where every chain is, and its vector


@dataclass(frozen=True)
class Thresholds:
    r"""The largest stable step sizes; 0 if none is, infinite if all are.

    **Arguments:**

    - `mean`: Below it $\mathbb E[d_t]$ converges.
    - `mean_square`: Below it the covariance converges as well.
    """

    mean: float
    mean_square: float


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


def thresholds(
    problem: Problem, factory: Factory, *, target: ArrayLike | None = None
) -> Thresholds:
    r"""Finds the step sizes up to which a learner is stable, in mean and in mean square.

    A learner is stable in mean if $f'(z') = \sum_{y: z\to z'}\Pr(y|z)B(y)f(z)$ has a spectral
    radius below one, and in mean square if $M'(z') = \sum_{y: z\to z'}\Pr(y|z)B(y)M(z)B(y)^\top$
    has. Only the observable part of the weights counts: where features are linearly dependent,
    some directions are moved by no update, and have the radius 1 at every step size.

    **Arguments:**

    - `problem`: The problem.
    - `factory`: A function from a step size to a learner, such as [gem].
    - `target`: The target policy; by default the problem's own.
    """
    return bisect_thresholds(affine_maps(problem, factory, EXAMPLE, target))


def bisect_thresholds(maps: Callable[[float], AffineMap]) -> Thresholds:
    """Finds the thresholds of learners whose affine maps depend on a step size."""
    start = natural_step_size(maps)
    return Thresholds(
        mean=_bisect(lambda size: is_stable_in_mean(maps(size).observable()), start),
        mean_square=_bisect(lambda size: is_stable_in_mean_square(maps(size).observable()), start),
    )


def natural_step_size(maps: Callable[[float], AffineMap]) -> float:
    """Returns the step size at which the largest of all steps just reverses some direction."""
    matrix = maps(EXAMPLE).observable().matrix
    move = np.linalg.norm(matrix - np.eye(matrix.shape[1]), ord=2, axis=(1, 2)).max(initial=0.0)
    return EXAMPLE / float(move) if move > 0 else np.inf


def _bisect(is_stable: Callable[[float], bool], start: float) -> float:
    """Finds the end of the stable step sizes: bracketed by halving and doubling, then bisected."""
    if np.isinf(start):
        return np.inf
    low, high = start, start
    while not is_stable(low):
        low, high = low / 2, low
        if low < start / MAX_FACTOR:
            return 0.0
    while low == high:
        if not is_stable(2 * high):
            high = 2 * high
        elif high > start * MAX_FACTOR:
            return np.inf
        else:
            low = high = 2 * high
    while high - low > PRECISION * low:
        middle = (low + high) / 2
        low, high = (middle, high) if is_stable(middle) else (low, middle)
    return low


def is_stable_in_mean(affine: AffineMap) -> bool:
    """Whether the mean of every difference of weights vanishes."""
    count, size = len(affine.start), affine.matrix.shape[1]
    require_memory(f"the mean of {count * size} unknowns", 24 * (count * size) ** 2)
    operator = np.zeros((count, size, count, size))
    for B, p, z, z_next in zip(
        affine.matrix, affine.probability, affine.source, affine.destination, strict=True
    ):
        operator[z_next, :, z] += p * B
    matrix = operator.reshape(count * size, count * size)
    return bool(np.abs(np.linalg.eigvals(matrix)).max(initial=0.0) < 1.0)


def is_stable_in_mean_square(affine: AffineMap) -> bool:
    r"""Whether the second moments of every difference of weights vanish.

    Their recursion $L$ maps positive semidefinite matrices to such, so that its radius is below 1
    exactly if some $X \succ 0$ has $X - LX \succ 0$. The solution of $X - LX = I$ decides: it is
    such an $X$, or is not positive.
    """
    if not affine.matrix.shape[1]:
        return True
    operator = moments.homogeneous(affine)
    size = affine.matrix.shape[1]
    identity = operator.pack(np.broadcast_to(np.eye(size), (operator.count, size, size)))
    if operator.size <= moments.DENSE:
        try:
            solution = np.linalg.solve(np.eye(operator.size) - operator.matrix(), identity)
        except np.linalg.LinAlgError:
            return False
    else:
        solution = _solve_krylov(operator, identity)
    return bool(np.linalg.eigvalsh(operator.unpack(solution)).min() > 0.0)


def _solve_krylov(operator: moments.Recursion, identity: np.ndarray) -> np.ndarray:
    """Solves $X - LX = I$ up to a residual that leaves the right-hand side positive."""
    space, size = moments.Krylov(operator, identity), moments.MIN_VECTORS
    while True:
        space.grow(size)
        unit = np.zeros(len(space.matrix))
        unit[0] = np.linalg.norm(identity)
        coordinates = np.linalg.solve(np.eye(len(unit)) - space.matrix, unit)
        if space.exhausted or abs(space.residual * coordinates[-1]) <= RESIDUAL:
            return coordinates @ space.basis
        if size >= min(moments.MAX_VECTORS, operator.size):
            raise ValueError(
                f"problem: {size} vectors do not decide the stability of {operator.size} second "
                "moments; fewer features or states are required"
            )
        size *= 2


def lyapunov(
    problem: Problem,
    learner: Critic,
    *,
    target: ArrayLike | None = None,
    num_steps: int = 100_000,
    num_chains: int = 64,
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
    affine = affine_map(problem, learner, target).observable()
    return estimate_lyapunov(affine, num_steps, num_chains, confidence, seed)


def estimate_lyapunov(
    affine: AffineMap,
    num_steps: int = 100_000,
    num_chains: int = 64,
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
        def run(z: Array, v: Array) -> Array:
            return jax.lax.scan(step, (z, v), jax.random.split(keys[2], num_steps))[1]

        stationary = jnp.asarray(affine.stationary)
        z = jax.random.choice(keys[0], len(stationary), (num_chains,), p=stationary)
        v = jax.random.normal(keys[1], (num_chains, size))
        growth = np.asarray(run(z, v / jnp.linalg.norm(v, axis=1, keepdims=True)))
    return growth[num_steps // 5 :].mean(0)
