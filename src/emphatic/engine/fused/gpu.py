"""The fused engine on a GPU: streams in one thread for each seed, learners in threads of lanes.

What the driver of a GPU does is behind the protocol of `device.py`; `cuda.py` has NVIDIA's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Shaped

from ..._work import describe_bytes
from ..batch import Batch
from ..experience import Chunks, Diverged, History, Load, Sums
from ..stream import Stream
from ..tasks import SLICE
from . import cpu
from .device import Device, DeviceError, LoadedKernel, Memory
from .estimate import gpu_cycles, gpu_throughput
from .kernels import learning_kernel, num_columns, row_table_bytes, walking_kernel, words_kernel
from .llvm import ALIGNMENT
from .loops import UINT32
from .program import StepProgram

WIDTHS = (1, 2, 4)  # lanes of a thread
MAX_REGISTERS = 255  # of a thread
NEARLY = 1.1  # times as many cycles
BLOCK_SIZES = (128, 256, 512, 64, 32)  # threads of a block, the preferred ones first
MAX_THREADS = 2**31  # of a launch
MIN_LANES = 2**16  # of a task: fewer are not cut in two
NUM_TASKS = 2  # that take turns: one is drawn and copied while the other one learns


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
    """The streams of several seeds, drawn on a GPU.

    Random words depend on seed and time alone: each is made by a thread of its own. Then one thread
    for each seed walks with them through the chain.
    """

    step_bytes = 3 * UINT32.itemsize  # two words and a row

    def __init__(self, stream: Stream, device: Device):
        self.device, self._first = device, cpu.Experience(stream)
        tables = self._first.arrays
        self._tables = [_place(device, table) for table in tables]
        word = jax.ShapeDtypeStruct((), UINT32)
        shapes = jax.tree.map(lambda t: jax.ShapeDtypeStruct(t.shape, t.dtype), stream.tables)
        words = jax.make_jaxpr(stream.words)((word, word), word)
        walk = jax.make_jaxpr(stream.walk)(shapes, word, (word, word))
        self._make_words = device.compile(words_kernel(words))
        self._walk = device.compile(walking_kernel(walk, len(tables)))

    def begin(self, seeds: Sequence[int]) -> Position:
        """Returns the first position of each seed."""
        halves = np.array([(seed & 0xFFFFFFFF, seed >> 32) for seed in seeds], UINT32).T
        return Position(*(_place(self.device, a) for a in (*halves, self._first.begin(seeds))))

    def advance(
        self, seeds: Sequence[int], time: int, position: Position, num_steps: int
    ) -> tuple[Position, Rows]:
        """Begins to draw the next steps, and returns where they will be."""
        count = len(seeds) * num_steps
        words, rows = (self.device.allocate(n * UINT32.itemsize) for n in (2 * count, count))
        sizes, (low, high, pairs) = (len(seeds), num_steps), (part.address for part in position)
        self._make_words.launch(
            count,
            _choose_block_size(self._make_words, count),
            [*sizes, time, low, high, words.address],
        )
        arrays = [words.address, pairs, rows.address, *(table.address for table in self._tables)]
        self._walk.launch(len(seeds), min(BLOCK_SIZES), [*sizes, *arrays])  # over the whole GPU
        return position, Rows(rows, len(seeds), num_steps)

    @property
    def memory_bytes(self) -> int:
        """Half of what is free, so that a second process finds room."""
        return self.device.free_bytes // 2

    def require_memory(self, num_bytes: int) -> None:
        """A [DeviceError] if the memory that is free has no room for so much."""
        free = self.device.free_bytes
        if num_bytes > free:
            raise DeviceError(
                f"device: this takes {describe_bytes(num_bytes)} of the GPU's memory at least, of "
                f"which {describe_bytes(free)} are free; wait until others have finished, or take "
                "fewer lanes; device='cpu' needs none"
            )

    def seeds_per_task(self, num_seeds: int, load: Load) -> int:
        """Returns how many seeds give two tasks at least, with slices that fit and are short."""
        self.require_memory(load.num_bytes)
        by_memory = self.memory_bytes // (NUM_TASKS * load.num_bytes)
        by_time = int(SLICE / load.chunk_seconds)
        limits = -(-num_seeds // NUM_TASKS), by_memory, by_time, MAX_THREADS // load.num_lanes
        return max(1, min(limits))

    def lanes_per_task(self, num_lanes: int, num_seeds: int, load: Load) -> int:
        """Returns how many of the lanes give tasks of which two fit, and two for a single seed."""
        share = num_lanes if num_seeds >= NUM_TASKS else max(MIN_LANES, -(-num_lanes // NUM_TASKS))
        lane_bytes = (load.num_bytes - load.row_bytes) // load.num_lanes
        fitting = (self.memory_bytes // NUM_TASKS - load.row_bytes) // max(1, lane_bytes)
        if fitting >= min(share, load.num_lanes):
            return share
        return 1 << max(0, fitting.bit_length() - 1)  # with room for more programs


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
        self._row = _place(device, self._fill(self.step.row_table))
        self._kernels: dict[int, LoadedKernel] = {}
        self._lanes: dict[int, Memory] = {}
        self.step_bytes = self.step.table_width("step", self._columns) * batch.dtype.itemsize
        self.step_seconds = gpu_throughput(device, self.step, 1, batch.num_lanes) / device.cycles

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

    def choose_width(self, num_seeds: int) -> int:
        """Compiles, and returns how many lanes of a thread are fast; see [gpu_cycles].

        Of widths that are nearly as fast as the fastest, it is the least, which leaves most threads
        to wait for each other's loads. More than one are tried only if threads are left for every
        core, and their states fit the registers. A kernel that keeps numbers in local memory counts
        only if there is no other.
        """
        batch, cores = self.batch, self.device.num_cores
        words = max(1, batch.dtype.itemsize // 4 * batch.num_state)
        limit = min(batch.num_lanes, batch.num_lanes * num_seeds // cores, MAX_REGISTERS // words)
        kernels = {n: self._kernel(n) for n in WIDTHS if n <= max(1, limit)}
        fitting = [n for n, kernel in kernels.items() if not kernel.local_bytes]
        cycles: dict[int, float] = {}
        for width in fitting or WIDTHS[:1]:
            num_threads = self._padded(width) // width * num_seeds
            block_size = _choose_block_size(kernels[width], num_threads)
            resident = kernels[width].num_resident(block_size)
            cycles[width] = gpu_cycles(self.device, self.step, width, num_threads, resident)
        return min(n for n in cycles if cycles[n] <= NEARLY * min(cycles.values()))

    def begin(self, seeds: Sequence[int]) -> States:
        """Returns the first states."""
        width = self.width or self.choose_width(len(seeds))
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
        sum_memory = device.allocate(totals.nbytes)
        if sums[0].any():  # what an earlier slice began
            totals[0, ..., lanes] = sums[0]
            device.upload(totals[0], sum_memory)
        flags = np.empty((windows, *cells), bool)
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
        return states, totals[..., lanes], flags[..., lanes], history[..., lanes]

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
        tables = [self._row, step_table, self._lanes[states.width]]
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
