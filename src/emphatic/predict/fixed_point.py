"""Where a learner settles as its step size goes to 0, from the mean field of its own step."""

import numpy as np
from numpy.typing import ArrayLike

from ..mdp import Problem
from ..oracle.linear import LinearSystem, weighted_norm
from ..oracle.solution import FixedPoint, settle
from ..types import LearnerFactory
from .affine import affine_maps
from .curve import error_measure, truth
from .learner import as_factory

SIZES = 2.0**10, 2.0**11  # large, so that 1 - B(y) loses no digit
ROUNDING = 1e-9  # relative to the terms that the mean matrix is the sum of


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
    for example: $\bar G$ then depends on $\alpha$, and the fixed point does not.
    """
    factory = as_factory(problem, factory, target)
    learner = factory(SIZES[0])
    measure = error_measure(learner)
    maps = affine_maps(problem, factory, SIZES[0], target)
    affine, G, G_again = maps(SIZES[0]), *(-maps(size).mean_field / size for size in SIZES)
    weight = affine.stationary[affine.source] * affine.probability
    moves = np.abs(affine.matrix - np.eye(len(G))) / SIZES[0]
    terms = np.tensordot(weight, moves, axes=1)  # what cancels in a sum of them is 0
    rows = terms.max(1, initial=0.0)
    rows[rows == 0.0] = 1.0
    system = LinearSystem(
        G / rows[:, None], weight @ affine.vector / SIZES[0] / rows, np.ones(len(G))
    )
    solution, unique, exists = settle(system)
    prediction = affine.slope @ solution + affine.offset
    error = weighted_norm(weight, prediction - truth(problem, target, affine, measure))
    is_homogeneous = np.allclose(G, G_again, rtol=0.0, atol=ROUNDING * terms.max(initial=0.0))
    slowest = LinearSystem(G, system.vector).slowest_mode() if is_homogeneous else None
    estimates = learner.estimates or "values"
    return FixedPoint(
        solution, unique, error if exists else np.inf, slowest, estimates, learner.name
    )
