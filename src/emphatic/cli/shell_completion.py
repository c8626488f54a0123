"""Completion of commands, problems, figures and options in a shell."""

import dataclasses

from .._validation import unknown

SHELLS = ("bash", "zsh", "fish")
BASH = """\
_emphatic() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands}"
    else
        case "${{COMP_WORDS[1]}}" in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _emphatic emphatic
"""
HELP = """\
usage: emphatic completion SHELL, where SHELL is bash, zsh or fish

bash:  eval "$(emphatic completion bash)"
zsh:   eval "$(emphatic completion zsh)"
fish:  emphatic completion fish | source"""


def candidates() -> dict[str, list[str]]:
    """Returns what may follow each command: names, and options with their dashes."""
    from ..figures import FIGURES
    from ..problems import NAMED
    from .commands import COMMANDS
    from .parsing import problem_options

    names = {"PROBLEM": list(NAMED), "FIGURE": [*FIGURES, "all"], "SHELL": list(SHELLS)}
    problem_flags = {_flag(name) for build in NAMED.values() for name in problem_options(build)}
    completions = {}
    for name, command in COMMANDS.items():
        fields = (field.name for kind in command.options for field in dataclasses.fields(kind))
        flags = (
            [] if command.argument == "SHELL" else [*dict.fromkeys(map(_flag, fields)), "--help"]
        )
        if command.argument == "PROBLEM":
            flags += sorted(problem_flags - set(flags))
        completions[name] = [*names.get(command.argument, []), *flags]
    return completions


def _flag(name: str) -> str:
    return f"--{name.rstrip('_').replace('_', '-')}"


def completion_command(arguments: list[str]) -> None:
    """Print the completion script for bash, zsh or fish."""
    shell, *excess = arguments or [""]
    if shell in ("-h", "--help"):
        print(HELP)
        return
    if shell not in SHELLS or excess:
        raise unknown("shell", " ".join(arguments), SHELLS)
    completions = {name: " ".join(texts) for name, texts in candidates().items()}
    commands = " ".join(completions)
    if shell == "fish":
        print(f"complete -c emphatic -n __fish_use_subcommand -f -a '{commands}'")
        for name, line in completions.items():
            print(f"complete -c emphatic -n '__fish_seen_subcommand_from {name}' -a '{line}'")
        return
    if shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    cases = (f'            {name}) words="{line}" ;;' for name, line in completions.items())
    print(BASH.format(commands=commands, cases="\n".join(cases)), end="")
