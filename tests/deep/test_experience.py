"""Experience comes back from its file bit for bit, and nothing else is taken for experience."""

import dataclasses
import json
import os

import equinox as eqx
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from emphatic._files import checksum
from emphatic.deep.experience import Experience, FIELDS, load_experience, save_experience, Step

SHAPE = 6, 3


def parts(discrete=False, seed=0) -> dict:
    """Three streams of six steps, with ends of either kind."""
    rng = np.random.default_rng(seed)
    terminated, truncated = rng.random((2, *SHAPE)) < 0.3
    ended = terminated | truncated
    observation = rng.normal(size=(*SHAPE, 4))
    observation_next = rng.normal(size=(*SHAPE, 4))
    observation_next[:-1][~ended[:-1]] = observation[1:][~ended[:-1]]
    steps = Step(
        observation=observation,
        action=rng.integers(3, size=SHAPE) if discrete else rng.normal(size=(*SHAPE, 2)),
        reward=rng.normal(size=SHAPE),
        observation_next=observation_next,
        terminated=terminated,
        truncated=truncated,
        start=np.concatenate([np.ones((1, 3), bool), ended[:-1]]),
    )
    bounds = {"low": np.array([-1.0, -np.inf]), "high": np.array([2.0, 0.5])}
    space = {"num_actions": 3} if discrete else bounds
    return {
        "steps": steps,
        "behavior": rng.uniform(0.1, 2.0, SHAPE),
        "environment": "Pendulum-v1",
        "seed": 7,
        "provenance": {"behavior": "uniform", "gymnasium": "1.4.0"},
        **space,
    }


def altered(name, change, discrete=False) -> dict:
    """The parts of experience with one array of its steps changed in place."""
    given = parts(discrete)
    array = np.array(getattr(given["steps"], name))
    change(array)
    return given | {"steps": dataclasses.replace(given["steps"], **{name: array})}


def assert_same(first, second):
    for name in ("environment", "seed", "num_actions", "provenance"):
        assert getattr(first, name) == getattr(second, name)
    for one, two in [
        *((getattr(first.steps, name), getattr(second.steps, name)) for name in FIELDS),
        *((getattr(first, name), getattr(second, name)) for name in ("behavior", "low", "high")),
    ]:
        assert (one is None) == (two is None)
        if one is not None:
            assert (one.dtype, one.shape) == (two.dtype, two.shape)
            assert one.tobytes() == two.tobytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pendulum.safetensors"


@pytest.mark.parametrize("discrete", [False, True])
def test_experience_comes_back_bit_for_bit(path, discrete):
    experience = Experience(**parts(discrete))
    save_experience(experience, path)
    assert_same(load_experience(path), experience)
    assert_same(load_experience(str(path)), experience)
    assert experience.num_steps == 18
    assert os.listdir(path.parent) == [path.name]


def test_equal_experience_is_equal_bytes_and_the_rest_is_not(path):
    save_experience(Experience(**parts()), path)
    first = path.read_bytes()
    save_experience(load_experience(path), path)
    assert path.read_bytes() == first
    others: list[dict] = [{"seed": 8}, {"provenance": {}}, {"environment": "Ant-v5"}]
    for other in (parts(seed=1), *(parts() | other for other in others)):
        save_experience(Experience(**other), path)
        assert path.read_bytes() != first


def test_the_file_is_as_documented(path):
    experience = Experience(**parts())
    save_experience(experience, path)
    arrays = load_file(path)
    assert set(arrays) == {*FIELDS, "behavior", "low", "high"}
    np.testing.assert_array_equal(arrays["observation_next"], experience.steps.observation_next)
    with safe_open(path, "np") as file:
        (entry,) = file.metadata().items()
    assert entry[0] == "experience"
    written = json.loads(entry[1])
    assert len(written.pop("checksum")) == 64
    assert written == {
        "format": "emphatic experience 1",
        "environment": "Pendulum-v1",
        "seed": 7,
        "num_actions": None,
        "provenance": {"behavior": "uniform", "gymnasium": "1.4.0"},
    }


def test_experience_is_single_precision_and_read_only():
    given = parts()
    reward = given["steps"].reward.astype(np.float32)
    given["steps"] = dataclasses.replace(given["steps"], reward=reward)
    experience = Experience(**given)
    assert experience.steps.observation.dtype == experience.behavior.dtype == np.float32
    assert Experience(**parts(discrete=True)).steps.action.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        experience.steps.reward[0, 0] = 1.0
    reward[0, 0] = 99.0
    assert experience.steps.reward[0, 0] != 99.0


# Files that are not experience.


def test_a_file_cut_anywhere_is_refused(path):
    save_experience(Experience(**parts()), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 13):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"^path: .*pendulum.safetensors "):
            load_experience(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match=r"^path: .*pendulum.safetensors cannot be read"):
        load_experience(path)


@pytest.mark.parametrize("mask", [0x01, 0x0F, 0xFF])
def test_not_one_damaged_byte_goes_unnoticed(path, mask):
    save_experience(Experience(**parts()), path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"^path: .*pendulum.safetensors"):
            load_experience(path)


def test_missing_and_foreign_files_are_named(path):
    with pytest.raises(ValueError, match=r"^path: .*pendulum.safetensors does not exist$"):
        load_experience(path)
    with pytest.raises(ValueError, match=r"^path: .* cannot be read as experience"):
        load_experience(path.parent)
    path.write_text("time,reward\n0,1.0\n")
    with pytest.raises(ValueError, match=r"^path: .* cannot be read as experience"):
        load_experience(path)
    for metadata, message in (
        (None, "holds tensors, but no experience$"),
        ({"format": "pt"}, "holds tensors, but no experience$"),
        ({"experience": "{"}, "its description is not JSON: Expecting"),
        ({"experience": "[1]"}, r"its description: got \[1\]; an object is required"),
    ):
        save_file({"w": np.ones(3)}, path, metadata)
        with pytest.raises(ValueError, match=rf"^path: .*pendulum.safetensors.* {message}"):
            load_experience(path)


def rewrite(path, change, resign=True):
    """Changes arrays and description of a file, and its checksum with them."""
    arrays = load_file(path)
    with safe_open(path, "np") as file:
        description = json.loads(file.metadata()["experience"])
    signed = description.pop("checksum")
    change(arrays, description)
    if resign:
        signed = checksum(description, arrays)
    save_file(arrays, path, {"experience": json.dumps(description | {"checksum": signed})})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, d: d.update(format="emphatic experience 2"), "format: got 'emphatic experi"),
        (lambda a, d: a.pop("reward"), "lacks 'reward'"),
        (lambda a, d: a.pop("low"), "low, high: bounds"),
        (lambda a, d: d.pop("seed"), "lacks the key 'seed'"),
        (lambda a, d: a.update(extra=np.ones(2)), "extra"),
        (lambda a, d: a.update(reward=a["reward"][:-1]), "reward: got shape"),
    ],
)
def test_a_file_made_by_hand_is_checked_like_any_experience(path, change, message):
    save_experience(Experience(**parts()), path)
    rewrite(path, change)
    with pytest.raises(ValueError, match=rf"^path: .*pendulum.safetensors.*{message}"):
        load_experience(path)


def test_a_description_that_was_edited_is_refused(path):
    save_experience(Experience(**parts()), path)
    rewrite(path, lambda a, d: d.update(seed=8), resign=False)
    with pytest.raises(ValueError, match=r"^path: .* is damaged: its content has another checksum"):
        load_experience(path)


def test_a_write_that_fails_loses_nothing(path, monkeypatch):
    save_experience(Experience(**parts()), path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ValueError, match="cannot be written: no space left"):
        save_experience(Experience(**parts(seed=1)), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    with pytest.raises(ValueError, match=r"^path: .* cannot be written: No such file"):
        save_experience(Experience(**parts()), path.parent / "nowhere" / "file")
    with pytest.raises(ValueError, match=r"^path: .* is a directory"):
        save_experience(Experience(**parts()), path.parent)


# Experience that cannot be.


def put(where, value):
    return lambda array: array.__setitem__(where, value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (parts() | {"seed": -1}, r"seed: got -1"),
        (parts() | {"low": None}, r"low, high: bounds of actions, or else num_actions"),
        (parts() | {"low": np.array([3.0, 0.0])}, r"low: got \[3. 0.\] below"),
        (parts() | {"high": np.array([1.0])}, r"low: got"),
        (parts() | {"num_actions": 3}, r"low, high: actions that are numbers have no bounds"),
        (parts(True) | {"num_actions": 0}, r"num_actions: got 0"),
        (parts(True) | {"num_actions": 2}, r"action: every action must be a number from 0 to 1"),
        (
            parts() | {"behavior": np.ones(6)},
            r"behavior: got shape \(6,\); \(iterations, workers\)",
        ),
        (
            parts() | {"behavior": np.ones((6, 2))},
            r"observation: got shape \(6, 3, 4\); \(6, 2, 4\)",
        ),
        (parts() | {"behavior": np.zeros(SHAPE)}, r"behavior: every action that was taken"),
        (altered("action", put((0, 0), -1), True), r"action: every action must be a number"),
        (altered("observation", put((2, 1, 0), np.nan)), r"observation: entry \(2, 1, 0\) is nan"),
        (altered("reward", put((2, 1), 1e300)), r"reward: entry \(2, 1\) is 1e\+300; float32"),
        (altered("start", put((3, 1), True)), r"start: entry \(3, 1\) is True; an episode starts"),
        (altered("terminated", put((2, 0), True)), r"start: entry \(3, 0\) is False"),
        (altered("observation", put((3, 1, 3), 5.0)), r"observation: entry \(3, 1\) is not the"),
        (altered("observation_next", put((2, 1, 3), 5.0)), r"observation: entry \(3, 1\) is not"),
    ],
)
def test_experience_that_cannot_be_is_refused(given, message):
    with pytest.raises(ValueError, match=rf"^{message}"):
        Experience(**given)


def test_flags_and_numbers_of_actions_must_be_of_their_type():
    given = parts(discrete=True)
    for name in ("start", "action"):
        array = np.asarray(getattr(given["steps"], name), np.float64)
        steps = eqx.tree_at(lambda steps, name=name: getattr(steps, name), given["steps"], array)
        with pytest.raises(ValueError, match=rf"^{name}: got float64; "):
            Experience(**given | {"steps": steps})
