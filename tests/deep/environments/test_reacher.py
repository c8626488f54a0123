"""Reacher in closed form is MuJoCo's, step by step; its constants are those of the model."""

import importlib
import warnings
from functools import cache
from types import SimpleNamespace
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scipy import stats

from emphatic.deep.environments.environment import uniform_steps
from emphatic.deep.environments.reacher import fingertip, reacher, ReacherState

mechanics = importlib.import_module("emphatic.deep.environments.reacher")
NUM_EPISODES = 200


def make(version) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # v4 is old, and that is its point
        return gymnasium.make(f"Reacher-{version}")


def controls():
    """Torques that stay on one side for a while, some beyond the box: the arm folds often."""
    rng = np.random.default_rng(0)
    noise = rng.uniform(-1.3, 1.3, (NUM_EPISODES, mechanics.HORIZON, 2))
    return np.clip(noise + rng.uniform(-1.0, 1.0, (NUM_EPISODES, 1, 2)), -1.5, 1.5)


@cache
def judged(version, tolerance=None):
    """What Gymnasium returns for these actions, and the states that it started from."""
    env = make(version)
    model, data = env.unwrapped.model, env.unwrapped.data
    if tolerance is not None:
        model.opt.tolerance = tolerance
    found = {name: [] for name in ("qpos", "qvel", "first", "observation", "reward", "truncated")}
    for episode, actions in enumerate(controls()):
        found["first"].append(env.reset(seed=episode)[0])
        found["qpos"].append(data.qpos.copy())
        found["qvel"].append(data.qvel.copy())
        for action in actions:
            observation, reward, terminated, truncated, _ = env.step(action)
            assert not terminated
            assert data.ncon == 0
            found["observation"].append(observation)
            found["reward"].append(reward)
            found["truncated"].append(truncated)
    shape = NUM_EPISODES, mechanics.HORIZON
    return SimpleNamespace(
        **{name: np.array(found[name]) for name in ("first", "qpos", "qvel")},
        **{
            name: np.array(found[name]).reshape(*shape, *np.shape(found[name][0]))
            for name in ("observation", "reward", "truncated")
        },
    )


def started(judge):
    q = jnp.asarray(judge.qpos[:, :2])
    return ReacherState(
        q=q,
        v=jnp.asarray(judge.qvel[:, :2]),
        goal=jnp.asarray(judge.qpos[:, 2:]),
        tip=jax.vmap(fingertip)(q),
        time=jnp.zeros(len(q), jnp.int32),
    )


@cache
def ours(version, tolerance=None):
    """The same actions from the same states, in closed form."""
    environment, state = reacher(version), started(judged(version, tolerance))

    def advance(state, action):
        state, reward, terminated, truncated = environment.step(state, action, jax.random.key(0))
        return state, (state, environment.observe(state), reward, terminated, truncated)

    def episode(state, actions):
        return jax.lax.scan(advance, state, actions)[1]

    outcome = jax.jit(jax.vmap(episode))(state, jnp.asarray(controls()))
    first = jax.vmap(environment.observe)(state)
    names = ("state", "observation", "reward", "terminated", "truncated")
    return SimpleNamespace(first=first, **dict(zip(names, outcome, strict=True)))


@pytest.mark.parametrize(("tolerance", "error"), [(0.0, 1e-9), (None, 1e-5)])
@pytest.mark.parametrize("version", mechanics.VERSIONS)
def test_reacher_equals_gymnasiums_step_by_step(version, tolerance, error):
    judge, found = judged(version, tolerance), ours(version, tolerance)
    assert found.observation.dtype == np.float64
    assert found.observation.shape[-1] == reacher(version).observation_size
    np.testing.assert_allclose(found.first, judge.first, rtol=0, atol=1e-15)
    np.testing.assert_allclose(found.observation, judge.observation, rtol=0, atol=error)
    np.testing.assert_allclose(found.reward, judge.reward, rtol=0, atol=error)
    np.testing.assert_array_equal(found.truncated, judge.truncated)
    assert not found.terminated.any()


def test_most_of_those_episodes_hit_the_limit_on_both_sides():
    q1 = np.asarray(ours("v4", 0.0).state.q[..., 1])
    assert (np.abs(q1) > mechanics.LIMIT).any(1).mean() > 0.9
    assert (q1 > mechanics.LIMIT).mean() > 0.1
    assert (q1 < -mechanics.LIMIT).mean() > 0.1
    depth = np.abs(q1) - mechanics.LIMIT
    assert ((depth > 0) & (depth < mechanics.WIDTH / 2)).sum() > 10
    assert ((depth > mechanics.WIDTH / 2) & (depth < mechanics.WIDTH)).sum() > 10


def test_the_fingertip_that_is_seen_is_that_of_the_last_stage_of_the_integrator():
    state = ours("v4", 0.0).state
    lag = np.linalg.norm(state.tip - jax.vmap(jax.vmap(fingertip))(state.q), axis=-1)
    assert 5e-3 < lag.max() < 2e-2
    world = make("v4").unwrapped
    model, data = world.model, world.data
    for episode, time in [(0, 10), (3, 49), (7, 20)]:
        q = np.asarray(state.q[episode, time])
        data.qpos[:2] = q
        mujoco.mj_kinematics(model, data)
        np.testing.assert_allclose(fingertip(q), data.body("fingertip").xpos[:2], atol=1e-15)


def test_the_mass_matrix_is_that_of_the_model():
    world = make("v4").unwrapped
    model, data = world.model, world.data
    for q in ([0.0, 0.0], [1.0, 0.7], [-2.0, 2.9], [0.3, -1.6]):
        data.qpos[:2] = q
        mujoco.mj_forward(model, data)
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full)
        m00, m01, m11 = mechanics.mass_matrix(q[1])
        np.testing.assert_allclose([[m00, m01], [m01, m11]], full[:2, :2], rtol=0, atol=1e-15)
        assert (full[:2, 2:] == 0).all()


def test_the_constants_are_those_of_the_model():
    env = make("v4")
    model = env.unwrapped.model
    assert env.spec is not None
    assert env.spec.max_episode_steps == mechanics.HORIZON
    assert env.unwrapped.frame_skip == mechanics.FRAME_SKIP
    assert model.opt.timestep == mechanics.TIMESTEP
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4
    np.testing.assert_array_equal(model.dof_armature[:2], mechanics.ARMATURE)
    np.testing.assert_array_equal(model.dof_damping[:2], mechanics.DAMPING)
    np.testing.assert_allclose(model.dof_invweight0[1], mechanics.MOBILITY, rtol=1e-14)
    np.testing.assert_array_equal(model.actuator_gear[:, 0], mechanics.GEAR)
    np.testing.assert_array_equal(model.actuator_ctrlrange, [[-1, 1], [-1, 1]])
    np.testing.assert_array_equal(model.jnt_limited[:2], [0, 1])
    np.testing.assert_array_equal(model.jnt_range[1], [-mechanics.LIMIT, mechanics.LIMIT])
    np.testing.assert_array_equal(model.jnt_solref[1], [mechanics.TIME_CONSTANT, 1.0])
    soft = [mechanics.SOFT, mechanics.HARD, mechanics.WIDTH, 0.5, 2.0]
    np.testing.assert_array_equal(model.jnt_solimp[1], soft)
    np.testing.assert_array_equal(model.body("body1").pos, [mechanics.LINK, 0, 0])
    np.testing.assert_array_equal(model.body("fingertip").pos, [mechanics.TIP, 0, 0])
    environment = reacher("v4")
    np.testing.assert_array_equal(environment.low, env.action_space.low)
    np.testing.assert_array_equal(environment.high, env.action_space.high)
    assert environment.low.dtype == env.action_space.dtype


@pytest.mark.parametrize("seed", range(3))
def test_the_accelerations_are_those_of_lagrange(seed):
    q1, v0, v1, t0, t1 = np.random.default_rng(seed).uniform(-2.5, 2.5, 5) * [1, 9, 9, 80, 80]
    q, v, torque = jnp.array([0.4, q1]), jnp.array([v0, v1]), jnp.array([t0, t1])

    def energy(q, v):
        m00, m01, m11 = mechanics.mass_matrix(q[1])
        return 0.5 * (m00 * v[0] ** 2 + 2 * m01 * v[0] * v[1] + m11 * v[1] ** 2)

    a = mechanics.acceleration(q, v, torque)
    _, change = jax.jvp(jax.grad(energy, argnums=1), (q, v), (v, a))
    force = change - jax.grad(energy)(q, v)
    np.testing.assert_allclose(force, torque - mechanics.DAMPING * v, rtol=1e-12)


def test_states_at_reset_have_the_laws_of_gymnasium():
    keys = jax.random.split(jax.random.key(0), 20_000)
    disc = jax.vmap(reacher().reset)(keys)
    square = jax.vmap(reacher(goals="square").reset)(keys)
    radius, angle = np.hypot(*disc.goal.T), np.arctan2(*disc.goal.T)
    uniform = [
        (disc.q, 0.1),
        (disc.v, 0.005),
        (square.goal, 0.2),
        (2 * (radius / 0.2) ** 2 - 1, 1.0),
        (angle, np.pi),
    ]
    for draws, bound in uniform:
        draws = np.asarray(draws)
        for column in draws.reshape(len(draws), -1).T:
            assert stats.kstest(column, stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3
    assert radius.max() < 0.2
    out_of_reach = (np.hypot(*square.goal.T) > mechanics.LINK + mechanics.TIP).mean()
    assert out_of_reach == pytest.approx(0.155, abs=0.008)
    together = np.column_stack([disc.q, disc.v, disc.goal])
    off = np.corrcoef(together.T) - np.eye(6)
    assert np.abs(off).max() < 0.04
    np.testing.assert_array_equal(disc.tip, jax.vmap(fingertip)(disc.q))
    assert (disc.time == 0).all()


def returns(environment, scale):
    """Undiscounted returns of many episodes with uniform actions, times a number."""

    def episode(key):
        def advance(state, key):
            action = scale * jax.random.uniform(key, (2,), minval=-1.0)
            state, reward, _, _ = environment.step(state, action, key)
            return state, reward

        first, *rest = jax.random.split(key, 1 + environment.horizon)
        return jax.lax.scan(advance, environment.reset(first), jnp.stack(rest))[1].sum()

    return jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(1), 2000))


@pytest.mark.parametrize(("scale", "mean"), [(1.0, -42.8), (0.0, -11.7)])
def test_random_and_idle_behaviour_return_what_is_known(scale, mean):
    assert float(returns(reacher(), scale).mean()) == pytest.approx(mean, abs=0.4)


def test_every_worker_begins_anew_after_fifty_steps():
    init, advance = uniform_steps(reacher(), 3)
    keys = jax.random.split(jax.random.key(2), 120)
    _, steps = jax.jit(lambda w: jax.lax.scan(advance, w, keys))(init(jax.random.key(3)))
    expected = np.arange(120) % 50
    np.testing.assert_array_equal(steps.start, np.tile((expected == 0)[:, None], 3))
    np.testing.assert_array_equal(steps.truncated, np.tile((expected == 49)[:, None], 3))
    first = steps.observation[50]
    assert (np.abs(first[:, 6:8]) <= 0.005).all()
    assert np.ptp(first[:, 4]) > 0


def test_single_precision_stays_single_and_near():
    environment = reacher()
    state = started(judged("v4", 0.0))
    low = jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, state)
    action = jnp.asarray(controls()[:, 0])
    step = jax.jit(jax.vmap(environment.step, (0, 0, None)))
    key = jax.random.key(0)
    found, exact = step(low, action.astype(jnp.float32), key), step(state, action, key)
    for first, second in zip(jax.tree.leaves(found[:2]), jax.tree.leaves(exact[:2]), strict=True):
        assert first.dtype != jnp.float64
        np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)
    assert jax.vmap(environment.observe)(found[0]).dtype == jnp.float32


@pytest.mark.parametrize("argument", ["version", "goals"])
def test_an_unknown_variant_is_named(argument):
    with pytest.raises(ValueError, match=f"^{argument}: unknown name 'v3'; .*known: "):
        reacher(**{argument: "v3"})
