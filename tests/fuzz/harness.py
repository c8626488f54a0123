"""Runs inputs in processes that live long, and judges what each of them did.

A command may end in two ways: with status 0 (or 1, where the documentation says so), or with status
2 and one line on standard error. Whatever else happens is a failure of the input, described by one
text that is the same for all inputs that fail in one place.
"""

import contextlib
import faulthandler
import fcntl
import importlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeAlias

from . import seeds
from .generate import Files, generate, Input, Odd

SECONDS = 20  # of processor time, after which an input hangs
WAITING = 60.0  # seconds without an answer, after which it hangs without using the processor
GIBIBYTES = 4
RENEWED_EVERY = 2000  # inputs, after which a process is replaced
ONES = ("certify", "status", "sweep")  # whose exit status may be 1
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.link", "os.symlink")
CHANGES = (*CHANGES, "os.chmod", "os.chown", "os.utime", "shutil.rmtree", "shutil.move")
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "socket.connect", "socket.bind", "os.fork")
FORBIDDEN = (*FORBIDDEN, "pickle.find_class", "code.__new__")

Event: TypeAlias = tuple[str, str]


@dataclass
class Outcome:
    """What an input did: its failures, if any, and what it took."""

    number: int
    format: str
    command: str
    status: int | None = None
    seconds: float = 0.0
    peak: int = 0  # bytes
    warnings: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])
    detail: str = ""


# In the process that runs commands


def _work(connection: Connection, base: Path, seed: int) -> None:
    """Runs the inputs whose numbers arrive, until none arrives."""
    runner = _Runner(base, seed)
    connection.send(None)
    while (number := connection.recv()) is not None:
        connection.send(runner.run(number))


class _Runner:
    """A process that runs commands: its folder, its outputs, and what it has been seen to do."""

    def __init__(self, base: Path, seed: int):
        self.seed, self.base, self.scratch = seed, base, base / "outside" / "scratch"
        for name in ("seeds", "home", "temporary", "outside"):
            (base / name).mkdir()
        os.environ |= {"HOME": str(base / "home"), "MPLCONFIGDIR": str(base / "home")}
        os.environ |= {"TMPDIR": str(base / "temporary"), "MPLBACKEND": "Agg", "COLUMNS": "120"}
        tempfile.tempdir = str(base / "temporary")
        sys.dont_write_bytecode = True
        self.outputs = [open(base / name, "w+b", 0) for name in ("out", "err")]
        for n, file in enumerate(self.outputs, 1):
            os.dup2(file.fileno(), n)
        sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", closefd=False) for n in (1, 2))
        faulthandler.enable(self.outputs[1])
        faulthandler.register(signal.SIGXCPU, self.outputs[1], chain=True)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.seeds = seeds.make(base / "seeds")
        _load_everything()
        self.events: list[Event] = []
        self.watched = False
        sys.addaudithook(self.watch)
        _limit_memory()

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Remembers what is written outside of the folder, imported from it, or executed."""
        if not self.watched:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITING and not isinstance(path, int):
                self.note(event, path)
        elif event in CHANGES:
            self.note(event, arguments[0])
            if event in ("os.rename", "os.link"):
                self.note(event, arguments[1])
        elif event == "import" and str(arguments[0]).partition(".")[0] == "canary":
            self.events.append((event, "canary"))
        elif event == "subprocess.Popen" and arguments[1][:1] != ["git"]:
            self.events.append((event, str(arguments[1])))
        elif event in FORBIDDEN:
            self.events.append((event, str(arguments)[:80]))

    def note(self, event: str, path: Any) -> None:
        """Remembers what is written, unless it is in the folder of the input."""
        if isinstance(path, int):
            return
        try:
            folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
            real = os.path.join(os.path.realpath(folder), name)
            real = os.path.realpath(real) if event in ("open", "os.truncate") else real
        except (ValueError, OSError):
            return
        allowed = (f"{self.scratch}/", f"{self.base}/home/", f"{self.base}/temporary/")
        if not real.startswith(allowed) and real not in (os.devnull, str(self.scratch)):
            self.events.append((event, real))

    def run(self, number: int) -> Outcome:
        """Runs an input in a fresh folder, and judges what it did."""
        case = generate(self.seed, number, self.seeds)
        outcome = Outcome(number, case.format, " ".join(case.arguments[:1])[:20])
        for file in self.outputs:
            file.seek(0)
            file.truncate()
        with _materialised(case.files, self.scratch):
            os.chdir(self.scratch)
            self.events.clear()
            begun, used = time.monotonic(), time.process_time()
            seconds = int(used) + SECONDS + 1
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
            self.watched = True
            outcome.status, error = _call(case.arguments)
            self.watched = False
            outcome.seconds = time.monotonic() - begun
            out, err = (self.read(file) for file in self.outputs)
            failures = [*_judge_texts(case, outcome, out, err, error)]
            failures += [f"{event} of {target}" for event, target in sorted(set(self.events))]
            failures += _judge_files(case, self.scratch)
            os.chdir(self.base)
        outcome.peak = _peak()
        if outcome.peak > (GIBIBYTES + 1) * 2**30:
            failures.append(f"peak memory of {outcome.peak / 2**30:.1f} GiB")
        outcome.failures = failures
        outcome.detail = error or err[:1000]
        return outcome

    def read(self, file: Any) -> str:
        """Reads what a command wrote to a standard file."""
        file.seek(0)
        return file.read().decode(errors="replace")


def _load_everything() -> None:
    """Imports what commands import where they need it, so that no input pays for it."""
    import jax
    import matplotlib.figure
    import tyro
    import xarray

    from emphatic import deep, figures, report
    from emphatic.deep.training import train

    _ = matplotlib.figure, tyro, xarray, deep, figures, report, train
    with contextlib.suppress(ImportError):
        importlib.import_module("gymnasium")
        importlib.import_module("mujoco")  # which starts programs
    jax.devices()


def _limit_memory() -> None:
    """From now on at most so many bytes more can be allocated, where the system can tell."""
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        size = pages * resource.getpagesize() + GIBIBYTES * 2**30
        resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))


def _peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _call(arguments: tuple[str, ...]) -> tuple[int | None, str]:
    """Calls the command; returns its status, or None and the traceback of what it did not catch."""
    from emphatic import cli

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            status = cli.main(arguments)
        except SystemExit as stop:  # tyro, after the help
            status = stop.code or 0
        except BaseException:
            return None, traceback.format_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
    return (status, "") if isinstance(status, int) else (None, f"SystemExit: {status!r}")


@contextlib.contextmanager
def _materialised(files: Files, folder: Path) -> Iterator[None]:
    """Makes the files of an input in an empty folder, which is removed at the end."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "canary.py").write_text("open('imported', 'w').close()\nf = lambda *_: None\n")
    with contextlib.ExitStack() as held:
        for name, content in files.items():
            with contextlib.suppress(OSError):  # two that exclude each other: the first one stays
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, bytes):
                    path.write_bytes(content)
                else:
                    _make_odd(path, content, held)
        yield
    shutil.rmtree(folder, ignore_errors=True)


def _make_odd(path: Path, odd: Odd, held: contextlib.ExitStack) -> None:
    match odd.kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(odd.target)
        case _:
            path.write_bytes(odd.data)
            fcntl.flock(held.enter_context(open(path)), fcntl.LOCK_EX)


# What is right


def _judge_texts(case: Input, outcome: Outcome, out: str, err: str, error: str) -> Iterator[str]:
    """Says what is wrong with the exit status and with what was printed."""
    lines = err.splitlines()
    outcome.warnings = [line for line in lines if line.startswith("emphatic: warning: ")]
    lines = [line for line in lines if not line.startswith("emphatic: warning: ")]
    command = case.arguments[0] if case.arguments else ""
    if error:
        yield describe_traceback(error)
    elif "Traceback" in err or "Traceback" in out:
        yield f"prints {describe_traceback(err + out)}"
    elif outcome.status not in (0, 1, 2):
        yield f"exit status {outcome.status}"
    elif outcome.status == 1 and command not in ONES:
        yield f"exit status 1 of {command}"
    elif outcome.status == 2 and len(lines) != 1:
        yield f"{len(lines)} lines on standard error"
    elif outcome.status == 2 and not lines[0].startswith("emphatic: "):
        yield f"not a line of ours: {lines[0][:40]!r}"
    elif outcome.status == 2 and len(lines[0]) > 4000:
        yield f"a line of {len(lines[0]) // 1000} thousand letters"
    elif outcome.status == 0 and "--json" in case.arguments and command != "help":
        try:
            if not {"--help", "-h"} & set(case.arguments):
                json.loads(out, parse_constant=lambda name: 1 / 0)
        except (ValueError, ZeroDivisionError):
            yield f"what {command} --json prints is not JSON"


def describe_traceback(text: str) -> str:
    """The error of a traceback and the last place of ours in it."""
    lines = text.strip().splitlines()
    places = [line.strip() for line in lines if line.strip().startswith('File "')]
    ours = [place for place in places if "/emphatic/" in place] or places or ["?"]
    path, _, rest = ours[-1].removeprefix('File "').partition('", line ')
    number = rest.partition(",")[0]
    last = next((line for line in reversed(lines) if line[:1].strip()), "?")
    return f"{last.partition(':')[0][:80]} at {path.rpartition('/emphatic/')[2]}:{number}"


def _judge_files(case: Input, folder: Path) -> Iterator[str]:
    """Says which files were changed that are only read, and which were left behind."""
    for name, content in case.files.items():
        is_written = any(part in ("*", name.partition("/")[0]) for part in case.written)
        if isinstance(content, bytes) and not is_written:
            path = folder / name
            with contextlib.suppress(OSError):
                if path.is_symlink() or path.read_bytes() != content:
                    yield f"changed {_shape(name)}"
                continue
            if not _is_hidden(name, case.files):
                yield f"removed {_shape(name)}"
    if (folder / "imported").exists():
        yield "executed canary.py"
    given = {str(folder / name) for name in case.files}
    for path in folder.rglob("*.part"):
        if str(path) not in given and not any(str(p) in given for p in path.parents):
            yield f"left {_shape(path.name)}"


def _is_hidden(name: str, files: Files) -> bool:
    """Whether a file could not be made, as what should be its folder is another file."""
    parts = name.split("/")
    above = ["/".join(parts[:n]) for n in range(1, len(parts))]
    return any(folder in files for folder in above) or any(f.startswith(f"{name}/") for f in files)


def _shape(name: str) -> str:
    return f"*.{name.rpartition('.')[2]}"


# In the process that watches them


class _Worker:
    """A process that runs commands, with the number that it is at."""

    def __init__(self, folder: Path, seed: int):
        self.folder, self.number, self.since, self.count = folder, -1, time.monotonic(), 0
        folder.mkdir()
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, folder, seed), daemon=True)
        self.process.start()
        theirs.close()

    def send(self, number: int | None) -> None:
        self.number, self.since, self.count = -1 if number is None else number, time.monotonic(), self.count + 1
        self.connection.send(number)

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def describe_end(self) -> tuple[str, str]:
        """Says how the process ended, and where it was."""
        self.process.join(1.0)
        code = self.process.exitcode
        with contextlib.suppress(OSError):
            err = (self.folder / "err").read_text(errors="replace")
            files = [line for line in err.splitlines() if line.strip().startswith('File "')]
            ours = next((line for line in files if "/emphatic/" in line), "?")
            path, _, rest = ours.strip().removeprefix('File "').partition('", line ')
            place = f"{path.rpartition('/emphatic/')[2]}:{rest.partition(' ')[0]}"
            if code == -signal.SIGXCPU:
                return f"more than {SECONDS} s at {place}", err[:4000]
            return f"ended by {signal.Signals(-(code or 0)).name} at {place}" if code and code < 0 else (
                f"ended with {code} at {place}"
            ), err[:4000]
        return f"ended with {code}", ""


def run(seed: int, numbers: Iterable[int], num_workers: int, folder: Path) -> Iterator[Outcome]:
    """Runs inputs by their numbers in several processes, and yields what each of them did.

    A process that hangs or ends is replaced, and its input has failed."""
    pending = iter(numbers)
    names = iter(range(10**9))
    workers = [_Worker(folder / str(next(names)), seed) for _ in range(num_workers)]
    try:
        while workers:
            ready = wait([worker.connection for worker in workers], timeout=1.0)
            for worker in list(workers):
                outcome, ended = None, False
                if worker.connection in ready:
                    try:
                        outcome = worker.connection.recv()
                    except (EOFError, OSError):
                        ended = True
                elif time.monotonic() - worker.since > WAITING + (120.0 if worker.number < 0 else 0):
                    os.kill(worker.process.pid or 0, signal.SIGXCPU)  # it says where it is
                    worker.process.join(5.0)
                    ended = True
                else:
                    continue
                if ended:
                    outcome = _ended(worker, seed)
                if outcome is not None:
                    yield outcome
                number = next(pending, None)
                if ended or number is None or worker.count > RENEWED_EVERY:
                    worker.close()
                    workers.remove(worker)
                    if number is None:
                        continue
                    pending = _before(number, pending)
                    workers.append(_Worker(folder / str(next(names)), seed))
                else:
                    worker.send(number)
    finally:
        for worker in workers:
            worker.close()


def _before(number: int, pending: Iterator[int]) -> Iterator[int]:
    yield number
    yield from pending


def _ended(worker: _Worker, seed: int) -> Outcome:
    failure, detail = worker.describe_end()
    if worker.number < 0:
        raise RuntimeError(f"the process did not begin: {failure}\n{detail}")
    return Outcome(worker.number, "?", "?", failures=[failure], detail=detail)
