"""Step sizes that are stable, in mean and in mean square."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..mdp import Problem
from . import moments
from .affine import affine_maps, AffineMap, Factory
from .learner import as_factory

EXAMPLE = 0.125  # a step size at which the structure of a learner is derived
MAX_FACTOR = 2.0**26  # how far from the natural step size: smaller ones may hide directions
COARSE, FINE, CHEAP = 0.5, 0.125, 200  # factors of two of a scan; fine for so many numbers
AGREEMENT = 0.1  # relative, of a margin and that of the mean field, where this decides
AGREEING = 1.5  # factors of two over which they agree, for one step size can do so by chance
TURN, MAX_TURN = 0.98, 12  # of a margin relative to its neighbours' where it is refined, in steps
PRECISION = 1e-6  # of the end of an interval, relative
NOISE, ROUNDING = 1e-12, 1e-15  # of a margin, and of that of the mean field
RESIDUAL = 0.1  # of an equation whose right-hand side is I, which then stays positive

Intervals: TypeAlias = tuple[tuple[float, float], ...]
"""Increasing intervals of step sizes, from 0 where all small ones belong to them."""
Margin: TypeAlias = Callable[[AffineMap], float]
Maps: TypeAlias = Callable[[float], AffineMap]


@dataclass(frozen=True)
class Thresholds:
    r"""The step sizes for which a learner is stable.

    Small ones are stable exactly if the mean field is. If it is not, the learner diverges with
    every small step, and yet larger ones, whose noise is correlated, can be stable.

    **Arguments:**

    - `stable_in_mean`: Intervals where $\mathbb E[d_t]$ converges.
    - `stable_in_mean_square`: Intervals where the covariance converges as well.
    """

    stable_in_mean: Intervals
    stable_in_mean_square: Intervals

    @property
    def mean(self) -> float:
        """The step size below which all are stable in mean; 0 if small ones are not."""
        return _threshold(self.stable_in_mean)

    @property
    def mean_square(self) -> float:
        """The step size below which all are stable in mean square; 0 if small ones are not."""
        return _threshold(self.stable_in_mean_square)


def _threshold(intervals: Intervals) -> float:
    return intervals[0][1] if intervals and intervals[0][0] == 0.0 else 0.0


def thresholds(
    problem: Problem, factory: Factory | str, *, target: ArrayLike | None = None
) -> Thresholds:
    r"""Finds the step sizes for which a learner is stable, in mean and in mean square.

    A learner is stable in mean if $f'(z') = \sum_{y: z\to z'}\Pr(y|z)B(y)f(z)$ has a spectral
    radius below one, and in mean square if $M'(z') = \sum_{y: z\to z'}\Pr(y|z)B(y)M(z)B(y)^\top$
    has. As the step size goes to 0, the mean field decides both. Only the observable part of the
    weights counts: where features are linearly dependent, some directions are moved by no update,
    and have the radius 1 at every step size.

    **Arguments:**

    - `problem`: The problem.
    - `factory`: A function from a step size to a learner, such as [gem]; or an expression, such as
      `"gem(step_size, 1e-3)"`.
    - `target`: The target policy; by default the problem's own.
    """
    factory = as_factory(problem, factory, target)
    return find_thresholds(affine_maps(problem, factory, EXAMPLE, target))


def find_thresholds(maps: Maps) -> Thresholds:
    """Finds the stable step sizes of learners whose affine maps depend on a step size."""
    natural = natural_step_size(maps)
    if np.isinf(natural):
        return Thresholds(((0.0, np.inf),), ((0.0, np.inf),))
    top = _largest(maps, natural)
    in_mean = _scan(maps, mean_margin, mean_field_margin, natural, (0.0, top))
    in_mean_square = (
        interval
        for candidates in in_mean  # for what is stable in mean square is stable in mean
        for interval in _scan(
            maps, mean_square_margin, mean_field_square_margin, natural, candidates
        )
    )
    return Thresholds(in_mean, tuple(in_mean_square))


def natural_step_size(maps: Maps) -> float:
    """Returns the step size at which the largest of all steps can be as long as the weights."""
    matrix = maps(EXAMPLE).observable().matrix
    move = np.linalg.norm(matrix - np.eye(matrix.shape[1]), ord=2, axis=(1, 2)).max(initial=0.0)
    return EXAMPLE / float(move) if move > 0 else np.inf


def _largest(maps: Maps, natural: float) -> float:
    """Returns a step size beyond which the mean diverges, the faster the larger; or infinity."""
    size, before = natural, np.inf
    while size <= natural * MAX_FACTOR:
        radius = 1.0 - mean_margin(maps(size).observable())
        if before > 2.0 and radius > 1.9 * before:
            return size
        size, before = 2.0 * size, radius
    return np.inf


def _scan(
    maps: Maps, margin: Margin, limit: Margin, natural: float, ends: tuple[float, float]
) -> Intervals:
    """Finds the step sizes with a positive margin between two; `limit` is that of small ones.

    From the largest they are scanned down to where the limit decides. Where the margin turns
    towards 0 it is refined, so that narrow gaps and narrow intervals are not missed.
    """
    from scipy.optimize import brentq, minimize_scalar

    def evaluate(size: float) -> float:
        return margin(maps(size).observable())

    low, high = ends
    size, num_agree, points = min(high, natural * MAX_FACTOR), 0, dict[float, float]()
    matrix = maps(EXAMPLE).observable().matrix
    octaves = FINE if len(matrix) * matrix.shape[1] <= CHEAP else COARSE
    ratio = min(2.0**octaves, (high / low) ** 0.25) if low else 2.0**octaves
    while size > max(low * ratio**0.5, natural / MAX_FACTOR) and (
        low or num_agree * octaves < AGREEING
    ):
        affine = maps(size).observable()
        here, small = margin(affine), limit(affine)
        if points and abs(here) <= NOISE:
            break
        points[size] = here
        num_agree = num_agree + 1 if abs(here - small) <= AGREEMENT * abs(small) else 0
        size /= ratio
    if low:
        points[low] = evaluate(low)

    def refine(before: float, after: float, sign: float) -> None:
        turn = minimize_scalar(
            lambda x: sign * evaluate(np.exp(x)) / np.exp(x),
            bounds=(np.log(before), np.log(after)),
            method="bounded",
            options={"maxiter": MAX_TURN},
        )
        points[float(np.exp(turn.x))] = sign * float(turn.fun)

    sizes = sorted(points)
    for neighbors in zip(sizes, sizes[1:], sizes[2:], strict=False):
        sign = float(np.sign(points[neighbors[1]]))
        before, here, after = (sign * points[size] / size for size in neighbors)
        if here < TURN * min(before, after):
            refine(neighbors[0], neighbors[2], sign)

    def crossing(a: float, b: float) -> float:
        root = brentq(
            lambda x: np.clip(evaluate(np.exp(x)), -1.0, 1.0),
            np.log(a),
            np.log(b),
            xtol=PRECISION / 4,
        )
        return float(np.exp(root)) * (1.0 - PRECISION if points[a] > 0.0 else 1.0 + PRECISION)

    sizes = sorted(points)
    bounds = [crossing(a, b) for a, b in pairwise(sizes) if (points[a] > 0.0) != (points[b] > 0.0)]
    if points[sizes[0]] > 0.0:
        is_stable = not low and limit(maps(sizes[0]).observable()) > 0.0
        bounds.insert(0, 0.0 if is_stable else sizes[0])
    if points[sizes[-1]] > 0.0:
        bounds.append(high)
    return tuple(zip(bounds[::2], bounds[1::2], strict=True))


def is_stable_in_mean(affine: AffineMap) -> bool:
    """Whether the mean of every difference of weights vanishes.

    What rounding hides is decided by the mean field, here and below.
    """
    margin = mean_margin(affine)
    return bool((margin if abs(margin) > NOISE else mean_field_margin(affine)) > 0.0)


def is_stable_in_mean_square(affine: AffineMap) -> bool:
    """Whether the second moments of every difference of weights vanish."""
    margin = mean_square_margin(affine)
    return bool((margin if abs(margin) > NOISE else mean_field_margin(affine)) > 0.0)


def mean_field_margin(affine: AffineMap) -> float:
    """Returns the margin of the mean of small steps: how fast the slowest mode decays."""
    margin = -np.linalg.eigvals(affine.mean_field).real.max(initial=-1.0)
    return float(margin) if margin > ROUNDING else min(float(margin), -ROUNDING)


def mean_field_square_margin(affine: AffineMap) -> float:
    """Returns the margin of the second moments of small steps, by Lyapunov's equation."""
    from scipy.linalg import solve_continuous_lyapunov

    size = affine.matrix.shape[1]
    if mean_field_margin(affine) < 0.0:
        return -1.0
    return size / float(np.trace(solve_continuous_lyapunov(affine.mean_field, -np.eye(size))))


def mean_margin(affine: AffineMap) -> float:
    """Returns how much the mean of the slowest difference of weights shrinks in a step."""
    matrix = moments.mean_operator(affine)
    return float(1.0 - np.abs(np.linalg.eigvals(matrix)).max(initial=0.0))


def mean_square_margin(affine: AffineMap) -> float:
    r"""Returns a number that is positive if all second moments of differences vanish.

    Their recursion $L$ maps positive semidefinite matrices to such, so that its radius is below 1
    exactly if some $X \succ 0$ has $X - LX \succ 0$. The solution of $X - LX = I$ decides: it is
    such an $X$, or is not positive. The number is the inverse of its mean eigenvalue, and goes
    through 0 with a slope.
    """
    if not affine.matrix.shape[1]:
        return 1.0
    operator = moments.homogeneous(affine)
    size = affine.matrix.shape[1]
    identity = operator.pack(np.broadcast_to(np.eye(size), (operator.count, size, size)))
    if operator.size <= moments.DENSE:
        try:
            solution = np.linalg.solve(np.eye(operator.size) - operator.matrix(), identity)
        except np.linalg.LinAlgError:
            return 0.0
    else:
        solution = _solve_krylov(operator, identity)
    eigenvalues = np.linalg.eigvalsh(operator.unpack(solution))
    margin = 1.0 / abs(eigenvalues.mean())
    return margin if eigenvalues.min() > 0.0 else -margin


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
