"""The cost of the ridge: the distance from the regularised limits to the unregularised ones."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree
from numpy.typing import ArrayLike
from scipy import sparse

from .. import _validation as checks
from ..mdp import Problem
from .emphasis_systems import gem_system
from .gradient import as_float64, PolicyFunction, resolve
from .linear import column_sizes, DENSE, LinearSystem, RANK_TOLERANCE
from .value_systems import gq2_system

PER_DECADE = 25  # ridges examined in each decade when a bias that is not monotone is bounded


class RidgePath:
    r"""The limit $w^*(\eta) = (A^\top C^{-1}A + \eta I)^{-1}A^\top C^{-1}b$, a function of $\eta$.

    With $C = LL^\top$ and $L^{-1}A = U\Sigma V^\top$ it is $V\,\Sigma(\Sigma^2 + \eta)^{-1}\,
    U^\top L^{-1}b$, and the distance to $w^*(0)$ needs no difference of close numbers.
    """

    def __init__(self, system: LinearSystem, name: str):
        size = len(system.vector) // 2
        if sparse.issparse(system.matrix):
            raise ValueError(
                f"{name}: got {size} features; the cost of the ridge is known for at most {DENSE}"
            )
        C, A = system.matrix[:size, :size], system.matrix[:size, size:]
        sizes, matrix_rank = column_sizes(C), np.linalg.matrix_rank
        if matrix_rank(C / sizes[:, None] / sizes, rtol=RANK_TOLERANCE, hermitian=True) < size:
            raise ValueError(
                f"{name}: the features are linearly dependent, or nearly (C is singular to "
                "rounding), so that no limit is known; least_norm_solution() gives the shortest one"
            )
        lower = np.linalg.cholesky(C)
        U, self.sigma, Vt = np.linalg.svd(np.linalg.solve(lower, A))
        scaled = np.linalg.svd(np.linalg.solve(lower, A / sizes), compute_uv=False)
        if scaled[-1] <= RANK_TOLERANCE:
            raise ValueError(f"{name}: A is singular, so that there is no limit without a ridge")
        self.V = Vt.T
        self.source = U.T @ np.linalg.solve(lower, system.vector[:size])

    def weights(self, ridge: ArrayLike | float) -> Float[np.ndarray, "*ridges k"]:
        r"""$w^*(\eta)$, for one ridge or an array of them (last axis: features)."""
        eta = np.asarray(ridge)[..., None]
        return (self.sigma / (self.sigma**2 + eta) * self.source) @ self.V.T

    def distance(self, ridge: float) -> float:
        r"""$\|w^*(\eta) - w^*(0)\|$, increasing in $\eta$."""
        return float(np.linalg.norm(ridge / (self.sigma * (self.sigma**2 + ridge)) * self.source))

    def largest(self, tolerance: float) -> float:
        r"""The largest $\eta$ whose distance is at most the tolerance."""
        if np.linalg.norm(self.source / self.sigma) <= tolerance:
            return float("inf")  # even w = 0 is as close as that
        low, high = 0.0, self.sigma[-1] ** 2
        while self.distance(high) <= tolerance:
            low, high = high, 2.0 * high
        return _bisect(self.distance, tolerance, low, high)


def _bisect(distance: Callable[[float], float], tolerance: float, low: float, high: float) -> float:
    """Where a distance passes the tolerance, between a ridge within it and one beyond."""
    for _ in range(200):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if distance(middle) <= tolerance else (low, middle)
    return float(low)


@dataclass(frozen=True)
class RidgeCost:
    r"""How far the ridge $\eta$ moves the limits of COF-PAC's critics and of its update."""

    ridge: float
    """The ridge $\\eta$."""
    emphasis_distance: float
    """$\\|w^*(\\eta) - w^*(0)\\|$."""
    emphasis_norm: float
    """$\\|w^*(0)\\|$, to compare with."""
    value_distance: float
    """$\\|u^*(\\eta) - u^*(0)\\|$."""
    value_norm: float
    """$\\|u^*(0)\\|$."""
    gradient_bias: float
    """$\\|\\hat g_\\eta - \\hat g_0\\|$, what the ridge adds to the limiting policy update."""
    gradient_norm: float
    """$\\|\\hat g_0\\|$."""
    tolerance: float | None
    """The largest acceptable value of each of the three distances, if it was given."""
    largest_emphasis_ridge: float | None
    """The largest $\\eta$ that keeps the emphasis' distance within the tolerance."""
    largest_value_ridge: float | None
    """The same for the values' distance."""
    largest_gradient_ridge: float | None
    """The largest $\\eta$ such that every smaller one keeps the gradient's bias within it."""

    @property
    def largest_ridge(self) -> float | None:
        r"""The largest $\eta$ such that every smaller one keeps all three within it."""
        bounds = self.largest_emphasis_ridge, self.largest_value_ridge, self.largest_gradient_ridge
        return min((bound for bound in bounds if bound is not None), default=None)


def _gradients(
    target: Float[np.ndarray, "s a"],
    policy: PolicyFunction | None,
    theta: PyTree,
    c: Float[np.ndarray, "*ridges s a"],
) -> Float[np.ndarray, "*ridges n"]:
    r"""$\sum_{s,a}c(s,a)\nabla\pi(a|s)$, for a batch of weights $c$."""
    if policy is None:  # with respect to the logits of the target itself
        return (target * (c - (target * c).sum(-1, keepdims=True))).reshape(*c.shape[:-2], -1)
    with jax.enable_x64(True):
        _, vjp = jax.vjp(policy, as_float64(theta))
        flat = jnp.asarray(c.reshape(-1, *c.shape[-2:]))
        leaves = jax.tree.leaves(jax.vmap(vjp)(flat))
        rows = np.concatenate([np.asarray(leaf).reshape(len(flat), -1) for leaf in leaves], 1)
        return rows.reshape(*c.shape[:-2], -1)


def require_tolerance(tolerance: float | None) -> None:
    """Raises a `ValueError` unless the tolerance is positive and finite, or not given."""
    if tolerance is not None:
        checks.positive("tolerance", tolerance, "it must be positive and finite")


def ridge_cost(
    problem: Problem,
    target: ArrayLike | PolicyFunction | None = None,
    ridge: float = 0.0,
    theta: PyTree = None,
    tolerance: float | None = None,
) -> RidgeCost:
    r"""Computes the cost of a ridge, and the largest one that keeps it within a tolerance.

    The distance $\|w^*(\eta) - w^*(0)\|$ is monotone in $\eta$, so that bisection finds the largest
    ridge; the bias of the limiting policy update is not, and the first ridge that exceeds the
    tolerance is sought.

    The target is a policy, whose gradient is then taken with respect to its logits, or a function
    from theta to (s, a) probabilities. The tolerance is the largest acceptable value of each of the
    three distances.
    """
    require_tolerance(tolerance)
    policy, probability = resolve(problem, target, theta)
    emphasis = RidgePath(gem_system(problem, probability, ridge), "x")
    value = RidgePath(gq2_system(problem, probability, ridge), "xa")

    def update(ridges: ArrayLike | float) -> Float[np.ndarray, "*ridges n"]:
        m = emphasis.weights(ridges) @ problem.x.T
        q = value.weights(ridges) @ problem.xa_rows.T
        q = q.reshape(*np.shape(ridges), *problem.behavior.shape)
        return _gradients(probability, policy, theta, (problem.stationary * m)[..., None] * q)

    unbiased = update(0.0)

    def bias(ridges: ArrayLike | float) -> Float[np.ndarray, "*ridges"]:
        return np.asarray(np.linalg.norm(update(ridges) - unbiased, axis=-1))

    def largest_for_gradient(bound: float) -> float:
        low = 1e-14 * min(emphasis.sigma[-1], value.sigma[-1]) ** 2
        high = 1e8 * max(emphasis.sigma[0], value.sigma[0]) ** 2
        ridges = np.geomspace(low, high, int(PER_DECADE * np.log10(high / low)) + 2)
        exceeds = bias(ridges) > bound
        if not exceeds.any():
            return float("inf")
        first = int(exceeds.argmax())
        within = ridges[first - 1] if first else 0.0
        return _bisect(lambda eta: float(bias(eta)), bound, within, ridges[first])

    return RidgeCost(
        ridge=float(ridge),
        emphasis_distance=emphasis.distance(ridge),
        emphasis_norm=float(np.linalg.norm(emphasis.weights(0.0))),
        value_distance=value.distance(ridge),
        value_norm=float(np.linalg.norm(value.weights(0.0))),
        gradient_bias=float(bias(float(ridge))),
        gradient_norm=float(np.linalg.norm(unbiased)),
        tolerance=tolerance,
        largest_emphasis_ridge=None if tolerance is None else emphasis.largest(tolerance),
        largest_value_ridge=None if tolerance is None else value.largest(tolerance),
        largest_gradient_ridge=None if tolerance is None else largest_for_gradient(tolerance),
    )
