"""Work in short slices on all cores, so that progress can be shown and Ctrl-C answered."""

import time as clock
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .sweep import Sweep

CHUNK = 1024  # steps that are summed in the working type
SLICE = 0.1  # seconds that one slice is meant to take
SLICE_STEPS, SLICE_BYTES = 2**18, 2**26  # and what it may hold in memory

Progress = Callable[[int, int], None]
"""Called with the number of updates done and the number of all."""


def _chunks(length: int) -> np.ndarray:
    """The lengths of as few chunks as possible, which differ by one step at most."""
    return np.diff(np.linspace(0, length, -(-length // CHUNK) + 1).astype(np.int64))


class Windows:
    """The windows of a run, each cut into chunks; the last window may be shorter."""

    def __init__(self, num_steps: int, record_every: int):
        self.ends = np.append(np.arange(record_every, num_steps, record_every), num_steps)
        self.lengths = np.diff(self.ends, prepend=0)
        each, last = _chunks(record_every), _chunks(int(self.lengths[-1]))
        self.chunks = np.append(np.tile(each, len(self.ends) - 1), last)
        counts = [len(each)] * (len(self.ends) - 1) + [len(last)]
        self.of_chunk = np.repeat(np.arange(len(self.ends)), counts)
        self.closes = np.append(np.diff(self.of_chunk) > 0, True)


class Results:
    """What one job measures, with axes (window, measure, seed, lane)."""

    def __init__(self, job: "Job", windows: Windows, num_seeds: int, keep_weights: bool):
        shape = (num_seeds, job.sweep.num_lanes)
        count = len(windows.ends)
        self.sums = np.zeros((count, len(job.sweep.measures), *shape))
        self.diverged = np.zeros((count, *shape), bool)
        numbers = job.sweep.num_state if keep_weights else 0
        self.weights = np.zeros((count, numbers, *shape), job.sweep.dtype)


@dataclass
class Job:
    """A sweep on its engine."""

    learner: str
    target: int
    sweep: Sweep
    program: Any
    experience: Any
    results: Results | None = None


@dataclass
class Task:
    """Jobs that share the experience of a block of seeds, and how far they are."""

    experience: Any
    jobs: list[Job]
    first: int  # the place of the first seed among all
    seeds: list[int]
    chunk: int = 0
    time: int = 0
    seconds: float = SLICE  # for a chunk, as measured last
    pairs: Any = None
    states: list[Any] = field(default_factory=list)

    def advance(self, windows: Windows) -> int:
        """Runs a slice, and returns the number of updates made."""
        began = clock.perf_counter()
        if self.pairs is None:
            self.pairs = self.experience.begin(self.seeds)
            self.states = [job.program.begin(self.seeds) for job in self.jobs]
        here = slice(self.chunk, self.chunk + self._num_chunks(windows))
        lengths = np.ascontiguousarray(windows.chunks[here])
        steps = int(lengths.sum())
        self.pairs, rows = self.experience.advance(self.seeds, self.time, self.pairs, steps)
        for number, job in enumerate(self.jobs):
            found = job.program.advance(rows, self.time, lengths, self.states[number])
            self.states[number] = found[0]
            self._record(job, windows, here, found[1], found[2])
        self.time += steps
        self.chunk = min(here.stop, len(windows.chunks))
        self.seconds = (clock.perf_counter() - began) / len(lengths)
        return steps * len(self.seeds) * sum(job.sweep.num_lanes for job in self.jobs)

    def _num_chunks(self, windows: Windows) -> int:
        numbers = max(job.sweep.num_state * job.sweep.num_lanes for job in self.jobs)
        by_memory = SLICE_BYTES // (8 * len(self.seeds) * (numbers + 1))
        by_steps = SLICE_STEPS // int(windows.chunks.max())
        most = max(1, min(int(SLICE / self.seconds), by_memory, by_steps))
        return 1 << (most.bit_length() - 1)  # few lengths, since each is compiled anew

    def _record(self, job: Job, windows: Windows, here: slice, sums: Any, states: Any) -> None:
        assert job.results is not None
        seeds = slice(self.first, self.first + len(self.seeds))
        of, closes = windows.of_chunk[here], windows.closes[here]
        for window, total in zip(of, sums, strict=True):  # in order, however slices are cut
            job.results.sums[window, :, seeds] += total
        closed = states[closes]
        job.results.diverged[of[closes], seeds] = ~np.isfinite(closed).all(axis=1)
        if job.results.weights.shape[1]:
            job.results.weights[of[closes], :, seeds] = closed


def work(
    tasks: Sequence[Task], windows: Windows, num_threads: int, progress: Progress | None
) -> tuple[int, bool]:
    """Runs all tasks, each a slice at a time in turn, until the end or Ctrl-C.

    Returns the number of finished windows, and whether it was Ctrl-C that came first.
    """
    lanes = sum(len(task.seeds) * job.sweep.num_lanes for task in tasks for job in task.jobs)
    done, total, interrupted = 0, lanes * int(windows.ends[-1]), False
    pending: dict[Future[int], Task] = {}
    with ThreadPoolExecutor(num_threads) as pool:
        try:
            for task in tasks:
                pending[pool.submit(task.advance, windows)] = task
            while pending:
                finished, _ = wait(pending, timeout=SLICE, return_when=FIRST_COMPLETED)
                for future in finished:
                    task = pending.pop(future)
                    done += future.result()
                    if task.chunk < len(windows.chunks):
                        pending[pool.submit(task.advance, windows)] = task
                if progress is not None:
                    progress(done, total)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            for future in pending:
                future.cancel()
    behind = min(task.chunk for task in tasks)
    return int(windows.closes[:behind].sum()), interrupted
