"""The command line. No science: it parses, calls, and shows."""

import os
import sys
from collections.abc import Callable, Sequence

from .._names import unknown
from . import completion, exact, experiments, networks

HELP = """\
[bold]emphatic[/bold]: off-policy learning, exactly and at the speed of the hardware

[bold]usage[/bold]: emphatic COMMAND [PROBLEM, FIGURE, FILE or FOLDER] [OPTIONS]

[bold]exact answers[/bold]
  [cyan]problems[/cyan]    list the named problems and their options
  [cyan]solve[/cyan]       print the exact quantities: distribution, values, emphasis, limits
  [cyan]certify[/cyan]     check the assumptions; exit status 0 if a theorem applies, else 1
  [cyan]predict[/cyan]     exact learning curves, stable and best step sizes, without simulation
  [cyan]export[/cyan]      write a problem to a .npz file

[bold]experiments[/bold]
  [cyan]compare[/cyan]     run two or more learners on a problem, side by side
  [cyan]sweep[/cyan]       run the experiment of a TOML file, or what is missing of it
  [cyan]status[/cyan]      show how far an experiment is
  [cyan]reproduce[/cyan]   run the experiments behind a figure of the paper (or all), and draw it
  [cyan]report[/cyan]      write results as one page of HTML

[bold]networks[/bold]
  [cyan]train[/cyan]       train networks on Reacher or on a Gymnasium environment
  [cyan]evaluate[/cyan]    play episodes with a policy that was trained

  [cyan]completion[/cyan]  print what makes a shell complete these words

A PROBLEM is a name from [cyan]emphatic problems[/cyan] or the path of a .npz file.
Its options follow it; [cyan]emphatic COMMAND PROBLEM --help[/cyan] lists them.

[bold]examples[/bold]
  emphatic solve baird --features aliased --solid 0.1
  emphatic solve grid --width 100 --height 100 --json
  emphatic certify baird --features one-hot --ridge 1e-6 --step-size 1/t^0.8
  emphatic predict baird --learner gem --step-size 0.025 --steps 1e6 --best
  emphatic export gymnasium --env Taxi-v4 --out taxi.npz
  emphatic compare baird --learners "gem(0.025)" "followon()" --measure emphasis_error
  emphatic sweep critics.toml --dry-run
  emphatic status results/critics
  emphatic reproduce emphasis --out results
  emphatic report results/emphasis results/critics --out report.html
  emphatic train --env Pendulum-v1 --algorithm cof-pac --out pendulum
  emphatic evaluate pendulum --episodes 20

[bold]exit status[/bold]
  0    done; certify: a theorem applies
  1    certify: no theorem applies; status: something is left; sweep: a unit was set aside
  2    bad input: one line on standard error says what was seen and what is required
  130  Ctrl-C; what is finished is kept, and the same command goes on
"""

COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "problems": exact.problems_command,
    "solve": exact.solve_command,
    "certify": exact.certify_command,
    "predict": exact.predict_command,
    "export": exact.export_command,
    "compare": experiments.compare_command,
    "sweep": experiments.sweep_command,
    "status": experiments.status_command,
    "reproduce": experiments.reproduce_command,
    "report": experiments.report_command,
    "train": networks.train_command,
    "evaluate": networks.evaluate_command,
    "completion": completion.completion_command,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; see `emphatic --help`."""
    try:
        status = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still buffered
        return 141  # what a shell reports for SIGPIPE: neither certified nor not
    except (ValueError, OSError) as error:
        print("emphatic: " + " ".join(str(error).split()), file=sys.stderr)
        return 2
    except MemoryError as error:
        print(f"emphatic: the problem does not fit in memory: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("emphatic: interrupted", file=sys.stderr)
        return 130


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        from .._show import console

        console().print(HELP, end="")
        return 0
    name, *rest = arguments
    if name == "--version":
        from importlib.metadata import version

        print(f"emphatic {version('emphatic')}")
        return 0
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    return COMMANDS[name](rest)
