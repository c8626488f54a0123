"""A process that runs commands, one input after the other, and watches what they do."""

import contextlib
import errno
import faulthandler
import fcntl
import hashlib
import importlib
import io
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

from . import seeds
from .commands import Files, Odd
from .generate import generate
from .judge import judge_files, judge_texts, Outcome

SECONDS = 20  # of processor time, after which an input hangs
GIBIBYTES = 4
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.chmod", "os.chown")
CHANGES = (*CHANGES, "os.utime", "shutil.rmtree", "shutil.move")
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "socket.connect", "socket.bind", "os.fork")
FORBIDDEN = (*FORBIDDEN, "pickle.find_class", "code.__new__")

CANARY = "canary"  # a module that no file may make us import

Event: TypeAlias = tuple[str, str]


def work(connection: Connection, base: Path, seed: int) -> None:
    """Runs the inputs whose numbers arrive, until it is killed."""
    runner = Runner(base, seed)
    connection.send(None)
    while True:
        connection.send(runner.run(connection.recv()))


class Runner:
    """A process that runs commands: its folder, its outputs, and what it has been seen to do."""

    def __init__(self, base: Path, seed: int):
        self.seed, self.base, self.scratch = seed, base, base / "outside" / "scratch"
        self.private = str(base / "private")  # what libraries may write: caches, temporary files
        for name in ("seeds", "private", "outside"):
            (base / name).mkdir()
        os.environ |= dict.fromkeys(("HOME", "MPLCONFIGDIR", "TMPDIR"), self.private)
        os.environ |= {"MPLBACKEND": "Agg", "COLUMNS": "120"}
        tempfile.tempdir = self.private
        sys.dont_write_bytecode = True
        self.outputs = [(base / name).open("w+b", 0) for name in ("out", "err")]
        for n, file in enumerate(self.outputs, 1):
            os.dup2(file.fileno(), n)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), "utf-8", "backslashreplace")
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace")
        faulthandler.enable(self.outputs[1])
        faulthandler.register(signal.SIGXCPU, self.outputs[1], chain=True)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.seeds = seeds.make(base / "seeds")
        _load_everything()
        self.events: list[Event] = []
        self.watched, self.named = False, set[str]()
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
        elif event in ("os.link", "os.symlink"):
            self.note(event, arguments[1])
        elif event in CHANGES:
            self.note(event, arguments[0])
            if event == "os.rename":
                self.note(event, arguments[1])
        elif event == "import" and str(arguments[0]).partition(".")[0] == CANARY:
            self.events.append((event, CANARY))
        elif event == "subprocess.Popen" and arguments[1][:1] != ["git"]:
            self.events.append((event, str(arguments[1])))
        elif event in FORBIDDEN and arguments != ("builtins", "object"):  # which protobuf finds
            self.events.append((event, str(arguments)[:80]))

    def note(self, event: str, path: Any) -> None:
        """Remembers and forbids what is written, unless it is in the folder of the input.

        What the command line itself names is forbidden only."""
        if isinstance(path, int):
            return
        try:
            folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
            real = os.path.join(os.path.realpath(folder), name)
            real = os.path.realpath(real) if event in ("open", "os.truncate") else real
        except (ValueError, OSError):
            return
        allowed = (f"{self.scratch}/", f"{self.private}/")
        if not real.startswith(allowed) and real not in (os.devnull, str(self.scratch)):
            if os.path.dirname(real) not in self.named:
                self.events.append((event, real))
            raise PermissionError(errno.EACCES, "forbidden while fuzzing", real)

    def run(self, number: int) -> Outcome:
        """Runs an input in a fresh folder, and judges what it did."""
        case = generate(self.seed, number, self.seeds)
        digest = hashlib.sha256(repr(case).encode(errors="replace")).hexdigest()
        outcome = Outcome(number, case.format, " ".join(case.arguments[:1])[:20], digest)
        for file in self.outputs:
            file.seek(0)
            file.truncate()
        with _materialised(case.files, self.scratch):
            os.chdir(self.scratch)
            self.events.clear()
            paths = [text.rpartition("=")[2] for text in case.arguments if "/" in text]
            self.named = {os.path.realpath(os.path.dirname(path)) for path in paths}
            begun = time.process_time()
            seconds = int(begun) + SECONDS + 1
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
            self.watched = True
            outcome.status, error = _call(case.arguments)
            self.watched = False
            outcome.seconds = time.process_time() - begun
            out, err = (self.read(file) for file in self.outputs)
            failures = [*judge_texts(case, outcome, out, err, error)]
            if CANARY in " ".join(case.arguments):  # a person named it
                self.events = [event for event in self.events if event[1] != CANARY]
            failures += [f"{event} of {target}" for event, target in sorted(set(self.events))]
            failures += judge_files(case, self.scratch)
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
    for name in ("gymnasium", "mujoco", "tensorboardX"):  # some of which start programs
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
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
    (folder / f"{CANARY}.py").write_text("f = lambda *_: None\n")
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
            fcntl.flock(held.enter_context(path.open()), fcntl.LOCK_EX)
