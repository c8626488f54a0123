"""A thousand inputs of every command and format; `make fuzz` makes a hundred times as many."""

import json
import subprocess
import sys

import pytest

from .generate import is_slow
from .harness import run

NUMBERS = [number for number in range(1100) if not is_slow(number)][:1000]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What a thousand inputs did, and the first of them once more, in another process."""
    folder = tmp_path_factory.mktemp("fuzz")
    runs = [run(0, numbers, 1, folder / str(len(numbers))) for numbers in (NUMBERS, NUMBERS[:20])]
    return [outcome for outcomes in runs for outcome in outcomes]


def test_a_thousand_inputs_end_in_their_answer_or_in_one_line(outcomes):
    assert {outcome.number for outcome in outcomes} == set(NUMBERS)
    assert [(o.number, o.failures, o.detail) for o in outcomes if o.failures] == []


def test_an_input_is_a_function_of_its_number(outcomes):
    digests = {outcome.number: outcome.digest for outcome in outcomes}
    assert all(digests[outcome.number] == outcome.digest for outcome in outcomes)
    assert len(set(digests.values())) > 900


# Commands that do what none may do, one after the other, in a process that runs inputs.
MISBEHAVED = """
import json, os, pathlib, pickle, socket, sys
from emphatic import cli
from tests.fuzz import runner
from tests.fuzz.commands import Input

here = pathlib.Path(sys.argv[1])


def refuse(*lines):
    print(*lines, sep="\\n", file=sys.stderr)
    return 2


def crash():
    raise KeyError("x")


def close(file):
    return 0 if file.close() is None else 1


COMMANDS = {
    "fine": lambda: refuse("emphatic: x: got 1; 2 is required"),
    "warns": lambda: refuse("emphatic: warning: one", "emphatic: x"),
    "traceback": crash,
    "two lines": lambda: refuse("emphatic: x", "y"),
    "no line": lambda: 2,
    "not ours": lambda: refuse("Killed"),
    "status 1": lambda: 1,
    "status 3": lambda: 3,
    "changes": lambda: pathlib.Path("input").write_text("y") - 1,
    "removes": lambda: os.remove("input") or 0,
    "leaves": lambda: close(open("x.part", "w")),
    "writes": lambda: close(open("../x", "w")),
    "follows": lambda: os.symlink("..", "up") or close(open("up/x", "w")),
    "replaces": lambda: os.replace("input", here / "x") or 0,
    "unpickles": lambda: pickle.loads(pickle.dumps(close)) and 0,
    "connects": lambda: socket.socket().connect(("127.0.0.1", 9)) or 0,
    "starts": lambda: os.system("true"),
    "imports": lambda: sys.path.insert(0, "") or __import__("canary") and 0,
    "json": lambda: print("NaN") or 0,
    "colours": lambda: refuse("emphatic: \\x1b[31mx"),
}
runner.seeds.make = lambda folder: {}
runner._load_everything = lambda: None
runner.generate = lambda seed, number, tree: Input(
    "x", ([*COMMANDS][number], "--json"), {"input": b"x"}
)
cli.main = lambda arguments: COMMANDS[arguments[0]]()
(here / "base").mkdir()
instance = runner.Runner(here / "base", 0)
outcomes = [instance.run(number) for number in range(len(COMMANDS))]
failures = {name: outcome.failures for name, outcome in zip(COMMANDS, outcomes)}
(here / "failures.json").write_text(json.dumps(failures))
"""


@pytest.fixture(scope="module")
def failures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("misbehaved")
    subprocess.run([sys.executable, "-c", MISBEHAVED, folder], check=True)
    assert [path.name for path in folder.iterdir() if path.name == "x"] == []
    return json.loads((folder / "failures.json").read_text())


@pytest.mark.parametrize(
    ("command", "failure"),
    [
        ("traceback", "KeyError at"),
        ("two lines", "2 lines on standard error"),
        ("no line", "0 lines on standard error"),
        ("not ours", "not a line of ours: 'Killed'"),
        ("status 1", "exit status 1 of status 1"),
        ("status 3", "exit status 3"),
        ("changes", "changed *.input"),
        ("removes", "removed *.input"),
        ("leaves", "left *.part"),
        ("writes", "open of "),
        ("follows", "open of "),
        ("replaces", "os.rename of "),
        ("unpickles", "pickle.find_class of "),
        ("connects", "socket.connect of "),
        ("starts", "os.system of "),
        ("imports", "import of canary"),
        ("colours", "'colours' prints what controls a terminal"),
        ("json", "what json --json prints is not JSON"),
    ],
)
def test_what_no_command_may_do_is_seen(failures, command, failure):
    assert any(text.startswith(failure) for text in failures[command])


@pytest.mark.parametrize("command", ["fine", "warns"])
def test_one_line_and_warnings_are_fine(failures, command):
    assert failures[command] == []
