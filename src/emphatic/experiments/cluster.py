"""The same units on a Dask cluster: on this machine, at a scheduler's address, or on SLURM."""

import logging
import os
import re
import resource
import shutil
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TYPE_CHECKING

from .._validation import unknown
from ..engine.tasks import num_cores, OnProgress
from .claims import PATIENCE
from .completion import Claims, complete_with
from .compute import compute
from .experiment import Experiment, Unit
from .provenance import provenance, versions
from .store import begin, OnMessage, Store

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
_NOT_INSTALLED = "cluster: {} is not installed; run pip install 'emphatic[cluster]'"
_LOGGERS = ("distributed", "tornado", "asyncio")


def complete(
    experiment: Experiment,
    folder: Path,
    address: str,
    *,
    num_workers: int | None = None,
    on_progress: OnProgress | None = None,
    on_message: OnMessage | None = None,
) -> Store:
    """Computes what is missing of an experiment on a Dask cluster; else as [complete].

    Workers compute units and send them back; this process keeps them, so that workers need no
    common disk. No bit depends on the number of workers. When a worker dies its units are computed
    by others. A unit whose workers always die is set aside and named, the rest is completed, and
    its curves are NaN; the next run tries it again. Ctrl-C raises `KeyboardInterrupt`: what is
    finished is kept.

    **Arguments:**

    - `address`: `local` for processes on this machine, the address of a scheduler, such as
      `tcp://10.0.0.1:8786`, or `slurm` for jobs as Dask's configuration describes them.
    - `num_workers`: Processes on this machine, by default one for each core, or workers on SLURM,
      by default 8; none at an address, which has its own.
    """
    on_message = on_message or warnings.warn
    _require(address, num_workers)
    store = begin(experiment, folder, on_message)
    num_missing = sum(store.missing(unit) is not None for unit in experiment.units)
    if num_missing:
        aside: list[str] = []
        with _quiet(), _connect(address, num_workers, num_missing) as (client, renew):
            capacity = _capacity(client, renew, on_message)
            distribute = partial(_distribute, store, client, capacity, aside)
            complete_with(store, experiment.units, distribute, on_progress)
        for title in aside:
            on_message(
                f"{title} is set aside: its workers died; run the same again to try it again"
            )
    return store


def _require(address: str, num_workers: int | None) -> None:
    """Raises a `ValueError` if this cannot be a cluster."""
    if find_spec("distributed") is None:
        raise ValueError(_NOT_INSTALLED.format("Dask"))
    if address not in ("local", "slurm") and not re.fullmatch(r"(\w+://)?[^\s:/]+:\d+", address):
        raise unknown("cluster", address, ("local", "slurm", "tcp://HOST:PORT"))
    if num_workers is not None and num_workers < 1:
        raise ValueError(f"num_workers: got {num_workers}; at least 1 is required")
    if num_workers is not None and address not in ("local", "slurm"):
        raise ValueError(f"num_workers: {address} has its own; leave it out")
    if address == "slurm" and shutil.which("sbatch") is None:
        raise ValueError(
            "cluster: there is no sbatch here; slurm needs a machine that submits jobs"
        )


# The cluster


@contextmanager
def _connect(
    address: str, num_workers: int | None, num_units: int
) -> Generator[tuple[Any, Callable[[], object] | None], None, None]:
    """Connects a client, with what replaces jobs that ended; all that was started ends."""
    from distributed import Client

    with ExitStack() as stack:
        scheduler: Any = address
        renew: Callable[[], object] | None = None
        if address == "local":
            scheduler = stack.enter_context(_local(min(num_workers or num_cores(), num_units)))
        elif address == "slurm":
            scheduler = stack.enter_context(_slurm())
            renew = partial(scheduler.scale, min(num_workers or _JOBS, num_units))
            renew()
        try:
            client = Client(scheduler, timeout=_REACH, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ValueError(f"cluster: no scheduler answers at {address}: {error}") from None
        yield stack.enter_context(client), renew


@contextmanager
def _local(num_workers: int) -> Generator[Any, None, None]:
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
        raise ValueError(_NOT_INSTALLED.format("dask-jobqueue")) from None
    for name in ("cores", "memory"):
        if config.get(f"jobqueue.slurm.{name}", None) is None:
            raise ValueError(f"cluster: jobqueue.slurm.{name} is not set in Dask's configuration")
    return SLURMCluster(silence_logs="critical")


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Silences Dask: what a person should know is said by us."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in _LOGGERS]
    loggers = [logging.getLogger(name) for name in {*_LOGGERS, *names}]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


# Units in flight


def _distribute(
    store: Store, client: Any, capacity: Callable[[], int], aside: list[str], claims: Claims
) -> Generator[tuple[Unit, "xarray.Dataset | None"], None, None]:
    """Computes units on all workers; those whose workers die are tried at the end, each alone."""
    import cloudpickle
    from distributed import KilledWorker

    in_flight: dict[str, tuple[Any, Unit]] = {}
    results: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    suspects: list[Unit] = []
    more, alone, failure = True, False, None

    def send(unit: Unit) -> None:
        future = client.submit(_serve, cloudpickle.dumps(unit), versions(), pure=False)
        in_flight[future.key] = future, unit
        future.add_done_callback(fetch)

    def fetch(future: Any) -> None:
        """Elsewhere, since a worker may die with a result: its renewal is not to wait for that."""
        try:
            results.put((future.key, future.result()))
        except Exception as error:
            results.put((future.key, error))

    try:
        while more or in_flight or suspects or failure:
            limit = capacity()  # also when all are sent: jobs that end are replaced then too
            while more and failure is None and len(in_flight) < limit:
                claimed = next(claims, ())
                more = claimed != ()
                if not claimed:
                    break
                send(claimed[0])
            if not more and not in_flight and suspects:
                alone = True
                send(suspects.pop())
            try:
                key, result = results.get(timeout=0.0 if failure else PATIENCE)
            except Empty:
                if failure is not None:
                    raise failure from failure.__cause__
                continue
            _, unit = in_flight.pop(key)
            if not isinstance(result, Exception):
                yield unit, result
            elif not isinstance(result, KilledWorker):
                failure = failure or _failure(unit, result)  # after the other results
            elif not alone:
                suspects.append(unit)  # or another unit of the same worker killed it
            else:
                store.set_aside(unit, f"its workers died, the last at {result.last_worker.address}")
                aside.append(unit.title)
                yield unit, None
    finally:
        client.cancel([future for future, _ in in_flight.values()])


def _failure(unit: Unit, error: Exception) -> Exception:
    """The error of a unit, with its name."""
    from distributed import CancelledError
    from distributed.comm.core import CommClosedError

    if isinstance(error, CancelledError | CommClosedError):
        return ValueError(_GONE)
    kind = ValueError if isinstance(error, ValueError) else RuntimeError
    failure = kind(f"{unit.title}: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def _capacity(
    client: Any, renew: Callable[[], object] | None, on_message: OnMessage
) -> Callable[[], int]:
    """Gives the number of units to have in flight: one for each thread, and one for each worker."""
    limit = max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _FILES)  # each has an open file
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
            looked, size = time.monotonic(), min(limit, sum(threads.values()) + len(threads))
            if size:
                lonely = looked
            elif looked - lonely > _LONELY:
                lonely = float("inf")
                on_message("the cluster has no worker; waiting for one")
        return size

    return look


def _serve(packed: bytes, expected: Mapping[str, str]) -> "xarray.Dataset":
    """Computes a unit on a worker, as this machine would, unless nobody waits for it any more."""
    import cloudpickle
    from distributed import get_worker

    ours = versions()
    for name in expected:
        if _release(name, ours) != _release(name, expected):
            difference = f"a worker has {name} {ours[name]} and not {expected[name]}"
            raise ValueError(f"{difference}; its results would not be the same")
    worker = get_worker()
    key = worker.get_current_task()

    def check(*_: int) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise KeyboardInterrupt

    try:
        dataset = compute(cloudpickle.loads(packed), worker.state.nthreads, check)
    except KeyboardInterrupt:
        raise RuntimeError("nobody waits for it any more") from None
    return dataset.assign_attrs(provenance=provenance(dataset.attrs["engine"]))


def _release(name: str, versions: Mapping[str, str]) -> list[str]:
    """A version; of Python what pickles depend on."""
    return versions[name].split(".")[: 2 if name == "python" else None]
