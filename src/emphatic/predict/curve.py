"""Exact learning curves: means, covariances and errors of a learner at any times."""

from dataclasses import dataclass
from typing import get_args, Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .. import oracle
from .._validation import unknown
from ..mdp import Problem
from ..types import Critic, Estimand, Learner
from . import moments
from .affine import affine_map, AffineMap
from .initial import Initial
from .learner import as_learner
from .stability import is_stable_in_mean_square

ErrorMeasure: TypeAlias = Literal["emphasis", "value", "ratio"]
"""The exact function that predictions are compared with: the emphasis, the (action) values or the
density ratio."""
MEASURES: dict[Estimand, ErrorMeasure] = {
    "emphasis": "emphasis",
    "values": "value",
    "action_values": "value",
    "ratio": "ratio",
}
MAX_STEPS = 10**12


@dataclass(frozen=True, eq=False)
class Curve:
    r"""The exact moments of a learner's weights $d_t$ and its exact error, at some times.

    **Arguments:**

    - `times`: The numbers of steps.
    - `mean`: $\mathbb E[d_t]$.
    - `covariance`: Of $d_t$.
    - `rmse`: The root-mean-square error; infinite where it overflows.
    - `names`: The names of the weights.
    """

    times: Int[np.ndarray, " t"]
    mean: Float[np.ndarray, "t n"]
    covariance: Float[np.ndarray, "t n n"]
    rmse: Float[np.ndarray, " t"]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Limit:
    r"""Where a learner settles with a fixed step size, if it is stable in mean square.

    **Arguments:**

    - `rmse`: The root-mean-square error; infinite if it is not stable.
    - `mean`, `covariance`: Of the observable part of the weights; other directions are 0 here, and
      need not settle. None if it is not stable.
    """

    rmse: float
    mean: Float[np.ndarray, " n"] | None
    covariance: Float[np.ndarray, "n n"] | None


def learning_curve(
    problem: Problem,
    learner: Critic | str,
    times: ArrayLike,
    *,
    target: ArrayLike | None = None,
    measure: ErrorMeasure | None = None,
    initial: Initial = None,
) -> Curve:
    r"""Computes the exact mean and covariance of a learner's weights, and its exact error.

    With $x_t = [1; d_t]$ the moments $M_t(z) = \mathbb E[x_tx_t^\top1\{Z_t = z\}]$ obey

    $$
    M_{t+1}(z') = \sum_{y: z \to z'}\Pr(y|z)\,T(y)\,M_t(z)\,T(y)^\top,
    $$

    for $d_t$ and what happens next are independent given $Z_t$; see [AffineMap] for $T$ and $Z$.
    Powers of this linear map come from repeated squaring: $10^9$ steps cost as much as $10^3$.

    **Arguments:**

    - `problem`: The problem.
    - `learner`: A learner with fixed step sizes that is affine in its weights, such as
      `gem(0.025)`; or an expression, such as `"gem(0.025)"`.
    - `times`: Numbers of steps, in any order.
    - `target`: The target policy; by default the problem's own.
    - `measure`: `emphasis` compares the prediction at $S_t$ with $m_\pi(S_t)$, over the
      distribution of $S_t$; `value` compares all predictions with $v_\pi$ in the norm of $d_\mu$,
      or with $q_\pi$ in that of $\tilde d_\mu$ if they depend on the action; `ratio` with the
      [density_ratio] of the learner's discount in the norm of $d_\mu$. By default it is what the
      learner estimates; one that says nothing of it must be told.
    - `initial`: The initial weights, as for [affine_map].
    """
    learner = as_learner(problem, learner, target)
    times, measure = validate_times(times), error_measure(learner, measure)
    affine = affine_map(problem, learner, target, initial)
    operator, path = _path(affine, times)
    row = operator.functional(error_form(problem, target, affine, measure))
    shape = (len(times), operator.count, *operator.maps.shape[1:])
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        unknowns = path.moments(times)
        joint = np.stack([operator.unpack(moment) for moment in unknowns]).reshape(shape).sum(1)
        mean, second = joint[:, 0, 1:], joint[:, 1:, 1:]
        covariance = second - mean[:, :, None] * mean[:, None, :]
        square = unknowns @ row
    return Curve(times, mean, covariance, square_root(square), tuple(affine.names))


def limit(
    problem: Problem,
    learner: Critic | str,
    *,
    target: ArrayLike | None = None,
    measure: ErrorMeasure | None = None,
) -> Limit:
    r"""Computes the fixed point of the moments' recursion, whatever the learner starts from.

    If the chain is periodic, this is the limit of averages over time.

    **Arguments:**

    - `problem`, `learner`, `target`, `measure`: As for [learning_curve].
    """
    learner = as_learner(problem, learner, target)
    measure = error_measure(learner, measure)
    affine = affine_map(problem, learner, target).observable()
    return stationary_limit(affine, error_form(problem, target, affine, measure))


def error_measure(learner: object, measure: ErrorMeasure | None = None) -> ErrorMeasure:
    """Returns the measure of what a learner estimates; a `ValueError` if another one is given."""
    if not isinstance(learner, Learner):  # but what somebody's own function gives
        kind = type(learner).__name__
        raise ValueError(f"learner: got a {kind}; a learner, such as gem(0.025), is required")
    if measure not in (None, *get_args(ErrorMeasure)):
        raise unknown("measure", measure, get_args(ErrorMeasure))
    name = learner.name or "the learner"
    if learner.estimates is None:
        if measure is None:
            raise ValueError(
                f"measure: not given, and {name} does not say what it estimates; 'emphasis', "
                "'value' or 'ratio' is required"
            )
        return measure
    noun = learner.estimates.replace("_", " ")
    noun = noun if noun.endswith("values") else f"the {noun}"
    own = MEASURES[learner.estimates]
    if measure not in (None, own):
        raise ValueError(
            f"measure: got {measure!r}, but {name} estimates {noun}: the measure is {own!r}"
        )
    return own


def _path(
    affine: AffineMap, times: Int[np.ndarray, " t"]
) -> tuple[moments.Recursion, moments.Path]:
    operator = moments.recursion(affine)
    start, scale = moments.initial_moments(affine), moments.weight_scale(affine)
    return operator, moments.path(operator, start, times, scale)


def root_mean_squares(
    affine: AffineMap, form: Float[np.ndarray, "z n n"], times: Int[np.ndarray, " t"]
) -> Float[np.ndarray, " t"]:
    """Computes the error of an observable map at times; `form` is its [error_form]."""
    operator, path = _path(affine, times)
    return square_root(path.values(operator.functional(form), times))


def mean_root_mean_square(
    affine: AffineMap, form: Float[np.ndarray, "z n n"], num_steps: int
) -> float:
    """Computes the root of the mean square of an observable map's error over all steps."""
    times = np.array([num_steps])
    operator, path = _path(affine, times)
    return float(square_root(path.totals(operator.functional(form), times) / num_steps)[0])


def stationary_limit(affine: AffineMap, form: Float[np.ndarray, "z n n"]) -> Limit:
    """Computes the limit of an observable map; `form` is its [error_form]."""
    if not is_stable_in_mean_square(affine):
        return Limit(np.inf, None, None)
    operator, path = _path(affine, np.array([10**9]))
    unknowns = path.limit()
    joint = operator.unpack(unknowns).sum(0)
    mean, second = joint[0, 1:], joint[1:, 1:]
    covariance = second - np.outer(mean, mean)
    rmse = square_root(np.array([operator.functional(form) @ unknowns]))
    Q = affine.basis
    return Limit(float(rmse[0]), Q @ mean, Q @ covariance @ Q.T)


def error_form(
    problem: Problem, target: ArrayLike | None, affine: AffineMap, measure: ErrorMeasure
) -> Float[np.ndarray, "z n n"]:
    r"""Returns $G_z$ such that the mean square error is $\sum_z\langle G_z, M_t(z)\rangle$.

    With $g(y) = [c_0(y) - \mathrm{truth}; c(y)]$ they are $\mathbb E[g(Y)g(Y)^\top|Z = z]$ for the
    error at $S_t$, and the stationary mean of this, whatever $z$ is, for a norm of $d_\mu$.
    """
    error = affine.offset - truth(problem, target, affine, measure)
    g = np.concatenate([error[:, None], affine.slope], axis=1)
    squares = affine.probability[:, None, None] * g[:, :, None] * g[:, None, :]
    form = np.zeros((len(affine.start), *squares.shape[1:]))
    np.add.at(form, affine.source, squares)
    if measure != "emphasis":
        form = np.broadcast_to(np.tensordot(affine.stationary, form, axes=1), form.shape)
    return form


def truth(
    problem: Problem, target: ArrayLike | None, affine: AffineMap, measure: ErrorMeasure
) -> Float[np.ndarray, " y"]:
    """Returns what the prediction should be, for everything that can happen in a step."""
    if measure == "emphasis":
        return oracle.emphasis(problem, target)[affine.state]
    if measure == "ratio":
        return oracle.density_ratio(problem, target, affine.discount)[affine.state]
    if _depends_on_action(affine):
        return oracle.action_values(problem, target)[affine.state, affine.action]
    return oracle.values(problem, target)[affine.state]


def _depends_on_action(affine: AffineMap) -> bool:
    """Whether the prediction in a state differs from action to action."""
    forms = np.concatenate([affine.offset[:, None], affine.slope], axis=1)
    states, first = np.unique(affine.state, return_index=True)
    return not np.array_equal(forms, forms[first][np.searchsorted(states, affine.state)])


def validate_times(times: ArrayLike) -> Int[np.ndarray, " t"]:
    """Returns numbers of steps as an array; raises a `ValueError` for anything else."""
    array = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if array.ndim != 1 or not array.size or not (array == np.floor(array)).all():
        raise ValueError(f"times: got {times!r}; whole numbers of steps are required")
    if array.min() < 0 or array.max() > MAX_STEPS:
        raise ValueError(
            f"times: got {array.min():g} to {array.max():g}; 0 to {MAX_STEPS:g} steps are required"
        )
    return array.astype(np.int64)


def square_root(square: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """Returns square roots; a negative number is rounding and becomes 0, NaN is an overflow."""
    return np.sqrt(np.maximum(np.nan_to_num(square, nan=np.inf, posinf=np.inf), 0.0))
