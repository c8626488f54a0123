"""Parses command lines: problems, their arguments, options, and tyro's errors in one line."""

import contextlib
import dataclasses
import inspect
import io
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .._files import read_npy, read_text
from .._validation import unknown
from ..mdp import Problem
from .output import shell_command

Options = TypeVar("Options")
ProblemOption = tuple[Any, object, str]  # annotation, default and help
FIELDS = {"seed": "problem_seed"}
"""Arguments of problems that have another name as options: a command's --seed is of its runs."""


def load_target(problem: Problem, name: str | None) -> ArrayLike | None:
    """Returns the target policy that an option names or reads from a file; None stands for None."""
    if name is None:
        return None
    from ..experiments.toml import TARGETS

    if name in TARGETS:
        return TARGETS[name](problem)
    if not os.path.exists(name):
        raise unknown("target", name, (*TARGETS, "a file that exists"))
    return load_array("target", Path(name), 2)


def load_array(name: str, path: Path | None, num_axes: Literal[1, 2]) -> np.ndarray | None:
    """Reads the file of an option; a text of one row or column has as many axes as required."""
    if path is None:
        return None
    if path.suffix == ".npy":
        return read_npy(path, name)
    text, delimiter = read_text(path, name), "," if path.suffix == ".csv" else None
    try:
        with warnings.catch_warnings(action="ignore"):  # an empty file has a wrong shape, too
            return np.loadtxt(io.StringIO(text), delimiter=delimiter, ndmin=num_axes)
    except (ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{name}: {path} cannot be read as numbers: {reason}") from None


def summary_line(docstring: str) -> str:
    """Returns the first line of a docstring, with its mathematics as plain text."""
    line = docstring.strip().split("\n")[0]
    line = re.sub(r"\[([A-Za-z_]\w*)\]", r"\1", line)  # a reference; [0, 1] is an interval
    return re.sub(r"[$`{}]|\\(?:mathrm|text)?", "", line)


def problem_options(build: Callable[..., Problem]) -> dict[str, ProblemOption]:
    """Returns the options of a problem: its function's arguments, with help from its docstring."""
    argument = r"^- (`\w+`(?:, `\w+`)*): (.*(?:\n  .*)*)"
    help_texts = {
        name: summary_line(" ".join(text.split()))
        for names, text in re.findall(argument, inspect.getdoc(build) or "", flags=re.M)
        for name in re.findall(r"\w+", names)
    }
    hints = get_type_hints(build)
    return {
        FIELDS.get(name, name): (hints[name], parameter.default, help_texts.get(name, ""))
        for name, parameter in inspect.signature(build).parameters.items()
    }


def parse_integer(arguments: list[str]) -> int:
    """Parses a whole number, written 1000000 or 1e6."""
    value = float(arguments[0])
    if not value.is_integer():
        raise ValueError(f"{arguments[0]} is not a whole number")
    return int(value)


def argument_positions(sources: Sequence[Callable[..., object]], arguments: list[str]) -> list[int]:
    """Returns which arguments are neither options nor values of options, which may come first.

    The options are the fields of classes and the arguments of functions; of two with one name the
    first counts. One that is a flag for some and has a value for others has none where the name of
    a function follows: `--goal grid`, but `--goal 3 four_rooms`.
    """
    hints: dict[str, object] = {}
    flags: set[str] = set()
    for source in reversed(sources):
        source_hints = {name.rstrip("_"): hint for name, hint in get_type_hints(source).items()}
        flags |= {name for name, hint in source_hints.items() if hint is bool}
        hints |= {name: hint for name, hint in source_hints.items() if hint is not bool}
    functions = {source.__name__ for source in sources}
    positions: list[int] = []
    num_values = 0.0  # of the last option, that are still to come
    for position, text in enumerate(arguments):
        if text.startswith("--") or text == "-h":
            name, *following = (
                word.replace("-", "_") for word in (text[2:], *arguments[position + 1 :][:1])
            )
            hint = hints.get(name)
            has_many = tuple in (get_origin(hint), *map(get_origin, get_args(hint)))
            is_flag = name.removeprefix("no_") in flags and (
                hint is None or not functions.isdisjoint(following)
            )
            has_none = is_flag or "=" in text or text in ("-h", "--help")
            num_values = np.inf if has_many else 0 if has_none else 1
        elif num_values > 0:
            num_values -= 1
        else:
            positions.append(position)
    return positions


def split_argument(
    usage: str,
    options_type: type,
    arguments: list[str],
    required: str,
    others: Sequence[Callable[..., object]] = (),
) -> tuple[str, list[str]]:
    """Splits arguments into the one that a command requires and the rest; handles --help.

    Options may come before it, also those of other sources; see [argument_positions]."""
    positions = argument_positions((options_type, *others), arguments)
    if positions:
        position = positions[0]
        return arguments[position], arguments[:position] + arguments[position + 1 :]
    if {"-h", "--help"} & set(arguments):
        parse_options(options_type, ["--help"], f"emphatic {usage}")
    name = usage.split()[1].lower().rstrip(".")
    raise ValueError(f"{name}: not given; `emphatic {usage}` needs {required}")


def parse_problem(
    command: str, options_type: type[Options], arguments: list[str]
) -> tuple[Problem, Options, str]:
    """Parses what follows a command into a problem, the command's options and a title."""
    import tyro

    from ..problems import builder, NAMED

    required = f"an .npz file or one of {', '.join(NAMED)}"
    usage, problems = f"{command} PROBLEM", tuple(NAMED.values())
    name, flags = split_argument(usage, options_type, arguments, required, problems)
    build = builder(name)
    fields = [
        (key, Annotated[annotation, tyro.conf.arg(help=text)], dataclasses.field(default=default))
        for key, (annotation, default, text) in problem_options(build).items()
    ]
    problem_type = dataclasses.make_dataclass("Problem", fields)
    problem_type.__doc__ = summary_line(inspect.getdoc(build) or "")
    groups = {"problem": problem_type, command: options_type}
    fields = [(key, kind, dataclasses.field(default_factory=kind)) for key, kind in groups.items()]
    both_types = dataclasses.make_dataclass("Both", fields)
    both_types.__doc__ = inspect.getdoc(options_type)
    both = vars(parse_options(both_types, flags, shell_command("emphatic", command, name)))
    choices, defaults = vars(both["problem"]), vars(problem_type())
    settings = {key: choices[FIELDS.get(key, key)] for key in inspect.signature(build).parameters}
    changes = [f"{key}={value}" for key, value in choices.items() if value != defaults[key]]
    title = f"{name} ({', '.join(changes)})" if changes else name
    return build(**settings), both[command], title


def parse_path(
    command: str, options_type: type[Options], arguments: list[str], name: str, required: str
) -> tuple[str, Options]:
    """Parses the file or folder that follows a command, and the options after it."""
    usage = f"{command} {name.upper()}"
    path, flags = split_argument(usage, options_type, arguments, required)
    return path, parse_options(options_type, flags, shell_command("emphatic", command, path))


def parse_options(options_type: type[Options], arguments: list[str], program: str) -> Options:
    """Parses options with tyro, and turns its error boxes into one line."""
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

    hints = options_type.__annotations__
    for name in [name for name in hints if name.endswith("_")]:  # a word of Python, as `import_`
        hints[name] = Annotated[hints[name], tyro.conf.arg(name=name.rstrip("_"))]
    errors, config = io.StringIO(), (tyro.conf.OmitArgPrefixes, tyro.conf.DisallowNone)
    try:
        with contextlib.redirect_stderr(errors):
            return tyro.cli(
                options_type, args=arguments, prog=program, config=config, registry=registry
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        lines = [line.strip("│╭╮╰╯─ ") for line in errors.getvalue().splitlines()[1:]]
        message = " ".join(line for line in lines if line.strip("-"))
        message = re.split("Argument helptext|For full helptext", message)[0].strip()
        raise ValueError(f"{message.rstrip('.')} (see {program} --help)") from None
