"""A learner on a finite problem as a random affine map, found from its own step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .. import _checks as checks
from .._types import Agent, Learner, Sample
from ..engine.measures import example_of
from ..mdp import Problem

MOST_BYTES = 2**32  # of memory, beyond which a prediction is refused
VECTORS = 256  # of moments, that are at least kept where they are many
KEYS = 4096  # first states that are drawn to see how a learner starts
LATER = (1, 2**30)  # times at which a step must be what it is at time 0
TOLERANCE = 1e-9  # of a map that is affine, and of a direction that is seen

Initial = ArrayLike | tuple[ArrayLike, ArrayLike] | None
Maps = tuple[np.ndarray, ...]  # matrix, vector, slope and offset of every transition


@dataclass(frozen=True, eq=False)
class Affine:
    r"""A learner on a problem: $d_{t+1} = B(Y_t)d_t + b(Y_t)$ along a Markov chain $Z_t$.

    $Z_t$ is what step $t$ shares with the past: the state $S_t$, or $(S_t, A_t)$ if the step reads
    $A_{t+1}$ as well. Axis y runs over all that can happen in a step.

    **Arguments:**

    - `probability`: $\Pr(Y_t = y\,|\,Z_t)$.
    - `source`, `destination`: $Z_t$ and $Z_{t+1}$, numbered.
    - `state`, `action`: $S_t$ and $A_t$.
    - `matrix`, `vector`: $B(y)$ and $b(y)$.
    - `slope`, `offset`: The prediction before the step, $c(y)^\top d_t + c_0(y)$.
    - `start`, `stationary`: The laws of $Z_0$ and of $Z_t$ in the stationary regime.
    - `mean`, `covariance`: Of $d_0$, which is independent of $Z_0$.
    - `names`: What the numbers of $d$ are called.
    - `basis`: Orthonormal columns $Q$, such that these weights are $Q^\top d$ of the learner's.
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

    @cached_property
    def reads_next_action(self) -> bool:
        """Whether $Z_t$ is $(S_t, A_t)$ and not $S_t$ alone."""
        return not np.array_equal(self.source, self.state)

    @cached_property
    def augmented(self) -> Float[np.ndarray, "y l l"]:
        r"""$T(y) = \begin{bmatrix} 1 & 0 \\ b(y) & B(y) \end{bmatrix}$, which moves $[1; d]$."""
        rows, size = self.vector.shape
        T = np.zeros((rows, size + 1, size + 1))
        T[:, 0, 0], T[:, 1:, 0], T[:, 1:, 1:] = 1.0, self.vector, self.matrix
        return T

    def seen(self) -> "Affine":
        r"""The same learner without the directions that no prediction ever sees.

        The rows $c(y)^\top$ and all their products with $B(y)$ span a space of functions of $d$
        that the steps map into itself. $Q^\top d$, for an orthonormal basis $Q$ of it, is all that
        a prediction depends on, now and later, and obeys an affine recursion of its own. With
        Baird's original features two of 16 directions are lost: no update moves them, either.
        """
        size = self.vector.shape[1]
        moves = self.matrix - np.eye(size)
        largest = max(np.abs(moves).max(initial=0.0), np.finfo(float).tiny)
        noise = TOLERANCE + 100 * np.finfo(float).eps / largest  # a small step is known to this
        basis = np.zeros((size, 0))
        new = self.slope / max(np.abs(self.slope).max(initial=0.0), np.finfo(float).tiny)
        while basis.shape[1] < size and new.size:
            for _ in range(2):  # once more for what rounding has left
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


def affine(
    problem: Problem,
    learner: Learner,
    target: ArrayLike | None = None,
    initial: Initial = None,
) -> Affine:
    r"""The affine map of a learner, from its own `step` at every transition of the problem.

    That the step is affine, that it does not change with the time, and whether it reads $A_{t+1}$
    are found, not declared; a `ValueError` says what cannot be predicted exactly, and what can.

    **Arguments:**

    - `problem`: The problem.
    - `learner`: A learner with fixed step sizes, such as `gem(0.025)`.
    - `target`: The target policy; by default the problem's own.
    - `initial`: The first weights in the order of the learner's state: an array, or a mean and a
      covariance. By default as the learner starts: standard normal where that is random.
    """
    return family(problem, lambda: learner, (), target, initial)()


def family(
    problem: Problem,
    make: Callable[..., Learner],
    example: tuple[float, ...],
    target: ArrayLike | None = None,
    initial: Initial = None,
) -> Callable[..., Affine]:
    """The affine maps of learners that `make` makes from numbers, such as [gem] from a step size.

    What is returned takes those numbers, and is compiled once. At the `example` of them it is
    found whether the learner is affine and how it starts.
    """
    pi, learner = problem.require_target(target), make(*example)
    if isinstance(learner, Agent):
        raise ValueError(
            "learner: an agent changes its own target, so that its step is not affine; its critics "
            "with a fixed target are, such as gem and gq2"
        )
    names, rebuild, law = _beginning(problem, learner, initial)
    outcome, chance, samples = _happenings(problem)
    size = len(names)
    unknowns = problem.mdp.num_states * (size + 1) * (size + 2) // 2
    require(f"{unknowns} second moments", 16 * VECTORS * unknowns)
    require(f"{len(outcome)} maps of {size} weights", 24 * len(outcome) * size**2)

    def step(sizes: tuple, d: Any, sample: Sample) -> tuple[Any, Any]:
        learner, policy, state = make(*sizes), jnp.asarray(pi), rebuild(d)
        y = problem.view(policy[sample.state], policy[sample.state_next], sample)
        return ravel_pytree(learner.step(state, y))[0], learner.predict(state, y)

    @jax.jit
    def evaluated(sizes: tuple, d: Any, samples: Sample) -> tuple[Any, Any]:
        def of(sample: Sample) -> tuple[Any, Any]:
            return step(sizes, d, sample), jax.jacfwd(step, argnums=1)(sizes, d, sample)

        return jax.vmap(of)(samples)

    def maps(sizes: tuple, time: int = 0) -> Maps:
        when = replace(samples, time=np.full_like(samples.time, time))
        with jax.enable_x64(True):
            (vector, offset), (matrix, slope) = evaluated(sizes, np.zeros(size), when)
        return tuple(np.asarray(each, np.float64) for each in (matrix, vector, slope, offset))

    def at(d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with jax.enable_x64(True):
            moved, predicted = evaluated(example, d, samples)[0]
        return np.asarray(moved), np.asarray(predicted)

    found = maps(example)
    _require_affine(learner, names, found, at)
    _require_timeless(learner, found, [maps(example, time) for time in LATER])
    return lambda *sizes: _assembled(problem, outcome, chance, samples, maps(sizes), law, names)


def require(what: str, needed: int) -> None:
    """A `ValueError` if that many bytes are more than a prediction may use."""
    if needed > MOST_BYTES:
        raise ValueError(
            f"problem: {what} would need {needed / 2**30:.3g} GiB of memory; at most "
            f"{MOST_BYTES / 2**30:.3g} GiB are used"
        )


def _happenings(problem: Problem) -> tuple[np.ndarray, np.ndarray, Sample]:
    r"""All $(a, s', a')$ that can follow each $s$: the outcome's number, and the probability."""
    mdp, mu = problem.mdp, problem.behavior
    pair, state_next, p, reward, discount = mdp.outcomes
    joint = (mu.ravel()[pair] * p)[:, None] * mu[state_next]
    outcome, action_next = np.nonzero(joint)
    state, action = np.divmod(pair[outcome], mdp.num_actions)
    time, where = np.zeros(len(outcome), np.int32), state_next[outcome]
    samples = Sample(time, state, action, reward[outcome], discount[outcome], where, action_next)
    return outcome, joint[outcome, action_next], samples


def _assembled(
    problem: Problem,
    outcome: np.ndarray,
    chance: np.ndarray,
    samples: Sample,
    maps: Maps,
    law: tuple[np.ndarray, np.ndarray],
    names: Sequence[str],
) -> Affine:
    """The map along $S_t$ if it is the same for every $A_{t+1}$, and else along $(S_t, A_t)$."""
    s, a, num_actions = samples.state, samples.action, problem.mdp.num_actions
    first = np.flatnonzero(np.diff(outcome, prepend=-1))  # of the next actions of an outcome
    every = np.repeat(first, np.diff(first, append=len(outcome)))
    if _same(maps, tuple(each[every] for each in maps)):
        maps = tuple(each[first] for each in maps)
        chance, s, a = np.add.reduceat(chance, first), s[first], a[first]
        source, destination = s, samples.state_next[first]
        start, stationary = problem.start, problem.stationary
    else:
        source = s * num_actions + a
        destination = samples.state_next * num_actions + samples.action_next
        start = (problem.start[:, None] * problem.behavior).ravel()
        stationary = problem.stationary_actions.ravel()
    matrix, vector, slope, offset = maps
    mean, covariance = law
    return Affine(
        probability=chance / np.bincount(source, chance, len(start))[source],
        source=source,
        destination=destination,
        state=s,
        action=a,
        matrix=matrix,
        vector=vector,
        slope=slope,
        offset=offset,
        start=start,
        stationary=stationary,
        mean=mean,
        covariance=covariance,
        names=names,
        basis=np.eye(len(names)),
    )


def _beginning(
    problem: Problem, learner: Learner, initial: Initial
) -> tuple[list[str], Callable[[Any], Any], tuple[np.ndarray, np.ndarray]]:
    """The names of the weights, how a state is made of them, and the law of the first ones."""
    with jax.enable_x64(True):
        example = jax.tree.map(jnp.asarray, example_of(problem, np.float64))
        first = learner.init(jax.random.key(0), example)
        leaves = jax.tree_util.tree_leaves_with_path(first)
        if any(not jnp.issubdtype(leaf.dtype, jnp.floating) for _, leaf in leaves):
            raise ValueError(
                f"learner: the state of {_name(learner)} has numbers that are not real"
            )
        rebuild = ravel_pytree(first)[1]
        keys = jax.random.split(jax.random.key(0), KEYS)
        draws = jax.vmap(lambda key: ravel_pytree(learner.init(key, example))[0])(keys)
        draws = np.asarray(draws, np.float64).reshape(KEYS, -1)
    names = [
        jax.tree_util.keystr(path, simple=True, separator=".") + "".join(f"[{n}]" for n in index)
        for path, leaf in leaves
        for index in np.ndindex(leaf.shape)
    ]
    return names, rebuild, _law(draws, initial, names)


def _law(draws: np.ndarray, initial: Initial, names: Sequence[str]) -> tuple[Any, Any]:
    """Mean and covariance of the first weights, as given or as they are drawn."""
    size = len(names)
    if initial is None:
        random = np.ptp(draws, axis=0) > 0
        mean, covariance = np.where(random, 0.0, draws[0]), np.diag(random.astype(float))
        moment = draws - mean
        far = max(
            np.abs(moment.mean(0)).max(initial=0.0),
            np.abs(moment.T @ moment / KEYS - covariance).max(initial=0.0),
        )
        if far > 8 / np.sqrt(KEYS):
            raise ValueError(
                "initial: not given, and the learner starts from random weights that are not "
                "standard normal; give their mean and covariance"
            )
        return mean, covariance
    mean, covariance = initial if isinstance(initial, tuple) else (initial, np.zeros((size, size)))
    words = f"the weights {names[0]} to {names[-1]}" if names else "no weights"
    mean = checks.shaped("initial", mean, (size,), words)
    covariance = checks.shaped("initial", covariance, (size, size), "a covariance")
    scale = np.abs(covariance).max(initial=0.0)
    if np.abs(covariance - covariance.T).max(initial=0.0) > TOLERANCE * scale:
        raise ValueError("initial: the covariance is not symmetric")
    if size and np.linalg.eigvalsh(covariance)[0] < -TOLERANCE * scale:
        raise ValueError("initial: the covariance has a negative eigenvalue")
    return mean, covariance


def _name(learner: Learner) -> str:
    return learner.name or "the learner"


def _require_affine(
    learner: Learner,
    names: Sequence[str],
    maps: Maps,
    at: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> None:
    matrix, vector, slope, offset = maps
    rng, curved = np.random.default_rng(0), np.zeros(len(names), bool)
    for scale in (1.0, 1e3):
        d = scale * rng.normal(size=len(names))
        moved, predicted = at(d)
        allowed = TOLERANCE * (np.abs(vector) + np.abs(matrix) @ np.abs(d))
        curved |= ~(np.abs(moved - matrix @ d - vector) <= allowed).all(0)  # NaN too
        allowed = TOLERANCE * (np.abs(offset) + np.abs(slope) @ np.abs(d))
        if not (np.abs(predicted - slope @ d - offset) <= allowed).all():
            raise ValueError(
                f"learner: what {_name(learner)} predicts is not affine in its weights"
            )
    if curved.any():
        parts = [
            list(dict.fromkeys(name.split("[")[0] for name in np.array(names)[which]))
            for which in (curved, ~curved)
        ]
        offer = f"; what learns {', '.join(parts[1])} is: predict that learner alone" * bool(
            parts[1]
        )
        raise ValueError(
            f"learner: the step of {_name(learner)} is not affine in its weights, since "
            f"{', '.join(parts[0])} is multiplied by what is learned{offer}"
        )


def _same(maps: Maps, others: Maps) -> bool:
    """Whether all are equal up to rounding."""
    return all(
        np.abs(one - other).max(initial=0.0) <= 1e-13 * np.abs(one).max(initial=0.0)
        for one, other in zip(maps, others, strict=True)
    )


def _require_timeless(learner: Learner, maps: Maps, later: Sequence[Maps]) -> None:
    if not all(_same(maps, other) for other in later):
        raise ValueError(
            f"learner: the step of {_name(learner)} changes with the time; fixed step sizes and a "
            "fixed ridge are required"
        )
