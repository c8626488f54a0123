"""Protocols: where experience comes from, and what learns from it."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable, TypeAlias

import numpy as np
from jaxtyping import Float, Int, PyTree, Shaped

Position: TypeAlias = PyTree
"""How far the streams of some seeds have been drawn; only their source looks inside."""
Rows: TypeAlias = PyTree
"""Samples of axes (seed, step), in the form that the programs of the same engine read."""
States: TypeAlias = PyTree
"""The states of a program's learners; only the program looks inside."""

Lengths: TypeAlias = Int[np.ndarray, " chunks"]
Sums: TypeAlias = Float[np.ndarray, "chunks measures seeds lanes"]
"""Each chunk's sums of the measures."""
History: TypeAlias = Shaped[np.ndarray, "chunks numbers seeds lanes"]
"""The numbers of the states after each chunk."""


@runtime_checkable
class Experience(Protocol):
    """A source of experience: one stream for each seed, drawn in order.

    A stream depends on its seed alone, never on how it is cut into calls, on the other seeds of
    a call, or on what is learned from it.
    """

    def begin(self, seeds: Sequence[int]) -> Position:
        """Returns the position of each seed before its first step."""
        ...

    def advance(
        self, seeds: Sequence[int], time: int, position: Position, num_steps: int
    ) -> tuple[Position, Rows]:
        """Draws the next steps, which begin at `time`: their rows, and the position after them."""
        ...

    def seeds_per_task(self, num_lanes: int, num_seeds: int) -> int:
        """Returns how many of the seeds one task advances together."""
        ...


@runtime_checkable
class Program(Protocol):
    """A compiled batch of learners, which learns from the rows of an [Experience]."""

    def begin(self, seeds: Sequence[int]) -> States:
        """Returns the first states of all lanes, for each seed."""
        ...

    def advance(
        self, rows: Rows, time: int, lengths: Lengths, states: States
    ) -> tuple[States, Sums, History]:
        """Learns from chunks of rows, which begin at `time`."""
        ...
