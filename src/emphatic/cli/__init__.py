"""The command line: parses arguments, calls the library and prints the result."""

import os
import shlex
import sys
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from .._validation import unknown
from .commands import COMMANDS, GROUPS

HELP = """\
[bold]emphatic[/bold]: off-policy reinforcement learning, exactly and at the speed of the hardware

[bold]usage[/bold]: emphatic COMMAND [PROBLEM, FIGURE, FILE or FOLDER] [OPTIONS]
       emphatic help COMMAND, emphatic version

{commands}A PROBLEM is a name from [cyan]emphatic problems[/cyan] or the path of an .npz file.
[cyan]emphatic help COMMAND PROBLEM[/cyan] lists the options of both.

[bold]examples[/bold]
  emphatic solve baird --features aliased --solid 0.1
  emphatic solve grid --width 100 --height 100 --json
  emphatic certify baird --features one-hot --ridge 1e-6 --step-size 1/t^0.8
  emphatic predict baird --learner gem --step-size 0.025 --steps 1e6 --best
  emphatic export gymnasium --env Taxi-v4 --out taxi.npz
  emphatic compare baird --learners "gem(0.025)" "followon()"
  emphatic sweep critics.toml --dry-run
  emphatic status results/critics
  emphatic reproduce emphasis --out results
  emphatic report results/emphasis results/critics --out report.html
  emphatic export results/critics --csv
  emphatic train --env Pendulum-v1 --algorithm cof-pac --out pendulum
  emphatic evaluate pendulum --episodes 20

[bold]exit status[/bold]
  0    success; certify: a theorem applies
  1    certify: no theorem applies; status: work remains; sweep: a unit was set aside
  2    bad input: one line on standard error says what was given and what is required
  130  Ctrl-C; sweep, reproduce and train keep what is finished, and the same command resumes it
""".format(
    commands="".join(
        f"[bold]{title}[/bold]\n"
        + "".join(
            f"  [cyan]{name}[/cyan] {command.argument:{18 - len(name)}}  {command.summary}\n"
            for name, command in group.items()
        )
        + "\n"
        for title, group in GROUPS.items()
    )
)


@contextmanager
def _plain_warnings() -> Generator[None, None, None]:
    """Shows warnings as errors are shown, without a line of the code."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"emphatic: warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


@_plain_warnings()
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; see `emphatic --help`."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, say `head`, reads no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still buffered
        return 141  # what a shell reports for SIGPIPE: neither certified nor not
    except (ValueError, OSError) as error:
        print("emphatic: " + " ".join(str(error).split()), file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"emphatic: the problem does not fit in memory: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"emphatic: interrupted{_continuation(arguments)}", file=sys.stderr)
        return 130


def _continuation(arguments: list[str]) -> str:
    """Says how to go on with a command that was interrupted, if it keeps what is finished."""
    option = COMMANDS[arguments[0]].resumes_with
    if option is None or not any(text.startswith(option) for text in arguments):
        return ""
    return f"; what is finished is kept. To go on: {shlex.join(['emphatic', *arguments])}"


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        from .tables import console

        console().print(HELP, end="")
        return 0
    name, *arguments = arguments
    if name in ("version", "--version"):
        from .. import __version__

        print(f"emphatic {__version__}")
        return 0
    if name not in COMMANDS:
        raise unknown("command", name, (*COMMANDS, "help", "version"))
    return COMMANDS[name].function(arguments) or 0
