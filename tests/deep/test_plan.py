"""A training's folder: a training that is there is kept, and extended to what one at once gives."""

import json
from functools import lru_cache

import jax
import numpy as np
import pytest
import xarray

from emphatic import cli
from emphatic.deep import is_finished, load_policies, Task, task, train, training, training_status
from emphatic.deep.agents.agent import Agent

from .test_loop import COUNTING, DRIFT


@lru_cache
def agent(name, discount):
    """An agent that is compiled in a moment."""
    definition = {**COUNTING.definition, "algorithm": name}

    def theta(state):
        return ((state.params,),)

    def act(theta, observation, key):
        return COUNTING.act(theta[0][0], observation, key)

    return Agent(COUNTING.init, COUNTING.update, theta, act, definition, discount)


def measure(theta, key):
    """What is measured in place of returns."""
    return {"J": theta[0][0].sum() + jax.random.normal(key), "return": theta[0][0][0]}


@pytest.fixture(autouse=True)
def _in_a_moment(monkeypatch):
    """Trains that agent, and in place of Reacher in a drift."""

    def make_agent(name, policy, discount):
        return agent(name, discount)

    def make_task(name, *arguments):
        if name == "reacher":
            return Task(name, DRIFT.horizon, DRIFT.low, DRIFT.high, environment=DRIFT)
        return task.make_task(name, *arguments)

    monkeypatch.setattr(training, "make_agent", make_agent)
    monkeypatch.setattr(training, "cached_excursions", lambda *_: measure)
    monkeypatch.setattr(training, "make_task", make_task)


@pytest.fixture
def begin(tmp_path):
    """Trains in the folder of a name; returns it, its curves, its policies and the evaluations."""

    def run(name, steps, seeds, env="reacher", **options):
        evaluations = []
        train(
            tmp_path / name,
            env,
            "ace",
            steps=steps,
            seeds=seeds,
            evaluate_every=100,
            on_evaluation=lambda *evaluation: evaluations.append(evaluation),
            **options,
        )
        curves = xarray.load_dataset(tmp_path / name / "curves.nc", engine="scipy")
        return tmp_path / name, curves, load_policies(tmp_path / name), evaluations

    return run


def require_equal(actual, expected, tolerance=0.0):
    """The same curves and policies; sums are rounded as the number of runs beside them says."""
    assert actual[1].attrs == expected[1].attrs
    for name, values in expected[1].variables.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(actual[1][name], values, rtol=tolerance)
        else:
            np.testing.assert_array_equal(actual[1][name], values)
    for leaves in zip(
        *(jax.tree.leaves(part[2].theta) for part in (actual, expected)), strict=True
    ):
        np.testing.assert_allclose(*leaves, rtol=tolerance)
    assert {**vars(actual[2]), "theta": None} == {**vars(expected[2]), "theta": None}


@pytest.mark.slow
def test_more_steps_and_more_runs_continue_to_what_all_give_at_once(begin):
    folder, *_ = begin("grown", 100, (0, 1))
    part = begin("grown", 200, (0, 1))
    assert [steps for steps, _ in part[3]] == [200]  # what was there is kept
    require_equal(part, begin("two at once", 200, (0, 1)))  # to the last bit
    files = {path.name: path.stat().st_mtime_ns for path in folder.glob("checkpoint*")}
    grown = begin("grown", 200, (0, 1, 2))
    assert [(steps, *values["seed"]) for steps, values in grown[3]] == [(0, 2), (100, 2), (200, 2)]
    assert files.items() <= {p.name: p.stat().st_mtime_ns for p in folder.glob("ch*")}.items()
    expected = begin("three at once", 200, (0, 1, 2))
    require_equal(grown, expected, 1e-13)
    xarray.testing.assert_identical(part[1], grown[1].isel(run=[0, 1]))
    assert training_status(folder) == training_status(expected[0])
    again = begin("grown", 100, (1, 2))  # less than is there: nothing is trained
    assert again[3] == []
    require_equal(again, grown)


@pytest.mark.slow
def test_recorded_experience_is_extended_where_it_ended(begin):
    """Episodes of five steps end with every recording, and the next start is learned from."""
    begin("grown", 100, (0,), "Pendulum-v1", max_steps=5)
    grown = begin("grown", 200, (0, 1), "Pendulum-v1", max_steps=5)
    expected = begin("at once", 200, (0, 1), "Pendulum-v1", max_steps=5)
    require_equal(grown, expected, 1e-13)


def test_an_interrupted_extension_resumes_and_says_how_far_it_is(begin, monkeypatch):
    expected = begin("at once", 200, (5, 6))
    folder, *_ = begin("grown", 100, (5,))

    def interrupt(steps, values):
        if values["seed"].tolist() == [6] and steps == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(
            folder,
            "reacher",
            "ace",
            steps=200,
            seeds=(5, 6),
            evaluate_every=100,
            on_evaluation=interrupt,
        )
    status = training_status(folder)
    assert (status.runs, status.steps, status.done, status.left) == (2, 400, 200, 200)
    assert is_finished(folder, (5,), 100)
    assert not is_finished(folder, (5, 6), 100)
    assert not is_finished(folder, (5,), 200)
    require_equal(begin("grown", 200, (5, 6)), expected, 1e-13)
    assert training_status(folder).left == 0


def test_a_folder_of_another_training_is_named_and_kept(begin):
    folder, *_ = begin("there", 100, (3, 4), kind="gaussian")
    before = {path: path.read_bytes() for path in folder.rglob("*")}
    for options, message in (
        ({"discount": 0.5}, "has a training whose discount is 0.99, not 0.5"),
        ({"kind": "truncated"}, "whose kind is 'gaussian', not 'truncated'"),
        ({"limit_ends": True}, "whose limit_ends is False, not True"),
        ({"env": "Pendulum-v1"}, "whose environment is 'reacher', not 'Pendulum-v1'"),
        ({"seeds": (4, 5)}, "has 100 steps of the seeds 3 to 4; as many and more"),
        ({"steps": 200, "seeds": (3,)}, "has 100 steps of the seeds 3 to 4; as many and more"),
    ):
        with pytest.raises(ValueError, match=message):
            begin("there", **{"steps": 100, "seeds": (3, 4), **options})
    assert before == {path: path.read_bytes() for path in folder.rglob("*")}
    assert begin("there", 200, (3, 4))[2].kind == "gaussian"  # it is not asked for again
    with pytest.raises(ValueError, match="has 200 steps of the seeds 3 to 4; as many"):
        begin("there", 100, (3, 4, 5))


def test_what_an_earlier_version_finished_is_there_but_cannot_be_extended(begin):
    folder, *_ = begin("old", 100, (0, 1))
    (folder / "training.json").unlink()
    (folder / "checkpoint-0.safetensors").unlink()
    assert begin("old", 100, (0, 1))[3] == []
    assert training_status(folder).left == 0
    for steps, seeds in ((200, (0, 1)), (100, (0, 1, 2))):
        with pytest.raises(ValueError, match="is of a version that kept no checkpoint"):
            begin("old", steps, seeds)


def test_a_truncated_policy_is_the_default_where_actions_are_a_box(begin):
    """A Gaussian also acts where the behaviour never does."""
    assert begin("box", 100, (0,))[2].kind == "truncated"


def test_the_command_says_that_a_training_is_there_and_what_can_be_done(begin, capsys):
    folder, *_ = begin("there", 100, (0, 1))
    arguments = ["train", "--algorithm", "ace", "--evaluate-every", "100", "--out", str(folder)]
    assert cli.main([*arguments, "--steps", "100", "--runs", "2", "--plot"]) == 0
    out = capsys.readouterr().out
    assert f"already there: 100 steps of seeds 0 to 1 in {folder}; larger --steps or --runs" in out
    assert f"emphatic report {folder}" in out
    assert "of 100 steps" not in out
    assert (folder / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert cli.main([*arguments, "--steps", "200", "--seeds=3"]) == 0  # as it was named before
    out = capsys.readouterr().out
    assert "seeds 0 to 1, 200 of 200 steps: J" in out
    assert "seed 2,   0 of 200 steps: J" in out
    assert cli.main(["status", str(folder.parent)]) == 0
    assert "600 of 600 steps of 3 runs done, 0 runs diverged" in capsys.readouterr().out
    assert cli.main(["status", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left"] == 0
    assert cli.main(["report", str(folder), "--out", str(folder / "page.html")]) == 0
    page = (folder / "page.html").read_text()
    command = "train --runs 3 --seed 0 --algorithm ace --env reacher --policy truncated --steps 200"
    assert "ace on reacher" in page
    assert command in page
    assert "data:image/svg+xml" in page


def test_a_training_that_has_not_finished_has_a_status_and_no_report_yet(begin, capsys):
    folder, *_ = begin("part", 200, (0,))
    for name in ("curves.nc", "policy.safetensors"):
        (folder / name).unlink()
    plan = json.loads((folder / "training.json").read_text())
    (folder / "training.json").write_text(json.dumps({**plan, "steps": 400}))
    assert cli.main(["status", str(folder)]) == 1
    assert "200 of 400 steps of 1 runs done" in capsys.readouterr().out
    assert cli.main(["report", str(folder)]) == 2
    assert "has no curves.nc: its training has not finished yet" in capsys.readouterr().err
