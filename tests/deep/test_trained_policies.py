"""Policies from a file are data: no code that they name is run unless a person names it, too."""

import sys

import numpy as np
import pytest

from emphatic.deep import evaluate, load_policies, make_task, save_policies, TrainedPolicies

MODULE = """
import pathlib
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

pathlib.Path("imported").touch()
gymnasium.register("Mine-v0", entry_point=CartPoleEnv, max_episode_steps=7)
"""


def policies_of(environment: str) -> TrainedPolicies:
    """Policies without any training, of an environment whose name is the file's."""
    return TrainedPolicies("cof-pac", environment, "softmax", (np.zeros((1, 1)),), (0,), 10, 0.9)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("mine", None)
    yield tmp_path
    sys.modules.pop("mine", None)


@pytest.mark.parametrize("name", ["mine:Mine-v0", "mine:CartPole-v1", "a.b:mine:Mine-v0"])
def test_evaluating_a_file_imports_no_module_that_it_names(folder, name):
    save_policies(policies_of(name), "policy.safetensors")
    module = name.rpartition(":")[0]
    message = f"^environment: '{name}' is code, .* if you trust it, add --import {module}$"
    for imports in ((), ("other", "Mine-v0")):
        with pytest.raises(ValueError, match=message):
            evaluate(load_policies("policy.safetensors"), 1, imports=imports)
    assert not (folder / "imported").exists()
    assert "mine" not in sys.modules


@pytest.mark.parametrize("name", ["", "../x", "Mine", "x" * 5000, "mine/Mine-v0"])
def test_an_environment_of_a_file_is_one_of_those_that_gymnasium_has(folder, name):
    with pytest.raises(ValueError, match=r"^environment: Gymnasium has no '.*'; no id is") as error:
        evaluate(policies_of(name), 1)
    assert len(str(error.value)) < 200
    assert not (folder / "imported").exists()


def test_a_module_that_a_person_names_is_imported(folder):
    assert make_task("mine:Mine-v0", imports=("mine",)).horizon == 7
    assert (folder / "imported").exists()
    assert make_task("mine:Mine-v0", imports=()).num_actions == 2  # it has been imported
