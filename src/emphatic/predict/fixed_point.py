"""Where a learner settles as its step size goes to 0, from the mean field of its own step."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..mdp import Problem
from ..oracle.linear import LinearSystem, weighted_norm
from ..oracle.solution import FixedPoint, settle
from ..types import LearnerFactory
from .affine import affine_maps, AffineMap
from .curve import error_measure, truth
from .initial import learner_name
from .learner import as_factory

SIZES = 2.0**10, 2.0**11  # large, so that 1 - B(y) loses no digit
ROUNDING = 1e-9  # relative to the terms that the mean matrix is the sum of
SMALL, NOISE = 1.0, 1e-13  # where a fixed point must be the same, and what 1 - B(y) loses there
MOVED = 1e-6  # relative to the terms of an equation, of a fixed point that it does not have


def fixed_point(
    problem: Problem, factory: LearnerFactory | str, *, target: ArrayLike | None = None
) -> FixedPoint:
    r"""Solves the mean field $\bar h - \bar Gd$ of a learner, derived from its own `step`.

    With $d_{t+1} = B(Y_t)d_t + b(Y_t)$ and the step size $\alpha$ they are
    $\bar G = \mathbb E[I - B(Y)]/\alpha$ and $\bar h = \mathbb E[b(Y)]/\alpha$, in the stationary
    regime. The oracle knows the same of the paper's learners, by other means.

    **Arguments:**

    - `problem`: The problem.
    - `factory`: A function from a step size to a learner that is affine in its weights, such as
      [gem]; or an expression, such as `"etd(exact(emphasis), step_size)"`.
    - `target`: The target policy; by default the problem's own.

    The slowest mode is None if some weights have a step size of their own, that of TDC's correction
    for example: $\bar G$ then depends on $\alpha$, and the fixed point does not. Where it does, as
    with [pgtd2], a `ValueError` says so.
    """
    factory = as_factory(problem, factory, target)
    learner = factory(SIZES[0])
    measure = error_measure(learner)
    maps = affine_maps(problem, factory, SIZES[0], target)
    affine = maps(SIZES[0])
    G, h, terms = _mean_field(affine, SIZES[0])
    G_again, _, _ = _mean_field(maps(SIZES[1]), SIZES[1])
    rows = terms.max(1, initial=0.0)
    rows[rows == 0.0] = 1.0
    solution, unique, exists = settle(LinearSystem(G / rows[:, None], h / rows, np.ones(len(G))))
    is_homogeneous = np.allclose(G, G_again, rtol=0.0, atol=ROUNDING * terms.max(initial=0.0))
    if exists and not is_homogeneous:
        G_small, h_small, terms_small = _mean_field(maps(SMALL), SMALL)
        allowed = MOVED * (np.abs(h_small) + terms_small @ np.abs(solution))
        allowed += NOISE * (1.0 + np.abs(solution))
        if (np.abs(h_small - G_small @ solution) > allowed).any():
            raise ValueError(
                f"learner: where {learner_name(learner)} settles depends on the step size, so its "
                "limit as that goes to 0 is not the fixed point of a step"
            )
    weight = affine.stationary[affine.source] * affine.probability
    prediction = affine.slope @ solution + affine.offset
    error = weighted_norm(weight, prediction - truth(problem, target, affine, measure))
    slowest = LinearSystem(G, h / rows).slowest_mode() if is_homogeneous else None
    estimates = learner.estimates or "values"
    return FixedPoint(
        solution, unique, error if exists else np.inf, slowest, estimates, learner.name
    )


def _mean_field(
    affine: AffineMap, step_size: float
) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, " n"], Float[np.ndarray, "n n"]]:
    r"""Returns $\bar G$, $\bar h$ and the sum of the sizes of the terms of $\bar G$."""
    weight = affine.stationary[affine.source] * affine.probability
    moves = np.abs(affine.matrix - np.eye(affine.matrix.shape[1])) / step_size
    terms = np.tensordot(weight, moves, axes=1)  # what cancels in a sum of them is 0
    return -affine.mean_field / step_size, weight @ affine.vector / step_size, terms
