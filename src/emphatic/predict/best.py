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
from .affine import affine_maps, AffineMap, Factory
from .curve import error_form, error_measure, ErrorMeasure, mean_root_mean_square, root_mean_squares
from .initial import Initial
from .learner import as_factory
from .moments import recursion
from .stability import EXAMPLE, MAX_FACTOR, natural_step_size

Criterion: TypeAlias = Literal["final", "area"]
"""How a step size is chosen: by the error after all steps, or by its mean square over them."""
DENSITIES = (2, 8)  # step sizes of a scan for each factor of two, small and large ones
COARSE = (1, 2)  # the same where there are many unknowns
CHEAP = 500  # unknowns
LARGEST = 64.0  # relative to the natural step size
SMALL, LARGE = 1 / 32, 1000.0  # a drift by which weights hardly move, a ratio of errors
MARGIN = 2.0  # relative to the smallest error, of the minima of a scan that are refined
NEGLIGIBLE = 1e-4  # of an error
MAX_SCAN = 200  # step sizes
PRECISION = 0.01  # of the step size, relative


@dataclass(frozen=True)
class Best:
    """The best step size, and its root-mean-square error."""

    step_size: float
    rmse: float


def best_step_size(
    problem: Problem,
    factory: Factory | str,
    num_steps: int,
    *,
    by: Criterion = "final",
    target: ArrayLike | None = None,
    measure: ErrorMeasure | None = None,
    initial: Initial = None,
) -> Best:
    r"""Finds the fixed step size with the least root-mean-square error, to one percent.

    The error can have several minima. It is scanned from step sizes so small that the weights
    hardly move in $n$ steps to those at which it explodes, and each low minimum of the scan is
    refined. The error is exact: no simulation is needed, and none is that precise.

    **Arguments:**

    - `problem`: The problem.
    - `factory`: A function from a step size to a learner, such as [gem]; or an expression, such as
      `"gem(step_size, 1e-3)"`.
    - `num_steps`: The number of steps $n$.
    - `by`: Whether to minimise the error after $n$ steps (`final`), or the area under the curve of
      squares, $\big(\frac1n\sum_{t<n}\mathbb E[\mathrm{error}_t^2]\big)^{1/2}$ (`area`).
    - `target`, `measure`, `initial`: As for [learning_curve].
    """
    checks.count("num_steps", num_steps)
    if by not in get_args(Criterion):
        raise unknown("by", by, get_args(Criterion))
    factory = as_factory(problem, factory, target)
    measure = error_measure(factory(EXAMPLE), measure)
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

    def error(exponent: float) -> float:
        affine = maps(2.0**exponent).observable()
        if by == "final":
            rmse = root_mean_squares(affine, form(affine), np.array([num_steps]))[0]
        else:
            rmse = mean_root_mean_square(affine, form(affine), num_steps)
        return min(float(rmse), float(np.finfo(float).max))

    exponents = scan_exponents(maps, num_steps)
    errors = [error(exponent) for exponent in exponents]
    while errors[-1] < LARGE * min(errors) and len(errors) < MAX_SCAN:
        exponents.append(exponents[-1] + 0.5)
        errors.append(error(exponents[-1]))
    while errors[0] <= min(errors) and len(errors) < MAX_SCAN:  # no step is best: how small?
        exponents.insert(0, exponents[0] - 1.0)
        errors.insert(0, error(exponents[0]))
        if errors[0] > (1.0 - NEGLIGIBLE) * errors[1]:
            break
    best = Best(float(2.0 ** exponents[int(np.argmin(errors))]), min(errors))
    around = [np.inf, *errors, np.inf]
    for n, smallest in enumerate(errors):
        if around[n] > smallest <= around[n + 2] and smallest < MARGIN * min(errors):
            bounds = exponents[max(n - 1, 0)], exponents[min(n + 1, len(exponents) - 1)]
            options = {"xatol": PRECISION / np.log(2.0)}
            refined = minimize_scalar(error, bounds=bounds, method="bounded", options=options)
            if refined.fun < best.rmse:
                best = Best(float(2.0**refined.x), float(refined.fun))
    return best


def scan_exponents(maps: Callable[[float], AffineMap], num_steps: int) -> list[float]:
    """Returns exponents from steps that together hardly move the weights to steps too large."""
    natural = natural_step_size(maps)
    if np.isinf(natural):
        raise ValueError("learner: no step size changes what it predicts")
    fields = [maps(size).mean_field for size in (EXAMPLE, 2 * EXAMPLE)]
    drift = np.linalg.norm(fields[1] - fields[0], ord=2) / EXAMPLE
    smallest = SMALL / num_steps / max(drift, 1 / natural / MAX_FACTOR)
    low, middle = np.log2(min(smallest, natural)), np.log2(natural)
    is_cheap = recursion(maps(EXAMPLE).observable()).size <= CHEAP
    below, above = DENSITIES if is_cheap else COARSE
    high = np.arange(middle, middle + np.log2(LARGEST), 1.0 / above)
    return [*np.arange(low, middle, 1.0 / below), *high]
