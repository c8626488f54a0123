"""Work in short slices on all cores, so that progress can be shown and Ctrl-C answered."""

import os
import time as clock
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from jaxtyping import Int

from .batch import Batch
from .experience import Chunks, Experience, Load, Position, Program, Rows, States

CHUNK = 1024  # steps that are summed in the working type
SLICE = 0.1  # seconds that one slice is meant to take
SLICE_STEPS = 2**18  # and how many it has at most
SLICE_BYTES = 2**26  # of memory that it takes, where tasks have that of the process

ChunkNumbers: TypeAlias = Int[np.ndarray, " chunks"]
"""A whole number for each chunk."""
OnProgress: TypeAlias = Callable[[int, int], None]
"""A callback, called with the number of updates done and the total number."""


def num_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _chunk_lengths(length: int) -> ChunkNumbers:
    """Returns the lengths of as few chunks as possible, which differ by one step at most."""
    return np.diff(np.linspace(0, length, -(-length // CHUNK) + 1).astype(np.int64))


class Windows:
    """The windows of a run, each cut into chunks; the last window may be shorter."""

    def __init__(self, num_steps: int, record_every: int):
        self.ends = np.append(np.arange(record_every, num_steps, record_every), num_steps)
        self.lengths = np.diff(self.ends, prepend=0)
        full, last = _chunk_lengths(record_every), _chunk_lengths(int(self.lengths[-1]))
        self.chunks = np.append(np.tile(full, len(self.ends) - 1), last)
        counts = [len(full)] * (len(self.ends) - 1) + [len(last)]
        self.window_of_chunk = np.repeat(np.arange(len(self.ends)), counts)
        self.ends_window = np.append(np.diff(self.window_of_chunk) > 0, True)


class Results:
    """The results of one job, with the axes (window, measure or number, seed, lane)."""

    def __init__(self, job: "Job", windows: Windows, num_seeds: int, record_weights: bool):
        shape, count = (num_seeds, job.batch.num_lanes), len(windows.ends)
        self.sums = np.zeros((count, len(job.batch.measures), *shape))
        self.diverged = np.zeros((count, *shape), bool)
        numbers = job.batch.num_state if record_weights else 0
        self.weights = np.zeros((count, numbers, *shape), job.batch.dtype)


@dataclass
class Job:
    """A batch, compiled by its engine."""

    learner: str
    target: int  # its number among all targets
    batch: Batch
    program: Program
    experience: Experience
    results: Results | None = None


def step_bytes(jobs: Sequence[Job]) -> int:
    """Returns how much memory a step of a seed takes in a task of these jobs."""
    return jobs[0].experience.step_bytes + max(job.program.step_bytes for job in jobs)


def seed_load(jobs: Sequence[Job]) -> Load:
    """Returns what one seed takes in a task of these jobs, which run one after the other."""
    batches = [job.batch for job in jobs]
    states = sum(batch.state_bytes for batch in batches)
    results = max(batch.window_bytes + 2 * batch.state_bytes for batch in batches)
    rows = CHUNK * step_bytes(jobs)
    seconds = sum(job.program.step_seconds for job in jobs)
    num_lanes = sum(batch.num_lanes for batch in batches)
    return Load(num_lanes, states + results + rows, rows, CHUNK * seconds)


@dataclass
class Task:
    """Jobs that share the experience of a block of seeds, and how far they are."""

    experience: Experience
    jobs: list[Job]
    first: int  # the number of the first seed among all
    seeds: list[int]
    slice_bytes: int = SLICE_BYTES
    chunk: int = 0
    time: int = 0
    chunk_seconds: float = SLICE  # as measured last
    position: Position = None
    states: list[States] = field(default_factory=list[States])

    def advance(self, windows: Windows) -> int:
        """Runs a slice, and returns the number of updates made."""
        start = clock.perf_counter()
        if self.position is None:
            self.position = self.experience.begin(self.seeds)
            self.states = [job.program.begin(self.seeds) for job in self.jobs]
        chunks = slice(self.chunk, self.chunk + self._num_chunks(windows))
        lengths = np.ascontiguousarray(windows.chunks[chunks])
        num_steps = int(lengths.sum())
        self.position, rows = self.experience.advance(
            self.seeds, self.time, self.position, num_steps
        )
        numbers = windows.window_of_chunk[chunks]
        for number, job in enumerate(self.jobs):
            self.states[number] = self._learn(job, self.states[number], rows, lengths, numbers)
        self.time += num_steps
        self.chunk = min(chunks.stop, len(windows.chunks))
        self.chunk_seconds = (clock.perf_counter() - start) / len(lengths)
        if self.chunk == len(windows.chunks):
            self.position, self.states = None, []  # whose memory others need
        return num_steps * len(self.seeds) * sum(job.batch.num_lanes for job in self.jobs)

    def _learn(
        self, job: Job, states: States, rows: Rows, lengths: ChunkNumbers, numbers: ChunkNumbers
    ) -> States:
        """Runs a job's part of a slice; a window that it does not end is recorded again later."""
        assert job.results is not None
        results, seeds = job.results, slice(self.first, self.first + len(self.seeds))
        window = slice(int(numbers[0]), int(numbers[-1]) + 1)
        chunks = Chunks(lengths, numbers - numbers[0], results.weights.shape[1] > 0)
        before = results.sums[window, :, seeds]
        states, sums, diverged, history = job.program.advance(
            rows, self.time, chunks, states, before
        )
        results.sums[window, :, seeds] = sums
        results.diverged[window, seeds] = diverged
        if chunks.keeps_states:
            results.weights[window, :, seeds] = history
        return states

    @property
    def num_bytes(self) -> int:
        """How much memory it takes, with a slice of one chunk."""
        return len(self.seeds) * seed_load(self.jobs).num_bytes

    def _num_chunks(self, windows: Windows) -> int:
        results = max(job.batch.window_bytes + job.batch.state_bytes for job in self.jobs)
        chunk_bytes = results + step_bytes(self.jobs) * int(windows.chunks.max())
        by_memory = self.slice_bytes // (len(self.seeds) * chunk_bytes)
        by_steps = SLICE_STEPS // int(windows.chunks.max())
        limit = max(1, min(int(SLICE / self.chunk_seconds), by_memory, by_steps))
        return 1 << (limit.bit_length() - 1)  # few lengths, since each is compiled anew


def plan(tasks: Sequence[Task]) -> list[list[Task]]:
    """Returns tasks in parts that fit into memory, and sets how much a slice of each may take.

    Where tasks have the memory of the process, they are all in the first part.
    """
    parts, used = [[task for task in tasks if task.experience.memory_bytes is None]], 0
    for task in tasks:
        limit = task.experience.memory_bytes
        if limit is None:
            continue
        if used and used + task.num_bytes > limit:
            parts.append([])
            used = 0
        parts[-1].append(task)
        used += task.num_bytes
        limited = [task for task in parts[-1] if task.experience.memory_bytes is not None]
        for each in limited:
            each.slice_bytes = (limit - used) // len(limited)
    return parts


def run_tasks(
    tasks: Sequence[Task], windows: Windows, num_threads: int, on_progress: OnProgress | None
) -> tuple[int, bool]:
    """Runs tasks in slices; returns how many windows are finished, and whether Ctrl-C came."""
    lanes = sum(len(task.seeds) * job.batch.num_lanes for task in tasks for job in task.jobs)
    done, total, interrupted = 0, lanes * int(windows.ends[-1]), False
    pending: dict[Future[int], Task] = {}
    with ThreadPoolExecutor(num_threads) as pool:
        try:
            for part in plan(tasks):
                for task in part:
                    pending[pool.submit(task.advance, windows)] = task
                while pending:
                    finished, _ = wait(pending, timeout=SLICE, return_when=FIRST_COMPLETED)
                    for future in finished:
                        task = pending.pop(future)
                        done += future.result()
                        if task.chunk < len(windows.chunks):
                            pending[pool.submit(task.advance, windows)] = task
                    if on_progress is not None:
                        on_progress(done, total)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            for future in pending:
                future.cancel()
    slowest = min(task.chunk for task in tasks)
    return int(windows.ends_window[:slowest].sum()), interrupted
