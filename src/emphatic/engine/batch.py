"""What an engine runs: a batch of one learner, with one lane for each of its settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree, UInt32
from numpy.typing import DTypeLike

from ..mdp import Problem
from ..types import Key, LearnerFactory, Sample, Scalar, Transition
from .linearization import weight_names
from .measures import example_transition, Lanes, Measure

TABLE_BYTES = 2**26  # transitions are tabulated up to this size, and made as they come beyond
NUM_DIRECT = 32  # first states that are made without compiling, which takes as long as so many
DRAWS = {"_normal", "_uniform"}  # functions of jax.random that JAX has compiled on their own
MOVES = {"broadcast_in_dim", "convert_element_type", "random_fold_in", "random_wrap"}

Observation: TypeAlias = PyTree
"""What a learner sees of a sample: a critic a [Transition], an agent the [Sample] itself."""


def cast(tree: PyTree, dtype: np.dtype) -> PyTree:
    """Returns NumPy arrays, the floating ones in the working type."""

    def cast_leaf(leaf: object) -> np.ndarray:
        array = np.asarray(leaf)
        return array.astype(dtype if array.dtype.kind == "f" else array.dtype, copy=False)

    return jax.tree.map(cast_leaf, tree)


@dataclass(frozen=True)
class View:
    """What a learner sees: `observe`, a function of batches of samples, and an example of it."""

    example: Observation
    observe: Callable[[Sample], Observation]


def transition_view(problem: Problem, target: Float[np.ndarray, "s a"], dtype: DTypeLike) -> View:
    """Returns what a critic sees: transitions under one target policy."""

    def view(sample: Sample) -> Transition:
        pi = jnp.asarray(target, jnp.result_type(float))
        return problem.view(pi[sample.state], pi[sample.state_next], sample)

    return View(example_transition(problem, dtype), jax.jit(jax.vmap(view)))


def sample_view(dtype: DTypeLike) -> View:
    """Returns what an agent sees: the samples themselves."""
    real, integer = np.zeros((), dtype), np.zeros((), np.int32)
    example = Sample(np.zeros((), np.int32), integer, integer, real, real, integer, integer)
    return View(example, lambda sample: sample)


class Lane(NamedTuple):
    """What tells lanes apart; every leaf has the lanes first, or belongs to one lane."""

    arguments: PyTree  # of the factory, by name
    derived: PyTree  # what each measure derives from them, by its name


class Batch:
    """One learner under one target policy, with the values of its lanes and its measures."""

    def __init__(
        self,
        factory: LearnerFactory,
        lanes: Lanes,
        problem: Problem,
        target: Float[np.ndarray, "s a"],
        view: View,
        measures: Mapping[str, Measure],
        dtype: np.dtype,
    ):
        self.factory, self.view, self.measures = factory, view, measures
        self.dtype = np.dtype(dtype)
        self.num_lanes = len(next(iter(lanes.values()), [None]))
        shared: dict[str, PyTree] = {}
        derived: dict[str, PyTree] = {}
        for name, measure in measures.items():
            shared[name] = measure.from_problem(problem, target)
            derived[name] = measure.from_lanes(problem, target, factory, lanes)
        self.shared = cast(shared, self.dtype)
        self.lanes: Lane = cast(Lane(dict(lanes), derived), self.dtype)
        self.example = view.example
        with jax.enable_x64(self.dtype == np.float64):
            key = jax.random.key(0)
            self.state = jax.eval_shape(lambda lane: self._init(key, lane.arguments), self.lane)
        self._num_initial = 0
        self.num_state = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(self.state))

    @property
    def row_bytes(self) -> int:
        """The size of what is seen of one sample."""
        return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(self.example))

    @property
    def state_bytes(self) -> int:
        """The size of the states of all lanes."""
        return self.num_lanes * self.num_state * self.dtype.itemsize

    @property
    def window_bytes(self) -> int:
        """The size of what is recorded of all lanes in a window, without their states."""
        return self.num_lanes * (8 * len(self.measures) + 1)

    @property
    def names(self) -> list[str]:
        """What the numbers of a state are called, such as `w[0]`."""
        return weight_names(self.state)

    @property
    def lane(self) -> Lane:
        """The shapes of one lane's values."""
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), self.lanes)

    def step(
        self, lane: Lane, state: PyTree, shared: PyTree, y: Observation
    ) -> tuple[PyTree, list[Scalar]]:
        """Returns a lane's next state, and its measures before the update: what is compiled."""
        learner = self.factory(**lane.arguments)
        values = [
            measure.value(shared[name], lane.derived[name], learner, state, y)
            for name, measure in self.measures.items()
        ]
        return learner.step(state, y), values

    def _init(self, key: Key, arguments: PyTree) -> PyTree:
        return self.factory(**arguments).init(key, jax.tree.map(jnp.asarray, self.example))

    def initial(self, seed: int) -> PyTree:
        """Returns the first state of every lane; only seed and names of weights matter to it."""
        words = np.array([seed >> 32, seed & 0xFFFFFFFF], np.uint32)
        self._num_initial += 1
        with jax.enable_x64(self.dtype == np.float64):
            is_direct = self._num_initial <= NUM_DIRECT and self._only_draws
            initial = self._initial if is_direct else self._compiled_initial
            return initial(jnp.asarray(words), self.lanes.arguments)

    def _initial(self, words: UInt32[jax.Array, "2"], arguments: PyTree) -> PyTree:
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
        return jax.vmap(partial(self._init, key), axis_size=self.num_lanes)(arguments)

    @cached_property
    def _compiled_initial(self) -> Callable[[UInt32[jax.Array, "2"], PyTree], PyTree]:
        return jax.jit(self._initial)

    @cached_property
    def _only_draws(self) -> bool:
        """Whether first states are drawn and moved, so that compiling could change no bit."""
        words = jax.ShapeDtypeStruct((2,), np.uint32)
        program = jax.make_jaxpr(self._initial)(words, self.lanes.arguments)
        return all(
            equation.primitive.name in MOVES or equation.params.get("name") in DRAWS
            for equation in program.eqns
        )

    def observe(self, sample: Sample) -> Observation:
        """Returns what the learner sees of samples, computed in float64."""
        with jax.enable_x64(True):
            return cast(self.view.observe(sample), self.dtype)
