"""What commands print is what it is, and however they end they end in one line."""

import os
import re
import signal
import subprocess
import sys

import pytest

from emphatic import cli
from emphatic.cli import output
from emphatic.cli.commands import Command, COMMANDS

from .command import run

NAME, ODD = "c[bold] :smile: $x", "a[/b]c[bold] :smile: $x"  # of an experiment, and its folder
TOML = """
name = "{name}"
steps = 100
runs = 2
record_every = 50
problem = "two_state"
learners."td [/red]" = "td(0.1)"
"""


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A folder of results whose name, and names in it, look like markup."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / ODD).parent.mkdir()
    (folder / f"{NAME}.toml").write_text(TOML.format(name=NAME))
    return folder


def test_names_are_printed_as_they_are_and_commands_can_be_pasted(odd, capsys, monkeypatch):
    monkeypatch.chdir(odd)
    status, out, err = run(capsys, "sweep", f"{NAME}.toml", "--out", ODD)
    assert status == 0
    assert f"{NAME}: 1 problem" in out
    assert f"B in {ODD}\n" in out
    assert NAME in err  # the progress
    (command,) = re.findall("^next: (.*)$", out, re.MULTILINE)
    assert command == f"emphatic report '{ODD}'"
    for folder in (ODD, "."):
        shown = run(capsys, "status", folder)[1]
        assert ODD in shown
        assert shown.startswith(NAME)
    assert run(capsys, "report", ODD, "--out", "[b].html")[1] == "the report is [b].html\n"
    assert f"{ODD}: written to [x].csv" in run(capsys, "export", ODD, "--out", "[x].csv")[1]
    status, _, err = run(capsys, "sweep", f"{NAME}.toml", "--out", "[/x].toml", "--steps", "no")
    assert (status, err.count("\n")) == (2, 1)
    assert f"(see emphatic sweep '{NAME}.toml' --help)" in err
    with pytest.raises(SystemExit):
        cli.main(["sweep", f"{NAME}.toml", "--help"])
    assert NAME in capsys.readouterr().out


def test_problems_and_learners_are_printed_as_they_are(odd, capsys, monkeypatch):
    monkeypatch.chdir(odd)
    name = "[red]p[bold].npz"
    assert run(capsys, "export", "two_state", "--out", name)[1] == f"two_state: written to {name}\n"
    for command in ("solve", "certify", "predict"):
        assert run(capsys, command, name)[1].startswith(name)
    words = ("compare", name, "--learners", "td(0.1)", "td(0.2)", "--steps", "100", "--runs", "2")
    _, out, err = run(capsys, *words, "--plot", "$a[.png")
    assert out.startswith(name)
    assert name in err


@pytest.mark.parametrize("name", ["\x1b[31mred", "two\nlines", "\rback", "\x9b1m", "\u202eleft"])
def test_names_control_no_terminal(capsys, monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(TOML.format(name="a"))
    _, out, err = run(capsys, "sweep", "a.toml", "--out", name)
    texts = [out, run(capsys, "status", name)[1], *run(capsys, "status", name, "--seed")[1:]]
    texts += run(capsys, "solve", name)[1:]
    escaped = name.encode("unicode_escape").decode()
    assert all(escaped in text for text in (texts[0], texts[1]))
    for text in (*texts, err.rpartition("\x1b")[2]):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    (command,) = re.findall("^next: (.*)$", out, re.MULTILINE)
    printed = subprocess.run(
        ["bash", "-c", command.replace("emphatic report", "printf %s")], capture_output=True
    )
    assert printed.stdout.decode() == name


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        ("plain", "plain"),
        ("a b", "'a b'"),
        ("it's", "'it'\"'\"'s'"),
        ("é\n'\\", r"$'\xc3\xa9\x0a\'\\'"),
    ],
)
def test_a_command_has_its_words_quoted(word, quoted):
    assert output.shell_command("emphatic", word) == f"emphatic {quoted}"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (PermissionError(13, "Permission denied", "a\nb"), r"a b: Permission denied"),
        (MemoryError(), "the problem does not fit in memory"),
        (RuntimeError("RESOURCE_EXHAUSTED: of XLA"), "memory: RESOURCE_EXHAUSTED"),
        (RecursionError("maximum recursion depth"), "the input is nested too deeply: maximum"),
        (ValueError("one\ntwo\x1b[31m"), r"one two\x1b[31m"),
    ],
)
def test_errors_at_unexpected_places_are_one_line(capsys, monkeypatch, error, message):
    def fail(_):
        raise error

    monkeypatch.setitem(COMMANDS, "solve", Command(fail))
    status, out, err = run(capsys, "solve")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("emphatic: ")
    assert message in err


def test_a_mistake_of_ours_is_not_hidden(monkeypatch):
    def fail(_):
        raise RuntimeError("a mistake")

    monkeypatch.setitem(COMMANDS, "solve", Command(fail))
    with pytest.raises(RuntimeError, match="a mistake"):
        cli.main(["solve"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_ends_in_order(capsys, monkeypatch, number):
    ended = []
    before = signal.signal(number, signal.SIG_DFL)  # below nohup it is ignored

    def wait(_):
        try:
            signal.raise_signal(number)
        finally:
            ended.append(True)

    monkeypatch.setitem(COMMANDS, "sweep", Command(wait, resumes_with=""))
    status, _, err = run(capsys, "sweep", "a b.toml")
    line = "emphatic: terminated; what is finished is kept. To go on: emphatic sweep 'a b.toml'\n"
    assert (status, err, ended) == (128 + number, line, [True])
    assert signal.signal(number, before) == signal.SIG_DFL


def test_interrupted_help_is_one_line(capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "console", stop)
    assert run(capsys) == (130, "", "emphatic: interrupted\n")


START = [sys.executable, "-c", "import sys, emphatic_command; sys.exit(emphatic_command.main())"]


@pytest.mark.parametrize(
    ("redirection", "status", "err"),
    [
        (">&-", 0, ""),
        ("<&- >&- 2>&-", 0, ""),
        ("> /dev/full", 2, "emphatic: No space left on device\n"),
        ("> /dev/full 2> /dev/full", 2, ""),
        ("--wrong 2>&-", 2, ""),
        ("--wrong 2> /dev/full", 2, ""),
    ],
)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
def test_streams_that_are_closed_or_full_are_no_traceback(redirection, status, err):
    command = f'"$@" solve two_state {redirection}'
    process = subprocess.run(
        ["sh", "-c", command, "sh", *START], capture_output=True, text=True, timeout=100
    )
    assert (process.returncode, process.stderr) == (status, err)


def test_no_file_takes_the_place_of_a_stream_that_is_closed(tmp_path):
    command = '"$@" export two_state --out problem.npz <&- >&- 2>&-'
    subprocess.run(["sh", "-c", command, "sh", *START], cwd=tmp_path, check=True)
    assert run_solve(tmp_path / "problem.npz") == 0


def run_solve(path) -> int:
    with open(os.devnull, "w") as nowhere:
        return subprocess.run([*START, "solve", str(path)], stdout=nowhere).returncode


def test_results_do_not_replace_where_the_command_prints(tmp_path):
    for name in ("/dev/stdout", "out"):
        process = subprocess.run(
            ["sh", "-c", f'"$@" export two_state --out {name} > out', "sh", *START],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.returncode == 2
        assert re.fullmatch("emphatic: out: .* is where this command prints; .*\n", process.stderr)
        assert (tmp_path / "out").read_text() == ""


@pytest.mark.parametrize("name", ["/dev/full", "/dev/null", "."])
def test_devices_and_folders_are_not_written_to(capsys, name):
    for arguments in (["export", "two_state", "--out"], ["report", ".", "--out"]):
        status, out, err = run(capsys, *arguments, name)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert f"out: {name} is a d" in err


def test_ctrl_c_while_the_package_is_imported_is_one_line():
    script = "import signal; signal.raise_signal(signal.SIGINT)"
    command = f"""
import importlib.abc, sys, emphatic_command
class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "emphatic.cli":
            {script}
sys.meta_path.insert(0, Interrupt())
sys.argv = ["emphatic", "--version"]
sys.exit(emphatic_command.main())
"""
    process = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (130, "")
    assert process.stderr == "emphatic: interrupted\n"
