"""What an engine runs: one learner on all its lanes, under one target."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Sample, Transition
from ..mdp import Problem
from .measures import example_of, Make, Measure

TABLE_BYTES = 2**26  # transitions are tabulated up to this size, and made as they come beyond


def cast(tree: Any, dtype: np.dtype) -> Any:
    """NumPy arrays, the floating ones in the working type."""

    def of(leaf: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        return leaf.astype(dtype if leaf.dtype.kind == "f" else leaf.dtype, copy=False)

    return jax.tree.map(of, tree)


@dataclass(frozen=True)
class Sight:
    """What a learner sees of samples, compiled for batches of them, and an example of it."""

    example: Any
    of: Callable[[Sample], Any]


def transitions(problem: Problem, target: np.ndarray, dtype: Any) -> Sight:
    """What a critic sees: transitions under one target."""

    def view(sample: Sample) -> Transition:
        pi = jnp.asarray(target)
        return problem.view(pi[sample.state], pi[sample.state_next], sample)

    return Sight(example_of(problem, dtype), jax.jit(jax.vmap(view)))


def samples(dtype: Any) -> Sight:
    """What an agent sees: the samples themselves."""
    number, whole, time = np.zeros((), dtype), np.zeros((), np.int32), np.zeros((), np.int32)
    example = Sample(time, whole, whole, number, number, whole, whole)
    return Sight(example, lambda sample: sample)


class Sweep:
    """One learner under one target, with the values of its lanes and what is measured.

    **Arguments:**

    - `make`: Makes the learner of a lane from its values.
    - `lanes`: The values, for each argument of `make` one number for each lane.
    - `problem`, `target`: The problem and the target policy.
    - `sight`: What it sees, [transitions] or [samples].
    - `measures`: The measures by name.
    - `dtype`: The working type.
    """

    def __init__(
        self,
        make: Make,
        lanes: Mapping[str, np.ndarray],
        problem: Problem,
        target: np.ndarray,
        sight: Sight,
        measures: Mapping[str, Measure],
        dtype: np.dtype,
    ):
        self.make, self.sight, self.measures = make, sight, measures
        self.dtype = np.dtype(dtype)
        self.num_lanes = len(next(iter(lanes.values()), [None]))
        exact, own = {}, {}
        for name, measure in measures.items():
            exact[name] = measure.exact(problem, target)
            own[name] = measure.own(problem, target, make, lanes)
        self.exact = cast(exact, self.dtype)
        self.lanes = cast({"of": dict(lanes), "own": own}, self.dtype)
        self.example = sight.example
        with jax.enable_x64(self.dtype == np.float64):
            self.state = jax.eval_shape(lambda lane: self._init(jax.random.key(0), lane), self.lane)

        leaves = jax.tree.leaves(self.state)
        self.num_state = sum(int(np.prod(leaf.shape)) for leaf in leaves)

    @property
    def row_bytes(self) -> int:
        """The size of what is seen of one sample."""
        return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(self.example))

    @property
    def names(self) -> list[str]:
        """What the numbers of a state are called, such as `w[0]`."""
        return [
            jax.tree_util.keystr(path, simple=True, separator=".")
            + "".join(f"[{n}]" for n in index)
            for path, leaf in jax.tree_util.tree_leaves_with_path(self.state)
            for index in np.ndindex(leaf.shape)
        ]

    @property
    def lane(self) -> Any:
        """The shapes of one lane's values."""
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), self.lanes)

    def step(self, lane: Any, state: Any, exact: Any, y: Any) -> tuple[Any, list[Any]]:
        """The next state of one lane, and its measures before it: what an engine compiles."""
        learner = self.make(**lane["of"])
        numbers = [
            measure.value(exact[name], lane["own"][name], learner, state, y)
            for name, measure in self.measures.items()
        ]
        return learner.step(state, y), numbers

    def _init(self, key: Any, lane: Any) -> Any:
        return self.make(**lane["of"]).init(key, jax.tree.map(jnp.asarray, self.example))

    def initial(self, seed: int) -> Any:
        """The first state of every lane: it depends on the seed and the names of the weights."""
        words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
        with jax.enable_x64(self.dtype == np.float64):
            return self._initial(words, self.lanes["of"])

    @cached_property
    def _initial(self) -> Any:
        def initial(words: Any, lanes: Any) -> Any:
            key = jax.random.wrap_key_data(words, impl="threefry2x32")
            init = jax.vmap(lambda lane: self._init(key, {"of": lane}), axis_size=self.num_lanes)
            return init(lanes)

        return jax.jit(initial)

    def seen(self, sample: Sample) -> Any:
        """What the learner sees of samples, computed in float64."""
        with jax.enable_x64(True):
            return cast(self.sight.of(sample), self.dtype)
