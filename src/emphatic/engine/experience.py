"""Protocols: where experience comes from, and what learns from it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int, PyTree, Shaped

Position: TypeAlias = PyTree
"""How far the streams of some seeds have been drawn; only their source looks inside."""
Rows: TypeAlias = PyTree
"""Samples of axes (seed, step), in the form that the programs of the same engine read."""
States: TypeAlias = PyTree
"""The states of a program's learners; only the program looks inside."""

Sums: TypeAlias = Float[np.ndarray, "windows measures seeds lanes"]
"""Each window's sums of the measures."""
Diverged: TypeAlias = Bool[np.ndarray, "windows seeds lanes"]
"""Whether a number of the state is not finite after each window."""
History: TypeAlias = Shaped[np.ndarray, "kept numbers seeds lanes"]
"""The numbers of the states after each window, or after none."""


class Chunks(NamedTuple):
    """Chunks of steps, one after the other, and the windows that they belong to."""

    lengths: Int[np.ndarray, " chunks"]
    windows: Int[np.ndarray, " chunks"]  # counted from the first chunk's
    keeps_states: bool  # those after each window, besides the last ones

    @property
    def num_windows(self) -> int:
        """How many windows they belong to."""
        return int(self.windows[-1]) + 1


class Load(NamedTuple):
    """What one seed of a task takes."""

    num_lanes: int
    num_bytes: int  # of memory, with a slice of one chunk
    row_bytes: int  # and of these the rows, which all lanes share
    chunk_seconds: float  # that a chunk takes at least, as far as it is known


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

    @property
    def step_bytes(self) -> int:
        """How much memory a step of a seed takes."""
        ...

    @property
    def memory_bytes(self) -> int | None:
        """How much memory all tasks may take; None where they have that of the process."""
        ...

    def seeds_per_task(self, num_seeds: int, load: Load) -> int:
        """Returns how many of the seeds, each of this load, one task advances together."""
        ...


@runtime_checkable
class Program(Protocol):
    """A compiled batch of learners, which learns from the rows of an [Experience]."""

    @property
    def step_seconds(self) -> float:
        """How long a step of one of many seeds takes; 0 where that is not known."""
        ...

    @property
    def step_bytes(self) -> int:
        """How much memory a step of a seed takes, besides that of its experience."""
        ...

    def begin(self, seeds: Sequence[int]) -> States:
        """Returns the first states of all lanes, for each seed."""
        ...

    def advance(
        self, rows: Rows, time: int, chunks: Chunks, states: States, sums: Sums
    ) -> tuple[States, Sums, Diverged, History]:
        """Learns from chunks of rows, which begin at `time`, and adds their sums to `sums`.

        Every chunk is summed in the working type, and added to its window in double precision. Only
        the first window may have sums already.
        """
        ...
