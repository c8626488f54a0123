"""`emphatic train` and `emphatic evaluate`."""

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import xarray

from emphatic import cli
from emphatic.cli import training

from .command import run


@pytest.fixture
def flags(monkeypatch):
    """The flags of XLA, which commands that train change for the process."""
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    return lambda: os.environ["XLA_FLAGS"]


def test_every_core_is_a_device_but_no_more_than_runs(flags, monkeypatch):
    device = "--xla_force_host_platform_device_count"
    training.use_cores(30)
    assert flags() == f"{device}=3"
    training.use_cores(1)
    assert flags() == f"{device}=3"  # what is set already stays
    for initial, runs, expected in (
        ("--xla_dump_to=d", 2, f"--xla_dump_to=d {device}=2"),
        (f"{device}=8", 2, f"{device}=8"),
        ("", -1, f"{device}=1"),
    ):
        monkeypatch.setenv("XLA_FLAGS", initial)
        training.use_cores(runs)
        assert flags() == expected


def test_jax_has_not_begun_when_the_command_line_asks_for_devices():
    script = (
        "import os, emphatic.figures, emphatic.deep.training; from emphatic.cli import training; "
        "os.sched_getaffinity = lambda _: {0, 1}; training.use_cores(2); "
        "import jax; print(jax.device_count('cpu'))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert process.stdout.split() == ["2"], process.stderr


@pytest.mark.usefixtures("flags")
@pytest.mark.slow
def test_a_policy_is_trained_and_evaluated_on_a_box(capsys, tmp_path):
    out = tmp_path / "pendulum"
    arguments = "--env Pendulum-v1 --algorithm cof-pac --policy truncated --max-steps 9"
    arguments += f" --steps 2000 --out {out}"
    status, printed, err = run(capsys, "train", *arguments.split())
    assert (status, err) == (0, "")
    lines = printed.splitlines()
    assert [line.split(":")[0].strip() for line in lines[:3]] == [
        "0 of 2000 steps",
        "1000 of 2000 steps",
        "2000 of 2000 steps",
    ]
    assert all(re.search(r"J -\d+\.\d\d, return -\d+\.\d\d$", line) for line in lines[:3])
    files = "checkpoint-0.safetensors, curves.nc, experience, policy.safetensors, training.json"
    assert lines[3] == f"written to {out}: {files}"
    curves = xarray.load_dataset(out / "curves.nc", engine="scipy")
    assert curves["steps"].values.tolist() == [0, 1000, 2000]
    assert 0.8 < float(curves["ratio"][0, 2]) < 1.25  # a truncated policy stays in the box
    status, printed, _ = run(capsys, "evaluate", str(out), "--episodes", "3", "--json")
    results = json.loads(printed)
    assert (status, results["kind"], results["episodes"]) == (0, "truncated", 3)
    (run_results,) = results["runs"]
    assert run_results["length"] == {"mean": 9.0, "std": 0.0}
    assert run_results["undiscounted"]["mean"] <= run_results["discounted"]["mean"] < 0
    status, printed, _ = run(capsys, "evaluate", str(out / "policy.safetensors"), "--episodes", "3")
    assert status == 0
    discounted = run_results["discounted"]
    assert f"{discounted['mean']:.2f} +- {discounted['std']:.2f}" in printed
    status, printed, err = run(capsys, "train", *arguments.split())
    assert (status, err) == (0, "")
    assert printed.startswith(f"already there: 2000 steps of seed 0 in {out}")


@pytest.mark.usefixtures("flags")
@pytest.mark.slow
def test_policies_are_trained_with_numbers_of_actions_from_a_recording(capsys, tmp_path):
    from emphatic.deep.environments import gymnasium as gym
    from emphatic.deep.experience import save_experience

    recording = tmp_path / "given.safetensors"
    save_experience(gym.record("CartPole-v1", 400, 4), recording)
    arguments = f"--env CartPole-v1 --algorithm off-pac --runs 2 --seed 5 --experience {recording}"
    arguments += (
        f" --steps 400 --evaluate-every 400 --max-steps 40 --limit-ends --out {tmp_path / 'out'}"
    )
    status, printed, err = run(capsys, "train", *arguments.split())
    assert (status, err) == (0, "")
    assert re.search(r"400 of 400 steps: J \d+\.\d\d \+- \d+\.\d\d, return \d+", printed)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert "experience" not in names  # nothing was recorded
    assert {"curves.nc", "policy.safetensors"} < set(names)
    status, printed, _ = run(capsys, "evaluate", str(tmp_path / "out"), "--json")
    results = json.loads(printed)
    assert (status, results["kind"], [entry["seed"] for entry in results["runs"]]) == (
        0,
        "softmax",
        [5, 6],
    )


class Writer:
    """What TensorBoard's writer is called with."""

    def __init__(self, folder):
        self.folder, self.scalars, self.closed = folder, [], False
        Writer.last = self

    last: "Writer"

    def add_scalar(self, tag, value, step):
        self.scalars.append((tag, value, step))

    def close(self):
        self.closed = True


@pytest.fixture
def untrained(monkeypatch):
    """Training that ends at once, with two evaluations."""
    from emphatic.deep import training

    def train(*, out, on_evaluation, **options):
        out.mkdir()
        for steps in (0, 1000):
            values = {"J": np.full(2, steps + 0.5), "return": np.array([1.0, np.nan])}
            on_evaluation(steps, {"seed": np.array(options["seeds"]), **values})

    monkeypatch.setattr(training, "train", train)


@pytest.mark.usefixtures("flags", "untrained")
def test_evaluations_are_logged_on_request(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=Writer))
    out = tmp_path / "out"
    assert run(capsys, "train", "--runs", "2", "--tensorboard", "--out", str(out))[0] == 0
    assert Writer.last.folder == str(out / "tensorboard")
    assert Writer.last.closed
    values = [("J/0", 0.5, 0), ("J/1", 0.5, 0), ("return/0", 1.0, 0)]
    values += [("J/0", 1000.5, 1000), ("J/1", 1000.5, 1000), ("return/0", 1.0, 1000)]
    assert Writer.last.scalars == values


@pytest.mark.usefixtures("flags", "untrained")
def test_without_tensorboard_the_extra_is_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    status, out, err = run(capsys, "train", "--tensorboard", "--out", str(tmp_path / "out"))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "pip install 'emphatic[tensorboard]'" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train --env Pendulum-v2", "Gymnasium has no 'Pendulum-v2'; near it are 'Pendulum-v1'"),
        ("train --algorithm cof", "did you mean 'cof-pac'?"),
        ("train --env CartPole-v1 --algorithm td3", "TD3 needs a box of actions"),
        ("train --env CartPole-v1 --policy gaussian", "are numbers, for which there is softmax"),
        ("train --policy softmax", "are vectors, for which there is truncated or gaussian"),
        ("train --policy gauss", "invalid choice 'gauss'"),
        ("train --env Blackjack-v1", "the observations of 'Blackjack-v1' are Tuple"),
        ("train --steps 1234", "steps: got 1234; a multiple of 1000 is required"),
        ("train --steps 0", "steps: got 0; at least 1"),
        ("train --evaluate-every 15", "evaluate_every: got 15; 10 workers must divide it"),
        ("train --runs 0", "runs: got 0; at least 1"),
        ("train --env nomodule:Id-v0", "'nomodule' cannot be imported: ModuleNotFoundError"),
        ("train --seed -1", "seed: got -1; at least 0"),
        ("train --seed 4294967296", "seed: got 4294967296; below 2^32"),
        ("train --discount 1.5", "discount: got 1.5"),
        ("train --experience nowhere", "path: nowhere does not exist"),
        ("train --experience file", "path: file cannot be read as experience"),
        ("train --out file", "out: file is not a folder"),
        ("train --env reacher more", "Unrecognized options: more"),
        ("evaluate", "path: not given"),
        ("evaluate --json", "path: not given"),
        ("evaluate nowhere", "policy: nowhere does not exist"),
        ("evaluate file", "policy: file cannot be read"),
        ("evaluate file --episodes 0", "episodes: got 0; at least 1"),
        ("evaluat file", "did you mean 'evaluate'?"),
        ("reproduce control --algorithms ac", "did you mean 'ace'?"),
        ("reproduce control --env Nothing-v0", "Gymnasium has no 'Nothing-v0'"),
        ("reproduce control --steps 1500", "steps: got 1500; a multiple of 1000"),
        ("reproduce control --engine scan", "Unrecognized options: --engine"),
        ("reproduce emphasis --algorithms ace", "Unrecognized options: --algorithms"),
        ("reproduce evaluation --env reacher", "Unrecognized options: --env"),
        ("reproduce convergence --full", "Unrecognized options: --full"),
    ],
)
@pytest.mark.usefixtures("flags")
def test_what_networks_cannot_do_is_one_line_before_anything_is_written(
    capsys, monkeypatch, tmp_path, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("kept")
    status, out, err = run(capsys, *arguments.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("emphatic: ")
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("reproduce control", ("--algorithms", "--env", "--full", "--runs", "--authors")),
        ("train", ("--env", "--algorithm", "--experience", "--policy", "--tensorboard")),
        ("evaluate", ("--episodes", "--json")),
    ],
)
def test_commands_about_networks_explain_their_options(capsys, arguments, options):
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments.split(), "--help"])
    assert not stop.value.code
    out = capsys.readouterr().out
    assert all(option in out for option in options)
    assert arguments.split()[0] in cli.HELP


def test_the_module_of_an_environment_is_imported_only_if_a_person_names_it(
    capsys, monkeypatch, tmp_path
):
    from emphatic.deep import save_policies, TrainedPolicies

    (tmp_path / "mine.py").write_text("import pathlib; pathlib.Path('imported').touch()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    theta = (np.zeros((1, 1)),)
    policies = TrainedPolicies("cof-pac", "mine:Mine-v0", "softmax", theta, (0,), 10, 0.9)
    save_policies(policies, "policy.safetensors")
    for options in ([], ["--import", "other"]):
        status, out, err = run(capsys, "evaluate", "policy.safetensors", *options)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.endswith("if you trust it, add --import mine\n")
        assert not (tmp_path / "imported").exists()
    status, _, err = run(capsys, "evaluate", "policy.safetensors", "--import", "other", "mine")
    assert (status, err) == (
        2,
        "emphatic: environment: Gymnasium has no 'mine:Mine-v0'; no id is near it\n",
    )
    assert (tmp_path / "imported").exists()
    del sys.modules["mine"]
