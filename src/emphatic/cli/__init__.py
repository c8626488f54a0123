"""The command line: parses arguments, calls the library and prints the result."""

import signal
import sys
import threading
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from .._validation import unknown
from .commands import COMMANDS, GROUPS
from .output import console, discard_streams, printable, report_error, shell_command

SIGNALLED = 128  # what a shell adds to the number of the signal that ended a command

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
  emphatic check mymodule:learner --as "tdc(0.1)"
  emphatic train --env Pendulum-v1 --algorithm cof-pac --out pendulum
  emphatic evaluate pendulum --episodes 20

[bold]exit status[/bold]
  0    success; certify: a theorem applies; check: the implementation conforms
  1    certify: no theorem applies; check: it does not conform; status: work remains; sweep: a unit
       was set aside
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
    warnings.formatwarning = lambda message, *_, **__: f"emphatic: warning: {printable(message)}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


@contextmanager
def _quiet_termination() -> Generator[None, None, None]:
    """Ends the process in order when it is told to end, so that nothing half-done stays behind."""
    numbers: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        signals = (signal.SIGTERM, signal.SIGHUP)
        numbers = [number for number in signals if signal.getsignal(number) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, _terminate)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _terminate(number: int, _: object) -> None:
    raise SystemExit(SIGNALLED + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; see `emphatic --help`."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _plain_warnings(), _quiet_termination():
            status = _run(arguments)
            if sys.stdout is not None:  # as it is where it was closed
                sys.stdout.flush()
            return status
    except BrokenPipeError:  # the reader, say `head`, reads no more
        return SIGNALLED + signal.SIGPIPE  # neither certified nor not
    except KeyboardInterrupt:
        report_error(f"interrupted{_continuation(arguments)}")
        return SIGNALLED + signal.SIGINT
    except SystemExit as stop:
        if not isinstance(stop.code, int) or stop.code < SIGNALLED:
            raise  # of --help
        report_error(f"terminated{_continuation(arguments)}")
        return stop.code
    except Exception as error:
        if (reason := _reason(error)) is None:
            raise
        report_error(reason)
        return 2
    finally:
        discard_streams()


def _reason(error: Exception) -> str | None:
    """Returns what an error says to a person; None for one that is a mistake of ours."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, ValueError | OSError):
        return str(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):  # the latter of XLA
        return f"the problem does not fit in memory: {error}".rstrip(": ")
    if isinstance(error, RecursionError):
        return f"the input is nested too deeply: {error}"
    return None


def _continuation(arguments: list[str]) -> str:
    """Says how to go on with a command that was interrupted, if it keeps what is finished."""
    command = COMMANDS.get(arguments[0]) if arguments else None
    option = command and command.resumes_with
    if option is None or not any(text.startswith(option) for text in arguments):
        return ""
    command = shell_command("emphatic", *arguments)
    return f"; what is finished is kept. To go on: {command}"


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        from rich.text import Text

        console().print(Text.from_markup(HELP), end="")
        return 0
    name, *arguments = arguments
    if name in ("version", "--version"):
        if arguments:
            raise ValueError(f"version: got {arguments[0]!r}; nothing may follow it")
        from .. import __version__

        print(f"emphatic {__version__}")
        return 0
    if name not in COMMANDS:
        raise unknown("command", name, (*COMMANDS, "help", "version"))
    return COMMANDS[name].function(arguments) or 0
