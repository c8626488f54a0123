"""Runs commands as a user would, in this process."""

import json

from emphatic import cli


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    """Runs a command and returns its exit status, standard output and standard error."""
    status = cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def solve_json(capsys, *arguments: str) -> dict:
    """Returns what `emphatic solve --json` prints, which must be JSON without NaN and Infinity."""
    status, out, err = run(capsys, "solve", *arguments, "--json")
    assert (status, err) == (0, "")

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(out, parse_constant=refuse)


def assert_refused(capsys, arguments: str, message: str) -> None:
    """Asserts that the command fails with status 2 and one line that says why."""
    status, out, err = run(capsys, *arguments.split())
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("emphatic: ")
    assert message in err
