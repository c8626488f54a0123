"""The command itself: help, version, the installed script, the README."""

import contextlib
import dataclasses
import inspect
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest

import emphatic
from emphatic import cli, oracle, problems, Softmax
from emphatic.cli.commands import COMMANDS
from emphatic.cli.experiments import CompareOptions
from emphatic.cli.parsing import argument_positions

from .command import run


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_is_given(capsys, arguments):
    status, out, _ = run(capsys, *arguments)
    assert status == 0
    for command in ("problems", "solve", "certify", "predict", "export", "reproduce"):
        assert command in out


@pytest.mark.parametrize("command", ["solve", "certify", "predict", "export"])
def test_each_command_explains_its_options(capsys, command):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "baird", "--help"])
    assert not stop.value.code
    out = capsys.readouterr().out
    assert "--solid" in out
    assert "--target" in out


def test_every_command_is_a_function_of_its_name_and_says_what_it_does(capsys):
    _, out, _ = run(capsys, "--help")
    for name, command in COMMANDS.items():
        assert command.function.__name__ == f"{name}_command"
        assert command.summary
        assert f"{name} {command.argument}".strip() in out
        assert command.summary in out


def test_the_public_names_are_those_of_the_documentation():
    for name in ("Agent", "Learner", "MDP", "Problem", "Sample", "Softmax", "Transition"):
        assert isinstance(getattr(emphatic, name), type)
    assert callable(emphatic.run)
    assert callable(emphatic.solve)
    packages = ("agents", "certify", "engine", "experiments", "learners", "oracle", "predict")
    for name in (*packages, "problems"):
        assert inspect.ismodule(getattr(emphatic, name))


def test_the_version_is_that_of_the_package(capsys):
    assert emphatic.__version__ == metadata.version("emphatic")
    assert run(capsys, "--version") == (0, f"emphatic {emphatic.__version__}\n", "")


def test_help_and_version_are_words_too(capsys):
    version = run(capsys, "--version")
    assert run(capsys, "version") == version
    assert run(capsys, "version", "--json")[::2] == (
        2,
        "emphatic: version: got '--json'; nothing may follow it\n",
    )
    assert run(capsys, "help") == run(capsys, "--help")
    for words in (["solve"], ["solve", "baird"], ["sweep"], ["completion"], ["reproduce", "all"]):
        texts = []
        for arguments in (["help", *words], [*words, "--help"]):
            with contextlib.suppress(SystemExit):  # of tyro
                cli.main(arguments)
            texts.append(capsys.readouterr().out)
        assert texts[0] == texts[1] != ""
    status, _, err = run(capsys, "help", "solv")
    assert status == 2
    assert "did you mean 'solve'?" in err


def test_options_may_come_before_the_problem(capsys):
    status, out, err = run(capsys, "solve", "--json", "--ridge", "0.1", "two_state")
    assert (status, err) == (0, "")
    assert out == run(capsys, "solve", "two_state", "--json", "--ridge", "0.1")[1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("baird --json", ["baird"]),
        ("--json baird more", ["baird", "more"]),
        ("--features aliased baird --solid 0.1", ["baird"]),
        ("--features=aliased baird", ["baird"]),
        ("--no-goal grid --width 2", ["grid"]),
        ("--goal grid --width 2", ["grid"]),
        ("--json walk.npz", ["walk.npz"]),
        ("--goal 3 four-rooms --tilings 2", ["four-rooms"]),
        ("--tilings 2 --goal 3 four_rooms", ["four_rooms"]),
        ("four_rooms --goal 3", ["four_rooms"]),
        ("--seed -1 baird -h", ["baird"]),
        ("--learners td(1) td(2) --steps 9 baird", ["baird"]),
        ("--learners td(1) td(2) baird", []),
        ("--plot", []),
        ("", []),
    ],
)
def test_what_is_no_option_and_no_value_of_one_is_the_argument(arguments, expected):
    words, sources = arguments.split(), (CompareOptions, *problems.NAMED.values())
    assert [words[position] for position in argument_positions(sources, words)] == expected


@pytest.mark.parametrize(
    ("arguments", "continuation"),
    [
        (["sweep", "my file.toml"], "emphatic sweep 'my file.toml'"),
        (["train", "--out", "a&b"], "emphatic train --out 'a&b'"),
        (["reproduce", "all"], "emphatic reproduce all"),
        (["compare", "baird", "--out=x"], "emphatic compare baird --out=x"),
        (["compare", "baird"], None),
        (["solve", "baird"], None),
    ],
)
def test_an_interruption_says_how_to_go_on_where_that_is_possible(
    capsys, monkeypatch, arguments, continuation
):
    def stop(_):
        raise KeyboardInterrupt

    command = dataclasses.replace(COMMANDS[arguments[0]], function=stop)
    monkeypatch.setitem(COMMANDS, arguments[0], command)
    rest = f"; what is finished is kept. To go on: {continuation}" if continuation else ""
    assert run(capsys, *arguments) == (130, "", f"emphatic: interrupted{rest}\n")


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "emphatic"]
    process = subprocess.run([*command, "--version"], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == f"emphatic {emphatic.__version__}\n"


def run_installed(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    command = Path(sys.executable).parent / "emphatic"
    env = {"PATH": "/usr/bin:/bin", "HOME": gettempdir(), **environment}
    return subprocess.run([command, *arguments], capture_output=True, text=True, env=env)


def test_the_installed_command_is_exact_without_x64(capsys):
    """Neither the tables nor the gradient depend on how JAX is set."""
    process = run_installed("solve", "baird", "--solid", "0.3", "--json", JAX_ENABLE_X64="0")
    assert process.returncode == 0, process.stderr
    solution = json.loads(process.stdout)
    np.testing.assert_allclose(solution["emphasis"], [81.85] * 6 + [208.9], rtol=1e-13)
    np.testing.assert_allclose(solution["values"], 70.0, rtol=1e-13)
    arguments = ("certify", "baird", "--features", "zero-hot", "--policy", "softmax")
    arguments += ("--ridge", "1e-5", "--tolerance", "0.1", "--json")
    process = run_installed(*arguments, JAX_ENABLE_X64="0")
    assert process.returncode == 1, process.stderr
    _, out, _ = run(capsys, *arguments)
    here, there = json.loads(out)["ridge_cost"], json.loads(process.stdout)["ridge_cost"]
    for name, value in here.items():
        np.testing.assert_allclose(there[name], value, rtol=1e-9)  # float32 is 1e-7 off


def test_the_gradient_is_exact_without_x64():
    script = """
import jax, numpy as np
from emphatic import oracle, problems, Softmax
problem = problems.baird("one-hot")
theta = np.linspace(-1.0, 1.0, 14)
policy = Softmax(problem.xa)
assert not jax.config.jax_enable_x64
print(*oracle.policy_gradient(problem, policy, theta).tolist())
print(oracle.expectation(problem, lambda y: y.reward))
assert not jax.config.jax_enable_x64
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": gettempdir(), "JAX_ENABLE_X64": "0"},
    )
    assert process.returncode == 0, process.stderr
    gradient, reward = process.stdout.splitlines()
    problem = problems.baird("one-hot")
    expected = oracle.policy_gradient(problem, Softmax(problem.xa), np.linspace(-1.0, 1.0, 14))
    np.testing.assert_allclose([float(x) for x in gradient.split()], expected, rtol=1e-12)
    assert abs(float(reward) - 6.0 / 7.0) < 1e-15


def test_a_reader_that_stops_reading_is_no_error():
    command = Path(sys.executable).parent / "emphatic"
    process = subprocess.run(
        f"{command} solve garnet --num-states 60 | head -1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert "garnet" in process.stdout
    assert "Traceback" not in process.stderr


def test_what_the_documentation_shows_is_what_the_commands_print():
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *(root / "docs").glob("*.md")]
    parts = [part for page in pages for part in page.read_text(encoding="utf-8").split("```")]
    blocks = [part for part in parts if part.startswith("\n$ emphatic")]
    blocks = [block for block in blocks if "$ emphatic check" not in block]  # in test_check.py
    assert len(blocks) == 5
    folder, environment = Path(sys.executable).parent, {**os.environ, "PYTHONUTF8": "1"}
    processes = [
        subprocess.Popen(
            f"{folder}/{block.split('$ ')[1].splitlines()[0]}",
            shell=True,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=environment,
        )
        for block in blocks
    ]
    for block, process in zip(blocks, processes, strict=True):
        printed = [line.rstrip() for line in process.communicate()[0].splitlines() if line.strip()]
        _, *expected = block.strip().splitlines()
        assert printed == [line.rstrip() for line in expected if line.strip()]


@pytest.mark.parametrize("command", ["compare", "sweep", "status", "report"])
def test_help_is_there_and_the_overview_has_examples_and_statuses(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    assert stop.value.code == 0
    assert len(capsys.readouterr().out) > 100
    assert f"emphatic {command}" in cli.HELP
    assert "exit status" in cli.HELP
