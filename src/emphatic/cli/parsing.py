"""From words to options: problems, their arguments, and tyro's errors in one line."""

import contextlib
import dataclasses
import inspect
import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .._validation import unknown
from ..mdp import Problem

Options = TypeVar("Options")
ProblemOption = tuple[Any, object, str]  # annotation, default and help


def load_target(problem: Problem, name: str | None) -> ArrayLike | None:
    """Returns the target policy that an option names or reads from a file; None stands for None."""
    if name is None:
        return None
    from ..experiments.toml import TARGETS

    if name in TARGETS:
        return TARGETS[name](problem)
    if not Path(name).exists():
        raise unknown("target", name, (*TARGETS, "a file that exists"))
    return load_array("target", Path(name), 2)


def load_array(name: str, path: Path | None, num_axes: Literal[1, 2]) -> np.ndarray | None:
    """Reads the file of an option; a text of one row or column has as many axes as required."""
    if path is None:
        return None
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        with warnings.catch_warnings(action="ignore"):  # an empty file has a wrong shape, too
            delimiter = "," if path.suffix == ".csv" else None
            return np.loadtxt(path, delimiter=delimiter, ndmin=num_axes)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{name}: {path} cannot be read: {error}") from None


def summary_line(docstring: str) -> str:
    """Returns the first line of a docstring, its mathematics in plain letters."""
    line = docstring.strip().split("\n")[0]
    line = re.sub(r"\[([A-Za-z_]\w*)\]", r"\1", line)  # a reference; [0, 1] is an interval
    return re.sub(r"[$`{}]|\\(?:mathrm|text)?", "", line)


def problem_options(build: Callable[..., Problem]) -> dict[str, ProblemOption]:
    """Returns the arguments of a problem's function, with the help from its docstring."""
    entry = r"^- (`\w+`(?:, `\w+`)*): (.*(?:\n  .*)*)"
    documented = {
        name: summary_line(" ".join(text.split()))
        for names, text in re.findall(entry, inspect.getdoc(build) or "", flags=re.M)
        for name in re.findall(r"\w+", names)
    }
    hints = get_type_hints(build)
    return {
        name: (hints[name], parameter.default, documented.get(name, ""))
        for name, parameter in inspect.signature(build).parameters.items()
    }


def parse_integer(text: list[str]) -> int:
    """Parses a whole number, written 1000000 or 1e6."""
    value = float(text[0])
    if not value.is_integer():
        raise ValueError(f"{text[0]} is not a whole number")
    return int(value)


def split_argument(
    usage: str, kind: type, arguments: list[str], needs: str
) -> tuple[str, list[str]]:
    """Splits off what must follow a command; in its place, --help shows that of the options."""
    first, *rest = arguments or [""]
    if first in ("-h", "--help"):
        parse_options(kind, ["--help"], f"emphatic {usage}")
    if first.startswith("-") or not first:
        name = usage.split()[1].lower().rstrip(".")
        raise ValueError(f"{name}: not given; `emphatic {usage}` needs {needs}")
    return first, rest


def parse_problem(
    command: str, kind: type[Options], arguments: list[str]
) -> tuple[Problem, Options, str]:
    """Parses what follows a command into a problem, the command's options and a title."""
    import tyro

    from ..problems import builder, NAMED

    needs = f"an .npz file or one of {', '.join(NAMED)}"
    name, rest = split_argument(f"{command} PROBLEM", kind, arguments, needs)
    build = builder(name)
    fields = [
        (key, Annotated[annotation, tyro.conf.arg(help=text)], dataclasses.field(default=default))
        for key, (annotation, default, text) in problem_options(build).items()
    ]
    problem_kind = dataclasses.make_dataclass("Problem", fields)
    problem_kind.__doc__ = summary_line(inspect.getdoc(build) or "")
    groups = {"problem": problem_kind, command: kind}
    fields = [(key, x, dataclasses.field(default_factory=x)) for key, x in groups.items()]
    both_kinds = dataclasses.make_dataclass("Both", fields)
    both_kinds.__doc__ = inspect.getdoc(kind)
    both = vars(parse_options(both_kinds, rest, f"emphatic {command} {name}"))
    chosen, default = vars(both["problem"]), vars(problem_kind())
    changed = [f"{key}={value}" for key, value in chosen.items() if value != default[key]]
    title = f"{name} ({', '.join(changed)})" if changed else name
    return build(**chosen), both[command], title


def parse_path(
    command: str, kind: type[Options], arguments: list[str], name: str, needs: str
) -> tuple[str, Options]:
    """Parses the file or folder that follows a command, and the options after it."""
    path, rest = split_argument(f"{command} {name.upper()}", kind, arguments, needs)
    return path, parse_options(kind, rest, f"emphatic {command} {path}")


def parse_options(kind: type[Options], arguments: list[str], program: str) -> Options:
    """Parses options by tyro, whose error boxes become one line."""
    import tyro

    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def _(info: tyro.constructors.PrimitiveTypeInfo):
        if info.type is not int:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="INT",
            instance_from_str=parse_integer,
            is_instance=lambda value: isinstance(value, int),
            str_from_instance=lambda value: [str(value)],
        )

    box, config = io.StringIO(), (tyro.conf.OmitArgPrefixes, tyro.conf.DisallowNone)
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(kind, args=arguments, prog=program, config=config, registry=registry)
    except SystemExit as stop:
        if not stop.code:
            raise
        lines = [line.strip("│╭╮╰╯─ ") for line in box.getvalue().splitlines()[1:]]
        message = " ".join(line for line in lines if line.strip("-"))
        message = re.split("Argument helptext|For full helptext", message)[0].strip()
        raise ValueError(f"{message.rstrip('.')} (see {program} --help)") from None
