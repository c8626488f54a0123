"""Step sizes that are stable: in mean, in mean square, almost surely."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .. import _checks as checks
from .._types import Learner
from ..mdp import Problem
from . import moments
from .affine import Affine, affine, family, require

EXAMPLE = 0.125  # a step size at which the structure of a learner is found
FURTHEST = 2.0**30  # up to this factor from where it begins a threshold is sought
PRECISION = 1e-6  # of a threshold, relative
RESIDUAL = 0.1  # of an equation whose right-hand side is I: what is left of it is still positive


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
      began, almost surely; above 0 they diverge.
    - `low`, `high`: The ends of a confidence interval.
    """

    estimate: float
    low: float
    high: float


def thresholds(
    problem: Problem, make: Callable[[float], Learner], *, target: ArrayLike | None = None
) -> Thresholds:
    r"""The step sizes up to which a learner is stable in mean and in mean square, by bisection.

    A learner is stable in mean if $f'(z') = \sum_{y: z\to z'}\Pr(y|z)B(y)f(z)$ has a spectral
    radius below one, and in mean square if $M'(z') = \sum_{y: z\to z'}\Pr(y|z)B(y)M(z)B(y)^\top$
    has. Directions that no prediction ever sees are left out: where features are dependent there
    are some that no update moves, whose radius is 1 at every step size.

    **Arguments:**

    - `problem`: The problem.
    - `make`: Makes the learner of a step size, such as [gem].
    - `target`: The target policy; by default the problem's own.
    """
    return stable_up_to(family(problem, make, (EXAMPLE,), target))


def stable_up_to(maps: Callable[[float], Affine]) -> Thresholds:
    """The thresholds of a family of learners."""
    begin = natural(maps)
    in_mean = _largest(lambda size: is_stable_in_mean(maps(size).seen()), begin)
    in_square = _largest(lambda size: is_stable_in_mean_square(maps(size).seen()), begin)
    return Thresholds(in_mean, in_square)


def natural(maps: Callable[[float], Affine]) -> float:
    """The step size at which the largest of all steps just turns some direction around."""
    matrix = maps(EXAMPLE).seen().matrix
    move = np.linalg.norm(matrix - np.eye(matrix.shape[1]), ord=2, axis=(1, 2)).max(initial=0.0)
    return EXAMPLE / float(move) if move > 0 else np.inf


def _largest(stable: Callable[[float], bool], begin: float) -> float:
    """The end of the stable step sizes: bracketed by halving and doubling, then bisected."""
    if np.isinf(begin):
        return np.inf
    low, high = begin, begin
    while not stable(low):
        low, high = low / 2, low
        if low < begin / FURTHEST:
            return 0.0
    while low == high:
        if not stable(2 * high):
            high = 2 * high
        elif high > begin * FURTHEST:
            return np.inf
        else:
            low = high = 2 * high
    while high - low > PRECISION * low:
        middle = (low + high) / 2
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low


def is_stable_in_mean(affine: Affine) -> bool:
    """Whether the mean of every difference of weights dies out."""
    count, size = len(affine.start), affine.matrix.shape[1]
    require(f"the mean of {count * size} unknowns", 24 * (count * size) ** 2)
    operator = np.zeros((count, size, count, size))
    for B, p, z, z_next in zip(
        affine.matrix, affine.probability, affine.source, affine.destination, strict=True
    ):
        operator[z_next, :, z] += p * B
    matrix = operator.reshape(count * size, count * size)
    return bool(np.abs(np.linalg.eigvals(matrix)).max(initial=0.0) < 1.0)


def is_stable_in_mean_square(affine: Affine) -> bool:
    r"""Whether the second moments of every difference of weights die out.

    Their recursion $L$ maps positive semidefinite matrices to such, so that its radius is below 1
    exactly if some $X \succ 0$ has $X - LX \succ 0$. The solution of $X - LX = I$ decides: it is
    such an $X$, or is not positive.
    """
    if not affine.matrix.shape[1]:
        return True
    operator = moments.homogeneous(affine)
    size = affine.matrix.shape[1]
    ones = operator.packed(np.broadcast_to(np.eye(size), (operator.count, size, size)))
    if operator.size <= moments.DENSE:
        try:
            found = np.linalg.solve(np.eye(operator.size) - operator.matrix(), ones)
        except np.linalg.LinAlgError:
            return False
    else:
        found = _krylov_solution(operator, ones)
    return bool(np.linalg.eigvalsh(operator.unpacked(found)).min() > 0.0)


def _krylov_solution(operator: moments.Recursion, ones: np.ndarray) -> np.ndarray:
    """A solution of $X - LX = I$ up to a residual that leaves the right-hand side positive."""
    space, size = moments.Krylov(operator, ones), moments.FIRST
    while True:
        space.grow(size)
        unit = np.zeros(len(space.matrix))
        unit[0] = np.linalg.norm(ones)
        inside = np.linalg.solve(np.eye(len(unit)) - space.matrix, unit)
        if space.exhausted or abs(space.rest * inside[-1]) <= RESIDUAL:
            return inside @ space.basis
        if size >= min(moments.MOST, operator.size):
            raise ValueError(
                f"problem: {size} vectors do not decide the stability of {operator.size} second "
                "moments; fewer features or states are required"
            )
        size *= 2


def lyapunov(
    problem: Problem,
    learner: Learner,
    *,
    target: ArrayLike | None = None,
    num_steps: int = 100_000,
    num_chains: int = 64,
    confidence: float = 0.95,
    seed: int = 0,
) -> Lyapunov:
    r"""The top Lyapunov exponent, estimated from the growth of random vectors on many chains.

    Chains start from the stationary law, and the first fifth of each is left out: the vectors need
    that time to turn to the slowest direction. The interval is Student's, over the chains.

    **Arguments:**

    - `problem`, `learner`, `target`: As for [learning_curve].
    - `num_steps`: The length of each chain.
    - `num_chains`: How many there are, independent of each other; at least 2.
    - `confidence`: The level of the interval.
    - `seed`: Draws everything.
    """
    return exponent(
        affine(problem, learner, target).seen(), num_steps, num_chains, confidence, seed
    )


def exponent(
    seen: Affine,
    num_steps: int = 100_000,
    num_chains: int = 64,
    confidence: float = 0.95,
    seed: int = 0,
) -> Lyapunov:
    """The exponent of a learner without unseen directions."""
    from scipy import stats

    checks.count("num_steps", num_steps)
    checks.count("num_chains", num_chains)
    checks.seed(seed)
    if num_chains < 2:
        raise ValueError(f"num_chains: got {num_chains}; at least 2 are required for an interval")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence: got {confidence}; a number in (0, 1) is required")
    if not seen.matrix.shape[1]:
        return Lyapunov(-np.inf, -np.inf, -np.inf)
    growth = _growth(seen, num_steps, num_chains, seed)
    if not np.isfinite(growth).all():  # a product of steps is 0
        return Lyapunov(-np.inf, -np.inf, -np.inf)
    mean, deviation = growth.mean(), growth.std(ddof=1) / np.sqrt(num_chains)
    width = stats.t.ppf(0.5 + confidence / 2, num_chains - 1) * deviation
    return Lyapunov(float(mean), float(mean - width), float(mean + width))


def _growth(affine: Affine, num_steps: int, num_chains: int, seed: int) -> Float[np.ndarray, " n"]:
    """The mean growth of the logarithm of a vector's length on each chain."""
    order = np.argsort(affine.source, kind="stable")
    source, size = affine.source[order], affine.matrix.shape[1]
    first = np.searchsorted(source, np.arange(len(affine.start) + 1))
    above = np.cumsum(affine.probability[order]) - np.unique(source, return_inverse=True)[1]
    parts = affine.matrix[order], affine.destination[order], source + above, first
    with jax.enable_x64(True):
        matrix, destination, upto, first, law = map(jnp.asarray, (*parts, affine.stationary))
        keys = jax.random.split(jax.random.key(seed), 3)

        def step(carry: tuple, key: Any) -> tuple:
            z, v = carry
            y = jnp.searchsorted(upto, z + jax.random.uniform(key, (num_chains,)), side="right")
            y = jnp.clip(y, first[z], first[z + 1] - 1)  # where rounding leaves a gap
            v = jnp.einsum("cij,cj->ci", matrix[y], v)
            length = jnp.linalg.norm(v, axis=1)
            return (destination[y], v / length[:, None]), jnp.log(length)

        @jax.jit
        def run(z: Any, v: Any) -> Any:
            return jax.lax.scan(step, (z, v), jax.random.split(keys[2], num_steps))[1]

        z = jax.random.choice(keys[0], len(affine.start), (num_chains,), p=law)
        v = jax.random.normal(keys[1], (num_chains, size))
        growth = np.asarray(run(z, v / jnp.linalg.norm(v, axis=1, keepdims=True)))
    return growth[num_steps // 5 :].mean(0)
