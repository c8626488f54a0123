"""The same units on a Dask cluster: on this machine, at a scheduler's address, or on SLURM."""

import logging
import os
import re
import resource
import shutil
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, ExitStack
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TYPE_CHECKING

from ._names import unknown
from .engine.tasks import Progress
from .experiment import Experiment, Unit
from .store import begin, Claims, complete, computed, gathered, PATIENCE, Store, Tell, versions

if TYPE_CHECKING:
    import xarray

_DEATHS = 1  # of workers of a unit that Dask forgives on this machine
_JOBS = 8  # workers asked of SLURM, if nobody says how many
_REACH = 5.0  # seconds to reach a scheduler
_LOOK = 1.0  # seconds between looks at the workers
_LONELY = 60.0  # seconds without a worker, after which a person is told
_FILES = 128  # that may be open besides those of units in flight
_DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # Ctrl-C is for us alone
_GONE = "cluster: its scheduler is gone; what is finished is kept, run the same again"
_LOGGERS = ("distributed", "tornado", "asyncio")


def run(
    experiment: Experiment,
    folder: Path,
    address: str,
    *,
    num_workers: int | None = None,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> "xarray.Dataset":
    """Computes what is missing of an experiment on a Dask cluster; else as `store.run`.

    Workers compute units and send them back; this process keeps them, so that workers need no
    common disk. No bit depends on the number of workers. When a worker dies its units are computed
    by others. A unit whose workers always die is set aside and named, the rest is completed, and
    its curves are NaN; the next run tries it again. Ctrl-C raises `KeyboardInterrupt`: what is
    finished is kept.

    **Arguments:**

    - `experiment`: The experiment, whose learners must have definitions.
    - `folder`: Where results are kept, by this process.
    - `address`: `local` for processes on this machine, the address of a scheduler, such as
      `tcp://10.0.0.1:8786`, or `slurm` for jobs as Dask's configuration describes them.
    - `num_workers`: On this machine as many processes, by default one for each core; on SLURM as
      many workers, by default 8. At an address there are those that there are.
    - `progress`: Called with the updates done, also those of earlier times, and all updates.
    - `tell`: Is told which files are damaged, which units are set aside, and when there is no
      worker to wait for; by default a warning is.
    """
    tell = tell or warnings.warn
    _require(address, num_workers)
    store, asked = begin(experiment, folder, tell)
    left = sum(store.missing(unit) is not None for unit in asked)
    if left:
        aside: list[str] = []
        with _quiet(), _connected(address, num_workers, left) as (client, renew):
            room = _room(client, renew, tell)
            complete(store, asked, partial(_spread, store, client, room, aside), progress)
        for title in aside:
            tell(f"{title} is set aside: its workers died; run the same again to try it again")
    return gathered(store)


def _require(address: str, num_workers: int | None) -> None:
    """A `ValueError` if this cannot be a cluster."""
    try:
        import distributed
    except ImportError:
        raise ValueError(
            "cluster: Dask is not installed; run pip install 'emphatic[cluster]'"
        ) from None
    assert distributed
    if address not in ("local", "slurm") and not re.fullmatch(r"(\w+://)?[^\s:/]+:\d+", address):
        raise unknown("cluster", address, ("local", "slurm", "tcp://HOST:PORT"))
    if num_workers is not None and num_workers < 1:
        raise ValueError(f"num_workers: got {num_workers}; at least 1 is required")
    if num_workers is not None and address not in ("local", "slurm"):
        raise ValueError(f"num_workers: {address} has its own; their number is not ours to choose")
    if address == "slurm" and shutil.which("sbatch") is None:
        raise ValueError(
            "cluster: there is no sbatch here; slurm needs a machine that submits jobs"
        )


# The cluster


@contextmanager
def _connected(
    address: str, num_workers: int | None, num_units: int
) -> Iterator[tuple[Any, Callable[[], Any] | None]]:
    """A client of the cluster, and what replaces jobs that ended; all that was started ends."""
    from distributed import Client

    with ExitStack() as stack:
        where: Any = address
        renew: Callable[[], Any] | None = None
        if address == "local":
            where = stack.enter_context(_local(min(num_workers or _cores(), num_units)))
        elif address == "slurm":
            where = stack.enter_context(_slurm())
            renew = partial(where.scale, min(num_workers or _JOBS, num_units))
            renew()
        try:
            client = Client(where, timeout=_REACH, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ValueError(f"cluster: no scheduler answers at {address}: {error}") from None
        yield stack.enter_context(client), renew


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _local(num_workers: int) -> Iterator[Any]:
    """Processes on this machine, with one thread each, started anew when they die."""
    from dask import config
    from distributed import LocalCluster

    before = dict(os.environ)  # Dask sets the number of OpenMP's threads, also here
    options: dict[str, Any] = {
        "n_workers": num_workers,
        "threads_per_worker": 1,
        "processes": True,
        "memory_limit": None,
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": logging.CRITICAL,
        "scheduler_kwargs": {"allowed_failures": _DEATHS},
        "preload": [*config.get("distributed.worker.preload"), _DEAF],
    }
    try:
        with LocalCluster(**options) as cluster:
            yield cluster
    except RuntimeError as error:
        if "failed to start" not in str(error):
            raise
        raise ValueError(
            f"cluster: its processes do not start ({error}); in a script of your own, call this "
            "below `if __name__ == '__main__':`"
        ) from error
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


def _slurm() -> Any:
    """Jobs of SLURM, none yet."""
    from dask import config

    try:
        from dask_jobqueue.slurm import SLURMCluster
    except ImportError:
        raise ValueError(
            "cluster: dask-jobqueue is not installed; run pip install 'emphatic[cluster]'"
        ) from None
    for name in ("cores", "memory"):
        if config.get(f"jobqueue.slurm.{name}", None) is None:
            raise ValueError(f"cluster: jobqueue.slurm.{name} is not set in Dask's configuration")
    return SLURMCluster(silence_logs="critical")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the messages of Dask: what a person should know is told in our words."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in _LOGGERS]
    known = [logging.getLogger(name) for name in {*_LOGGERS, *names}]
    levels = [each.level for each in known]
    try:
        for each in known:
            each.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            yield
    finally:
        for each, level in zip(known, levels, strict=True):
            each.setLevel(level)


# Units in flight


def _spread(
    store: Store, client: Any, room: Callable[[], int], aside: list[str], claims: Claims
) -> Generator[tuple[Unit, "xarray.Dataset | None"], None, None]:
    """Computes units on all workers, a few more at a time than these have threads.

    When a worker dies, all units that it had are under suspicion, not only the one that killed it.
    Those that have seen too many deaths are tried once more at the end, each alone.
    """
    import cloudpickle
    from distributed import KilledWorker

    flying: dict[str, tuple[Any, Unit]] = {}
    landed: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    suspects: list[Unit] = []
    more, alone, failure = True, False, None

    def send(unit: Unit) -> None:
        future = client.submit(_serve, cloudpickle.dumps(unit), versions(), pure=False)
        flying[future.key] = future, unit
        future.add_done_callback(fetch)

    def fetch(future: Any) -> None:
        """Elsewhere, since a worker may die with a result: its renewal is not to wait for that."""
        try:
            landed.put((future.key, future.result()))
        except Exception as error:
            landed.put((future.key, error))

    try:
        while more or flying or suspects or failure:
            most = room()  # also when all are sent: jobs that end are replaced then too
            while more and failure is None and len(flying) < most:
                claimed = next(claims, ())
                more = claimed != ()
                if not claimed:
                    break
                send(claimed[0])
            if not more and not flying and suspects:
                alone = True
                send(suspects.pop())
            try:
                key, found = landed.get(timeout=0.0 if failure else PATIENCE)
            except Empty:
                if failure is not None:
                    raise failure from failure.__cause__
                continue
            _, unit = flying.pop(key)
            if not isinstance(found, Exception):
                yield unit, found
            elif not isinstance(found, KilledWorker):
                failure = failure or _failure(unit, found)  # after what has landed besides
            elif not alone:
                suspects.append(unit)
            else:
                store.set_aside(unit, f"its workers died, the last at {found.last_worker.address}")
                aside.append(unit.title)
                yield unit, None
    finally:
        client.cancel([future for future, _ in flying.values()])


def _failure(unit: Unit, error: Exception) -> Exception:
    """What went wrong, with the name of the unit."""
    from distributed import CancelledError
    from distributed.comm.core import CommClosedError

    if isinstance(error, CancelledError | CommClosedError):
        return ValueError(_GONE)
    kind = ValueError if isinstance(error, ValueError) else RuntimeError
    failure = kind(f"{unit.title}: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def _room(client: Any, renew: Callable[[], Any] | None, tell: Tell) -> Callable[[], int]:
    """Gives the number of units to have in flight: one for each thread, and one for each worker."""
    most = max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _FILES)  # each has an open file
    size, looked, lonely = 0, -_LOOK, time.monotonic()

    def look() -> int:
        nonlocal size, looked, lonely
        if time.monotonic() - looked > _LOOK:
            try:
                threads = client.nthreads()
            except OSError:
                raise ValueError(_GONE) from None
            if renew is not None:
                renew()
            looked, size = time.monotonic(), min(most, sum(threads.values()) + len(threads))
            if size:
                lonely = looked
            elif looked - lonely > _LONELY:
                lonely = float("inf")
                tell("the cluster has no worker; waiting for one")
        return size

    return look


def _serve(packed: bytes, expected: Mapping[str, str]) -> "xarray.Dataset":
    """What a worker does: the curves of a unit, as this machine would compute them.

    It ends early, without a result, if nobody waits for that any more.
    """
    import cloudpickle
    from distributed import get_worker

    found = versions()
    for name in expected:
        if _release(name, found) != _release(name, expected):
            raise ValueError(
                f"a worker has {name} {found[name]} and not {expected[name]}; its results would "
                "not be the same"
            )
    worker = get_worker()
    key = worker.get_current_task()

    def move(*_: int) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise KeyboardInterrupt

    try:
        return computed(cloudpickle.loads(packed), worker.state.nthreads, move)
    except KeyboardInterrupt:
        raise RuntimeError("nobody waits for it any more") from None


def _release(name: str, versions: Mapping[str, str]) -> list[str]:
    """A version; of Python what pickles depend on."""
    return versions[name].split(".")[: 2 if name == "python" else None]
