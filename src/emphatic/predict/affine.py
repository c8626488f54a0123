"""A learner on a finite problem as a random affine map, derived from its own step."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, PyTree
from numpy.typing import ArrayLike

from .._work import require_memory
from ..engine.linearization import is_trace, linearize, vector_step
from ..mdp import Problem
from ..oracle.expectation import enumerate_samples, EnumeratedSamples
from ..types import Agent, Array, Critic, Number, Sample
from .initial import Initial, initial_weights, learner_name

CHUNK_BYTES = 2**25  # of maps that are derived at once
NUM_VECTORS = 256  # moments are stored at least this many times where they are many
LATER_TIMES = (1, 2**30)  # where a step must be what it is at time 0
TOLERANCE = 1e-9  # of affinity, and of a direction's share in a prediction

Factory = Callable[[Number], Critic]
"""A function from a step size to a learner, such as [gem]."""
Derivatives = tuple[tuple[Array, Array], tuple[Array, Array]]
StepDerivatives = Callable[..., list[np.ndarray]]
"""A function of a step size, weights for each sample, the samples and a time, to the next weights,
the predictions before, and the Jacobians of both."""


class Maps(NamedTuple):
    """The affine map of every transition: of the step, and of the prediction before it."""

    matrix: Float[np.ndarray, "y n n"]
    vector: Float[np.ndarray, "y n"]
    slope: Float[np.ndarray, "y n"]
    offset: Float[np.ndarray, " y"]

    def take(self, index: Int[np.ndarray, " z"]) -> "Maps":
        """Returns the maps of some of the transitions."""
        return Maps(*(array[index] for array in self))

    def is_close(self, other: "Maps") -> bool:
        """Whether all maps are equal up to rounding."""
        return all(
            np.abs(ours - theirs).max(initial=0.0) <= 1e-13 * np.abs(ours).max(initial=0.0)
            for ours, theirs in zip(self, other, strict=True)
        )


@dataclass(frozen=True, eq=False)
class AffineMap:
    r"""A learner on a problem: $d_{t+1} = B(Y_t)d_t + b(Y_t)$ along a Markov chain $Z_t$.

    $Z_t$ is what step $t$ shares with the past: the state $S_t$, or $(S_t, A_t)$ if the step reads
    $A_{t+1}$ as well. Axis y runs over everything that can happen in a step.

    **Arguments:**

    - `probability`: $\Pr(Y_t = y\,|\,Z_t)$.
    - `source`, `destination`: $Z_t$ and $Z_{t+1}$, numbered.
    - `state`, `action`: $S_t$ and $A_t$.
    - `matrix`, `vector`: $B(y)$ and $b(y)$.
    - `slope`, `offset`: The prediction before the step, $c(y)^\top d_t + c_0(y)$.
    - `start`, `stationary`: The distributions of $Z_0$, and of $Z_t$ in the stationary regime.
    - `mean`, `covariance`: Of $d_0$, which is independent of $Z_0$.
    - `names`: The names of the learner's weights.
    - `basis`: Orthonormal columns $Q$, such that these weights are $Q^\top d$ of the learner's.
    - `discount`: Of a density ratio the discount that it is of; None for anything else.
    """

    probability: Float[np.ndarray, " y"]
    source: Int[np.ndarray, " y"]
    destination: Int[np.ndarray, " y"]
    state: Int[np.ndarray, " y"]
    action: Int[np.ndarray, " y"]
    matrix: Float[np.ndarray, "y n n"]
    vector: Float[np.ndarray, "y n"]
    slope: Float[np.ndarray, "y n"]
    offset: Float[np.ndarray, " y"]
    start: Float[np.ndarray, " z"]
    stationary: Float[np.ndarray, " z"]
    mean: Float[np.ndarray, " n"]
    covariance: Float[np.ndarray, "n n"]
    names: Sequence[str]
    basis: Float[np.ndarray, "m n"]
    discount: float | None = None

    @cached_property
    def reads_next_action(self) -> bool:
        """Whether $Z_t$ is $(S_t, A_t)$ and not $S_t$ alone."""
        return not np.array_equal(self.source, self.state)

    @property
    def mean_field(self) -> Float[np.ndarray, "n n"]:
        r"""$\mathbb E[B(Y)] - I$ in the stationary regime."""
        probability = self.stationary[self.source] * self.probability
        return np.tensordot(probability, self.matrix, axes=1) - np.eye(self.matrix.shape[1])

    @cached_property
    def augmented(self) -> Float[np.ndarray, "y l l"]:
        r"""$T(y) = \begin{bmatrix} 1 & 0 \\ b(y) & B(y) \end{bmatrix}$, which moves $[1; d]$."""
        rows, size = self.vector.shape
        T = np.zeros((rows, size + 1, size + 1))
        T[:, 0, 0], T[:, 1:, 0], T[:, 1:, 1:] = 1.0, self.vector, self.matrix
        return T

    def observable(self) -> "AffineMap":
        r"""Returns the observable part: the weights that some prediction depends on.

        The rows $c(y)^\top$ and all their products with $B(y)$ span a space of functions of $d$
        that the steps map into itself. $Q^\top d$, for an orthonormal basis $Q$ of it, is all that
        a prediction depends on, now and later, and obeys an affine recursion of its own. With
        Baird's original features two of 16 directions are lost: no update moves them, either.
        """
        size = self.vector.shape[1]
        moves = self.matrix - np.eye(size)
        largest = max(np.abs(moves).max(initial=0.0), np.finfo(float).tiny)
        noise = TOLERANCE + 100 * np.finfo(float).eps / largest  # the accuracy of a small step
        basis = np.zeros((size, 0))
        new = self.slope / max(np.abs(self.slope).max(initial=0.0), np.finfo(float).tiny)
        while basis.shape[1] < size and new.size:
            for _ in range(2):  # twice, for what rounding leaves
                new = new - (new @ basis) @ basis.T
            sizes, rows = np.linalg.svd(new, full_matrices=False)[1:]
            rows = rows[sizes > noise]
            basis = np.concatenate([basis, rows.T], axis=1)
            new = (rows @ (moves / largest)).reshape(-1, size)
        Q = np.linalg.qr(basis)[0]
        return replace(
            self,
            matrix=Q.T @ self.matrix @ Q,
            vector=self.vector @ Q,
            slope=self.slope @ Q,
            mean=self.mean @ Q,
            covariance=Q.T @ self.covariance @ Q,
            basis=self.basis @ Q,
        )


def affine_map(
    problem: Problem, learner: Critic, target: ArrayLike | None = None, initial: Initial = None
) -> AffineMap:
    r"""Derives the affine map of a learner from its own `step` at every transition of the problem.

    Whether the step is affine, whether it changes with time, and whether it reads $A_{t+1}$ is
    determined, not declared; a `ValueError` says what cannot be predicted exactly, and what can.

    **Arguments:**

    - `problem`: The problem.
    - `learner`: A learner with fixed step sizes, such as `gem(0.025)`.
    - `target`: The target policy; by default the problem's own.
    - `initial`: The initial weights in the order of the learner's state: an array, or a mean and a
      covariance. By default as the learner starts: standard normal where that is random.
    """
    return affine_maps(problem, lambda step_size: learner, 1.0, target, initial)(1.0)


def affine_maps(
    problem: Problem,
    factory: Factory,
    example: float,
    target: ArrayLike | None = None,
    initial: Initial = None,
) -> Callable[[float], AffineMap]:
    """Returns the function from a step size to the affine map of its learner, compiled once.

    Whether the learner is affine, and how it starts, is determined at the step size `example`.
    """
    pi, learner = problem.require_target(target), factory(example)
    if isinstance(learner, Agent):
        raise ValueError(
            "learner: an agent changes its own target, so that its step is not affine; its critics "
            "with a fixed target are, such as gem and gq2"
        )
    names, unravel, (mean, covariance) = initial_weights(problem, learner, initial)
    enumerated = enumerate_samples(problem, np.ones(problem.mdp.num_states))
    samples, outcome = enumerated.sample, enumerated.outcome
    size = len(names)
    unknowns = problem.mdp.num_states * (size + 1) * (size + 2) // 2
    require_memory(f"problem: {unknowns:,} second moments", 16 * NUM_VECTORS * unknowns)
    require_memory(f"problem: {len(outcome):,} maps of {size} weights", 48 * len(outcome) * size**2)
    derivatives = step_derivatives(problem, factory, pi, unravel)

    def evaluate_all(step_size: float, d: np.ndarray, time: int = 0) -> list[np.ndarray]:
        return derivatives(step_size, np.broadcast_to(d, (len(outcome), size)), samples, time)

    def maps(step_size: float, time: int = 0) -> Maps:
        vector, offset, matrix, slope = evaluate_all(step_size, np.zeros(size), time)
        return Maps(matrix, vector, slope, offset)

    def evaluate_at(d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        d_next, prediction, *_ = evaluate_all(example, d)
        return d_next, prediction

    example_maps = maps(example)
    _require_affine(learner, names, example_maps, evaluate_at)
    is_timeless = all(example_maps.is_close(maps(example, time)) for time in LATER_TIMES)
    require_timeless(learner, is_timeless)
    discount = None if learner.discount is None else float(learner.discount)

    def assemble(step_size: float) -> AffineMap:
        own = maps(step_size)
        chain = find_chain(problem, enumerated, lambda rows: own.is_close(own.take(rows)))
        rest = {"mean": mean, "covariance": covariance, "names": names, "basis": np.eye(size)}
        columns = chain._asdict()
        own = own.take(columns.pop("rows"))
        return AffineMap(**columns, **own._asdict(), **rest, discount=discount)

    return assemble


def step_derivatives(
    problem: Problem,
    factory: Factory,
    target: Float[np.ndarray, "s a"],
    unravel: Callable[[jax.Array], PyTree],
) -> StepDerivatives:
    """Returns the function that evaluates and differentiates a learner's step at samples."""
    step = vector_step(problem, target, unravel)

    @jax.jit
    def evaluate(step_size: Number, d: jax.Array, samples: Sample) -> Derivatives:
        def evaluate_one(d: jax.Array, sample: Sample) -> Derivatives:
            return linearize(lambda d: step(factory(step_size), d, sample), d)

        return jax.vmap(evaluate_one)(d, samples)

    def evaluate_all(
        step_size: float, d: np.ndarray, samples: Sample, time: int = 0
    ) -> list[np.ndarray]:
        timed_samples = replace(samples, time=np.full_like(samples.time, time))
        parts, num_rows = [], max(1, CHUNK_BYTES // (8 * max(1, d.shape[1] ** 2)))
        for first in range(0, len(d), num_rows):
            rows = operator.itemgetter(slice(first, first + num_rows))
            with jax.enable_x64(True):
                derivatives = evaluate(step_size, rows(d), jax.tree.map(rows, timed_samples))
            parts.append([np.asarray(x, np.float64) for x in jax.tree.leaves(derivatives)])
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    return evaluate_all


class Chain(NamedTuple):
    """The chain $Z_t$ that a learner's step moves along, and the samples that its steps stand for;
    see [AffineMap]."""

    rows: Int[np.ndarray, " y"]
    probability: Float[np.ndarray, " y"]
    source: Int[np.ndarray, " y"]
    destination: Int[np.ndarray, " y"]
    state: Int[np.ndarray, " y"]
    action: Int[np.ndarray, " y"]
    start: Float[np.ndarray, " z"]
    stationary: Float[np.ndarray, " z"]


def find_chain(
    problem: Problem,
    enumerated: EnumeratedSamples,
    is_equal: Callable[[Int[np.ndarray, " n"]], bool],
) -> Chain:
    """Returns the chain of $S_t$ if a step is the same for every $A_{t+1}$, or of $(S_t, A_t)$.

    `is_equal` says whether every sample's step is that of the sample with the given number.
    """
    probability, samples, outcome = enumerated
    s, a, s_next, a_next = (
        np.asarray(column)
        for column in (samples.state, samples.action, samples.state_next, samples.action_next)
    )
    num_actions = problem.mdp.num_actions
    rows = np.flatnonzero(np.diff(outcome, prepend=-1))  # the first next action of each outcome
    if is_equal(np.repeat(rows, np.diff(rows, append=len(outcome)))):
        probability, s, a = np.add.reduceat(probability, rows), s[rows], a[rows]
        source, destination = s, s_next[rows]
        start, stationary = problem.start, problem.stationary
    else:
        rows = np.arange(len(outcome))
        source = s * num_actions + a
        destination = s_next * num_actions + a_next
        start = (problem.start[:, None] * problem.behavior).ravel()
        stationary = problem.stationary_actions.ravel()
    probability = probability / np.bincount(source, probability, len(start))[source]
    return Chain(rows, probability, source, destination, s, a, start, stationary)


def _require_affine(
    learner: Critic,
    names: Sequence[str],
    maps: Maps,
    evaluate_at: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> None:
    matrix, vector, slope, offset = maps
    rng, curved = np.random.default_rng(0), np.zeros(len(names), bool)
    for scale in (1.0, 1e3):
        d = scale * rng.normal(size=len(names))
        d_next, prediction = evaluate_at(d)
        allowed = TOLERANCE * (np.abs(vector) + np.abs(matrix) @ np.abs(d))
        curved |= ~(np.abs(d_next - matrix @ d - vector) <= allowed).all(0)  # NaN too
        allowed = TOLERANCE * (np.abs(offset) + np.abs(slope) @ np.abs(d))
        if not (np.abs(prediction - slope @ d - offset) <= allowed).all():
            raise ValueError(
                f"learner: what {learner_name(learner)} predicts is not affine in its weights"
            )
    if curved.any() and any(map(is_trace, names)):
        raise ValueError(
            f"learner: the step of {learner_name(learner)} is not affine in its weights, since its "
            "trace multiplies what is learned"
        )
    if curved.any():
        not_affine, affine = (
            ", ".join(dict.fromkeys(name.split("[")[0] for name in np.array(names)[index]))
            for index in (curved, ~curved)
        )
        hint = f"; what learns {affine} is: predict that learner alone" if affine else ""
        raise ValueError(
            f"learner: the step of {learner_name(learner)} is not affine in its weights, since "
            f"{not_affine} is multiplied by what is learned{hint}"
        )


def require_timeless(learner: Critic, is_timeless: bool) -> None:
    """Refuses a learner whose step changes with the time."""
    if not is_timeless:
        raise ValueError(
            f"learner: the step of {learner_name(learner)} changes with the time; fixed step sizes "
            "and a fixed ridge are required"
        )
