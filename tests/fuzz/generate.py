"""Inputs of the commands: each a function of a seed and a number, and of nothing else."""

import json
import random
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from emphatic.cli.shell_completion import list_options, Option

from .formats import (
    mutate_npy,
    mutate_npz,
    mutate_numbers,
    mutate_tensors,
    mutate_toml,
)
from .seeds import below, EXPERIMENT, Tree
from .values import Chance, mutate_bytes, mutate_json, mutate_words, NUMBERS, OBJECTS, TEXTS, to_json

SLOW_EVERY = 400  # every such input is of a command that computes for seconds


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


ODD = (
    *(Odd("pipe"), Odd("folder"), Odd("link", "/dev/zero"), Odd("link", "missing"), b"", b"\0"),
    *(Odd("link", "/dev/null"), Odd("link", "."), Odd("link", "../outside"), b"\xff" * 100),
)
PATHS = (
    *("missing", "store", "training", ".", "..", "/dev/null", "/dev/zero", "/proc/self/mem", "dense.npz"),
    *("tiny.toml", "target.npy", "a/b/c.png", "[red]x[/red].npz", "a b.svg", "x.csv", "x" * 300, "x.png"),
)

# Command lines

LINES = """
problems
version
help solve
help reproduce control
completion bash
completion fish
solve two_state
solve two_state --target target.npy --ridge 0.1 --json
solve dense.npz --target uniform
solve sparse.npz --json
solve garnet --num-states 4 --num-actions 2 --branching 2 --num-features 2 --problem-seed 1
solve baird --features aliased --solid 0.1
solve boyan --target behavior
solve random_walk --num-states 5
solve grid --width 2 --height 2 --json
solve two_state --plot plot.svg
certify two_state --ridge 1e-6 --step-size 1/t^0.8
certify dense.npz --target uniform --json --tolerance 0.1
certify two_state --policy softmax --theta vector.npy --damping inf --actor-step-size 1/t
certify two_state --policy tabular --theta-end vector.npy --json
certify two_state --policy softmax --actor-features rows.npy
export two_state --out problem.npz --target uniform
export garnet --num-states 4 --out problem.npz
export store --csv --out table.csv
export store --netcdf --out table.nc
export training
sweep tiny.toml --out store --dry-run
sweep tiny.toml --out store
sweep tiny.toml --out store --runs 4 --seed 0 --steps 20
sweep tiny.toml --out other --dry-run --quick --import canary
sweep tiny.toml --cluster 127.0.0.1 --workers 1 --out store --dry-run
status store --json
status training
status .
report store --out page.html
report store training emphasis --out page.html
evaluate missing --episodes 1
train --env CartPole-v1 --algorithm off-pac --steps 40 --evaluate-every 10 --out training
""".strip().splitlines()
LONGER = """
predict two_state --learner gem --step-size 0.025 --steps 10 --no-stability --json
predict two_state --learner gtd2(0.1) --steps 10 --no-stability
compare two_state --learners td(0.1) gem(0.1) --steps 10 --runs 2 --json
evaluate training --episodes 1 --json
solve two_state --learners gem(step_size)
train --env CartPole-v1 --algorithm off-pac --steps 45 --evaluate-every 10 --out training
""".strip().splitlines()
# What runs for minutes is refused in any case.
REFUSED = ("reproduce emphasis", "reproduce control", "reproduce all", "reproduce convergence")
REFUSAL = ("--runs", "0")


@cache
def _options() -> dict[tuple[str, str], list[Option]]:
    return list_options()


def _option(chance: Chance, words: list[str]) -> list[str]:
    """An option of a command or its problem, seldom of another, with some value."""
    known = _options()
    own = [o for key in {(words[0], ""), tuple(words[:2])} for o in known.get(key, [])]
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
    return chance.choice(([flag, chance.choice(choices)], [f"{flag}={chance.choice(choices)}"], [flag]))


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


def _line(chance: Chance, seeds: Tree) -> Input:
    """A command line, among the valid inputs."""
    kind = chance.random()
    if kind < 0.08:
        words = [*_mutate_line(chance, shlex.split(chance.choice(REFUSED))), *REFUSAL]
    else:
        words = _mutate_line(chance, shlex.split(chance.choice(LONGER if kind < 0.11 else LINES)))
    return Input("command line", tuple(words), seeds, ("*",))


# Experiments and expressions

EXPRESSIONS = """
gem(0.025)
gem(step_size, 0.1)
gem("0.1/t^0.6")
followon()
etd(followon(), step_size)
etd(gem(0.025, 0.1), "1/t")
etd(exact(emphasis), 1e-3)
td(step_size)
gtd2(0.1)
gq2(step_size, 0.1)
tdc(step_size, 0.5)
lms(followon(), 0.1)
reverse_td(0.1)
constant(values)
actor_critic(gem(0.1), gq2(0.1), 0.01, policy=linear())
actor_critic(followon(), td(0.1), polynomial(0.1, 0.5), policy=over_states([[1, 0], [0, 1]]))
actor_critic(exact_emphasis(), exact_action_values(), 0.01, damping=undamped, policy=tabular())
""".strip().splitlines()
PIECES = (
    *("1/0", "10^400", "(-1)^0.5", "9^9^9^9", "2^10^400", "-" * 3000 + "1", "[0.1]", "None", "True"),
    *("emphasis", "values", "gamma", "undamped", "gem", "gem(0.1)", "followon()", "step_size", "x"),
    *('"1/t"', '"x"', "''", "[]", "[[1]]", "[0:3]", "[0:1e9]", "[1:0:0]", "()", "(1,)", "1j", "b''"),
    *("canary:f(0.1)", "canary:f", "json:loads('1')", "os:system('true')", ".", ",", "(", ")", "lambda: 0"),
    *("1 if 1 else 0", "[x for x in x]", "f'{1}'", "gem.__class__", "x[0]", "*[1]", "**{}", "a:=1", "^"),
    *("(" * 300 + "1" + ")" * 300, "1" * 5000, "1e999", "nan", "inf", "-0", "0", "-1", "1e-320", "{}"),
    *("step_size=0.1", "ridge=-1", "tabular()", "linear()", "polynomial(1, 2)", "Konda(1)", "...", "0.1"),
)


def _expression(chance: Chance) -> str:
    text = chance.choice(EXPRESSIONS)
    kind = chance.random()
    if kind < 0.1:
        return text
    if kind < 0.3:
        return mutate_words(chance, text, (*PIECES, *NUMBERS, *TEXTS[:12]))
    if kind < 0.4:
        return chance.choice((*PIECES, *TEXTS))
    numbers = ("0.025", "0.1", "step_size", "followon()", "gem(0.1)", "emphasis", "0.5", "1e-3", "values")
    found = [n for n in numbers if n in text] or ["("]
    for _ in range(chance.choice((1, 1, 2))):
        piece = chance.choice((*PIECES, *NUMBERS, chance.choice(EXPRESSIONS)))
        text = text.replace(chance.choice(found), piece, 1)
    return text


def _quoted(text: str) -> str:
    """A text of TOML."""
    return json.dumps(text.encode(errors="replace").decode(), ensure_ascii=True)


def _expressions(chance: Chance, seeds: Tree) -> Input:
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
            grid = chance.choice((*PIECES, *NUMBERS, mutate_words(chance, "0.1 * 2^[0:-3]", NUMBERS)))
            grid = grid if chance.random() < 0.3 else "0.1"
            toml = EXPERIMENT.replace('"0.1 * 2^[0:-1]"', _quoted(grid))
            toml = toml.replace('"gem(step_size)"', _quoted(text))
            words = ["sweep", "tiny.toml", "--dry-run"]
            return Input("expression", tuple(words), {**files, "tiny.toml": toml.encode()})
    return Input("expression", tuple(words), files)


EXPERIMENTS = (
    EXPERIMENT,
    EXPERIMENT,
    'name = "two"\nsteps = 20\nruns = 2\n[problems]\na = "two_state"\n[problems.b]\nname = "garnet"\n'
    'num_states = [3, 4]\nseed = 1\n[learners]\ntd = "td(0.1)"\n',
    'steps = 10\nproblem = "dense.npz"\nrecords = 2\ndtype = "float64"\nengine = "scan"\n'
    'measures = ["rmsve", "weights"]\n[learners]\ntd = "td(0.1)"\n[selection]\nby = "final"\nruns = 1\n',
    'steps = 10\nruns = 2\nseed = 1\n[problem]\nname = "gymnasium"\nenv = "canary:X-v0"\n[learners]\n'
    'td = "td(0.1)"\n',
    'steps = 10\nruns = 2\n[problem]\nname = "two_state"\n[learners]\n'
    'ac = "actor_critic(gem(0.1), gq2(0.1), 0.01, policy=linear())"\n[grid]\nx = [0.1]\n',
)


def _toml(chance: Chance, seeds: Tree) -> Input:
    """An experiment in TOML; where nothing that counts was changed, its results are there."""
    text = mutate_toml(chance, chance.choice(EXPERIMENTS))
    files = {**below(seeds, "store"), **{n: seeds[n] for n in ("target.npy", "dense.npz")}}
    if chance.random() < 0.1:
        files["target.npy"] = mutate_npy(chance, files["target.npy"])
    out = chance.choice(([], ["--out", "store"], ["--out", "store"]))
    words = ["sweep", "tiny.toml", *out, "--dry-run"]
    return Input("experiment (TOML)", tuple(words), {**files, "tiny.toml": text}, ("store",))


# Files of arrays


def _problem(chance: Chance, seeds: Tree) -> Input:
    """A problem in a file."""
    name = chance.choice(("dense.npz", "dense.npz", "sparse.npz"))
    data = mutate_npz(chance, seeds[name])
    commands = ("solve", "solve", "solve", "certify", "export", "solve --json", "certify --json")
    command, *rest = chance.choice(commands).split()
    return Input("problem (.npz)", (command, name, *rest), {name: data}, ("problem.npz",))


TABLE = "0.3 0.7\n0.5 0.5\n"
USES = (
    "solve two_state --target",
    "solve two_state --target",
    "export two_state --target",
    "certify two_state --policy softmax --actor-features",
    "certify two_state --policy softmax --theta",
    "certify two_state --policy tabular --theta-end",
    "certify two_state --policy network --theta",
    "predict two_state --steps 10 --no-stability --initial",
)


def _array(chance: Chance, seeds: Tree) -> Input:
    """Arrays in `.npy` files, `.csv` files and texts."""
    words = chance.choice(USES[:-2] * 4 + USES).split()
    text = TABLE if words[-1] in ("--target", "--actor-features") else "0.5 1 0 0"
    match chance.randrange(3):
        case 0:
            name = chance.choice(("target.npy", "vector.npy", "rows.npy"))
            data = mutate_npy(chance, seeds[name])
        case 1:
            name, data = "x.csv", mutate_numbers(chance, text.replace(" ", ","))
        case _:
            name, data = chance.choice(("x.txt", "x", "x.gz")), mutate_numbers(chance, text)
    return Input("array (.npy, .csv, text)", (*words, name), {name: data}, ("problem.npz",))


# Folders

CHANGES: tuple[tuple[str, Callable[[Chance, bytes], bytes]], ...] = (
    (".safetensors", mutate_tensors),
    (".npz", mutate_npz),
    (".npy", mutate_npy),
    (".json", mutate_json),
    ("", lambda chance, data: mutate_bytes(chance, data, data)),
)


def _mutate_file(chance: Chance, name: str, data: bytes) -> bytes | Odd:
    if chance.random() < 0.06:
        return chance.choice(ODD)
    return next(mutate for ending, mutate in CHANGES if name.endswith(ending))(chance, data)


def _mutate_folder(chance: Chance, files: Tree, among: list[str]) -> dict[str, bytes | Odd]:
    """Changes, removes and renames a few files of a folder."""
    changed: dict[str, bytes | Odd] = dict(files)
    for _ in range(chance.choice((1, 1, 1, 1, 2))):
        name = chance.choice(among)
        match chance.randrange(16):
            case 0:
                changed.pop(name, None)
            case 1:
                new = chance.choice((f"{name}.part", f"{name}x", f"x{name[-12:]}", f"{name}/x"))
                changed[f"{name.rpartition('/')[0] or name}/{new.rpartition('/')[2]}"] = files[name]
            case 2:
                changed[name] = files[chance.choice(list(files))]
            case _:
                changed[name] = _mutate_file(chance, name, files[name])
    return changed


STORE_COMMANDS = (
    *("status store", "status store --json", "report store --out page.html", "status ."),
    *("export store --csv --out table.csv", "export store --netcdf --out table.nc"),
    *("sweep tiny.toml --out store", "sweep tiny.toml --out store --dry-run", "report store"),
)


def _store(chance: Chance, seeds: Tree) -> Input:
    """A store: its plan, its shards, its problems, what was set aside, and claims."""
    files = below(seeds, "store")
    (plan, *rest), kinds = list(files), ("units", "problems", "experiment.json")
    among = [name for kind in kinds for name in files if kind in name]
    among += ["store/experiment.json"] * 2
    changed = _mutate_folder(chance, files, among)
    if chance.random() < 0.15:
        record = to_json({"unit": chance.choice(OBJECTS), "reason": chance.choice(OBJECTS)})
        changed[f"store/aside/{chance.choice(('x', '[red]'))}.json"] = chance.choice(
            (record, mutate_json(chance, b'{"unit": "gem", "reason": "its workers died"}'))
        )
    words = chance.choice(STORE_COMMANDS).split()
    if words[0] != "sweep" and chance.random() < 0.15:
        claim = mutate_numbers(chance, "                   5                  40")
        changed["store/running/gem-0"] = Odd("locked", data=claim)
    extra = {name: seeds[name] for name in ("tiny.toml", "target.npy")}
    written = ("store",) if words[0] == "sweep" else ()
    return Input("store", tuple(words), {**extra, **changed}, written)


TRAINING_COMMANDS = (
    *("status training", "status training --json", "report training --out page.html"),
    *("export training --out table.csv", "status .", "report training", "export training --netcdf"),
    "train --env CartPole-v1 --algorithm off-pac --steps 40 --evaluate-every 10 --out training",
    "train --env CartPole-v1 --algorithm off-pac --steps 45 --evaluate-every 10 --out training",
)


def _training(chance: Chance, seeds: Tree) -> Input:
    """The folder of a training: its plan, policies, checkpoints, experience and curves."""
    files = below(seeds, "training")
    among = [name for name in files if "experience" not in name] + ["training/training.json"]
    changed = _mutate_folder(chance, files, among)
    words = chance.choice(TRAINING_COMMANDS * 4 + ("evaluate training --episodes 1",)).split()
    return Input("training", tuple(words), changed, ("training",) if words[0] == "train" else ())


def _tensors(chance: Chance, seeds: Tree) -> Input:
    """A policy or a recording, which are files of their own, too."""
    files = {name.rpartition("/")[2]: data for name, data in below(seeds, "training").items()}
    experience = next(name for name in files if name.startswith("CartPole"))
    if chance.random() < 0.3:
        words, name = ["evaluate", "policy.safetensors", "--episodes", "1"], "policy.safetensors"
        kind = "policy"
    else:  # a number of steps that cannot be: what was read is not learned from
        words, name = ["train", "--env", "CartPole-v1", "--steps", "7", "--experience"], experience
        words, kind = [*words, experience, "--algorithm", "off-pac"], "experience"
    return Input(kind, tuple(words), {name: _mutate_file(chance, name, files[name])})


FIGURES = ("emphasis", "evaluation", "convergence", "control")


def _figure(chance: Chance, seeds: Tree) -> Input:
    """The folder of a figure: its summary, its data and its pictures."""
    figure = chance.choice([name for name in FIGURES if f"{name}/summary.json" in seeds])
    summary = f"{figure}/summary.json"
    files: dict[str, bytes | Odd] = {summary: _mutate_file(chance, "x.json", seeds[summary])}
    if chance.random() < 0.3:
        store = below(seeds, "store", f"{figure}/data/gem-0.1")
        files |= _mutate_folder(chance, store, list(store)) if chance.random() < 0.7 else store
    if chance.random() < 0.1:
        unit = next(name for name in seeds if name.startswith("store/units/"))
        files[f"{figure}/data/cof-pac.safetensors"] = mutate_tensors(chance, seeds[unit])
    if chance.random() < 0.1:
        picture = chance.choice((b"<svg><script>x</script></svg>", b"", *(b for b in ODD)))
        files[f"{figure}/{chance.choice(('figure.svg', 'figure.png', 'film.gif'))}"] = picture
    folder = chance.choice((figure, figure, figure, f"{figure}/../{figure}", "x"))
    if folder == "x" or figure == "convergence":  # whose problems take seconds to solve
        folder = "x"
        files = {name.replace(figure, "x", 1): data for name, data in files.items()}
    commands = (("report", folder, "--out", "page.html"), ("report", folder), ("export", folder))
    return Input("figure", chance.choice(commands), files)


# Commands that compute for seconds

SLOW = """
reproduce emphasis --steps 10 --runs 2
reproduce evaluation --steps 10 --runs 2
train --env CartPole-v1 --algorithm off-pac --steps 50 --evaluate-every 10 --out training
train --env CartPole-v1 --algorithm ace --steps 20 --evaluate-every 10 --out new
train --env Pendulum-v1 --algorithm cof-pac --steps 20 --evaluate-every 10 --out new
train --algorithm cof-pac --steps 20 --evaluate-every 10 --runs 2 --out new
evaluate training --episodes 2
predict two_state --steps 100 --best
predict dense.npz --learner gtd2 --steps 100
certify two_state --policy network
report convergence
report control emphasis evaluation
sweep tiny.toml --out new
sweep tiny.toml --out store --steps 30
sweep tiny.toml --out store --runs 6
compare dense.npz --learners gem(0.1) followon() --out new --steps 10 --runs 2 --plot x.png
""".strip().splitlines()


def _slow(chance: Chance, seeds: Tree) -> Input:
    """A command that computes, after a file that it may read was changed, or none."""
    words = shlex.split(chance.choice(SLOW))
    files: dict[str, bytes | Odd] = dict(seeds)
    if chance.random() < 0.7:
        name = chance.choice(list(files))
        files[name] = _mutate_file(chance, name, seeds[name])
    return Input("what computes", tuple(words), files, ("*",))


WEIGHTS: dict[Callable[[Chance, Tree], Input], int] = {
    _line: 26,
    _expressions: 14,
    _toml: 13,
    _problem: 12,
    _array: 8,
    _store: 13,
    _training: 6,
    _tensors: 4,
    _figure: 4,
}


def generate(seed: int, number: int, seeds: Tree) -> Input:
    """The input of a number; the valid inputs, on which it is based, are always the same."""
    chance = random.Random(f"{seed} {number}")
    if number % SLOW_EVERY == SLOW_EVERY - 1:
        return _slow(chance, seeds)
    make = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    return make(chance, seeds)


