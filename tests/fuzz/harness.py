"""Runs inputs in several processes that live long, and replaces those that hang or end."""

import itertools
import multiprocessing
import os
import shutil
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing.connection import wait
from pathlib import Path

from .judge import find_place, OURS, Outcome
from .runner import SECONDS, work

WAITING = 300.0  # seconds without an answer, on a busy machine, after which an input hangs
RENEWED_EVERY = 2000  # inputs, after which a process is replaced


class _Worker:
    """A process that runs commands, with the number that it is at."""

    def __init__(self, folder: Path, seed: int):
        self.folder, self.number, self.since, self.count = folder, -1, time.monotonic(), 0
        folder.mkdir(parents=True)
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, folder, seed), daemon=True)
        self.process.start()
        theirs.close()

    def send(self, number: int) -> None:
        self.number, self.since, self.count = number, time.monotonic(), self.count + 1
        self.connection.send(number)

    def is_late(self) -> bool:
        """Whether it waits for something, rather than compute; at first it has much to import."""
        return time.monotonic() - self.since > (WAITING if self.number >= 0 else 5 * WAITING)

    def stop(self) -> None:
        """Ends a process, which says where it is."""
        os.kill(self.process.pid or 0, signal.SIGXCPU)
        self.process.join(5.0)

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def describe_end(self) -> tuple[str, str]:
        """Says how the process ended, and where it was."""
        self.process.join(1.0)
        code = self.process.exitcode or 0
        ending = signal.Signals(-code).name if code < 0 else f"status {code}"
        ending = f"more than {SECONDS} s" if code == -signal.SIGXCPU else f"ends by {ending}"
        try:
            text = (self.folder / "err").read_text(errors="replace")
        except OSError:
            text = ""
        files = [line for line in text.splitlines() if line.strip().startswith('File "')]
        return f"{ending} at {find_place(next((f for f in files if OURS in f), ''))}", text[:4000]


def run(seed: int, numbers: Iterable[int], num_workers: int, base: Path) -> Iterator[Outcome]:
    """Runs inputs by their numbers in several processes, and yields what each of them did.

    A process that hangs or ends is replaced, and its input has failed."""
    pending, folders = deque(numbers), (base / str(n) for n in itertools.count())
    workers = [_Worker(next(folders), seed) for _ in range(num_workers)]
    try:
        while workers:
            ready = wait([worker.connection for worker in workers], timeout=1.0)
            for worker in list(workers):
                outcome, has_ended = None, False
                if worker.connection in ready:
                    try:
                        outcome = worker.connection.recv()
                    except (EOFError, OSError):
                        has_ended = True
                elif worker.is_late():
                    worker.stop()
                    has_ended = True
                else:
                    continue
                if has_ended:
                    outcome = _judge_end(worker)
                if outcome is not None:
                    yield outcome
                if pending and not has_ended and worker.count < RENEWED_EVERY:
                    worker.send(pending.popleft())
                    continue
                worker.close()
                workers.remove(worker)
                if pending:
                    workers.append(_Worker(next(folders), seed))
    finally:
        for worker in workers:
            worker.close()


def _judge_end(worker: _Worker) -> Outcome:
    failure, detail = worker.describe_end()
    if worker.number < 0:
        raise RuntimeError(f"the process did not begin: {failure}\n{detail}")
    return Outcome(worker.number, "?", "?", failures=[failure], detail=detail)
