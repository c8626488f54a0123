"""From words to options: problems, their arguments, and tyro's errors in one line."""

import contextlib
import dataclasses
import inspect
import io
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints, Literal

import numpy as np

from .._names import unknown


def target(problem, name: str | None):
    """The target that an option names; None is the problem's own."""
    if name is None:
        return None
    from ..experiment_file import TARGETS

    if name in TARGETS:
        return TARGETS[name](problem)
    if not Path(name).exists():
        raise unknown("target", name, (*TARGETS, "a file that exists"))
    return array("target", Path(name), 2)


def array(name: str, path: Path, axes: Literal[1, 2]) -> np.ndarray:
    """What a file holds; a text of one row or column has as many axes as are asked for."""
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        with warnings.catch_warnings(action="ignore"):  # an empty file has a wrong shape, too
            comma = "," if path.suffix == ".csv" else None
            return np.loadtxt(path, delimiter=comma, ndmin=axes)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{name}: {path} cannot be read: {error}") from None


def readable(docstring: str) -> str:
    """The first line of a docstring, its mathematics in plain letters."""
    line = docstring.strip().split("\n")[0]
    line = re.sub(r"\[([A-Za-z_]\w*)\]", r"\1", line)  # a reference; [0, 1] is an interval
    return re.sub(r"[$`{}]|\\(?:mathrm|text)?", "", line)


def options_of(build: Callable) -> dict[str, tuple[Any, Any, str]]:
    """The options of a problem's function: type, default and words from its docstring."""
    documented = {}
    for names, words in re.findall(
        r"^- (`\w+`(?:, `\w+`)*): (.*(?:\n  .*)*)", inspect.getdoc(build) or "", flags=re.M
    ):
        for option in re.findall(r"\w+", names):
            documented[option] = readable(" ".join(words.split()))
    hints = get_type_hints(build)
    return {
        name: (hints[name], parameter.default, documented.get(name, ""))
        for name, parameter in inspect.signature(build).parameters.items()
    }


def whole(text: list[str]) -> int:
    """A whole number, written 1000000 or 1e6."""
    value = float(text[0])
    if not value.is_integer():
        raise ValueError(f"{text[0]} is not a whole number")
    return int(value)


def parse(command: str, options: type, arguments: list[str]):
    """The problem, the command's options and a title, from the words after the command."""
    import tyro

    from ..problems import builder, NAMED

    if not arguments or arguments[0].startswith("-"):
        if arguments[:1] in (["-h"], ["--help"]):
            parsed(options, ["--help"], f"emphatic {command} PROBLEM")
        raise ValueError(
            f"problem: not given; `emphatic {command} PROBLEM` needs a .npz file or one of "
            f"{', '.join(NAMED)}"
        )
    name, *rest = arguments
    build = builder(name)
    fields = []
    for option, (kind, default, words) in options_of(build).items():
        described = Annotated[kind, tyro.conf.arg(help=words)]
        fields.append((option, described, dataclasses.field(default=default)))
    of_problem = dataclasses.make_dataclass("Problem", fields)
    of_problem.__doc__ = readable(inspect.getdoc(build) or "")
    both = dataclasses.make_dataclass(
        "Both",
        [
            ("problem", of_problem, dataclasses.field(default_factory=of_problem)),
            (command, options, dataclasses.field(default_factory=options)),
        ],
    )
    both.__doc__ = inspect.getdoc(options)
    found = parsed(both, rest, f"emphatic {command} {name}")
    chosen, default = vars(found.problem), vars(of_problem())
    changed = [f"{key}={value}" for key, value in chosen.items() if value != default[key]]
    title = f"{name} ({', '.join(changed)})" if changed else name
    return build(**chosen), getattr(found, command), title


def place_and_options(
    command: str, kind: type, arguments: list[str], name: str, needs: str
) -> tuple[str, Any]:
    """The file or folder that follows a command, and the options after it."""
    program, (place, *rest) = f"emphatic {command} {name.upper()}", arguments or [""]
    if place in ("-h", "--help"):
        parsed(kind, ["--help"], program)
    if place.startswith("-") or not place:
        raise ValueError(f"{name}: not given; `{program}` needs {needs}")
    return place, parsed(kind, rest, f"emphatic {command} {place}")


def parsed(kind: type, arguments: list[str], program: str):
    """tyro, with its error boxes turned into one line."""
    import tyro

    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def _(info: tyro.constructors.PrimitiveTypeInfo):
        if info.type is not int:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="INT",
            instance_from_str=whole,
            is_instance=lambda value: isinstance(value, int),
            str_from_instance=lambda value: [str(value)],
        )

    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(
                kind,
                args=arguments,
                prog=program,
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.DisallowNone),
                registry=registry,
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        lines = [line.strip("│╭╮╰╯─ ") for line in box.getvalue().splitlines()[1:]]
        words = " ".join(line for line in lines if line.strip("-"))
        words = re.split("Argument helptext|For full helptext", words)[0].strip()
        raise ValueError(f"{words.rstrip('.')} (see {program} --help)") from None
