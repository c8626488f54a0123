"""Exact learning curves: means, covariances and errors of a learner at any times."""

from dataclasses import dataclass
from typing import get_args, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .. import oracle
from .._names import unknown
from .._types import Learner
from ..mdp import Problem
from . import moments
from .affine import Affine, affine, Initial
from .stability import is_stable_in_mean_square

Measure = Literal["emphasis", "value"]
LONGEST = 10**12  # steps


@dataclass(frozen=True, eq=False)
class Curve:
    r"""What is exactly true of a learner's weights $d_t$ and of its error, at some times.

    **Arguments:**

    - `times`: The numbers of steps done.
    - `mean`: $\mathbb E[d_t]$.
    - `covariance`: Of $d_t$.
    - `rmse`: The root of the mean square of the error; infinite where it is beyond all numbers.
    - `names`: What the weights are called.
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

    - `rmse`: The root of the mean square of the error; infinite if it is not stable.
    - `mean`, `covariance`: Of the weights, in the directions that a prediction sees; others are 0
      here, and need not settle. None if it is not stable.
    """

    rmse: float
    mean: Float[np.ndarray, " n"] | None
    covariance: Float[np.ndarray, "n n"] | None


def learning_curve(
    problem: Problem,
    learner: Learner,
    times: ArrayLike,
    *,
    target: ArrayLike | None = None,
    measure: Measure = "emphasis",
    initial: Initial = None,
) -> Curve:
    r"""The exact mean and covariance of a learner's weights, and its exact error, at any times.

    With $x_t = [1; d_t]$ the moments $M_t(z) = \mathbb E[x_tx_t^\top1\{Z_t = z\}]$ obey

    $$
    M_{t+1}(z') = \sum_{y: z \to z'}\Pr(y|z)\,T(y)\,M_t(z)\,T(y)^\top,
    $$

    for $d_t$ and what happens next are independent given $Z_t$; see [affine] for $T$ and $Z$.
    Powers of this linear map come from repeated squaring: $10^9$ steps cost as much as $10^3$.

    **Arguments:**

    - `problem`: The problem.
    - `learner`: A learner with fixed step sizes that is affine in its weights.
    - `times`: Numbers of steps, in any order.
    - `target`: The target policy; by default the problem's own.
    - `measure`: `emphasis` compares the prediction at $S_t$ with $m_\pi(S_t)$, over the law of
      $S_t$; `value` compares all predictions with $v_\pi$ in the norm of $d_\mu$, or with $q_\pi$
      in that of $\tilde d_\mu$ if they depend on the action.
    - `initial`: The first weights, as for [affine].
    """
    times = checked(times)
    found = affine(problem, learner, target, initial)
    operator = moments.recursion(found)
    path = moments.path(operator, moments.beginning(found), times, moments.unit(found))
    row = operator.functional(weights(problem, target, found, measure))
    shape = (len(times), operator.count, *operator.maps.shape[1:])
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        unknowns = path.moments(times)
        whole = np.stack([operator.unpacked(each) for each in unknowns]).reshape(shape).sum(1)
        mean, second = whole[:, 0, 1:], whole[:, 1:, 1:]
        covariance = second - mean[:, :, None] * mean[:, None, :]
        square = unknowns @ row
    return Curve(times, mean, covariance, root(square), tuple(found.names))


def limit(
    problem: Problem,
    learner: Learner,
    *,
    target: ArrayLike | None = None,
    measure: Measure = "emphasis",
) -> Limit:
    r"""The fixed point of the moments' recursion, whatever the learner starts from.

    If the chain is periodic it is the limit of averages over time.

    **Arguments:**

    - `problem`, `learner`, `target`, `measure`: As for [learning_curve].
    """
    found = affine(problem, learner, target).seen()
    return settled(found, weights(problem, target, found, measure))


def root_mean_squares(
    seen: Affine, weights: Float[np.ndarray, "z n n"], times: Int[np.ndarray, " t"]
) -> Float[np.ndarray, " t"]:
    """The error at times of a learner without unseen directions."""
    operator = moments.recursion(seen)
    path = moments.path(operator, moments.beginning(seen), times, moments.unit(seen))
    return root(path.values(operator.functional(weights), times))


def settled(seen: Affine, weights: Float[np.ndarray, "z n n"]) -> Limit:
    """The limit of a learner without unseen directions."""
    if not is_stable_in_mean_square(seen):
        return Limit(np.inf, None, None)
    operator, far = moments.recursion(seen), np.array([10**9])
    path = moments.path(operator, moments.beginning(seen), far, moments.unit(seen))
    unknowns = path.limit()
    joint = operator.unpacked(unknowns).sum(0)
    mean, second = joint[0, 1:], joint[1:, 1:]
    covariance = second - np.outer(mean, mean)
    rmse = root(np.array([operator.functional(weights) @ unknowns]))
    Q = seen.basis
    return Limit(float(rmse[0]), Q @ mean, Q @ covariance @ Q.T)


def weights(
    problem: Problem, target: ArrayLike | None, affine: Affine, measure: Measure
) -> Float[np.ndarray, "z n n"]:
    r"""$G_z$ such that the mean square of the error is $\sum_z\langle G_z, M_t(z)\rangle$.

    With $g(y) = [c_0(y) - \mathrm{truth}; c(y)]$ they are $\mathbb E[g(Y)g(Y)^\top|Z = z]$ for the
    error at $S_t$, and the stationary mean of this, whatever $z$ is, for a norm of $d_\mu$.
    """
    if measure not in get_args(Measure):
        raise unknown("measure", measure, get_args(Measure))
    s, a = affine.state, affine.action
    if measure == "emphasis":
        truth = oracle.emphasis(problem, target)[s]
    elif _depends_on_action(affine):
        truth = oracle.action_values(problem, target)[s, a]
    else:
        truth = oracle.values(problem, target)[s]
    g = np.concatenate([(affine.offset - truth)[:, None], affine.slope], axis=1)
    squares = affine.probability[:, None, None] * g[:, :, None] * g[:, None, :]
    found = np.zeros((len(affine.start), *squares.shape[1:]))
    np.add.at(found, affine.source, squares)
    if measure == "value":
        mean = np.tensordot(affine.stationary, found, axes=1)
        found = np.broadcast_to(mean, found.shape)
    return found


def _depends_on_action(affine: Affine) -> bool:
    """Whether the prediction in a state differs from action to action."""
    both = np.concatenate([affine.offset[:, None], affine.slope], axis=1)
    _, first = np.unique(affine.state, return_index=True)
    return not np.array_equal(both, both[first][np.searchsorted(affine.state[first], affine.state)])


def checked(times: ArrayLike) -> Int[np.ndarray, " t"]:
    """Numbers of steps as an array, or a `ValueError`."""
    found = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if found.ndim != 1 or not found.size or not (found == np.floor(found)).all():
        raise ValueError(f"times: got {times!r}; whole numbers of steps are required")
    if found.min() < 0 or found.max() > LONGEST:
        raise ValueError(
            f"times: got {found.min():g} to {found.max():g}; 0 to {LONGEST:g} steps are required"
        )
    return found.astype(np.int64)


def log_spaced(num_steps: int, each: int = 20) -> Int[np.ndarray, " t"]:
    """The times 0 and `num_steps`, and between them about `each` for every factor of ten."""
    powers = 10.0 ** np.arange(0.0, np.log10(max(num_steps, 1)), 1.0 / each)
    return np.unique(np.append(np.rint(powers), [0, num_steps])).astype(np.int64)


def root(square: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """Square roots; rounding below 0 is 0, and what is not a number was beyond all of them."""
    return np.sqrt(np.maximum(np.nan_to_num(square, nan=np.inf, posinf=np.inf), 0.0))
