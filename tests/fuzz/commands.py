"""Inputs that are words: command lines, learners as expressions, experiments in TOML."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from emphatic.cli.shell_completion import list_options, Option

from .formats import mutate_npy, mutate_toml
from .seeds import below, EXPERIMENT, Tree
from .values import Chance, mutate_words, NUMBERS, TEXTS, WORDS


@dataclass(frozen=True)
class Odd:
    """A path that is no plain file: a link to `target`, or a `folder`, or a `pipe`, or a file that
    another process has `locked`."""

    kind: str
    target: str = ""
    data: bytes = b""


Files: TypeAlias = Mapping[str, bytes | Odd]


@dataclass(frozen=True)
class Input:
    """A command with the files around it; `written` is what it may change, by the first folder."""

    format: str
    arguments: tuple[str, ...]
    files: Files
    written: tuple[str, ...] = ()


PATHS = [*WORDS["paths"], "x" * 300]

# Command lines

LINES, LONGER = WORDS["lines"], WORDS["longer lines"]
READING = ("problems", "version", "help", "completion", "solve", "certify", "predict", "status")
# What runs for minutes is refused in any case.
REFUSED = ("reproduce emphasis", "reproduce control", "reproduce all", "reproduce convergence")
REFUSAL = ("--seed=-1",)


@cache
def _options() -> dict[tuple[str, str], list[Option]]:
    return list_options()


def _option(chance: Chance, words: list[str]) -> list[str]:
    """An option of a command or its problem, seldom of another, with some value."""
    known = _options()
    arguments = "", words[1] if len(words) > 1 else "x"
    own = [option for text in arguments for option in known.get((words[0], text), [])]
    every = [option for options in known.values() for option in options]
    option = chance.choice(own if own and chance.random() < 0.9 else every)
    flag = chance.choice(option.flags)
    if not option.has_value:
        return [flag]
    choices = [*NUMBERS, *NUMBERS, *TEXTS]
    if option.words:
        choices += option.words * 20
    if option.is_file:
        choices += PATHS * 5
    if flag == "--learners":
        return [flag, *(_expression(chance) for _ in range(chance.choice((0, 1, 2, 2))))]
    value = chance.choice(choices)
    return chance.choice(([flag, value], [f"{flag}={value}"], [flag]))


def _mutate_line(chance: Chance, words: list[str]) -> list[str]:
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        place = chance.randrange(1, len(words) + 1)
        word = chance.choice((*NUMBERS, *TEXTS, *PATHS, *words))
        match chance.randrange(8):
            case 0 if words[0] not in ("train", "reproduce", "compare", "predict"):
                del words[place:][:1]
            case 1 | 2 if place < len(words) and not words[place].startswith("--"):
                words[place] = word
            case 3:
                words.insert(place, word)
            case 4 if place < len(words):
                words[place] = mutate_words(chance, words[place], (*NUMBERS[:20], *TEXTS[:20]))
            case _:
                words += _option(chance, words)
    if chance.random() < 0.02:
        words[0] = chance.choice((*TEXTS, words[0][:-1], words[0].upper(), "help"))
    return words


def make_line(chance: Chance, seeds: Tree) -> Input:
    """A command line, among the valid inputs."""
    kind = chance.random()
    if kind < 0.08:
        words = [*_mutate_line(chance, shlex.split(chance.choice(REFUSED))), *REFUSAL]
    else:
        words = _mutate_line(chance, shlex.split(chance.choice(LONGER if kind < 0.11 else LINES)))
        words += ["--evaluate-every=7"] if words[0] == "train" else []  # refused, but late
    return Input("command line", tuple(words), seeds, () if words[0] in READING else ("*",))


# Experiments and expressions

EXPRESSIONS, ARGUMENTS = WORDS["expressions"], WORDS["arguments"]
PIECES = [
    *WORDS["pieces of expressions"],
    "-" * 3000 + "1",
    "(" * 300 + "1" + ")" * 300,
    "1" * 5000,
]


def _expression(chance: Chance) -> str:
    text = chance.choice(EXPRESSIONS)
    kind = chance.random()
    if kind < 0.1:
        return text
    if kind < 0.3:
        return mutate_words(chance, text, (*PIECES, *NUMBERS, *TEXTS[:12]))
    if kind < 0.4:
        return chance.choice((*PIECES, *TEXTS))
    found = [word for word in ARGUMENTS if word in text] or ["("]
    for _ in range(chance.choice((1, 1, 2))):
        piece = chance.choice((*PIECES, *NUMBERS, chance.choice(EXPRESSIONS)))
        text = text.replace(chance.choice(found), piece, 1)
    return text


def _quoted(text: str) -> str:
    """A text of TOML."""
    return json.dumps(text.encode(errors="replace").decode(), ensure_ascii=True)


def make_expression(chance: Chance, seeds: Tree) -> Input:
    """A learner, a schedule or a grid of numbers."""
    files = {name: seeds[name] for name in ("target.npy", "dense.npz")}
    text = _expression(chance)
    match chance.randrange(8):
        case 0:
            words = ["predict", "two_state", "--steps", "10", "--no-stability", "--learner", text]
        case 1:
            words = ["compare", "two_state", "--learners", text, "td(0.1)", "--steps", "10"]
            words += ["--runs", "2"]
        case 2:
            words = ["solve", "two_state", "--learners", text]
        case 3:
            schedule = chance.choice((*PIECES, mutate_words(chance, "0.1/(1+t/1e4)^0.6", NUMBERS)))
            words = ["certify", "two_state", chance.choice(("--step-size", "--actor-step-size"))]
            words += [schedule, "--policy", chance.choice(("fixed", "softmax"))]
        case _:
            grid = mutate_words(chance, "0.1 * 2^[0:-3]", NUMBERS)
            grid = chance.choice(("0.1", "0.1", "0.1", grid, chance.choice(PIECES)))
            toml = EXPERIMENT.replace('"0.1 * 2^[0:-1]"', _quoted(grid))
            toml = toml.replace('"gem(step_size)"', _quoted(text))
            words = ["sweep", "tiny.toml", "--dry-run"]
            return Input("expression", tuple(words), {**files, "tiny.toml": toml.encode()})
    return Input("expression", tuple(words), files)


EXPERIMENTS = [EXPERIMENT, EXPERIMENT]
EXPERIMENTS += """
name = "two"
steps = 20
runs = 2
[problems]
a = "two_state"
[problems.b]
name = "garnet"
num_states = [3, 4]
seed = 1
[learners]
td = "td(0.1)"

steps = 10
problem = "dense.npz"
records = 2
dtype = "float64"
engine = "scan"
measures = ["rmsve", "weights"]
[learners]
td = "td(0.1)"
[selection]
by = "final"
runs = 1

steps = 10
runs = 2
seed = 1
[problem]
name = "gymnasium"
env = "canary:X-v0"
[learners]
td = "td(0.1)"

steps = 10
runs = 2
[problem]
name = "two_state"
[learners]
ac = "actor_critic(gem(0.1), gq2(0.1), 0.01, policy=linear())"
[grid]
x = [0.1]
""".strip().split("\n\n")


def make_toml(chance: Chance, seeds: Tree) -> Input:
    """An experiment in TOML; where nothing that counts was changed, its results are there."""
    text = mutate_toml(chance, chance.choice(EXPERIMENTS))
    files = {**below(seeds, "store"), **{n: seeds[n] for n in ("target.npy", "dense.npz")}}
    if chance.random() < 0.1:
        files["target.npy"] = mutate_npy(chance, files["target.npy"])
    out = chance.choice(([], ["--out", "store"], ["--out", "store"]))
    words = ["sweep", "tiny.toml", *out, "--dry-run"]
    return Input("experiment (TOML)", tuple(words), {**files, "tiny.toml": text}, ("store",))
