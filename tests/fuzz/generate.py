"""Inputs of the commands: each a function of a seed and a number, and of nothing else."""

import random
import shlex
from collections.abc import Callable

from .commands import Input, make_expression, make_line, make_toml, Odd
from .formats import mutate_npy, mutate_npz, mutate_numbers, mutate_tensors
from .seeds import below, CLAIM, Tree
from .values import Chance, mutate_bytes, mutate_json, OBJECTS, to_json, WORDS

SLOW_EVERY = 1000  # every such input is of a command that computes for seconds


ODD = (
    *(Odd("pipe"), Odd("folder"), Odd("link", "/dev/zero"), Odd("link", "missing"), b"", b"\0"),
    *(Odd("link", "/dev/null"), Odd("link", "."), Odd("link", "../outside"), b"\xff" * 100),
)

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
                folder = name.rpartition("/")[0]
                other = chance.choice(("x.part", "x.json", "x.safetensors", "x.npz", "[red]"))
                changed[f"{folder}/{other}"] = files[name]
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
    kinds = "units", "problems", "experiment.json", "experiment.json", "experiment.json"
    among = [name for kind in kinds for name in files if kind in name]
    changed = _mutate_folder(chance, files, among)
    if chance.random() < 0.15:
        record = to_json({"unit": chance.choice(OBJECTS), "reason": chance.choice(OBJECTS)})
        changed[f"store/aside/{chance.choice(('x', '[red]'))}.json"] = chance.choice(
            (record, mutate_json(chance, b'{"unit": "gem", "reason": "its workers died"}'))
        )
    words = chance.choice(STORE_COMMANDS).split()
    if words[0] != "sweep" and chance.random() < 0.15:
        claim = mutate_numbers(chance, CLAIM)
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

SLOW = WORDS["slow lines"]


def _slow(chance: Chance, seeds: Tree) -> Input:
    """A command that computes, after a file that it may read was changed, or none."""
    words = shlex.split(chance.choice(SLOW))
    files: dict[str, bytes | Odd] = dict(seeds)
    if chance.random() < 0.7:
        name = chance.choice(list(files))
        files[name] = _mutate_file(chance, name, seeds[name])
    return Input("what computes", tuple(words), files, ("*",))


WEIGHTS: dict[Callable[[Chance, Tree], Input], int] = {
    make_line: 26,
    make_expression: 14,
    make_toml: 13,
    _problem: 12,
    _array: 8,
    _store: 13,
    _training: 6,
    _tensors: 4,
    _figure: 4,
}


def is_slow(number: int) -> bool:
    """Whether the input of a number computes for seconds."""
    return number % SLOW_EVERY == SLOW_EVERY - 1


def generate(seed: int, number: int, seeds: Tree) -> Input:
    """The input of a number; the valid inputs, on which it is based, are always the same."""
    chance = random.Random(f"{seed} {number}")
    if is_slow(number):
        return _slow(chance, seeds)
    make = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    return make(chance, seeds)
