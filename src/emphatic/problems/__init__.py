"""Named problems, problems from Gymnasium, and problems in files."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..mdp import Problem
from .baird import baird as baird
from .boyan import boyan as boyan
from .collision import collision as collision
from .counterexample import counterexample as counterexample
from .file import load as load
from .file import save as save
from .finite import from_gymnasium as from_gymnasium
from .finite import gymnasium as gymnasium
from .garnet import garnet as garnet
from .grid import grid as grid
from .random_walk import random_walk as random_walk
from .two_state import two_state as two_state

NAMED: dict[str, Callable[..., Problem]] = {
    "baird": baird,
    "boyan": boyan,
    "collision": collision,
    "counterexample": counterexample,
    "garnet": garnet,
    "grid": grid,
    "gymnasium": gymnasium,
    "random_walk": random_walk,
    "two_state": two_state,
}
"""The named problems: a name, and the function that makes the problem."""


def nearest(kind: str, name: str, known) -> ValueError:
    """The error for an unknown name, with the nearest known one."""
    close = get_close_matches(name, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return ValueError(f"{kind}: unknown name {name!r}; {hint}known: {', '.join(known)}")


def builder(name: str) -> Callable[..., Problem]:
    """The function that makes a problem, from a name or from the path of a `.npz` file."""
    if name.replace("-", "_") in NAMED:
        return NAMED[name.replace("-", "_")]
    if name.endswith(".npz") or Path(name).exists():

        def from_file() -> Problem:
            """A problem read from a file."""
            return load(name)

        return from_file
    raise nearest("problem", name, NAMED)


def make(name: str, **arguments: Any) -> Problem:
    """A problem by its name or file, with the arguments of its function."""
    return builder(name)(**arguments)
