"""The best step size for a given number of steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args, Literal, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .. import _validation as checks
from .._validation import unknown
from ..mdp import Problem
from .affine import affine_maps, AffineMap, Factory, Initial
from .curve import error_form, ErrorMeasure, mean_root_mean_square, root_mean_squares
from .stability import EXAMPLE, natural_step_size

Criterion: TypeAlias = Literal["final", "area"]
"""How a step size is chosen: by the error after all steps, or by its mean square over them."""
PATIENCE = 4  # halvings in a row without improvement, after which the search ends
NUM_HALVINGS = 30
PRECISION = 0.01  # of the step size, relative


@dataclass(frozen=True)
class Best:
    """The best step size, and its root-mean-square error."""

    step_size: float
    rmse: float


def best_step_size(
    problem: Problem,
    factory: Factory,
    num_steps: int,
    *,
    by: Criterion = "final",
    target: ArrayLike | None = None,
    measure: ErrorMeasure = "emphasis",
    initial: Initial = None,
) -> Best:
    r"""Finds the fixed step size with the least root-mean-square error, to one percent.

    Step sizes are halved until the error no longer falls, and the best one is refined between its
    neighbours. The error is exact: no simulation is needed, and none is that precise.

    **Arguments:**

    - `problem`: The problem.
    - `factory`: A function from a step size to a learner, such as [gem].
    - `num_steps`: The number of steps $n$.
    - `by`: Whether to minimise the error after $n$ steps (`final`), or the area under the curve of
      squares, $\big(\frac1n\sum_{t<n}\mathbb E[\mathrm{error}_t^2]\big)^{1/2}$ (`area`).
    - `target`, `measure`, `initial`: As for [learning_curve].
    """
    checks.count("num_steps", num_steps)
    if by not in get_args(Criterion):
        raise unknown("by", by, get_args(Criterion))
    maps = affine_maps(problem, factory, EXAMPLE, target, initial)
    return minimize_error(
        maps, lambda affine: error_form(problem, target, affine, measure), num_steps, by
    )


def minimize_error(
    maps: Callable[[float], AffineMap],
    form: Callable[[AffineMap], Float[np.ndarray, "z n n"]],
    num_steps: int,
    by: Criterion = "final",
) -> Best:
    """Finds the best step size of learners with these affine maps; `form` is the [error_form]."""
    from scipy.optimize import minimize_scalar

    largest = 8.0 * natural_step_size(maps)
    if np.isinf(largest):
        raise ValueError("learner: no step size changes what it predicts")

    def error(exponent: float) -> float:
        affine = maps(float(largest * 2.0**exponent)).observable()
        if by == "final":
            return float(root_mean_squares(affine, form(affine), np.array([num_steps]))[0])
        return mean_root_mean_square(affine, form(affine), num_steps)

    errors: list[float] = []
    while len(errors) < NUM_HALVINGS:
        errors.append(error(float(-len(errors))))
        if np.isfinite(min(errors)) and len(errors) > int(np.argmin(errors)) + PATIENCE:
            break
    middle = -int(np.argmin(errors))
    refined = minimize_scalar(
        lambda exponent: min(error(exponent), np.finfo(float).max),
        bounds=(middle - 1.0, min(middle + 1.0, 0.0)),
        method="bounded",
        options={"xatol": PRECISION / np.log(2.0)},
    )
    if refined.fun < min(errors):
        return Best(float(largest * 2.0**refined.x), float(refined.fun))
    return Best(float(largest * 2.0**middle), min(errors))
