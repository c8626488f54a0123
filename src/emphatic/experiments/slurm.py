"""Jobs in SLURM's queue: those of a run have one name, by which they are found and cancelled."""

import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex

COMMANDS = ("sbatch", "squeue", "scancel")
_LOOK_EVERY = 10.0  # seconds, at a queue that many share
_TIMEOUT = 60.0  # seconds in which a command answers
_MAX_LOST = 3  # jobs, or as many as there are, that end without a worker in a row
_LOST = (
    "cluster: the jobs of SLURM end before a worker comes; what they printed says why: slurm-*.out "
    "in this folder, or in jobqueue.slurm.log-directory of Dask's configuration"
)


class _NoAnswerError(Exception):
    """What SLURM says instead of doing what it is asked to."""


@dataclass
class Jobs:
    """The jobs of a run: `number` of them run a script, and those that end are replaced.

    SLURM itself starts a job again when a node fails or where it is preempted. So what counts is
    the queue, and not which workers come and go.
    """

    script: str
    number: int
    on_message: Callable[[str], None]
    name: str = field(default_factory=lambda: f"emphatic-{token_hex(4)}")
    state: str = ""
    _num_queued: int = 0
    _num_lost: int = 0  # without a worker, in a row
    _had_workers: bool = False  # since the last look
    _next_look: float = 0.0
    _has_complained: bool = False

    def renew(self, has_workers: bool) -> None:
        """Replaces jobs that have ended, if it is time to look at the queue again.

        A `ValueError` says why there is none: SLURM refuses them, or they end without a worker.
        """
        self._had_workers |= has_workers
        if time.monotonic() < self._next_look:
            return
        try:
            if self._num_queued:
                self._look()
            while self._num_queued < self.number:
                _call("sbatch", f"--job-name={self.name}", text=self.script)
                self._num_queued += 1
        except _NoAnswerError as error:
            if not self._num_queued:
                raise ValueError(f"cluster: SLURM takes no job: {error}") from None
            if not self._has_complained:
                self._has_complained = True
                self.on_message(f"{self._num_queued} of {self.number} jobs are queued: {error}")
        self._next_look = time.monotonic() + _LOOK_EVERY

    def _look(self) -> None:
        """Counts the jobs in the queue, and those that ended without a worker."""
        lines = _call("squeue", "--noheader", f"--name={self.name}", "--format=%T (%r)")
        states = [line for line in lines.splitlines() if not line.startswith("COMPLETING")]
        num_ended = self._num_queued - len(states)
        self._num_lost = 0 if self._had_workers else self._num_lost + max(0, num_ended)
        self._num_queued, self._had_workers = len(states), False
        counts = Counter(state.removesuffix(" (None)") for state in states)
        self.state = ", ".join(f"{count} {state}" for state, count in counts.items())
        if self._num_lost >= max(self.number, _MAX_LOST):
            raise ValueError(_LOST)

    def cancel(self) -> None:
        """Cancels all of them, also one whose submission was interrupted."""
        try:
            _call("scancel", f"--name={self.name}")
        except _NoAnswerError as error:
            self.on_message(f"jobs may be left: run scancel --name={self.name} ({error})")


def _call(*command: str, text: str = "") -> str:
    """Runs a command, out of reach of Ctrl-C, and returns what it prints."""
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise _NoAnswerError(f"{command[0]} does not answer") from None
    if done.returncode:
        reasons = [line.partition("error: ")[2] or line for line in done.stderr.splitlines()]
        raise _NoAnswerError("; ".join(reasons) or f"{command[0]} fails")
    return done.stdout
