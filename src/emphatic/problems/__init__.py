"""Named problems, problems from Gymnasium, and problems in files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._names import unknown
from ..mdp import Problem
from .baird import baird as baird
from .boyan import boyan as boyan
from .collision import collision as collision
from .counterexample import counterexample as counterexample
from .file import digest as digest
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


def builder(name: str) -> Callable[..., Problem]:
    """The function that makes a problem, from a name or from the path of a `.npz` file."""
    if name.replace("-", "_") in NAMED:
        return NAMED[name.replace("-", "_")]
    if name.endswith(".npz") or Path(name).exists():

        def from_file() -> Problem:
            """A problem read from a file."""
            return load(name)

        return from_file
    raise unknown("problem", name, NAMED)


def make(name: str, **arguments: Any) -> Problem:
    """A problem by its name or file, with the arguments of its function."""
    return builder(name)(**arguments)
