"""Trials: random problems on which common slips show, and what a learner sees along streams."""

from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass
from functools import cache, cached_property
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._validation import frozen
from ..mdp import MDP, Problem
from ..oracle import enumerate_samples
from ..types import Sample, Transition

Sizes: TypeAlias = tuple[int, int, int]
"""States, actions and features."""
SIZES: Sizes = (5, 3, 3)
NUM_STREAMS, NUM_STEPS = 10, 30
SCALES = (0.6, 1.0, 3.0)
"""Sizes of features, one problem each: with the last one many learners diverge."""

NAMES = tuple(field.name for field in fields(Transition))
PlainTransition = make_dataclass("PlainTransition", NAMES, frozen=True)
PlainTransition.__doc__ = """A [Transition] in plain Python, read-only: floats and NumPy arrays."""
Seen: TypeAlias = dict[str, np.ndarray]
"""Transitions as arrays by the names of their fields, which may have leading axes."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A problem, and streams of its behaviour: samples of axes (stream, step) and what is seen."""

    problem: Problem
    sample: Sample
    seen: Seen

    @cached_property
    def _view(self) -> Callable[[Sample], Transition]:
        pi = jnp.asarray(self.problem.require_target())

        def view(sample: Sample) -> Transition:
            return self.problem.view(pi[sample.state], pi[sample.state_next], sample)

        return jax.jit(jax.vmap(jax.vmap(view)))

    def view(self, sample: Sample) -> Seen:
        """Returns what a learner sees of samples that have two leading axes, read-only."""
        y = self._view(jax.tree.map(np.asarray, sample))
        return {name: frozen(np.array(getattr(y, name))) for name in NAMES}

    @cached_property
    def streams(self) -> list[list[Any]]:
        """The streams as a learner in plain Python sees them."""
        shape = self.seen["rho"].shape
        return [[as_plain(self.seen, n, t) for t in range(shape[1])] for n in range(shape[0])]


def as_plain(seen: Seen, *index: int) -> Any:
    """Returns one of many transitions as a [PlainTransition]."""
    rows = (seen[name][index] for name in NAMES)
    return PlainTransition(*(row if row.ndim else row.item() for row in rows))


@cache
def make_trial(seed: int, number: int, scale: float, sizes: Sizes = SIZES) -> Trial:
    """Makes a trial: discounts vary and end episodes, interests vanish, two states look alike."""
    rng = np.random.default_rng([seed, number])
    problem = make_problem(rng, scale, sizes)
    sample = walk(rng, problem)
    trial = Trial(problem, sample, {})
    trial.seen.update(trial.view(sample))
    return trial


def make_problem(rng: np.random.Generator, scale: float, sizes: Sizes) -> Problem:
    """Makes a random problem whose features are of about this scale."""
    states, actions, features = sizes
    shape = states, actions, states
    possible = rng.random(shape) < 0.4
    possible[np.arange(states), 0, np.roll(np.arange(states), -1)] = True
    possible[..., 0] |= ~possible.any(2)
    p = possible * rng.uniform(0.2, 1.0, shape)
    kind = rng.random(shape)
    discount = np.where(kind < 0.2, 0.0, np.where(kind > 0.9, 1.0, rng.uniform(0.3, 1.0, shape)))
    behavior, target = rng.uniform(0.3, 1.0, (2, states, actions))
    target[rng.permutation(states)[:2], 1] = 0.0
    interest = rng.uniform(0.3, 2.0, states)
    interest[rng.integers(states)] = 0.0
    x = rng.uniform(0.3, 1.0, (states, features)) * rng.choice((-1, 1), (states, features))
    x[3:] = x[: max(states - 3, 0)]
    return Problem(
        MDP(p / p.sum(2, keepdims=True), rng.normal(size=shape), discount),
        behavior=behavior / behavior.sum(1, keepdims=True),
        interest=interest,
        x=scale * x,
        start=np.full(states, 1 / states),
        target=target / target.sum(1, keepdims=True),
    )


def walk(rng: np.random.Generator, problem: Problem) -> Sample:
    """Draws streams of the behaviour, from the start on."""
    mdp, mu = problem.mdp, problem.behavior
    size, steps = NUM_STREAMS, range(NUM_STEPS)

    def draw(law: Float[np.ndarray, "m n"]) -> np.ndarray:
        return (rng.random((len(law), 1)) > law.cumsum(1)[:, :-1]).sum(1)

    s = draw(np.tile(problem.start, (size, 1)))
    a = draw(mu[s])
    columns: list[tuple[np.ndarray, ...]] = []
    for _ in steps:
        s_next = draw(mdp.transition[s, a])
        a_next = draw(mu[s_next])
        outcome = s, a, s_next
        columns.append((s, a, mdp.reward[outcome], mdp.discount[outcome], s_next, a_next))
        s, a = s_next, a_next
    time = np.broadcast_to(np.arange(NUM_STEPS, dtype=np.int32), (size, NUM_STEPS))
    return Sample(time, *(np.stack(column, 1) for column in zip(*columns, strict=True)))


def enumerate_transitions(trial: Trial) -> tuple[Float[np.ndarray, " n"], Seen]:
    """Returns the stationary probabilities of all transitions, and what is seen of them."""
    probability, sample, _ = enumerate_samples(trial.problem)
    seen = trial.view(jax.tree.map(lambda leaf: leaf[None], sample))
    return probability, {name: array[0] for name, array in seen.items()}
