"""What the ridge costs: the distance from the regularised limits to the unregularised ones."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..mdp import Problem
from .gradient import as_float64, Policy, resolve
from .systems import (
    column_sizes,
    DENSE,
    gem_system,
    gq2_system,
    LinearSystem,
    RANK_TOLERANCE,
)

PER_DECADE = 25  # ridges examined in each decade when a bias that is not monotone is bounded


class RidgePath:
    r"""The limit $w^*(\eta) = (A^\top C^{-1}A + \eta I)^{-1}A^\top C^{-1}b$ as a function of
    $\eta$.

    With $C = LL^\top$ and $L^{-1}A = U\Sigma V^\top$ it is $V\,\Sigma(\Sigma^2 +
    \eta)^{-1}\,U^\top L^{-1}b$, and the distance to $w^*(0)$ needs no difference of close
    numbers.
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
                f"{name}: the features are linearly dependent (C is singular), so that the limit "
                "is not unique; least_norm_solution() gives the shortest one"
            )
        lower = np.linalg.cholesky(C)
        U, self.sigma, Vt = np.linalg.svd(np.linalg.solve(lower, A))
        scaled = np.linalg.svd(np.linalg.solve(lower, A / sizes), compute_uv=False)
        if scaled[-1] <= RANK_TOLERANCE:
            raise ValueError(f"{name}: A is singular, so that there is no limit without a ridge")
        self.V = Vt.T
        self.source = U.T @ np.linalg.solve(lower, system.vector[:size])

    def weights(self, ridge) -> np.ndarray:
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


def _bisect(distance, tolerance: float, low: float, high: float) -> float:
    """Where a distance passes the tolerance, between a ridge within it and one beyond."""
    for _ in range(200):
        middle = (low + high) / 2.0
        if not low < middle < high:
            break
        low, high = (middle, high) if distance(middle) <= tolerance else (low, middle)
    return float(low)


@dataclass(frozen=True)
class RidgeCost:
    r"""What the ridge $\eta$ puts between COF-PAC's critics and their unregularised limits."""

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
    """What each of the three distances may be, if that was asked."""
    largest_emphasis_ridge: float | None
    """The largest $\\eta$ that keeps the emphasis' distance within the tolerance."""
    largest_value_ridge: float | None
    """The same for the values' distance."""
    largest_gradient_ridge: float | None
    """The largest $\\eta$ such that every smaller one keeps the gradient's bias within it."""

    @property
    def largest_ridge(self) -> float | None:
        r"""The largest $\eta$ such that every smaller one keeps all three within it."""
        if self.tolerance is None:
            return None
        parts = (self.largest_emphasis_ridge, self.largest_value_ridge, self.largest_gradient_ridge)
        return min(part for part in parts if part is not None)


def _gradients(target: np.ndarray, policy: Policy | None, theta: Any):
    r"""The linear map from weights $c(s,a)$ to $\sum c\nabla\pi$, for a batch of weights."""
    if policy is None:  # with respect to the logits of the target itself

        def of_logits(c):
            return (target * (c - (target * c).sum(-1, keepdims=True))).reshape(*c.shape[:-2], -1)

        return of_logits

    def of_theta(c):
        with jax.enable_x64(True):
            _, vjp = jax.vjp(policy, as_float64(theta))
            flat = jnp.asarray(c.reshape(-1, *c.shape[-2:]))
            leaves = jax.tree.leaves(jax.vmap(vjp)(flat))
            rows = np.concatenate([np.asarray(leaf).reshape(len(flat), -1) for leaf in leaves], 1)
            return rows.reshape(*c.shape[:-2], -1)

    return of_theta


def require_tolerance(tolerance: float | None) -> None:
    """A `ValueError` unless the tolerance is positive, or not given."""
    if tolerance is not None and not tolerance > 0:
        raise ValueError(f"tolerance: got {tolerance}; it must be positive")


def ridge_cost(
    problem: Problem,
    target: ArrayLike | Policy | None = None,
    ridge: float = 0.0,
    theta: Any = None,
    tolerance: float | None = None,
) -> RidgeCost:
    r"""What a ridge costs, and the largest one that keeps the cost within a tolerance.

    The distance $\|w^*(\eta) - w^*(0)\|$ is monotone in $\eta$, so that bisection finds the largest
    ridge; the bias of the limiting policy update is not, and the first ridge that exceeds the
    tolerance is sought.

    **Arguments:**

    - `problem`: The problem.
    - `target`: A target policy, whose gradient is then taken with respect to its logits, or a
      function from theta to (s, a) probabilities.
    - `ridge`: The ridge $\eta \ge 0$.
    - `theta`: The parameters of the policy, if the target is a function.
    - `tolerance`: The largest acceptable value of each of the three distances, if asked.
    """
    require_tolerance(tolerance)
    policy, probability = resolve(problem, target, theta)
    emphasis = RidgePath(gem_system(problem, probability, ridge), "x")
    value = RidgePath(gq2_system(problem, probability, ridge), "xa")
    gradients = _gradients(probability, policy, theta)

    def update(ridges):
        m = emphasis.weights(ridges) @ problem.x.T
        q = value.weights(ridges) @ problem.xa_rows.T
        shape = (*np.shape(ridges), *problem.behavior.shape)
        return gradients((problem.stationary * m)[..., None] * q.reshape(shape))

    unbiased = update(0.0)

    def bias(ridges):
        return np.linalg.norm(update(ridges) - unbiased, axis=-1)

    def largest_for_gradient(bound):
        low = 1e-14 * min(emphasis.sigma[-1], value.sigma[-1]) ** 2
        high = 1e8 * max(emphasis.sigma[0], value.sigma[0]) ** 2
        ridges = np.geomspace(low, high, int(PER_DECADE * np.log10(high / low)) + 2)
        exceeds = bias(ridges) > bound
        if not exceeds.any():
            return float("inf")
        first = int(exceeds.argmax())
        return _bisect(bias, bound, ridges[first - 1] if first else 0.0, ridges[first])

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
