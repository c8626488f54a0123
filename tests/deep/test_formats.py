"""No damage of a checkpoint or of policies goes unnoticed, and what is in them is checked."""

import json

import jax
import numpy as np
import pytest

from emphatic import cli
from emphatic._files import checksum, read_arrays, write_arrays
from emphatic.deep import load_policies, restore, save_policies, TrainedPolicies, training_status
from emphatic.deep.checkpoint import load_checkpoint, save_checkpoint
from emphatic.deep.loop import train_agent
from emphatic.deep.plan import TrainingPlan, write_plan
from emphatic.deep.policies import TruncatedGaussian

from ..mutations import changed, require_one_line
from .test_loop import COUNTING, DRIFT, SMALL

DEFINITION = {"seeds": [3, 4], "num_iterations": 20, "num_workers": 5, "evaluate_every": 10}
CURVES = {"curves.finite": np.array([[1.0, 1.0], [1.0, 0.0]]), "curves.J": np.zeros((2, 2))}
PLAN = TrainingPlan("ace", "reacher", "truncated", (3, 4), 100, 0.9, 50, False, None, None)


def policies(num_inputs=2, runs=2) -> TrainedPolicies:
    """Small policies of some runs, whose actions are two numbers."""
    keys = jax.random.split(jax.random.key(0), runs)
    policy = TruncatedGaussian([-1.0] * 2, [1.0] * 2, (3,))
    theta = jax.vmap(lambda key: policy.init(key, num_inputs, np.float32))(keys)
    theta = jax.tree.map(np.asarray, theta)
    return TrainedPolicies("ace", "reacher", "truncated", theta, tuple(range(runs)), 100, 0.9)


def contents(path) -> str:
    """All that a file of policies or a checkpoint means, or the word that it is refused."""
    try:
        if path.name == "policy":
            loaded = load_policies(path)
            leaves = jax.tree.leaves(loaded.theta)
            settings = {**vars(loaded), "theta": str(jax.tree.structure(loaded.theta))}
        else:
            settings, arrays = load_checkpoint(path)
            leaves = [arrays[name] for name in sorted(arrays)]
            settings = {**settings, "names": sorted(arrays)}
    except ValueError as error:
        require_one_line(error, str(path))
        return "refused"
    return repr(settings) + "".join(f"{a.dtype}{a.shape}{a.tobytes().hex()}" for a in leaves)


@pytest.fixture
def files(tmp_path):
    """A file of policies and a checkpoint, by name."""
    save_policies(policies(), tmp_path / "policy")
    save_checkpoint(tmp_path / "checkpoint", DEFINITION, CURVES)
    return {name: tmp_path / name for name in ("policy", "checkpoint")}


@pytest.mark.parametrize("name", ["policy", "checkpoint"])
def test_no_flipped_bit_of_a_header_or_a_tensor_gives_another_content(files, name):
    path = files[name]
    whole, expected = path.read_bytes(), contents(path)
    assert expected != "refused"
    num_refused = 0
    for place in range(len(whole)):
        bits = range(8) if place < 24 or place % 16 == 0 else [place % 8]
        for bit in bits:
            flipped = bytes([whole[place] ^ 1 << bit])
            path.write_bytes(whole[:place] + flipped + whole[place + 1 :])
            content = contents(path)
            assert content in ("refused", expected), (place, bit)
            num_refused += content == "refused"
    assert num_refused > 0.99 * len(whole)
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        assert contents(path) == "refused"


@pytest.mark.parametrize("name", ["policy", "checkpoint"])
def test_files_of_earlier_versions_without_a_checksum_open(files, name):
    path = files[name]
    expected = contents(path)
    arrays, metadata = read_arrays(path)
    assert len(metadata.pop("checksum")) == 64
    write_arrays(path, arrays, metadata)
    assert contents(path) == expected
    write_arrays(path, arrays, {**metadata, "chekcsum": "0"})
    assert contents(path) == "refused"


def test_whatever_policies_say_of_themselves_is_used_or_one_line(files):
    path = files["policy"]
    arrays, metadata = read_arrays(path)
    description = json.loads(metadata["policy"])

    def write(description, arrays=arrays) -> str:
        text = {"policy": json.dumps(description)}
        write_arrays(path, arrays, {**text, "checksum": checksum(text, arrays)})
        return contents(path)

    used = {what for what, other in changed(description) if write(other) != "refused"}
    assert {what.partition(":")[0] for what in used} == {
        *("algorithm", "environment", "kind", "num_steps", "max_steps", "seeds.0")
    }
    assert not {"algorithm: None", "num_steps: True", "num_steps: -1", "seeds.0: -1"} & used
    assert write(description) != "refused"
    first = next(iter(arrays))
    for other in (
        {**arrays, "other": arrays[first]},
        {**arrays, first: arrays[first][:1]},
        {**arrays, first: arrays[first].astype(int)},
        {**arrays, first: np.array(1.0, np.float32)},
        {name: array for name, array in arrays.items() if name != first},
    ):
        assert write(description, other) == "refused"


def test_policies_that_do_not_fit_their_environment_are_one_line(tmp_path, capsys):
    task, act = restore(policies())
    assert task.environment is not None
    key = jax.random.key(0)
    observation = jax.eval_shape(task.environment.observe, task.environment.reset(key))
    fitting = policies(observation.size).theta
    (first, last), scale = fitting
    for theta in (
        policies(observation.size + 1).theta,
        (first, last),
        ((first, last, last), scale),
        scale,
    ):
        with pytest.raises(ValueError, match=r"^policy: its theta does not fit 'reacher': ") as e:
            jax.eval_shape(act, jax.tree.map(lambda leaf: leaf[0], theta), observation, key)
        assert "\n" not in str(e.value)
    theta = jax.tree.map(lambda leaf: leaf[0], fitting)
    assert jax.eval_shape(act, theta, observation, key).shape == (2,)
    save_policies(policies(observation.size + 1), tmp_path / "policy.safetensors")
    assert cli.main(["evaluate", str(tmp_path), "--episodes", "1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("emphatic: policy: its theta does not fit 'reacher': ")


def test_whatever_stands_in_the_folder_of_a_training_is_used_or_one_line(tmp_path):
    write_plan(tmp_path, PLAN)
    save_checkpoint(tmp_path / "checkpoint-3.safetensors", DEFINITION, CURVES)
    status, used = training_status(tmp_path), set()
    assert (status.done, status.diverged, status.left) == (100, 1, 100)

    def use(what: str, path) -> None:
        try:
            training_status(tmp_path)
            used.add(what)
        except ValueError as error:
            require_one_line(error, str(path))

    plan = json.loads((tmp_path / "training.json").read_text())
    for what, other in changed(plan):
        (tmp_path / "training.json").write_text(json.dumps(other))
        use(what, tmp_path / "training.json")
    assert not {"seeds: []", "steps: removed", "kind: None", "discount: 5", "format: x"} & used
    write_plan(tmp_path, PLAN)
    path = tmp_path / "checkpoint-3.safetensors"
    for what, other in changed(DEFINITION):
        save_checkpoint(path, other, CURVES)
        use(f"definition, {what}", path)
    assert not {what for what in used if what.startswith("definition, seeds: ")}
    assert "definition, evaluate_every: 10" not in used
    for other in (
        {"curves.finite": np.ones((3, 2))},
        {"curves.finite": np.ones((2, 4))},
        {"curves.finite": np.ones((2, 0))},
        {"curves.finite": np.ones(2)},
        {"curves.finite": np.ones((2, 2), int)},
        {"curves.finite": np.ones((2, 2)), "curves.J": np.ones((2, 1))},
        {},
    ):
        save_checkpoint(path, DEFINITION, other)
        with pytest.raises(ValueError, match=r"^checkpoint: .*checkpoint-3\.safetensors has") as e:
            training_status(tmp_path)
        assert "\n" not in str(e.value)


def test_a_checkpoint_whose_state_is_not_the_agents_is_refused(tmp_path):
    path = tmp_path / "checkpoint"
    train_agent(COUNTING, DRIFT, [3], 8, checkpoint=path, **SMALL)
    definition, arrays = load_checkpoint(path)
    name = next(name for name in arrays if name.startswith("state."))
    for other in (
        {key: array for key, array in arrays.items() if key != name},
        {**arrays, name: arrays[name].astype(np.float16)},
        {**arrays, name: np.stack([arrays[name]] * 2)},
        {**arrays, name: arrays[name][:0]},
    ):
        save_checkpoint(path, definition, other)
        with pytest.raises(ValueError, match=rf"^checkpoint: .*{name} with .* is required$"):
            train_agent(COUNTING, DRIFT, [3], 8, checkpoint=path, **SMALL)
