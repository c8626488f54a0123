"""Protocols: a GPU, as far as the fused engine needs it."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from .kernels import Kernel


class DeviceError(ValueError):
    """A GPU that cannot be used; the message says why, and what to do."""


@runtime_checkable
class Memory(Protocol):
    """Memory of a GPU.

    When nothing refers to it any more it is free for what the same thread of ours begins later.
    """

    @property
    def address(self) -> int: ...


@runtime_checkable
class LoadedKernel(Protocol):
    """A kernel, compiled for a GPU."""

    @property
    def num_registers(self) -> int:
        """How many a thread has."""
        ...

    @property
    def local_bytes(self) -> int:
        """How much memory a thread has besides, for what its registers do not hold."""
        ...

    def num_resident(self, block_size: int) -> int:
        """Returns how many threads the whole GPU runs at the same time, in such blocks."""
        ...

    def launch(self, num_threads: int, block_size: int, arguments: Sequence[int]) -> None:
        """Begins to run so many threads at least, after all that this thread of ours began."""
        ...


@runtime_checkable
class Device(Protocol):
    """A GPU and its driver. What one thread of ours begins happens in this order."""

    @property
    def shared_bytes(self) -> int:
        """How much memory a block may share, if two are to run side by side."""
        ...

    @property
    def free_bytes(self) -> int:
        """How much memory is free, or free again for this process."""
        ...

    @property
    def num_cores(self) -> int:
        """How many instructions it begins in a cycle."""
        ...

    @property
    def double_ratio(self) -> int:
        """How many instructions in single precision take the time of one in double precision."""
        ...

    @property
    def cycles(self) -> float:
        """How many cycles a second has."""
        ...

    def compile(self, kernel: Kernel) -> LoadedKernel:
        """Compiles a kernel."""
        ...

    def allocate(self, num_bytes: int) -> Memory:
        """Returns memory that is all zero."""
        ...

    def upload(self, array: Shaped[np.ndarray, "..."], memory: Memory, offset: int = 0) -> None:
        """Copies an array to memory, from an offset in bytes on."""
        ...

    def download(self, memory: Memory, array: Shaped[np.ndarray, "..."], offset: int = 0) -> None:
        """Waits until all is done that this thread began, and copies from memory to an array."""
        ...

    def copy(self, source: Memory, offset: int, target: Memory, num_bytes: int) -> None:
        """Copies memory from an offset in bytes on to the beginning of other memory."""
        ...
