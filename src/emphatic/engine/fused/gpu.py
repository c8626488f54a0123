"""The fused engine on a GPU: streams in one thread for each seed, learners in threads of lanes.

What the driver of a GPU does is behind the protocol of `device.py`; `cuda.py` has NVIDIA's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped

from ..batch import Batch
from ..experience import Chunks, Diverged, History, Sums
from ..stream import Stream
from . import cpu
from .device import Device, LoadedKernel, Memory
from .kernels import drawing_kernel, learning_kernel, num_columns, row_table_bytes
from .llvm import ALIGNMENT
from .loops import UINT32
from .program import StepProgram

WIDTHS = (4, 2, 1)  # lanes of a thread
MAX_REGISTERS = 128  # of a thread: with more, too few threads wait for each other's loads
BLOCK_SIZES = (128, 256, 512, 64, 32)  # threads of a block, the preferred ones first
MAX_THREADS = 2**31  # of a launch
SLICE_SHARE = 8  # parts of the free memory, one of which the results of a slice may take
SETUP = 2.0  # seconds that it takes until a GPU begins
LATENCY = 4  # cycles until the result of an instruction can be used
NUM_TASKS = 2  # that take turns: one is copied while the other one learns


def _place(device: Device, array: Shaped[np.ndarray, "..."]) -> Memory:
    """Returns memory with the numbers of an array."""
    memory = device.allocate(array.nbytes)
    device.upload(np.ascontiguousarray(array), memory)
    return memory


def _choose_block_size(kernel: LoadedKernel, num_threads: int) -> int:
    """Returns the size with which most threads run at the same time."""
    sizes = [size for size in BLOCK_SIZES if size <= max(num_threads, min(BLOCK_SIZES))]
    return max(sizes, key=kernel.num_resident)


class Position(NamedTuple):
    """How far the streams of some seeds are: their keys, and the pairs that they have reached."""

    low: Memory
    high: Memory
    pairs: Memory


class Rows(NamedTuple):
    """Rows of a stream in the memory of a GPU, with the axes (seed, step)."""

    memory: Memory
    num_seeds: int
    num_steps: int


class Experience:
    """The streams of several seeds, drawn on a GPU: each by one thread."""

    def __init__(self, stream: Stream, device: Device):
        self.device, self._first = device, cpu.Experience(stream)
        closed, tables = self._first.closed, self._first.arrays
        self._tables = [_place(device, table) for table in tables]
        self._draw = device.compile(drawing_kernel(closed, len(tables)))

    def begin(self, seeds: Sequence[int]) -> Position:
        """Returns the first position of each seed."""
        words = np.array([(seed & 0xFFFFFFFF, seed >> 32) for seed in seeds], UINT32).T
        return Position(*(_place(self.device, a) for a in (*words, self._first.begin(seeds))))

    def advance(
        self, seeds: Sequence[int], time: int, position: Position, num_steps: int
    ) -> tuple[Position, Rows]:
        """Begins to draw the next steps, and returns where they will be."""
        rows = self.device.allocate(len(seeds) * num_steps * UINT32.itemsize)
        arrays = [memory.address for memory in (*position, rows, *self._tables)]
        size = _choose_block_size(self._draw, 1)  # spread over the whole GPU
        self._draw.launch(len(seeds), size, [len(seeds), num_steps, time, *arrays])
        return position, Rows(rows, len(seeds), num_steps)

    def seeds_per_task(self, num_lanes: int, num_seeds: int) -> int:
        """Returns as many seeds as give some tasks, each of no more threads than one launch has."""
        return max(1, min(-(-num_seeds // NUM_TASKS), MAX_THREADS // num_lanes))

    @property
    def slice_bytes(self) -> int:
        """How much memory the results of a slice may take."""
        return self.device.free_bytes // SLICE_SHARE


@dataclass
class States:
    """The states of all lanes of some seeds: rows of cells, `padded` for each seed."""

    memory: Memory
    memory_bytes: int
    num_seeds: int
    width: int
    padded: int


class Program:
    """A batch as a kernel, compiled for as many lanes in a thread as its seeds ask for."""

    def __init__(self, batch: Batch, stream: Stream, device: Device, width: int | None = None):
        self.batch, self.device, self.width = batch, device, width
        self.step, self._lock = StepProgram(batch, stream), Lock()
        self._columns = num_columns(batch.dtype)
        self._fixed = _place(device, self._fill(self.step.fixed_table))
        self._row = _place(device, self._fill(self.step.row_table))
        self._kernels: dict[int, LoadedKernel] = {}
        self._lanes: dict[int, Memory] = {}

    def _fill(self, table: Shaped[np.ndarray, "*t columns"]) -> Shaped[np.ndarray, "*t filled"]:
        """Fills the rows of a table up to what one load reads."""
        missing = -table.shape[-1] % self._columns
        return np.pad(table, [(0, 0)] * (table.ndim - 1) + [(0, missing)])

    def _kernel(self, width: int) -> LoadedKernel:
        with self._lock:
            if width not in self._kernels:
                kernel = learning_kernel(self.step, width, self.device.shared_bytes)
                lanes = self.step.pack(self.batch.lanes, self._padded(width))
                self._lanes[width] = _place(self.device, lanes)
                self._kernels[width] = self.device.compile(kernel)
            return self._kernels[width]

    def _padded(self, width: int) -> int:
        return -(-self.batch.num_lanes // width) * width

    def _choose_width(self, num_seeds: int) -> int:
        """Returns the largest width that leaves threads enough and keeps states in registers."""
        words = self.batch.dtype.itemsize // 4 * self.batch.num_state
        for width in WIDTHS:
            if width > 1 and (width > self.batch.num_lanes or width * words > MAX_REGISTERS):
                continue
            kernel = self._kernel(width)
            num_threads = self._padded(width) // width * num_seeds
            is_small = kernel.num_registers <= MAX_REGISTERS and not kernel.local_bytes
            if is_small and num_threads >= kernel.num_resident(BLOCK_SIZES[0]):
                return width
        return WIDTHS[-1]

    def estimate_seconds(self, num_seeds: int, num_steps: int) -> float:
        """Estimates how long the learning takes, with what goes before it."""
        cells = self.batch.num_lanes * num_seeds
        cycles = len(self.step.order) * max(LATENCY, cells / self.device.num_cores)
        return SETUP + num_steps * cycles / self.device.cycles

    def begin(self, seeds: Sequence[int]) -> States:
        """Returns the first states."""
        width = self.width or self._choose_width(len(seeds))
        padded = self._padded(width)
        packed = [self.step.pack(self.batch.initial(seed), padded) for seed in seeds]
        cells = np.stack(packed, axis=1)
        return States(_place(self.device, cells), cells.nbytes, len(seeds), width, padded)

    def advance(
        self, rows: Rows, time: int, chunks: Chunks, states: States, sums: Sums
    ) -> tuple[States, Sums, Diverged, History]:
        """Learns from chunks of rows; see [emphatic.engine.experience.Program]."""
        device, windows = self.device, chunks.num_windows
        cells, lanes = (states.num_seeds, states.padded), slice(self.batch.num_lanes)
        totals = np.zeros((windows, len(self.batch.measures), *cells))
        totals[..., lanes] = sums
        sum_memory = device.allocate(totals.nbytes)
        for window, total in enumerate(totals):
            if total.any():  # what an earlier slice began
                device.upload(total, sum_memory, window * total.nbytes)
        flags = np.empty((windows, *cells), np.uint8)
        flag_memory = device.allocate(flags.nbytes)
        memory = self._make_room(states, windows) if chunks.keeps_states else states.memory
        self._launch(rows, time, chunks, states, [memory, sum_memory, flag_memory])
        num_kept = windows if chunks.keeps_states else 0
        history = np.empty((num_kept, self.batch.num_state, *cells), self.batch.dtype)
        if num_kept:
            size = states.memory_bytes
            device.copy(memory, windows * size, states.memory, size)
            device.download(memory, history, size)
        device.download(sum_memory, totals)
        device.download(flag_memory, flags)
        return states, totals[..., lanes], flags[..., lanes].astype(bool), history[..., lanes]

    def _make_room(self, states: States, num_windows: int) -> Memory:
        """Returns memory that begins with the states, and has room for those after windows."""
        memory = self.device.allocate((num_windows + 1) * states.memory_bytes)
        self.device.copy(states.memory, 0, memory, states.memory_bytes)
        return memory

    def _launch(
        self, rows: Rows, time: int, chunks: Chunks, states: States, results: Sequence[Memory]
    ) -> None:
        """Begins to learn."""
        kernel, device = self._kernel(states.width), self.device
        groups, kept = states.padded // states.width, self.batch.num_state * chunks.keeps_states
        step_table, stride = self._place_steps(rows, time)
        sizes = groups, states.padded, rows.num_seeds, rows.num_steps, stride
        row_blocks = row_table_bytes(self.step) // ALIGNMENT
        placed = [_place(device, part) for part in (chunks.lengths, chunks.windows)]
        tables = [self._fixed, self._row, step_table, self._lanes[states.width]]
        memories = [*placed, rows.memory, *tables, *results]
        addresses = [memory.address for memory in memories]
        arguments = [*sizes, len(chunks.lengths), kept, row_blocks, *addresses]
        num_threads = groups * rows.num_seeds
        kernel.launch(num_threads, _choose_block_size(kernel, num_threads), arguments)

    def _place_steps(self, rows: Rows, time: int) -> tuple[Memory, int]:
        """Returns the table of what changes with time, and how far apart two seeds are in it."""
        table = self.step.tables["step"]
        if table.needs_sample:
            numbers = np.empty((rows.num_seeds, rows.num_steps), UINT32)
            self.device.download(rows.memory, numbers)
            values = np.stack([table.evaluate_steps(row, time) for row in numbers])
            return _place(self.device, self._fill(values)), rows.num_steps
        values = table.evaluate_steps(np.zeros(rows.num_steps, UINT32), time)
        return _place(self.device, self._fill(values)), 0
