"""The step size that is best for a horizon."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args, Literal

import numpy as np
from numpy.typing import ArrayLike

from .. import _checks as checks
from .._names import unknown
from .._types import Learner
from ..mdp import Problem
from . import moments
from .affine import Affine, family, Initial
from .curve import Measure, root, weights
from .stability import EXAMPLE, natural

By = Literal["final", "area"]
"""What a step size is chosen by: the error after all steps, or its mean square over them."""
WORSE = 4  # halvings in a row that do not improve, after which smaller step sizes are not tried
NUM_HALVINGS = 30
PRECISION = 0.01  # of the step size, relative


@dataclass(frozen=True)
class Best:
    """The best step size, and the root-mean-square error that it leads to."""

    step_size: float
    rmse: float


def best_step_size(
    problem: Problem,
    make: Callable[[float], Learner],
    num_steps: int,
    *,
    by: By = "final",
    target: ArrayLike | None = None,
    measure: Measure = "emphasis",
    initial: Initial = None,
) -> Best:
    r"""The fixed step size with the least root-mean-square error for a horizon, to a hundredth.

    Step sizes are halved until the error no longer falls, and the best one is refined between its
    neighbours. The error is exact: no simulation is needed, and none is that precise.

    **Arguments:**

    - `problem`: The problem.
    - `make`: Makes the learner of a step size, such as [gem].
    - `num_steps`: The horizon $n$.
    - `by`: Whether to minimise the error after $n$ steps (`final`), or the area under the curve of
      squares, $\big(\frac1n\sum_{t<n}\mathbb E[\mathrm{error}_t^2]\big)^{1/2}$ (`area`).
    - `target`, `measure`, `initial`: As for [learning_curve].
    """
    checks.count("num_steps", num_steps)
    if by not in get_args(By):
        raise unknown("by", by, get_args(By))
    maps = family(problem, make, (EXAMPLE,), target, initial)
    return best_of(maps, lambda each: weights(problem, target, each, measure), num_steps, by)


def best_of(
    maps: Callable[[float], Affine],
    weights: Callable[[Affine], np.ndarray],
    num_steps: int,
    by: By = "final",
) -> Best:
    """The best step size of a family of learners."""
    from scipy.optimize import minimize_scalar

    times, largest = np.array([num_steps]), 8.0 * natural(maps)
    if np.isinf(largest):
        raise ValueError("learner: no step size changes what it predicts")

    def error(exponent: float) -> float:
        seen = maps(float(largest * 2.0**exponent)).seen()
        operator = moments.recursion(seen)
        path = moments.path(operator, moments.beginning(seen), times, moments.unit(seen))
        row = operator.functional(weights(seen))
        if by == "final":
            return float(root(path.values(row, times))[0])
        return float(root(path.totals(row, times) / num_steps)[0])

    errors: list[float] = []
    while len(errors) < NUM_HALVINGS:
        errors.append(error(float(-len(errors))))
        if np.isfinite(min(errors)) and len(errors) > int(np.argmin(errors)) + WORSE:
            break
    middle = -int(np.argmin(errors))
    found = minimize_scalar(
        lambda exponent: min(error(exponent), np.finfo(float).max),
        bounds=(middle - 1.0, min(middle + 1.0, 0.0)),
        method="bounded",
        options={"xatol": PRECISION / np.log(2.0)},
    )
    if found.fun < min(errors):
        return Best(float(largest * 2.0**found.x), float(found.fun))
    return Best(float(largest * 2.0**middle), min(errors))
