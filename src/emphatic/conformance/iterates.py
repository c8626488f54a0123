"""Our own iterates on the streams of a trial, with and without changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from ..types import named_leaves, Transition
from .claim import Claim
from .equation import Equation, Site
from .trials import NAMES, Seen, Trial

LANES = 32  # changes at once, so that one compiled program serves all

COMPILER_OPTIONS = {"xla_backend_optimization_level": 0}  # it compiles longer than it runs


@dataclass(frozen=True)
class Mutant:
    """A change of our learner: of what it sees, of its state, its numbers or its equation.

    **Arguments:**

    - `words`: What the change is.
    - `seen`: Other values of fields of the transitions, for the step.
    - `viewed`: The same for the prediction.
    - `of`: The parts of the state whose update is changed; all by default.
    - `in_order`: Whether the other parts see the new values of these.
    - `factor`: By what the updates of these parts are multiplied at each step.
    - `wiped`: By what these parts are multiplied at the end of an episode: 0, 1 for their first
      values, or None.
    - `numbers`: Other values of the learner's numbers.
    - `code`, `prediction_code`: The number of a change of the equation, see [Equation].
    - `tables`: Other values for arrays that the learner has from the problem.
    - `sites`: The lines that it is about.
    """

    words: str
    seen: Seen = field(default_factory=dict)
    viewed: Seen = field(default_factory=dict)
    of: tuple[str, ...] | None = None
    in_order: bool = False
    factor: np.ndarray | float = 1.0
    wiped: float | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    code: int = 0
    prediction_code: int = 0
    tables: tuple[np.ndarray, np.ndarray] | None = None
    sites: tuple[Site, ...] = ()


class Lane(NamedTuple):
    """What one change is for the compiled program."""

    consts: Any
    numbers: Any
    code: Any
    prediction_code: Any
    mask: Any
    in_order: Any
    wipes: Any
    wiped: Any


class Now(NamedTuple):
    """What one step of a lane and stream needs."""

    seen: Transition
    viewed: Transition
    factor: Any


class Ours:
    """Our learner on a trial: its equations, and the compiled program that iterates it."""

    def __init__(self, claim: Claim, trial: Trial, compiled: dict[str, Callable[..., Any]]):
        self.claim, self.trial = claim, trial
        self.numbers = {name: jnp.asarray(value) for name, value in claim.numbers.items()}
        example = Transition(**{name: jnp.asarray(trial.seen[name][0, 0]) for name in NAMES})

        def step(numbers: PyTree, state: PyTree, y: Transition) -> PyTree:
            return claim.make(trial.problem, numbers).step(state, y)

        def predict(numbers: PyTree, state: PyTree, y: Transition) -> Any:
            return claim.make(trial.problem, numbers).predict(state, y)

        self.learner = claim.make(trial.problem, self.numbers)
        self.initial = jax.tree.map(jnp.asarray, self.learner.init(jax.random.key(7), example))
        self.step = Equation(step, self.numbers, self.initial, example)
        self.prediction = Equation(predict, self.numbers, self.initial, example)
        text = f"{self.step.closed.jaxpr} {self.prediction.closed.jaxpr}"
        program = jax.jit(self._iterate, compiler_options=COMPILER_OPTIONS)
        self.program = compiled.setdefault(text, program)

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The first state as arrays by name."""
        return {name: np.array(leaf) for name, leaf in named_leaves(self.initial).items()}

    def field_inputs(self, name: str) -> int:
        """Returns the number of an input of the equations: a field of the transition."""
        return len(self.numbers) + len(self.weights) + NAMES.index(name)

    def iterate(self, mutants: Sequence[Mutant]) -> Float[np.ndarray, "m streams steps"]:
        """Returns the predictions of each mutant before each step."""
        predictions: list[np.ndarray] = []
        for first in range(0, len(mutants), LANES):
            some = mutants[first : first + LANES]
            padded = [*some, *[Mutant("")] * (LANES - len(some))]
            predictions.append(np.asarray(self.program(*self._data(padded)))[: len(some)])
        return np.concatenate(predictions)

    def _data(self, mutants: Sequence[Mutant]) -> tuple[Any, ...]:
        """Returns the arguments of the program."""
        names, shape = list(self.weights), self.trial.seen["rho"].shape

        def stack(field: str) -> Transition:
            rows = {
                name: np.stack([getattr(m, field).get(name, array) for m in mutants])
                for name, array in self.trial.seen.items()
            }
            return Transition(**rows)

        def consts(equation: Equation) -> list[np.ndarray]:
            return [
                np.stack([_replace(m, np.asarray(c)) for m in mutants]) for c in equation.consts
            ]

        numbers = {
            name: np.array([m.numbers.get(name, value) for m in mutants], float)
            for name, value in self.claim.numbers.items()
        }
        lanes = Lane(
            (consts(self.step), consts(self.prediction)),
            numbers,
            np.array([m.code for m in mutants]),
            np.array([m.prediction_code for m in mutants]),
            np.array([[m.of is None or name in m.of for name in names] for m in mutants]),
            np.array([m.in_order for m in mutants]),
            np.array([m.wiped is not None for m in mutants]),
            np.array([m.wiped or 0.0 for m in mutants]),
        )
        steps = Now(
            stack("seen"),
            stack("viewed"),
            np.stack([np.broadcast_to(m.factor, shape) for m in mutants]),
        )
        return lanes, steps, Transition(**self.trial.seen), self.initial, self.numbers

    def _iterate(
        self, lanes: Lane, steps: Now, y: Transition, initial: PyTree, numbers: PyTree
    ) -> Float[jax.Array, "m s t"]:
        def follow(lane: Lane, now: Now, y: Transition) -> jax.Array:
            def body(state: PyTree, data: tuple[Now, Transition]) -> tuple[PyTree, jax.Array]:
                now, y = data
                prediction, after = self._mutated_step(lane, now, y, state, initial, numbers)
                return after, prediction

            return jax.lax.scan(body, initial, (now, y))[1]

        streams = jax.vmap(follow, (None, 0, 0))
        return jax.vmap(streams, (0, 0, None))(lanes, steps, y)

    def _mutated_step(
        self, lane: Lane, now: Now, y: Transition, state: PyTree, initial: PyTree, numbers: PyTree
    ) -> tuple[jax.Array, PyTree]:
        """Returns the prediction and the next state of a lane."""
        of_step, of_prediction = lane.consts
        prediction = self.prediction.evaluate(
            of_prediction, lane.prediction_code, lane.numbers, state, now.viewed
        )
        one = self.step.evaluate(of_step, lane.code, lane.numbers, state, now.seen)

        def multiply(old: jax.Array, new: jax.Array) -> jax.Array:
            by = old + now.factor * (new - old)
            return jnp.where(now.factor == 1.0, new, by.astype(new.dtype))

        one = jax.tree.map(multiply, state, one)
        seen = _choose(lane.mask & lane.in_order, one, state)
        other = self.step.evaluate(of_step, None, numbers, seen, y)
        after = _choose(lane.mask, one, other)
        begun = jax.tree.map(lambda leaf: (lane.wiped * leaf).astype(leaf.dtype), initial)
        return prediction, _choose(lane.mask & lane.wipes & (y.discount == 0.0), begun, after)


def _replace(mutant: Mutant, const: np.ndarray) -> np.ndarray:
    """Returns an array that the learner has from the problem, or what a mutant has instead."""
    if mutant.tables is not None and const.shape == mutant.tables[0].shape:
        right, wrong = mutant.tables
        return wrong if np.allclose(const, right) else const
    return const


def _choose(mask: jax.Array, one: PyTree, other: PyTree) -> PyTree:
    """Returns a state with those leaves of one that the mask has."""
    leaves = zip(mask, jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    chosen = [jnp.where(is_one, a, b) for is_one, a, b in leaves]
    return jax.tree.unflatten(jax.tree.structure(one), chosen)
