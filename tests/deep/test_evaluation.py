"""Evaluation against closed forms, in environments where the return is known."""

import jax
import jax.numpy as jnp
import numpy as np

from emphatic.deep.environments.environment import Environment
from emphatic.deep.evaluation import calibration, excursions
from emphatic.deep.policies import Gaussian, TruncatedGaussian

HORIZON, GAMMA = 5, 0.8
BOUND = np.ones(1)


def counting(last_reward=False, ends_early=False):
    """Time is the state. The reward is the action; or 1 in the last step before the limit alone."""

    def step(time, action, key):
        time = time + 1
        over = ends_early & (time == 2) & (jax.random.uniform(key) < 0.5)
        reward = (time == HORIZON).astype(float) if last_reward else action[0]
        return time, reward, over, time >= HORIZON

    return Environment(
        "counting",
        1,
        -BOUND,
        BOUND,
        HORIZON,
        lambda key: jnp.int32(0),
        lambda time: time.astype(float)[None],
        step,
    )


def ahead(theta, observation, key):
    return jnp.full(1, theta)


def judged(environment, num=4000):
    evaluate = excursions(environment, ahead, GAMMA, num_excursions=num, num_episodes=num)
    return jax.jit(evaluate)(jnp.array(0.7), jax.random.key(0))


def test_an_excursion_starts_at_a_uniform_position_and_follows_the_policy_to_the_end():
    found = judged(counting())
    left = HORIZON - np.arange(HORIZON)  # the steps that are left at each position
    expected = 0.7 * ((1 - GAMMA**left) / (1 - GAMMA)).mean()
    np.testing.assert_allclose(found["J"], expected, rtol=0.02)
    np.testing.assert_allclose(found["return"], 0.7 * HORIZON)


def test_an_excursion_is_discounted_from_its_own_start():
    found = judged(counting(last_reward=True))
    np.testing.assert_allclose(found["J"], (GAMMA ** np.arange(HORIZON)).mean(), rtol=0.02)
    np.testing.assert_allclose(found["return"], 1.0)


def test_random_steps_go_on_after_an_early_end_and_following_does_not():
    """By the chain of positions under random behaviour, which ends half of all episodes early."""
    position, distribution = np.zeros(HORIZON), []
    position[0] = 1.0
    for _ in range(HORIZON):
        distribution.append(position)
        after = np.roll(position, 1)  # the limit leads back to the start, as does half of 1 -> 2
        after[0] += 0.5 * after[2]
        after[2] *= 0.5
        position = after
    value = np.zeros(HORIZON + 1)
    for j in reversed(range(HORIZON)):
        value[j] = 0.7 + GAMMA * (0.5 if j == 1 else 1.0) * value[j + 1]
    found = judged(counting(ends_early=True))
    np.testing.assert_allclose(found["J"], np.mean(distribution, 0) @ value[:-1], rtol=0.02)
    np.testing.assert_allclose(found["return"], 0.7 * (0.5 * 2 + 0.5 * HORIZON), rtol=0.02)


def test_calibration_is_that_of_textbooks():
    rng = np.random.default_rng(0)
    rho, m = rng.exponential(size=(7, 3)), rng.uniform(1, 5, (7, 3))
    M = 2 * m + rng.normal(size=m.shape)
    found = calibration({"ratio": jnp.asarray(rho), "trace": jnp.asarray(M), "m": jnp.asarray(m)})
    np.testing.assert_allclose(found["slope"], np.polyfit(m.ravel(), M.ravel(), 1)[0])
    weight = rho.ravel() / rho.sum()
    np.testing.assert_allclose(found["sample_size"], 1 / (weight**2).sum() / rho.size)
    np.testing.assert_allclose(found["ratio"], rho.mean())
    np.testing.assert_allclose([found["emphasis"], found["trace"]], [m.mean(), M.mean()])


def test_the_mean_emphasis_of_a_truncated_policy_is_known_at_every_position():
    """By simulation of the trace; without truncation it is lower."""
    num = 20_000
    action = jax.random.uniform(jax.random.key(1), (num * HORIZON, 1), minval=-1.0)
    means = {}
    for make in (Gaussian, TruncatedGaussian):
        policy = make(-BOUND, BOUND, hidden=())
        distribution = policy.distribution(policy.init(jax.random.key(0), 2, float), jnp.zeros(2))
        rho = 2 * np.exp(jax.vmap(policy.log_density, (None, 0))(distribution, action))
        M, by_position = np.ones(num), []
        for column in rho.reshape(num, HORIZON).T:
            by_position.append(M.mean())
            M = 1 + GAMMA * column * M
        means[make] = np.array(by_position)
    expected = np.cumsum(GAMMA ** np.arange(HORIZON))
    np.testing.assert_allclose(means[TruncatedGaussian], expected, rtol=0.02)
    assert (means[Gaussian][1:] < 0.95 * expected[1:]).all()
