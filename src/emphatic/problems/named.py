"""Problems by name or file."""

import os
from collections.abc import Callable

from .._validation import unknown
from ..mdp import Problem
from .baird import baird
from .boyan import boyan
from .collision import collision
from .counterexample import counterexample
from .file import load
from .four_rooms import four_rooms
from .garnet import garnet
from .grid import grid
from .gymnasium import gymnasium
from .hallway import hallway
from .kolter import kolter
from .random_walk import random_walk
from .tsitsiklis_van_roy import tsitsiklis_van_roy
from .two_circle import two_circle
from .two_state import two_state

_FUNCTIONS = (
    *(baird, boyan, collision, counterexample, four_rooms, garnet, grid, gymnasium, hallway),
    *(kolter, random_walk, tsitsiklis_van_roy, two_circle, two_state),
)
NAMED: dict[str, Callable[..., Problem]] = {build.__name__: build for build in _FUNCTIONS}
"""The named problems: a name, and the function that makes the problem."""


def builder(name: str) -> Callable[..., Problem]:
    """Returns the function that makes a problem, from a name or the path of a `.npz` file."""
    if name.replace("-", "_") in NAMED:
        return NAMED[name.replace("-", "_")]
    if name.endswith(".npz") or os.path.exists(name):

        def from_file() -> Problem:
            """A problem read from a file."""
            return load(name)

        return from_file
    raise unknown("problem", name, NAMED)


def make(name: str, **arguments: object) -> Problem:
    """Makes a problem from its name or file, with the arguments of its function."""
    return builder(name)(**arguments)
