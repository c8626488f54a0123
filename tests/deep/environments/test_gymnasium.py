"""Gymnasium's vector environments record what a plain loop sees, and return what it adds up."""

import subprocess
import sys

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from scipy import stats

from emphatic.deep import task
from emphatic.deep.environments import gymnasium as gym
from emphatic.deep.environments.gymnasium import play, record
from emphatic.deep.experience import FIELDS, load_experience, save_experience

pytestmark = pytest.mark.slow  # it steps and compiles whole episodes

BOX = spaces.Box(-1.0, 1.0, (2, 3), np.float64)
NUMBERS = spaces.Discrete(3, start=5)
SPACES = {
    "Boxes-v0": (
        BOX,
        spaces.Box(np.array([[0.0, -2.0]]), np.array([[1.0, 2.0]]), dtype=np.float64),
    ),
    "Numbers-v0": (spaces.Discrete(6, start=-2), NUMBERS),
    "Unbounded-v0": (BOX, spaces.Box(-np.inf, 1.0, (2,))),
    "Switches-v0": (BOX, spaces.MultiBinary(2)),
    "Whole-v0": (BOX, spaces.Box(0, 3, (2,), np.int32)),
    "Named-v0": (spaces.Dict(a=BOX), NUMBERS),
}


class Count(gymnasium.Env):
    """Counts from 0 to 5 and ends; the reward is the count, times the action less its least."""

    def __init__(self, **options):
        self.observation_space, self.action_space = SPACES[options["name"]]

    def observe(self):
        if isinstance(self.observation_space, spaces.Discrete):
            return self.observation_space.start + self.count
        return np.full(BOX.shape, self.count / 10)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.count += 1
        return self.observe(), float(self.count * (np.sum(action) - 5)), self.count == 5, False, {}


@pytest.fixture(autouse=True)
def _registered():
    for name in SPACES:
        gymnasium.register(name, Count, kwargs={"name": name}, disable_env_checker=True)
    yield
    for name in SPACES:
        gymnasium.registry.pop(name)


def plainly(name, seed, actions):
    """One environment in a loop: what a worker should have seen, field by field."""
    env = gymnasium.make(name)
    seen, start = env.reset(seed=seed)[0], True
    rows = {field: [] for field in FIELDS}
    for action in actions:
        after, reward, terminated, truncated, _ = env.step(action)
        row = (seen, action, reward, after, terminated, truncated, start)
        for field, value in zip(FIELDS, row, strict=True):
            rows[field].append(value)
        start = terminated or truncated
        seen = env.reset()[0] if start else after
    env.close()
    return {field: np.array(values) for field, values in rows.items()}


@pytest.mark.parametrize(
    ("name", "num_steps", "ends"),
    [
        ("Pendulum-v1", 1260, "truncated"),
        ("CartPole-v1", 300, "terminated"),
        ("InvertedPendulum-v5", 150, "terminated"),
        ("Reacher-v5", 180, "truncated"),
    ],
)
def test_every_worker_records_what_a_plain_loop_sees(name, num_steps, ends):
    experience = record(name, num_steps, num_workers=3, seed=4)
    assert experience.behavior.shape == (num_steps // 3, 3)
    seeds, _, _ = gym._randomness(4, 0, 3)
    assert len(set(seeds)) == 3
    for worker, seed in enumerate(seeds):
        expected = plainly(name, seed, experience.steps.action[:, worker])
        assert expected[ends].any()
        for field in FIELDS:
            found = getattr(experience.steps, field)[:, worker]
            np.testing.assert_array_equal(found, expected[field].astype(found.dtype))


def test_a_limit_of_time_is_no_termination():
    steps = record("Pendulum-v1", 400, num_workers=1).steps
    assert not steps.terminated.any()
    np.testing.assert_array_equal(np.flatnonzero(steps.truncated), [199, 399])
    np.testing.assert_array_equal(np.flatnonzero(steps.start), [0, 200])


def test_the_same_seed_gives_the_same_experience_and_another_does_not(tmp_path):
    for number, seed in enumerate((3, 3, 4)):
        save_experience(record("CartPole-v1", 100, 2, seed), tmp_path / str(number))
    first, second, third = ((tmp_path / str(number)).read_bytes() for number in range(3))
    assert first == second != third
    other = load_experience(tmp_path / "2").steps
    assert not np.isin(load_experience(tmp_path / "0").steps.observation, other.observation).any()


def test_uniform_actions_have_the_law_that_is_recorded():
    box = record("Boxes-v0", 2000, 4)
    assert box.low is not None
    np.testing.assert_array_equal(box.low, [0, -2])
    np.testing.assert_array_equal(box.high, [1, 2])
    for column, low, width in zip(box.steps.action.reshape(-1, 2).T, (0, -2), (1, 4), strict=True):
        assert stats.kstest(column, stats.uniform(low, width).cdf).pvalue > 1e-3
    assert (box.behavior == 0.25).all()
    numbers = record("Numbers-v0", 3000, 4)
    assert numbers.num_actions == 3
    assert numbers.low is numbers.high is None
    assert stats.chisquare(np.bincount(numbers.steps.action.ravel())).pvalue > 1e-3
    np.testing.assert_allclose(numbers.behavior, 1 / 3, rtol=1e-6)


def test_observations_become_vectors_and_numbers_start_at_zero():
    box = record("Boxes-v0", 12, 1).steps
    np.testing.assert_allclose(box.observation[:6, 0, :1].T, [[0, 0.1, 0.2, 0.3, 0.4, 0]])
    assert box.observation.shape == (12, 1, 6)
    numbers = record("Numbers-v0", 12, 2).steps
    np.testing.assert_array_equal(numbers.observation[:5, 1], np.eye(6)[:5])
    np.testing.assert_array_equal(numbers.observation_next[:5, 1], np.eye(6)[1:])
    np.testing.assert_array_equal(numbers.observation[5, 1], np.eye(6)[0])
    count = numbers.observation_next.argmax(-1)
    np.testing.assert_array_equal(numbers.reward, count * numbers.action)


def test_steps_are_rounded_up_to_whole_iterations_and_reported():
    calls = []
    experience = record("Numbers-v0", 10, 4, on_progress=lambda *call: calls.append(call))
    assert experience.num_steps == 12
    assert calls == [(4, 12), (8, 12), (12, 12)]
    assert experience.environment == "Numbers-v0"
    assert experience.provenance["behavior"] == "uniform"
    assert experience.provenance["gymnasium"] == gymnasium.__version__


def test_a_policy_may_be_the_behaviour():
    seen = []

    def gaussian(observations, key):
        seen.append(np.array(observations))
        noise = jax.random.normal(key, (len(observations), 2))
        return noise.clip(max=1.0), 0.5 + observations[:, 0]

    experience = record("Unbounded-v0", 30, 3, seed=2, behavior=gaussian)
    np.testing.assert_array_equal(experience.steps.observation, np.stack(seen))
    np.testing.assert_allclose(experience.behavior, 0.5 + np.stack(seen)[..., 0])
    assert experience.provenance["behavior"] == "gaussian"
    assert experience.low is not None
    assert np.isneginf(experience.low).all()
    assert len(np.unique(experience.steps.action)) > 30
    again = record("Unbounded-v0", 30, 3, seed=2, behavior=gaussian)
    np.testing.assert_array_equal(experience.steps.action, again.steps.action)


# Evaluation.


def test_returns_are_those_of_a_plain_loop():
    def act(observations, key):
        return (observations[:, 2] + 0.5 * observations[:, 3] > 0).astype(np.int32)

    found = play("CartPole-v1", jax.jit(act), num_episodes=3, seed=5, discount=0.9, max_steps=60)
    for episode, seed in enumerate(gym._randomness(5, 1, 3)[0]):
        env = gymnasium.make("CartPole-v1", max_episode_steps=60)
        observation, rewards, over = env.reset(seed=seed)[0], [], False
        while not over:
            action = act(observation[None], None)[0]
            observation, reward, terminated, truncated, _ = env.step(action)
            rewards.append(float(reward))
            over = terminated or truncated
        assert found.length[episode] == len(rewards)
        assert found.undiscounted[episode] == pytest.approx(sum(rewards))
        by_hand = sum(0.9**k * reward for k, reward in enumerate(rewards))
        assert found.discounted[episode] == pytest.approx(by_hand)
    assert found.length.max() == 60


def twos(observations, key):
    return np.full(len(observations), 2)


def test_only_the_first_episode_counts():
    found = play("Numbers-v0", twos, 4, discount=0.5, max_steps=9)
    rewards = 2 * np.arange(1, 6)
    np.testing.assert_array_equal(found.length, 5)
    np.testing.assert_allclose(found.undiscounted, rewards.sum())
    np.testing.assert_allclose(found.discounted, (0.5 ** np.arange(5) * rewards).sum())


def test_an_excursion_counts_from_where_random_behaviour_has_led():
    found = play("Numbers-v0", twos, 400, seed=1, discount=0.5, random_steps=7, max_steps=9)
    # t is uniform on 0, ..., 6, so that positions 0 and 1 of the episode are twice as likely.
    frequency = np.bincount(5 - found.length, minlength=5)
    assert stats.chisquare(frequency, 400 / 7 * np.array([2, 2, 1, 1, 1])).pvalue > 1e-3
    for length, discounted, undiscounted in zip(
        found.length, found.discounted, found.undiscounted, strict=True
    ):
        rewards = 2 * np.arange(6 - length, 6)
        assert undiscounted == pytest.approx(rewards.sum())
        assert discounted == pytest.approx((0.5 ** np.arange(length) * rewards).sum())


def test_evaluation_repeats_and_depends_on_its_seed():
    def act(observations, key):
        return jax.random.uniform(key, (len(observations), 1), minval=-2.0, maxval=2.0)

    one, two, other = (play("Pendulum-v1", act, 2, seed, max_steps=5) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.discounted, two.discounted)
    assert (one.discounted != other.discounted).all()


def test_policies_have_another_key_for_every_seed_purpose_and_step():
    words = []

    def act(observations, key):
        words.append(tuple(jax.random.key_data(key).tolist()))
        return np.zeros(len(observations), int)

    for seed in (0, 1):
        play("Numbers-v0", act, 1, seed, max_steps=9)
        record("Numbers-v0", 5, 1, seed, behavior=lambda *given: (act(*given), 1.0))
    assert len(words) == len(set(words)) == 20
    copies = [gym._randomness(seed, purpose, 3)[0] for seed in (0, 1) for purpose in (0, 1)]
    assert len(set(np.ravel(copies))) == 12


# Bad input.


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Pendulm-v1", r"environment: Gymnasium has no 'Pendulm-v1'; near it are 'Pendulum-v1'"),
        ("Reacher-v9", r"environment: Gymnasium has no 'Reacher-v9'; near it are 'Reacher-v5'"),
        ("xyz", r"environment: Gymnasium has no 'xyz'; no id is near it"),
        ("no_such_module:Env-v0", r"environment: 'no_such_module' cannot be imported: ModuleNotF"),
        ("Ant v5", r"environment: Gymnasium has no 'Ant v5'; near it are 'Ant-v5'"),
        ("Pendulum", r"environment: Gymnasium has no 'Pendulum'; near it are 'Pendulum-v1'"),
        ("", r"environment: Gymnasium has no ''; no id is near it"),
        ("../Pendulum-v1", r"environment: Gymnasium has no '../Pendulum-v1'; near it are"),
        ("this:that:Pendulum-v1", r"environment: 'this:that' cannot be imported: ModuleNotFoundE"),
        (".relative:Env-v0", r"environment: '.relative' cannot be imported: TypeError"),
        ("Switches-v0", r"environment: the actions of 'Switches-v0' are MultiBinary\(2\); a Box"),
        ("Whole-v0", r"environment: the actions of 'Whole-v0' are Box\(.*; a Box of real numbers"),
        (
            "Named-v0",
            r"environment: the observations of 'Named-v0' are Dict\(.*; a Box or Discrete",
        ),
        ("Unbounded-v0", r"behavior: the actions of 'Unbounded-v0' are an unbounded Box"),
    ],
)
def test_an_environment_that_will_not_do_is_named(name, message):
    with pytest.raises(ValueError, match=rf"^{message}"):
        record(name, 10)


def test_random_steps_need_bounds_too():
    def act(observations, key):
        return np.zeros((len(observations), 2))

    assert (play("Unbounded-v0", act, 2, max_steps=9).length == 5).all()
    with pytest.raises(ValueError, match=r"^behavior: the actions of 'Unbounded-v0' are an unb"):
        play("Unbounded-v0", act, 2, random_steps=3, max_steps=9)


def test_missing_packages_are_named_with_the_extra_that_brings_them(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "gymnasium", None)
        with pytest.raises(ValueError, match=r"Gymnasium is not installed; run pip install 'emph"):
            record("Pendulum-v1", 10)
    for name in list(sys.modules):
        if name.startswith("gymnasium.envs.mujoco"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ValueError, match=r"'Swimmer-v5' .* run pip install 'emphatic\[gym\]'$"):
        record("Swimmer-v5", 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_steps": 0}, "num_steps: got 0"),
        ({"num_workers": 0}, "num_workers: got 0"),
        ({"seed": -1}, "seed: got -1"),
        ({"behavior": "greedy"}, "behavior: got 'greedy'; 'uniform' or a function"),
        ({"behavior": lambda o, k: (np.ones(2, int), 1.0)}, "behavior: gave actions of shape .2,"),
        (
            {"behavior": lambda o, k: (np.ones(3), 1.0)},
            "behavior: gave actions .* float64; .* int32",
        ),
        (
            {"behavior": lambda o, k: (np.full(3, 4), 1.0)},
            r"behavior: gave actions \[4 4 4\]; 0 to 2 exist",
        ),
    ],
)
def test_options_of_a_recording_are_checked(options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        record("Numbers-v0", **{"num_steps": 6, "num_workers": 3, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_episodes": 0}, "num_episodes: got 0"),
        ({"seed": -1}, "seed: got -1"),
        ({"discount": 1.5}, "discount: got 1.5"),
        ({"random_steps": -1}, "random_steps: got -1"),
        ({"max_steps": 0}, "max_steps: got 0"),
        ({"max_steps": None}, "max_steps: 'Numbers-v0' has no limit of its own"),
        ({"act": lambda o, k: np.ones((3, 1), int)}, r"act: gave actions of shape \(3, 1\)"),
    ],
)
def test_options_of_an_evaluation_are_checked(options, message):
    given = {"act": twos, "num_episodes": 3, "max_steps": 9, **options}
    with pytest.raises(ValueError, match=f"^{message}"):
        play("Numbers-v0", **given)


def test_an_environment_of_a_module_is_named_as_in_gymnasium(tmp_path, monkeypatch):
    """The module may be in the working folder, and nothing else has imported it."""
    (tmp_path / "modules_own.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        'gymnasium.register("Own-v0", entry_point=CartPoleEnv, max_episode_steps=7)\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    own = task.make_task("modules_own:Own-v0")
    assert (own.name, own.horizon, own.num_actions) == ("modules_own:Own-v0", 7, 2)
    task.load_or_record(own, (3,), 10, tmp_path / "experience")
    assert [path.name for path in (tmp_path / "experience").iterdir()] == [
        "modules_own-Own-v0-3.safetensors"
    ]
    with pytest.raises(ValueError, match="Gymnasium has no 'modules_own:Own-v1'"):
        task.make_task("modules_own:Own-v1")


def test_mujoco_says_each_thing_once_and_leaves_no_file(tmp_path):
    script = """
import gymnasium, numpy as np
from emphatic.deep.environments import record
record("HalfCheetah-v5", 6, 3)
environment = gymnasium.make("HalfCheetah-v5").unwrapped
environment.reset(seed=0)
for _ in range(3):
    environment.data.qvel[:] = 1e12
    environment.do_simulation(np.zeros(6), 1)
"""
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path
    )
    assert process.returncode == 0, process.stderr
    lines = [line for line in process.stderr.splitlines() if line.startswith("MuJoCo: ")]
    assert len(lines) == len(set(lines)) == process.stderr.count("huge value") + 1 == 2
    assert "WARNING" not in process.stderr + process.stdout
    assert list(tmp_path.iterdir()) == []
