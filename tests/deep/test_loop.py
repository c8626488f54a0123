"""Training is paired, resumable and reproducible, and one run does not touch another."""

import dataclasses
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic.deep import replay
from emphatic.deep.agents.actor_critic import cof_pac
from emphatic.deep.agents.agent import Agent
from emphatic.deep.environments.environment import Environment
from emphatic.deep.experience import Experience, Step
from emphatic.deep.loop import train_agent
from emphatic.deep.policies import Gaussian
from emphatic.deep.transition import transitions

SLOW = pytest.mark.slow  # XLA compiles whole trainings, and takes seconds for each

BOUND = np.ones(1)


def drift(horizon=3):
    """A point that actions push; episodes are three steps long."""

    def step(state, action, key):
        place, time = state
        after = (place + action[0] + 0.1 * jax.random.normal(key), time + 1)
        return after, -(place**2), jnp.bool_(False), after[1] >= horizon

    return Environment(
        "drift",
        2,
        -BOUND,
        BOUND,
        horizon,
        lambda key: (jax.random.normal(key), jnp.int32(0)),
        lambda state: jnp.stack([state[0], 1.0 + 0 * state[0]]),
        step,
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class CountState:
    params: Any
    replay: Any


def counting(rate=1.0, breaks=float("inf")):
    """An agent that adds up the rewards of its batches and of its replay, and all that it sees."""

    def init(key, example, capacity):
        first = jax.random.normal(key, dtype=example.reward.dtype)
        return CountState(jnp.stack([first, 0 * first]), replay.empty(example, capacity))

    def update(state, batch, time, key):
        ring = replay.add(state.replay, batch, time)
        past = replay.sample(ring, key, time + 1, 2)
        total = state.params[0] + rate * (batch.reward.sum() + 0.1 * past.reward.sum())
        total = jnp.where(batch.reward.min() < -breaks, jnp.nan, total)
        seen = state.params[1] + (1 + time) * sum(leaf.sum() for leaf in jax.tree.leaves(batch))
        return CountState(jnp.stack([total, seen]).astype(state.params.dtype), ring), {}

    def act(theta, observation, key):
        return jnp.tanh(theta[0] / 50) * jnp.ones(1, observation.dtype)

    return Agent(init, update, lambda state: state.params, act, {"counting": rate})


SMALL: dict[str, Any] = {"num_workers": 2, "evaluate_every": 4}
DRIFT, COUNTING = drift(), counting()


@pytest.fixture(scope="module")
def actual():
    """COF-PAC in the drift, uninterrupted."""
    policy = Gaussian(-BOUND, BOUND, hidden=(3,))
    agent = cof_pac(policy, hidden=(3,), warm_up=2, num_sampled=2, target_every=3)
    return agent, train_agent(agent, DRIFT, [3, 4], 12, **SMALL)


@SLOW
def test_curves_have_a_point_for_every_evaluation(actual):
    _, found = actual
    assert found.seeds == (3, 4)
    np.testing.assert_array_equal(found.steps, [0, 8, 16, 24])
    names = {"J", "return", "ratio", "sample_size", "emphasis", "trace", "slope"}
    assert set(found.curves) == names
    assert all(curve.shape == (2, 4) for curve in found.curves.values())
    assert np.isfinite(found.curves["J"]).all()
    assert np.isnan(found.curves["ratio"][:, 0]).all()  # nothing was learned before
    assert (found.curves["J"][0] != found.curves["J"][1]).all()
    np.testing.assert_array_equal(found.diverged, [-1, -1])


def requires_the_same_bits(agent, expected, file):
    """A training that is interrupted goes on, and ends as if it had not been."""

    def interrupt(steps, values, theta):
        if steps == 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_agent(agent, DRIFT, [3, 4], 12, checkpoint=file, on_evaluation=interrupt, **SMALL)
    reported = []
    found = train_agent(
        agent,
        DRIFT,
        [3, 4],
        12,
        checkpoint=file,
        on_evaluation=lambda steps, values, theta: reported.append(steps),
        **SMALL,
    )
    assert reported == [16, 24]
    jax.tree.map(np.testing.assert_array_equal, found.theta, expected.theta)
    for name, curve in expected.curves.items():
        np.testing.assert_array_equal(found.curves[name], curve)
    done = train_agent(agent, DRIFT, [3, 4], 12, checkpoint=file, **SMALL)
    np.testing.assert_array_equal(done.curves["J"], expected.curves["J"])


@SLOW
def test_an_interrupted_training_resumes_with_the_same_bits(actual, tmp_path):
    agent, expected = actual
    requires_the_same_bits(agent, expected, tmp_path / "training.safetensors")


def test_what_learns_from_its_replay_resumes_with_the_same_bits(tmp_path):
    """The replay is not in the checkpoint: its rewards are added up, from before and after."""
    expected = train_agent(COUNTING, DRIFT, [3, 4], 12, **SMALL)
    requires_the_same_bits(COUNTING, expected, tmp_path / "training.safetensors")


def _require_equal(actual, expected):
    jax.tree.map(np.testing.assert_array_equal, actual.theta, expected.theta)
    np.testing.assert_array_equal(actual.steps, expected.steps)
    for name, curve in expected.curves.items():
        np.testing.assert_array_equal(actual.curves[name], curve)


@SLOW
@pytest.mark.parametrize("capacity", [None, 3])
def test_a_finished_training_continues_to_the_same_bits_as_a_longer_one(tmp_path, capacity):
    file = tmp_path / "training.safetensors"
    expected = train_agent(COUNTING, DRIFT, [3, 4], 12, capacity=capacity, **SMALL)
    for length in (4, 12):
        settings = {**SMALL, "capacity": capacity, "checkpoint": file}
        actual = train_agent(COUNTING, DRIFT, [3, 4], length, **settings)
    _require_equal(actual, expected)
    with pytest.raises(ValueError, match="is 12 there and 8 here"):
        train_agent(COUNTING, DRIFT, [3, 4], 8, **settings)
    with pytest.raises(ValueError, match="capacity is"):
        train_agent(COUNTING, DRIFT, [3, 4], 12, **{**settings, "capacity": 5})


def test_a_longer_recording_continues_only_what_it_begins_with(tmp_path):
    """Where an episode ends with the recording, the start of the next one was not known."""
    experience, file = recorded(13, 0), tmp_path / "training.safetensors"

    def cut(length):
        steps = jax.tree.map(lambda leaf: leaf[:length], experience.steps)
        arrays = {"steps": steps, "behavior": experience.behavior[:length]}
        return dataclasses.replace(experience, **arrays)

    def train(length, source, file=None):
        settings = {"evaluate_every": 4, "checkpoint": file}
        return train_agent(COUNTING, source, [3], length, **settings)

    expected = train(12, experience)
    train(4, cut(5), file)
    _require_equal(train(12, experience, file), expected)
    for source in (recorded(13, 1), cut(12)):
        with pytest.raises(ValueError, match="experience is 'recorded, sha256"):
            train(12, source, file)


def test_the_same_seed_gives_the_same_curve_whoever_runs_beside_it():
    one = train_agent(COUNTING, DRIFT, [4, 5], 12, **SMALL)
    again = train_agent(COUNTING, DRIFT, [4, 5], 12, **SMALL)
    beside = train_agent(COUNTING, DRIFT, [6, 4], 12, **SMALL)
    np.testing.assert_array_equal(one.curves["J"], again.curves["J"])
    np.testing.assert_array_equal(beside.curves["J"][1], one.curves["J"][0])
    assert beside.curves["J"][0, -1] != beside.curves["J"][1, -1]


@SLOW
def test_all_agents_of_a_seed_see_the_same_stream():
    one = train_agent(COUNTING, DRIFT, [4, 5], 8, **SMALL)
    other = train_agent(counting(-3.0), DRIFT, [4, 5], 8, capacity=2, **SMALL)
    np.testing.assert_array_equal(one.theta[:, 1], other.theta[:, 1])
    assert (one.theta[:, 0] != other.theta[:, 0]).all()


@SLOW
def test_a_run_that_diverges_is_reported_and_leaves_the_others_as_they_are():
    """Rewards are minus squares: with this bound one of the two runs breaks."""
    sound = train_agent(COUNTING, DRIFT, [4, 5], 8, **SMALL)
    found = train_agent(counting(breaks=5.0), DRIFT, [4, 5], 8, **SMALL)
    np.testing.assert_array_equal(found.diverged, [-1, 8])
    whole, broken = 0, 1
    np.testing.assert_array_equal(found.theta[whole], sound.theta[whole])
    np.testing.assert_array_equal(found.curves["J"][whole], sound.curves["J"][whole])
    np.testing.assert_array_equal(found.curves["J"][broken, 0], sound.curves["J"][broken, 0])
    assert np.isnan(found.curves["J"][broken, 1:]).all()


def test_no_random_number_is_used_twice():
    """Not in another segment, run or evaluation: each key draws one number."""

    def init(key, example, capacity):
        nothing = {"update": jnp.zeros(8), "action": jnp.zeros(8)}
        return CountState(nothing, replay.empty(example, capacity))

    def update(state, batch, time, key):
        drawn = {"update": jax.random.uniform(key), "action": batch.action[0, 0]}
        noted = {name: state.params[name].at[time].set(drawn[name]) for name in drawn}
        return CountState(noted, state.replay), {}

    def evaluate(theta, key):
        return {"evaluation": jax.random.uniform(key)}

    agent = Agent(init, update, lambda state: state.params, lambda *_: jnp.zeros(1), {})
    found = train_agent(agent, DRIFT, [4, 5], 8, evaluate=evaluate, **SMALL)
    numbers = [found.theta["update"], found.theta["action"], found.curves["evaluation"]]
    assert len(np.unique(np.concatenate(numbers, 1))) == 2 * (8 + 8 + 3)


def test_what_a_watcher_measures_joins_the_curves():
    def watch(steps, values, theta):
        assert np.isfinite(values["J"]).all()
        return {"doubled": 2 * theta[:, 0]}

    found = train_agent(COUNTING, DRIFT, [4, 5], 12, on_evaluation=watch, **SMALL)
    np.testing.assert_allclose(found.curves["doubled"][:, -1], 2 * found.theta[:, 0])


@SLOW
def test_a_checkpoint_of_another_experiment_is_refused_and_kept(tmp_path):
    file = tmp_path / "training.safetensors"
    train_agent(COUNTING, DRIFT, [4, 5], 8, checkpoint=file, **SMALL)
    before = file.read_bytes()
    for agent, seeds, why in (
        (counting(2.0), [4, 5], "another experiment: counting is 1.0 there and 2.0 here"),
        (COUNTING, [1], r"another experiment: seeds is \[4, 5\] there and \[1\] here"),
    ):
        with pytest.raises(ValueError, match=why):
            train_agent(agent, DRIFT, seeds, 8, checkpoint=file, **SMALL)
    assert file.read_bytes() == before
    file.write_bytes(before[: len(before) // 2])
    with pytest.raises(ValueError, match="cannot be read"):
        train_agent(COUNTING, DRIFT, [4, 5], 8, checkpoint=file, **SMALL)


def recorded(num, seed):
    """Experience with episodes of three steps, of which one is terminated in its second."""
    rng = np.random.default_rng(seed)
    ends = np.arange(1, num + 1) % 3 == 0
    ends[1] = True
    truncated = np.stack([ends & (np.arange(num) != 1)] * 2, 1)
    terminated = np.stack([ends & (np.arange(num) == 1)] * 2, 1)
    observation = rng.normal(size=(num + 1, 2, 2)).astype(np.float32)
    over = (terminated | truncated)[..., None]
    final = rng.normal(size=(num, 2, 2)).astype(np.float32)
    return Experience(
        steps=Step(
            observation=observation[:-1],
            action=rng.uniform(-1, 1, (num, 2, 1)).astype(np.float32),
            reward=rng.normal(size=(num, 2)).astype(np.float32),
            observation_next=np.where(over, final, observation[1:]),
            terminated=terminated,
            truncated=truncated,
            start=np.concatenate([np.ones((1, 2), bool), over[:-1, :, 0]]),
        ),
        behavior=np.full((num, 2), 0.5, np.float32),
        environment="recorded",
        seed=seed,
        low=-BOUND,
        high=BOUND,
    )


def test_the_successor_of_an_end_is_the_next_start():
    steps = recorded(6, 0).steps
    for limit_ends in (True, False):
        y = transitions(steps, 0.5, jnp.asarray(steps.observation[0]), limit_ends)
        over = steps.terminated | steps.truncated
        np.testing.assert_array_equal(y.successor[:-1], steps.observation[1:])
        np.testing.assert_array_equal(y.successor[-1], steps.observation[0])
        within = ~over
        np.testing.assert_array_equal(
            y.successor[:-1][within[:-1]], y.observation_next[:-1][within[:-1]]
        )
        np.testing.assert_array_equal(y.continues, within)
        np.testing.assert_array_equal(y.bootstraps, within if limit_ends else ~steps.terminated)
        np.testing.assert_array_equal(y.behavior, 0.5)


@SLOW
def test_recorded_experience_is_learned_from_one_for_all_or_one_for_each():
    first, second = recorded(8, 0), recorded(8, 1)
    shared = train_agent(COUNTING, first, [0, 1], 8, **SMALL)
    own = train_agent(COUNTING, [first, second], [0, 1], 8, **SMALL)
    assert shared.theta.dtype == np.float32
    np.testing.assert_allclose(own.theta[0], shared.theta[0], rtol=1e-5)
    assert (own.theta[1] != shared.theta[1]).all()
    assert set(shared.curves) == set()  # there is no environment to evaluate in


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"seeds": []}, "seeds: got none"),
        ({"seeds": [-1]}, "seed: got -1"),
        ({"num_iterations": 6}, "evaluate_every: got 4; it must divide"),
        ({"experience": recorded(4, 0)}, "num_iterations: got 8; the experience has 4"),
        ({"experience": [recorded(8, 0)] * 3}, "experience: got 3; one, or one for each seed"),
        ({"capacity": 0}, "capacity: got 0"),
    ],
)
def test_what_cannot_be_trained_is_refused(change, why):
    arguments = {"experience": DRIFT, "seeds": [0, 1], "num_iterations": 8, **SMALL, **change}
    with pytest.raises(ValueError, match=why):
        train_agent(COUNTING, **arguments)


SCRIPT = """
import json, jax
from tests.deep.test_loop import COUNTING, DRIFT, SMALL
from emphatic.deep.loop import train_agent
found = train_agent(COUNTING, DRIFT, [0, 1, 2], 8, **SMALL)
print(json.dumps([jax.device_count(), found.curves["J"].tolist()]))
"""


@SLOW
def test_runs_are_spread_over_devices_with_the_same_results():
    """Three runs on two devices, one of which has a run that is only there for its size."""
    command = [sys.executable, "-c", SCRIPT]
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={count}"},
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        for count in (1, 2)
    ]
    (one, alone), (two, spread) = (json.loads(process.communicate()[0]) for process in started)
    assert (one, two) == (1, 2)
    np.testing.assert_allclose(spread, alone, rtol=1e-5)
