"""What is measured while learners run, against exact quantities of the problem."""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, PyTree
from numpy.typing import DTypeLike

from .. import oracle
from ..learners import FollowonState
from ..mdp import Problem
from ..oracle.expectation import enumerate_samples
from ..oracle.linear import LinearSystem, Matrix, RANK_TOLERANCE, weighted_gram
from ..types import Array, Estimand, Learner, LearnerFactory, Number, Sample, Scalar, Transition
from .linearization import is_trace, linearize, vector_step, weight_names

Lanes: TypeAlias = Mapping[str, Float[np.ndarray, " lanes"]]
"""For each argument of a [LearnerFactory] one value for each lane."""
Features: TypeAlias = Literal["x", "xa"]
"""The features of states or of state-action pairs."""


@dataclass(frozen=True)
class Measure:
    """A number at each step, before the update.

    **Arguments:**

    - `value`: The number, a pure function that is traced into the loop: of what the next two
      return (of one lane), the learner, its state, and the transition.
    - `from_problem`: Derives from the problem and the target what all lanes share.
    - `from_lanes`: Derives from the problem, the target, the factory and the lanes' values what
      each lane needs; lanes come first.
    - `features`: The features in which the prediction must be linear: x, xa or none.
    - `estimates`: What a learner must estimate; None for a number of any learner. One that does not
      say what it estimates may be measured by anything.
    """

    value: Callable[[PyTree, PyTree, Learner, PyTree, Transition], Scalar]
    from_problem: Callable[[Problem, np.ndarray], PyTree] = lambda problem, target: ()
    from_lanes: Callable[[Problem, np.ndarray, LearnerFactory, Lanes], PyTree] = (
        lambda problem, target, factory, lanes: {}
    )
    features: Features | None = None
    estimates: Estimand | None = None


def weights(
    learner: Learner, state: PyTree, y: Transition, features: Features
) -> Float[Array, " features"]:
    """Returns the weights of a linear prediction: its gradient in the features."""

    def predict(x: Array) -> Scalar:
        return learner.predict(state, replace(y, **{features: x}))

    return jax.grad(predict)(getattr(y, features))


def is_linear(learner: Learner, y: Transition, features: Features) -> bool:
    """Whether the prediction is linear in the features, tried at random numbers."""
    rng = np.random.default_rng(0)

    def randomize(tree: PyTree) -> PyTree:
        return jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape), a.dtype), tree)

    random = randomize(y)
    state = randomize(learner.init(jax.random.key(0), random))
    w = weights(learner, state, random, features)
    product, prediction = w @ getattr(random, features), learner.predict(state, random)
    return bool(prediction != 0 and jnp.abs(product - prediction) <= 1e-4 * jnp.abs(product))


class QuadraticForm(NamedTuple):
    r"""$|Mw - c|^2 + f$ of the weights, exact for any number of states."""

    matrix: Float[Array, "r k"]
    vector: Float[Array, " r"]
    floor: Number


def _error(
    features: Features, estimates: Estimand, truth: Callable[[Problem, np.ndarray], np.ndarray]
) -> Measure:
    r"""$\|Xw - y\|_D$."""

    def form(problem: Problem, target: np.ndarray) -> QuadraticForm:
        return _error_form(problem, features, truth(problem, target).ravel())

    return replace(_quadratic(features, form, root=True), estimates=estimates)


def _error_form(
    problem: Problem, features: Features, y: Float[np.ndarray, " rows"]
) -> QuadraticForm:
    x, d = _rows(problem, features)
    root, _ = _roots(np.asarray(weighted_gram(x, d, x)))
    projected = np.asarray(oracle.projection(problem, features == "xa") @ y)
    vector = np.linalg.pinv(root).T @ np.asarray(x.T @ (d * y))
    return QuadraticForm(root, vector, d @ (y - projected) ** 2)


def _projected_error(
    features: Features, estimates: Estimand, system: Callable[[Problem, np.ndarray], LinearSystem]
) -> Measure:
    r"""$\|h - Gw\|^2_{C^{-1}}$, which is $\|\Pi\delta\|_D^2$."""

    def form(problem: Problem, target: np.ndarray) -> QuadraticForm:
        (x, d), mean_field = _rows(problem, features), system(problem, target)
        _, inverse = _roots(np.asarray(weighted_gram(x, d, x)))
        return QuadraticForm(inverse @ mean_field.matrix, inverse @ mean_field.vector, 0.0)

    return replace(_quadratic(features, form, root=False), estimates=estimates)


def _roots(
    gram: Float[np.ndarray, "k k"],
) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, "r k"]]:
    r"""$R$ and $S$ with $R^\top R = C$ and $S^\top S = C^+$."""
    size = np.sqrt(np.where(gram.diagonal() > 0, gram.diagonal(), 1.0))
    sigma, vectors = np.linalg.eigh(gram / size[:, None] / size)
    nonzero = sigma > RANK_TOLERANCE * sigma[-1]
    sigma, vectors = np.sqrt(sigma[nonzero])[:, None], vectors[:, nonzero].T
    root = sigma * vectors * size
    return root, vectors / sigma / size if nonzero.all() else np.linalg.pinv(root).T


def _rows(problem: Problem, features: Features) -> tuple[Matrix, Float[np.ndarray, " rows"]]:
    """Returns the rows of features, and their stationary probabilities."""
    if features == "x":
        return problem.x, problem.stationary
    return problem.xa_rows, problem.stationary_actions.ravel()


def _quadratic(
    features: Features, form: Callable[[Problem, np.ndarray], QuadraticForm], root: bool
) -> Measure:
    def value(
        form: QuadraticForm, lane: PyTree, learner: Learner, state: PyTree, y: Transition
    ) -> Scalar:
        matrix, vector, floor = form
        error = matrix @ weights(learner, state, y, features) - vector
        total = error @ error + floor
        return jnp.sqrt(total) if root else total

    return Measure(value, form, features=features)


def _ratio_truths(
    problem: Problem, target: np.ndarray, factory: LearnerFactory, lanes: Lanes
) -> dict[str, np.ndarray]:
    """Returns the vector and the floor of each lane's error, whose discount is its learner's."""
    columns = [dict(zip(lanes, point, strict=True)) for point in zip(*lanes.values(), strict=True)]
    own = [factory(**point).discount for point in columns or [{}]]
    discounts = [None if discount is None else float(discount) for discount in own]
    forms = {
        discount: _error_form(problem, "x", oracle.density_ratio(problem, target, discount))
        for discount in dict.fromkeys(discounts)
    }
    vectors, floors = zip(*(forms[discount][1:] for discount in discounts), strict=True)
    return {"vector": np.stack(vectors), "floor": np.array(floors)}


def _ratio_error(
    root: Float[Array, "r k"],
    truth: dict[str, Float[Array, "..."]],
    learner: Learner,
    state: PyTree,
    y: Transition,
) -> Scalar:
    error = root @ weights(learner, state, y, "x") - truth["vector"]
    return jnp.sqrt(error @ error + truth["floor"])


def _action_system(problem: Problem, target: np.ndarray) -> LinearSystem:
    """The action-value equations that GQ2 solves: the upper half of its mean field, in u."""
    system, size = oracle.gq2_system(problem, target), problem.xa_rows.shape[1]
    return LinearSystem(system.matrix[:size, size:], system.vector[:size])


def _emphasis_error(
    m: Float[Array, " s"], lane: PyTree, learner: Learner, state: PyTree, y: Transition
) -> Scalar:
    return jnp.abs(learner.predict(state, y) - m[y.state])


# The learner's own fixed point


CHUNK = 2**12  # samples at once
ROUNDING = 4 * np.finfo(float).eps  # of a weight: what a small step adds to it is known to this


def mean_fields(
    problem: Problem, target: np.ndarray, factory: LearnerFactory, lanes: Lanes
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    r"""Yields each lane's $G$ and $h$ of $\mathbb E[d_{t+1}] - d_t = h - Gd_t$, from its own step.

    A `ValueError` if the step is not affine in the state, or keeps a trace, whose mean depends on
    where the chain is.
    """
    with jax.enable_x64(True):
        example = jax.tree.map(jnp.asarray, example_transition(problem, np.float64))
        names = list(lanes)
        columns = np.stack([lanes[name] for name in names], 1) if names else np.zeros((1, 0))

        def learner(lane: Iterable[Number]) -> Learner:
            return factory(**dict(zip(names, lane, strict=True)))

        # As a lane: a decay that is 0 there has a trace.
        state = jax.jit(lambda lane: learner(lane).init(jax.random.key(0), example))(columns[0])
        nodes = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, FollowonState))
        follows = any(isinstance(node, FollowonState) for node in nodes)
        if follows or any(map(is_trace, weight_names(state))):
            raise ValueError("a trace moves with the chain and has no fixed point")
        flat, unravel = ravel_pytree(state)
        if not flat.size:
            raise ValueError("it has no weights and so no fixed point")

        step = vector_step(problem, target, unravel)
        point = jnp.asarray(np.random.default_rng(0).normal(size=flat.size))

        @jax.jit
        def expect(lane: jax.Array, probability: jax.Array, samples: Sample) -> list[jax.Array]:
            def linearize_at(sample: Sample) -> list[jax.Array]:
                def change(d: jax.Array) -> jax.Array:
                    return step(learner(lane), d, sample)[0] - d

                base, slope = linearize(change, jnp.zeros_like(flat))
                return [base, slope, jnp.abs(change(point) - base - slope @ point)]

            terms = jax.vmap(linearize_at)(samples)
            return [jnp.tensordot(probability, term, axes=1) for term in terms]

        probability, sample, _ = enumerate_samples(problem)
        chunks = [slice(first, first + CHUNK) for first in range(0, len(probability), CHUNK)]
        for lane in columns:
            sums = [
                expect(lane, probability[chunk], jax.tree.map(operator.itemgetter(chunk), sample))
                for chunk in chunks
            ]
            h, slope, residual = (np.sum(term, axis=0) for term in zip(*sums, strict=True))
            if (
                residual.max()
                > 1e-9 * np.abs(slope).max() + ROUNDING * len(h) * np.abs(point).max()
            ):
                raise ValueError(
                    "its step is not affine in its weights, so no fixed point is known"
                )
            yield -slope, h


def _fixed_points(
    problem: Problem, target: np.ndarray, factory: LearnerFactory, lanes: Lanes
) -> dict[str, np.ndarray]:
    """Returns where each lane settles, and if that is not unique the directions in which it is."""
    centers, rows, is_unique = [], [], True
    for G, h in mean_fields(problem, target, factory, lanes):
        U, sigma, Vt = np.linalg.svd(G)
        noise = ROUNDING * len(h)
        nonzero = sigma > max(RANK_TOLERANCE * sigma[0], noise)
        center = Vt[nonzero].T @ (U[:, nonzero].T @ h / sigma[nonzero])
        tolerance = 1e-9 * np.abs(h).max() + noise * np.abs(center).max()
        if np.abs(G @ center - h).max() > tolerance:
            raise ValueError("its mean field has no root, so that it has no fixed point")
        is_unique = is_unique and bool(nonzero.all())
        centers.append(center)
        rows.append(np.eye(len(h)) if nonzero.all() else np.where(nonzero[:, None], Vt, 0.0))
    return {"center": np.stack(centers)} | ({} if is_unique else {"rows": np.stack(rows)})


def _fixed_point_distance(
    shared: PyTree,
    fixed_point: dict[str, Float[Array, "..."]],
    learner: Learner,
    state: PyTree,
    y: Transition,
) -> Scalar:
    error = ravel_pytree(state)[0] - fixed_point["center"]
    error = fixed_point["rows"] @ error if "rows" in fixed_point else error
    return jnp.sqrt(error @ error)


def example_transition(problem: Problem, dtype: DTypeLike) -> Transition:
    """Returns a transition of the problem's shapes, all zero."""
    time, state = np.zeros((), np.int32), np.zeros((), np.int32)
    x, xa = (np.zeros(rows.shape[1], dtype) for rows in (problem.x, problem.xa_rows))
    return Transition(time, state, x, x, xa, xa, *[np.zeros((), dtype)] * 8)


MEASURES: dict[str, Measure] = {
    "emphasis_error": Measure(_emphasis_error, oracle.emphasis, estimates="emphasis"),
    "rmsve": _error("x", "values", oracle.values),
    "rmsqe": _error("xa", "action_values", oracle.action_values),
    "emphasis_projected_error": _projected_error("x", "emphasis", oracle.reverse_td_system),
    "value_projected_error": _projected_error("x", "values", oracle.td_system),
    "action_value_projected_error": _projected_error("xa", "action_values", _action_system),
    "ratio_error": Measure(
        _ratio_error,
        lambda problem, target: _error_form(problem, "x", np.zeros(len(problem.interest))).matrix,
        _ratio_truths,
        features="x",
        estimates="ratio",
    ),
    "fixed_point_distance": Measure(_fixed_point_distance, from_lanes=_fixed_points),
}
r"""The measures by name, each averaged over the steps of a window.

- `emphasis_error`: $|\hat m_t(S_t) - m_\pi(S_t)|$.
- `rmsve`: $\|X\nu_t - v_\pi\|_D$; `rmsqe`: $\|\tilde Xu_t - q_\pi\|_{\tilde D}$.
- `emphasis_projected_error`: $\|\Pi\bar\delta_w\|_D^2$ with $\bar\delta_w = i +
  \gamma D^{-1}P_\pi^\top DXw - Xw$; `value_projected_error` and `action_value_projected_error`:
  the same for the Bellman errors of $v$ and $q$.
- `ratio_error`: $\|Xw_t - c\|_D$ with the [density_ratio] $c$ of the learner's own discount.
- `fixed_point_distance`: $\|d_t - d^*\|$, to the root $d^*$ of the learner's own mean field
  (to the nearest one, where it is not unique).
"""
