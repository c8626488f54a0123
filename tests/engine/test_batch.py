"""First states have the same bits, however they are made."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from emphatic import Learner, learners, problems
from emphatic.engine import batch
from emphatic.engine.batch import Batch, transition_view

from ..transcriptions import initial


def make_batch(learner: Any, dtype: str, **lanes: Any) -> Batch:
    problem = problems.random_walk("dependent")
    view = transition_view(problem, problem.behavior, np.dtype(dtype))
    return Batch(learner, lanes, problem, problem.behavior, view, {}, np.dtype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_first_states_of_many_seeds_are_those_of_each_alone(dtype, monkeypatch):
    """The first few are made as they come, the others by a compiled program."""
    monkeypatch.setattr(batch, "NUM_DIRECT", 2)

    def learner(step_size):
        return learners.etd(learners.gem(step_size), step_size)

    lanes = {"step_size": np.array([0.1, 0.2, 0.3])}
    many = make_batch(learner, dtype, **lanes)
    for seed in (5, 2**63, 7, 2**63 + 5):
        state = many.initial(seed)
        for weights, name in ((state.nu, "nu"), (state.emphasis.w, "w")):
            expected = np.tile(initial(seed, name, 3), (3, 1)).astype(dtype)
            np.testing.assert_array_equal(weights, expected)
        alone = make_batch(learner, dtype, **lanes).initial(seed)
        jax.tree.map(np.testing.assert_array_equal, state, alone)
    assert "_compiled_initial" in vars(many)


def test_first_states_that_are_computed_are_compiled_for_every_seed():
    """For a compiled program may round otherwise than single operations."""
    gem = learners.gem(0.1)

    def init(key, y):
        state = gem.init(key, y)
        return dataclasses.replace(state, w=0.1 + 0.3 * state.w)

    for learner, is_compiled in ((gem, False), (Learner(init, gem.step, gem.predict), True)):
        made = make_batch(lambda learner=learner: learner, "float32")
        made.initial(0)
        assert ("_compiled_initial" in vars(made)) == is_compiled
