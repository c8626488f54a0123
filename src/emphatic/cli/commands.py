"""The table of commands, in the order of `emphatic --help`."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from . import checking, experiments, export, figures, prediction, shell_completion, theory, training


@dataclass(frozen=True)
class Command:
    """A command: its function, what follows its name, and the classes that hold its options.

    The function returns the exit status, or None for 0. Where the same command resumes after an
    interruption, `resumes_with` is the option that it needs for that, or nothing.
    """

    function: Callable[[list[str]], int | None]
    argument: str = ""
    options: tuple[type, ...] = ()
    resumes_with: str | None = None

    @property
    def summary(self) -> str:
        """The first line of the documentation of its options, or else of its function."""
        documentation = inspect.getdoc((*self.options, self.function)[0]) or ""
        return documentation.partition("\n")[0].rstrip(".")


GROUPS: dict[str, dict[str, Command]] = {
    "theory": {
        "problems": Command(theory.problems_command),
        "solve": Command(theory.solve_command, "PROBLEM", (theory.SolveOptions,)),
        "certify": Command(theory.certify_command, "PROBLEM", (theory.CertifyOptions,)),
        "predict": Command(prediction.predict_command, "PROBLEM", (prediction.PredictOptions,)),
        "export": Command(
            export.export_command,
            "PROBLEM or FOLDER",
            (export.ExportOptions, export.ExportResultsOptions),
        ),
    },
    "experiments": {
        "compare": Command(
            experiments.compare_command, "PROBLEM", (experiments.CompareOptions,), "--out"
        ),
        "sweep": Command(experiments.sweep_command, "FILE", (experiments.SweepOptions,), ""),
        "status": Command(experiments.status_command, "FOLDER", (experiments.StatusOptions,)),
        "reproduce": Command(figures.reproduce_command, "FIGURE", figures.REPRODUCE_OPTIONS, ""),
        "report": Command(experiments.report_command, "FOLDER...", (experiments.ReportOptions,)),
    },
    "your own code": {"check": Command(checking.check_command, "MODULE", (checking.CheckOptions,))},
    "deep agents": {
        "train": Command(training.train_command, "", (training.TrainOptions,), ""),
        "evaluate": Command(training.evaluate_command, "FOLDER", (training.EvaluateOptions,)),
    },
    "shell": {"completion": Command(shell_completion.completion_command, "SHELL")},
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
