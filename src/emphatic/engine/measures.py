"""What is measured while learners run, against exact quantities of the problem."""

import dataclasses
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .. import oracle
from .._types import Learner, Transition
from ..learners import FollowonState
from ..mdp import Problem
from ..oracle.expectation import samples
from ..oracle.systems import LinearSystem, RANK_TOLERANCE, weighted_gram

Make = Callable[..., Learner[Any, Transition]]


@dataclass(frozen=True)
class Measure:
    """A number at each step: `value(exact, own, learner, state, y)`, before the update.

    **Arguments:**

    - `value`: The number, a pure function that is traced into the loop.
    - `exact`: What it needs of the problem and the target, the same for all lanes.
    - `own`: What it needs of each lane, with lanes first, from (problem, target, make, lanes).
    - `features`: The features in which the prediction must be linear: x, xa or none.
    """

    value: Callable[[Any, Any, Learner, Any, Transition], Any]
    exact: Callable[[Problem, np.ndarray], Any] = lambda problem, target: ()
    own: Callable[[Problem, np.ndarray, Make, Mapping[str, np.ndarray]], Any] = (
        lambda problem, target, make, lanes: {}
    )
    features: str | None = None


def weights(learner: Learner, state: Any, y: Transition, features: str) -> Any:
    """The weights of a linear prediction: its gradient in the features."""

    def predict(x: Any) -> Any:
        return learner.predict(state, dataclasses.replace(y, **{features: x}))

    return jax.grad(predict)(getattr(y, features))


def is_linear(learner: Learner, y: Transition, features: str) -> bool:
    """Whether the prediction is linear in the features, tried at random numbers."""
    rng = np.random.default_rng(0)
    random = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), y)
    state = jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype),
        learner.init(jax.random.key(0), random),
    )
    w = weights(learner, state, random, features)
    product, found = w @ getattr(random, features), learner.predict(state, random)
    return bool(found != 0 and jnp.abs(product - found) <= 1e-4 * jnp.abs(product))


# Quadratic forms of the weights: |Mw - c|^2 + f, exact for any number of states.


def _error_form(problem: Problem, truth: np.ndarray, actions: bool = False) -> tuple:
    r"""$\|Xw - y\|_D^2$."""
    x = problem.xa_rows if actions else problem.x
    d = (problem.stationary_actions if actions else problem.stationary).ravel()
    root, _ = _roots(np.asarray(weighted_gram(x, d, x)))
    projected = np.asarray(oracle.projection(problem, actions) @ truth)
    floor = d @ (truth - projected) ** 2
    moment = np.asarray(x.T @ (d * truth))
    return root, np.linalg.pinv(root).T @ moment, floor


def _projected_form(system: LinearSystem, gram: np.ndarray) -> tuple:
    r"""$\|h - Gw\|^2_{C^{-1}}$, which is $\|\Pi\delta\|_D^2$."""
    _, inverse = _roots(gram)
    return inverse @ system.matrix, inverse @ system.vector, 0.0


def _roots(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""$R$ and $S$ with $R^\top R = C$ and $S^\top S = C^+$."""
    size = np.sqrt(np.where(gram.diagonal() > 0, gram.diagonal(), 1.0))
    sigma, vectors = np.linalg.eigh(gram / size[:, None] / size)
    kept = sigma > RANK_TOLERANCE * sigma[-1]
    sigma, vectors = np.sqrt(sigma[kept]), vectors[:, kept].T
    if kept.all():
        return sigma[:, None] * vectors * size, vectors / sigma[:, None] / size
    root = sigma[:, None] * vectors * size
    return root, np.linalg.pinv(root).T


def _gram(problem: Problem, actions: bool = False) -> np.ndarray:
    x = problem.xa_rows if actions else problem.x
    d = (problem.stationary_actions if actions else problem.stationary).ravel()
    return np.asarray(weighted_gram(x, d, x))


def _quadratic(features: str, exact: Callable[[Problem, np.ndarray], Any], root: bool) -> Measure:
    def value(form: Any, own: Any, learner: Learner, state: Any, y: Transition) -> Any:
        matrix, vector, floor = form
        error = matrix @ weights(learner, state, y, features) - vector
        total = error @ error + floor
        return jnp.sqrt(total) if root else total

    return Measure(value, exact, features=features)


def _action_system(problem: Problem, target: np.ndarray) -> LinearSystem:
    """The action-value equations that GQ2 solves: the upper half of its mean field, in u."""
    system, size = oracle.gq2_system(problem, target), problem.xa_rows.shape[1]
    return LinearSystem(system.matrix[:size, size:], system.vector[:size])


def _emphasis_error(m: Any, own: Any, learner: Learner, state: Any, y: Transition) -> Any:
    return jnp.abs(learner.predict(state, y) - m[y.state])


# The learner's own fixed point


CHUNK = 2**12  # samples at once
ROUNDING = 4 * np.finfo(float).eps  # of a weight: what a small step adds to it is known to this


def mean_fields(
    problem: Problem, target: np.ndarray, make: Make, lanes: Mapping[str, np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    r"""For each lane $G$ and $h$ of $\mathbb E[d_{t+1}] - d_t = h - Gd_t$, from its own step.

    A `ValueError` if the step is not affine in the state, or keeps a trace, whose mean depends on
    where the chain is.
    """
    with jax.enable_x64(True):
        pi, example = jax.tree.map(jnp.asarray, (target, example_of(problem, np.float64)))
        names = list(lanes)
        columns = np.stack([lanes[name] for name in names], 1) if names else np.zeros((1, 0))

        def learner(lane: Any) -> Learner[Any, Transition]:
            return make(**dict(zip(names, lane, strict=True)))

        start = learner(columns[0].tolist()).init(jax.random.key(0), example)
        nodes = jax.tree.leaves(start, is_leaf=lambda node: isinstance(node, FollowonState))
        if any(isinstance(node, FollowonState) for node in nodes):
            raise ValueError("a trace moves with the chain and has no fixed point")
        flat, rebuild = ravel_pytree(start)
        if not flat.size:
            raise ValueError("it has no weights and so no fixed point")

        @jax.jit
        def parts(lane: Any, probability: Any, sample: Any) -> Any:
            def move(d: Any, sample: Any) -> Any:
                y = problem.view(pi[sample.state], pi[sample.state_next], sample)
                return ravel_pytree(learner(lane).step(rebuild(d), y))[0] - d

            def of(sample: Any) -> Any:
                zero = jnp.zeros_like(flat)
                base, slope = move(zero, sample), jax.jacfwd(move)(zero, sample)
                return base, slope, jnp.abs(move(flat, sample) - base - slope @ flat)

            return jax.tree.map(
                lambda leaf: jnp.tensordot(probability, leaf, axes=1), jax.vmap(of)(sample)
            )

        probability, sample = samples(problem)
        cuts = [slice(first, first + CHUNK) for first in range(0, len(probability), CHUNK)]
        for lane in columns:
            pieces = [
                parts(lane, probability[cut], jax.tree.map(operator.itemgetter(cut), sample))
                for cut in cuts
            ]
            h, slope, curved = (np.sum(each, axis=0) for each in zip(*pieces, strict=True))
            if curved.max() > 1e-9 * np.abs(slope).max() + ROUNDING * len(h) * np.abs(flat).max():
                raise ValueError(
                    "its step is not affine in its weights, so no fixed point is known"
                )
            yield -slope, h


def _fixed_points(
    problem: Problem, target: np.ndarray, make: Make, lanes: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Where each lane settles, and where that is not unique the directions in which it is."""
    centers, rows, unique = [], [], True
    for G, h in mean_fields(problem, target, make, lanes):
        U, sigma, Vt = np.linalg.svd(G)
        noise = ROUNDING * len(h)
        kept = sigma > max(RANK_TOLERANCE * sigma[0], noise)
        center = Vt[kept].T @ (U[:, kept].T @ h / sigma[kept])
        allowed = 1e-9 * np.abs(h).max() + noise * np.abs(center).max()
        if np.abs(G @ center - h).max() > allowed:
            raise ValueError("its mean field has no root, so that it has no fixed point")
        unique = unique and bool(kept.all())
        centers.append(center)
        rows.append(np.eye(len(h)) if kept.all() else np.where(kept[:, None], Vt, 0.0))
    return {"center": np.stack(centers)} | ({} if unique else {"rows": np.stack(rows)})


def _fixed_point_distance(exact: Any, own: Any, learner: Learner, state: Any, y: Transition) -> Any:
    error = ravel_pytree(state)[0] - own["center"]
    error = own["rows"] @ error if "rows" in own else error
    return jnp.sqrt(error @ error)


def example_of(problem: Problem, dtype: Any) -> Transition:
    """A transition of the problem's shapes, all zero."""
    number = np.zeros((), dtype)
    x = np.zeros(problem.x.shape[1], dtype)
    xa = np.zeros(problem.xa_rows.shape[1], dtype)
    return Transition(
        time=np.zeros((), np.int32),
        state=np.zeros((), np.int32),
        x=x,
        x_next=x,
        xa=xa,
        xa_next=xa,
        rho=number,
        rho_next=number,
        interest=number,
        interest_next=number,
        reward=number,
        discount=number,
    )


MEASURES: dict[str, Measure] = {
    "emphasis_error": Measure(_emphasis_error, oracle.emphasis),
    "rmsve": _quadratic("x", lambda p, pi: _error_form(p, oracle.values(p, pi)), root=True),
    "rmsqe": _quadratic(
        "xa", lambda p, pi: _error_form(p, oracle.action_values(p, pi).ravel(), True), root=True
    ),
    "emphasis_projected_error": _quadratic(
        "x", lambda p, pi: _projected_form(oracle.reverse_td_system(p, pi), _gram(p)), root=False
    ),
    "value_projected_error": _quadratic(
        "x", lambda p, pi: _projected_form(oracle.td_system(p, pi), _gram(p)), root=False
    ),
    "action_value_projected_error": _quadratic(
        "xa", lambda p, pi: _projected_form(_action_system(p, pi), _gram(p, True)), root=False
    ),
    "fixed_point_distance": Measure(_fixed_point_distance, own=_fixed_points),
}
r"""The measures by name, each averaged over the steps of a window.

- `emphasis_error`: $|\hat m_t(S_t) - m_\pi(S_t)|$.
- `rmsve`: $\|X\nu_t - v_\pi\|_D$; `rmsqe`: $\|\tilde Xu_t - q_\pi\|_{\tilde D}$.
- `emphasis_projected_error`: $\|\Pi\bar\delta_w\|_D^2$ with $\bar\delta_w = i +
  \gamma D^{-1}P_\pi^\top DXw - Xw$; `value_projected_error` and `action_value_projected_error`:
  the same for the Bellman errors of $v$ and $q$.
- `fixed_point_distance`: $\|d_t - d^*\|$, to the root $d^*$ of the learner's own mean field
  (to the nearest one, where it is not unique).
"""
