"""Completion of commands, problems, figures and options in a shell."""

import dataclasses

from .._names import unknown
from . import exact, experiments, networks

SHELLS = ("bash", "zsh", "fish")
OPTIONS: dict[str, tuple[type, ...]] = {
    "solve": (exact.Solve,),
    "certify": (exact.Certify,),
    "predict": (exact.Predict,),
    "export": (exact.Export,),
    "compare": (experiments.Compare,),
    "sweep": (experiments.File,),
    "status": (experiments.Status,),
    "reproduce": (experiments.Sweep, experiments.Control, experiments.All),
    "report": (experiments.Report,),
    "train": (networks.Train,),
    "evaluate": (networks.Evaluate,),
}
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


def words() -> dict[str, list[str]]:
    """What may follow each command: names, and options with their dashes."""
    from ..figures import FIGURES
    from ..problems import NAMED

    found = {}
    for command, kinds in OPTIONS.items():
        fields = dict.fromkeys(each.name for kind in kinds for each in dataclasses.fields(kind))
        found[command] = [f"--{name.replace('_', '-')}" for name in fields] + ["--help"]
    for command in ("solve", "certify", "predict", "export", "compare"):
        arguments = {
            f"--{name.replace('_', '-')}" for build in NAMED.values() for name in _named(build)
        }
        found[command] = [*NAMED, *found[command], *sorted(arguments - set(found[command]))]
    found["reproduce"] = [*FIGURES, "all", *found["reproduce"]]
    return {"problems": ["--help"], **found, "completion": list(SHELLS)}


def _named(build) -> list[str]:
    import inspect

    return list(inspect.signature(build).parameters)


def completion_command(arguments: list[str]) -> int:
    """Prints a script for a shell, such as `eval "$(emphatic completion bash)"`."""
    shell, *rest = arguments or [""]
    if shell in ("-h", "--help"):
        print(
            'usage: emphatic completion SHELL, with bash, zsh or fish\n\nIn bash and zsh: eval "$('
            'emphatic completion bash)"\nIn fish:         emphatic completion fish | source'
        )
        return 0
    if shell not in SHELLS or rest:
        raise unknown("shell", " ".join(arguments), SHELLS)
    known = words()
    if shell == "fish":
        lines = ["complete -c emphatic -n __fish_use_subcommand -f -a '" + " ".join(known) + "'"]
        for command, after in known.items():
            seen = f"__fish_seen_subcommand_from {command}"
            lines.append(f"complete -c emphatic -n '{seen}' -a '{' '.join(after)}'")
        print("\n".join(lines))
        return 0
    cases = "\n".join(
        f'            {name}) words="{" ".join(of)}" ;;' for name, of in known.items()
    )
    script = BASH.format(commands=" ".join(known), cases=cases)
    if shell == "zsh":
        script = "autoload -U +X bashcompinit && bashcompinit\n" + script
    print(script, end="")
    return 0
