"""Uniform behaviour: where episodes begin and end, what follows what, and with which law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from emphatic.deep.environments.environment import (
    clip_actions,
    Environment,
    uniform_density,
    uniform_steps,
)

LOW, HIGH = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 0.5, 6.0])
HORIZON, END = 7, 0.2


def walk() -> Environment:
    """A random number at reset, plus 10 for each step; ends by chance, or after seven steps."""

    def step(state, action, key):
        label, time = state["label"], state["time"] + 1
        terminated = jax.random.uniform(key) < END
        return {"label": label, "time": time}, action.sum(), terminated, time >= HORIZON

    def reset(key):
        return {"label": jax.random.uniform(key, (2,)), "time": jnp.int32(0)}

    def observe(state):
        return state["label"] + 10 * state["time"]

    return Environment("walk", 2, LOW, HIGH, HORIZON, reset, observe, step)


def stream(seed, num_steps=400, num_workers=5):
    init, advance = uniform_steps(walk(), num_workers)
    first, rest = jax.random.split(jax.random.key(seed))
    return jax.lax.scan(advance, init(first), jax.random.split(rest, num_steps))[1]


@pytest.fixture(scope="module")
def steps():
    return jax.tree.map(np.asarray, jax.jit(stream)(0))


def test_an_episode_starts_where_the_one_before_has_ended(steps):
    ended = steps.terminated | steps.truncated
    assert steps.start[0].all()
    np.testing.assert_array_equal(steps.start[1:], ended[:-1])
    assert (ended[:, 0] != ended[:, 1]).any()
    assert steps.terminated.any()
    assert steps.truncated.any()
    assert (steps.terminated & ~steps.truncated).any()


def test_the_successor_is_the_true_one_also_at_the_end_of_an_episode(steps):
    np.testing.assert_allclose(steps.observation_next, steps.observation + 10)
    ended = (steps.terminated | steps.truncated)[:-1]
    now, before = steps.observation[1:], steps.observation_next[:-1]
    np.testing.assert_array_equal(now[~ended], before[~ended])
    assert (now[ended] < 1).all()
    assert (steps.observation[steps.start] < 1).all()
    assert (steps.observation[~steps.start] >= 10).all()
    assert len(np.unique(steps.observation[steps.start])) == 2 * steps.start.sum()


def test_time_runs_out_after_the_horizon_and_chance_ends_the_rest(steps):
    time = steps.observation_next[..., 0] // 10
    np.testing.assert_array_equal(steps.truncated, time == HORIZON)
    assert steps.terminated.mean() == pytest.approx(END, abs=0.03)


def test_actions_are_uniform_on_the_box_and_rewards_are_theirs(steps):
    actions = steps.action.reshape(-1, 3)
    for column, low, high in zip(actions.T, LOW, HIGH, strict=True):
        assert stats.kstest(column, stats.uniform(low, high - low).cdf).pvalue > 1e-3
    np.testing.assert_allclose(actions.min(0), LOW, atol=0.02)
    np.testing.assert_allclose(actions.max(0), HIGH, rtol=0.005)
    assert np.abs(np.corrcoef(actions.T) - np.eye(3)).max() < 0.1
    workers = np.corrcoef(steps.action[..., 0].T) - np.eye(5)
    assert np.abs(workers).max() < 0.2
    np.testing.assert_allclose(steps.reward, steps.action.sum(-1))
    assert uniform_density(LOW, HIGH) == 1 / (2.0 * 0.5 * 4.0)
    assert uniform_density(-np.ones(2), np.ones(2)) == 0.25


def test_the_stream_of_a_seed_does_not_depend_on_the_other_seeds(steps):
    together = jax.jit(jax.vmap(stream))(jnp.arange(3))
    for one, many in zip(jax.tree.leaves(steps), jax.tree.leaves(together), strict=True):
        np.testing.assert_array_equal(one, many[0])
        assert one.dtype == many.dtype
    assert (together.action[0] != together.action[1]).all()


def test_at_least_one_worker_is_required():
    with pytest.raises(ValueError, match=r"^num_workers: got 0; at least 1"):
        uniform_steps(walk(), 0)


def test_behind_a_clip_an_action_costs_what_the_nearest_one_in_the_box_does():
    """The reward of the walk is the sum of the action."""
    inner, outer = walk(), clip_actions(walk())
    state, key = inner.reset(jax.random.key(0)), jax.random.key(1)
    rewards = [
        float(each.step(state, jnp.array([-3.0, 0.2, 9.0]), key)[1]) for each in (inner, outer)
    ]
    np.testing.assert_allclose(rewards, [6.2, -1.0 + 0.2 + 6.0])
    assert outer.name == "walk, actions clipped"
    jax.tree.map(np.testing.assert_array_equal, outer.reset(key), inner.reset(key))


def test_uniform_behaviour_does_not_notice_a_clip():
    def first(environment):
        init, advance = uniform_steps(environment, 3)
        return advance(init(jax.random.key(0)), jax.random.key(1))[1]

    jax.tree.map(np.testing.assert_array_equal, first(walk()), first(clip_actions(walk())))
