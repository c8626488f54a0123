"""Completion of commands, problems, figures, options and their values, and files in a shell."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import get_args, get_origin, get_type_hints, Literal

from .._validation import unknown

SHELLS = ("bash", "zsh", "fish")
HELP = """\
usage: emphatic completion SHELL, where SHELL is bash, zsh or fish

bash:  eval "$(emphatic completion bash)"
zsh:   eval "$(emphatic completion zsh)"
fish:  emphatic completion fish | source"""

BASH = """\
_emphatic() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command="${{COMP_WORDS[1]}}" argument= words= flags= files= i
    if [ "$command" = help ] && [ "$COMP_CWORD" -gt 2 ]; then
        command="${{COMP_WORDS[2]}}"
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        case "$command ${{COMP_WORDS[i]}}" in
            {arguments}) argument="${{COMP_WORDS[i]}}" ;;
        esac
    done
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case "$command $argument $previous" in
{values}
            *)
                case "$command $argument" in
{words}
                esac
                case "$command $argument" in
{files}
                esac ;;
        esac
    fi
    case "$word" in
        -*) words="$words $flags" files= ;;
        *) [ -n "$words$files" ] || words="$flags" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    case "$files" in
        any) COMPREPLY+=($(compgen -f -- "$word")) ;;
        folders) COMPREPLY+=($(compgen -d -- "$word")) ;;
        .*) COMPREPLY+=($(compgen -d -- "$word") $(compgen -f -X "!*$files" -- "$word")) ;;
    esac
}}
complete -o filenames -F _emphatic emphatic
"""

FILES = {"FILE": ".toml", "FOLDER": "folders", "FOLDER...": "folders", "PROBLEM": ".npz"}
"""What kind of file may follow a command, by its argument."""


@dataclass(frozen=True)
class Option:
    """An option: its flags, and what may follow them: words, any file, or nothing of the two."""

    flags: tuple[str, ...]
    words: tuple[str, ...] = ()
    is_file: bool = False
    has_value: bool = True


def describe_options(
    source: Callable[..., object], renamed: Mapping[str, str] | None = None
) -> list[Option]:
    """Describes the options that are the fields of a class or the arguments of a function."""
    hints, options = get_type_hints(source), list[Option]()
    for name, parameter in signature(source).parameters.items():
        option = (renamed or {}).get(name, name).rstrip("_").replace("_", "-")
        flag = f"--{option}"
        kinds = (hints[name], *get_args(hints[name]))
        if hints[name] is bool:
            flags = (f"--no-{flag[2:]}",) if parameter.default is True else (flag,)
            options.append(Option(flags, has_value=False))
            continue
        literals = [get_args(kind) for kind in kinds if get_origin(kind) is Literal]
        words = tuple(map(str, literals[0])) if literals else _known_values().get(name, ())
        options.append(Option((flag,), words, Path in kinds or name == "target"))
    return options


def _known_values() -> dict[str, tuple[str, ...]]:
    """The values of options that are no literals, as their type allows others, too."""
    from ..engine import MEASURES
    from ..experiments.toml import TARGETS
    from ..figures.control.training import ALGORITHMS
    from .prediction import learner_expressions

    return {
        "algorithm": ALGORITHMS,
        "algorithms": ALGORITHMS,
        "cluster": ("local", "slurm"),
        "learner": tuple(learner_expressions()),
        "measure": tuple(MEASURES),
        "target": tuple(TARGETS),
    }


def list_options() -> dict[tuple[str, str], list[Option]]:
    """Lists the options of each command, and those that it has for a problem or a figure alone."""
    from ..figures import FIGURES
    from ..problems import NAMED
    from .commands import COMMANDS
    from .figures import SPECIAL_FIGURES
    from .parsing import FIELDS

    options: dict[tuple[str, str], list[Option]] = {}
    for name, command in COMMANDS.items():
        own = [option for kind in command.options for option in describe_options(kind)]
        if command.argument == "FIGURE":
            own = []
            for figure in (*FIGURES, "all"):
                kind = SPECIAL_FIGURES.get(figure, command.options[0])
                options[name, figure] = describe_options(kind)
        elif command.argument.startswith("PROBLEM"):
            for problem, build in NAMED.items():
                options[name, problem] = describe_options(build, FIELDS)
        elif command.argument == "SHELL":
            options |= {(name, shell): [] for shell in SHELLS}
        options[name, ""] = own
    return options


def _bash(options: Mapping[tuple[str, str], list[Option]]) -> str:
    """Writes the script for bash, which zsh understands, too."""
    from .commands import COMMANDS

    values, words, commands = list[str](), list[str](), [*COMMANDS, "help", "version"]
    for (name, argument), own in options.items():
        for option in own:
            pattern = "|".join(f'"{name} "{argument or "*"}" {flag}"' for flag in option.flags)
            files = " files=any" if option.is_file else ""
            if option.has_value:
                values.append(f'            {pattern}) words="{" ".join(option.words)}"{files} ;;')
        arguments = [] if argument else [key for command, key in options if command == name and key]
        flags = [flag for option in own for flag in option.flags]
        flags += [flag for option in options[name, ""] for flag in option.flags] if argument else []
        texts = " ".join(arguments), " ".join([*dict.fromkeys(flags), "--help"])
        line = f'words="{texts[0]}" flags="{texts[1]}" ;;'
        words.append(f'                    "{name} {argument}") {line}')
    words.append(f'                    "help ") words="{" ".join(COMMANDS)}" ;;')
    files = [
        f'                    "{name} ") files="{FILES[command.argument.split()[0]]}" ;;'
        for name, command in COMMANDS.items()
        if command.argument.split()[:1] and command.argument.split()[0] in FILES
    ]
    return BASH.format(
        arguments="|".join(f'"{name} {argument}"' for name, argument in options if argument),
        commands=" ".join(commands),
        values="\n".join(values),
        words="\n".join(words),
        files="\n".join(files),
    )


def _fish(options: Mapping[tuple[str, str], list[Option]]) -> Iterable[str]:
    """Yields the lines of the script for fish."""
    from .commands import COMMANDS

    def line(condition: str, *rest: str) -> str:
        return shlex.join(["complete", "-c", "emphatic", "-n", condition, *rest])

    yield line("__fish_use_subcommand", "-f", "-a", " ".join([*COMMANDS, "help", "version"]))
    yield line("__fish_seen_subcommand_from help", "-f", "-a", " ".join(COMMANDS))
    for (name, argument), own in options.items():
        condition = f"__fish_seen_subcommand_from {name}"
        if argument:
            yield line(condition, "-f", "-a", argument)
            condition += f"; and __fish_seen_subcommand_from {argument}"
        for option in own:
            for flag in option.flags:
                value = ["-r", "-F"] if option.is_file else ["-x"]
                known = ["-a", " ".join(option.words)] if option.words else []
                rest = [*value, *known] if option.has_value else []
                yield line(condition, "-l", flag[2:], *rest)
    for name, command in COMMANDS.items():
        kind = FILES.get((command.argument.split() or [""])[0])
        if kind is not None:
            call = "directories" if kind == "folders" else f"suffix {kind}"
            rest = ["-f", "-a", f"(__fish_complete_{call})"]
            yield line(f"__fish_seen_subcommand_from {name}", *rest)


def completion_command(arguments: list[str]) -> None:
    """Print the completion script for bash, zsh or fish."""
    shell, *excess = arguments or [""]
    if shell in ("-h", "--help"):
        print(HELP)
        return
    if shell not in SHELLS or excess:
        raise unknown("shell", " ".join(arguments), SHELLS)
    options = list_options()
    if shell == "fish":
        print("\n".join(_fish(options)))
        return
    if shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    print(_bash(options), end="")
