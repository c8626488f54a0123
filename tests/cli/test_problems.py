"""`emphatic problems` and `emphatic export`."""

import json

import numpy as np
import pytest

from emphatic import problems
from emphatic.cli import COMMANDS

from .command import assert_refused, run, solve_json


def test_problems_are_listed_with_their_options(capsys):
    status, out, _ = run(capsys, "problems")
    assert status == 0
    for name in problems.NAMED:
        assert f"\n{name}  " in "\n" + out
    assert "--features original" in out
    assert "zero-hot" in out
    assert "$" not in out
    assert "in [0, 1]" in out
    assert "--goal, --no-goal  Whether there is a goal. (default: --goal)" in out


def test_a_problem_can_be_exported_and_solved_from_its_file(capsys, tmp_path):
    path = str(tmp_path / "walk.npz")
    status, out, _ = run(capsys, "export", "random_walk", "--right", "0.7", "--out", path)
    assert status == 0
    assert path in out
    direct, from_file = (
        solve_json(capsys, "random_walk", "--right", "0.7"),
        solve_json(capsys, path),
    )
    assert direct["emphasis"] == from_file["emphasis"]
    status, out, _ = run(capsys, "certify", path)
    assert status == 1


def test_export_writes_the_target_that_was_asked_for(capsys, tmp_path):
    path = str(tmp_path / "p.npz")
    assert run(capsys, "export", "baird", "--target", "behavior", "--out", path)[0] == 0
    problem = problems.load(path)
    np.testing.assert_array_equal(problem.target, problem.behavior)


@pytest.mark.parametrize("command", [n for n, c in COMMANDS.items() if c.argument == "PROBLEM"])
@pytest.mark.parametrize("name", ["collision", "garnet"])
def test_the_seed_of_a_random_problem_has_one_name_that_no_command_has_for_itself(
    capsys, command, name
):
    with pytest.raises(SystemExit):
        run(capsys, command, name, "--help")
    out = capsys.readouterr().out
    assert "--problem-seed" in out
    assert ("--seed" in out) == (command == "compare")


def test_the_problem_has_its_seed_and_the_runs_have_theirs(capsys, tmp_path):
    path = tmp_path / "one.npz"
    assert run(capsys, "export", "garnet", "--problem-seed", "3", "--out", str(path))[0] == 0
    np.testing.assert_array_equal(problems.load(path).x, problems.garnet(seed=3).x)
    learners = ["--learners", "td(0.1)", "td(0.2)", "--steps", "50", "--runs", "2", "--json"]
    seeds = ["--problem-seed", "3", "--seed", "1"]
    status, out, _ = run(capsys, "compare", "garnet", *learners, *seeds)
    from_file = run(capsys, "compare", str(path), *learners, "--seed", "1")
    assert (status, json.loads(out)["rows"]) == (0, json.loads(from_file[1])["rows"])
    other = run(capsys, "compare", "garnet", *learners, "--seed", "1")
    assert json.loads(out)["rows"] != json.loads(other[1])["rows"]
    assert json.loads(out)["problem"] == "garnet (problem_seed=3)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("solve garnet --seed 3", "Perhaps you meant: --problem-seed"),
        ("export baird --out .", "is a directory"),
        ("problems all", "takes no arguments"),
        ("export baird --out nowhere/at/all.npz", "the directory nowhere/at does not exist"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, arguments, message):
    assert_refused(capsys, arguments, message)
