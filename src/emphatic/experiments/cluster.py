"""The same units on a Dask cluster: on this machine, at a scheduler's address, or on SLURM."""

import logging
import os
import pickle
import re
import resource
import shutil
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, ExitStack, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TYPE_CHECKING

from .._validation import unknown
from ..engine.source import install, trace
from ..engine.tasks import num_cores, OnProgress
from .claims import POLL_EVERY
from .completion import Claims, complete_with
from .compute import compute
from .experiment import Experiment, Unit
from .locks import OnMessage
from .provenance import provenance, versions
from .store import begin, Store

if TYPE_CHECKING:
    import xarray

_MAX_DEATHS = 1  # of workers that a unit may cause on this machine
_NUM_JOBS = 8  # workers on SLURM by default
_CONNECT_TIMEOUT = 5.0  # seconds
_LOOK_EVERY = 1.0  # seconds, at the workers
_WORKER_TIMEOUT = 60.0  # seconds without a worker, after which a message says so
_SPARE_FILES = 128  # that may be open besides those of units in flight
_NO_ROUTES = {f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker")}
_IGNORE_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # it is for us alone
_NO_SCHEDULER = "cluster: its scheduler is gone; what is finished is kept, run the same again"
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
    require_cluster(address, num_workers)
    store = begin(experiment, folder, on_message)
    num_missing = sum(store.missing_part(unit) is not None for unit in experiment.units)
    if num_missing:
        failed: list[str] = []
        with _silence_dask(), _connect(address, num_workers, num_missing) as (client, renew):
            capacity = _watch_capacity(client, renew, on_message)
            distribute = partial(_distribute, store, client, capacity, failed)
            complete_with(store, experiment.units, distribute, on_progress, on_message)
        for title in failed:
            on_message(
                f"{title} is set aside: its workers died; run the same again to try it again"
            )
    return store


def require_cluster(address: str, num_workers: int | None) -> None:
    """Raises a `ValueError` if this cannot be a cluster."""
    if find_spec("distributed") is None:
        raise ValueError(_NOT_INSTALLED.format("Dask"))
    if address == "local" and find_spec("cryptography") is None:
        raise ValueError(_NOT_INSTALLED.format("cryptography"))
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
    """Connects a client; yields it and what replaces jobs that ended, and ends all in the end."""
    from distributed import Client

    with ExitStack() as stack:
        scheduler: Any = address
        renew: Callable[[], object] | None = None
        if address == "local":
            num_workers = min(num_workers or num_cores(), num_units)
            scheduler = stack.enter_context(_start_local(num_workers))
        elif address == "slurm":
            scheduler = stack.enter_context(_start_slurm())
            renew = partial(scheduler.scale, min(num_workers or _NUM_JOBS, num_units))
            renew()
        try:
            client = Client(scheduler, timeout=_CONNECT_TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ValueError(f"cluster: no scheduler answers at {address}: {error}") from None
        yield stack.enter_context(client), renew


@contextmanager
def _start_local(num_workers: int) -> Generator[Any, None, None]:
    """Starts processes on this machine, with one thread each, and again when they die.

    They talk TLS with a certificate of their own, which is only in their memory: whoever else
    connects is turned away. They have no dashboard, and serve nothing over HTTP.
    """
    from dask import config
    from distributed import LocalCluster, Security

    before = dict(os.environ)  # Dask sets the number of OpenMP's threads, also here
    options: dict[str, Any] = {
        "n_workers": num_workers,
        "threads_per_worker": 1,
        "processes": True,
        "memory_limit": None,
        "security": Security.temporary(),
        "host": "127.0.0.1",
        "dashboard_address": None,
        "silence_logs": logging.CRITICAL,
        "scheduler_kwargs": {
            "allowed_failures": _MAX_DEATHS,
            "dashboard_address": "127.0.0.1:0",  # a server without routes
        },
        "preload": [*config.get("distributed.worker.preload"), _IGNORE_CTRL_C],
    }
    try:
        with config.set(_NO_ROUTES), LocalCluster(**options) as cluster:
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


def _start_slurm() -> Any:
    """Starts a cluster of SLURM jobs, with none yet."""
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
def _silence_dask() -> Generator[None, None, None]:
    """Silences Dask: what a person should know is reported here."""
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
    store: Store, client: Any, capacity: Callable[[], int], failed: list[str], claims: Claims
) -> Generator[tuple[Unit, "xarray.Dataset | None"], None, None]:
    """Computes units on all workers; those whose workers die are tried at the end, each alone."""
    import cloudpickle
    from distributed import KilledWorker

    in_flight: dict[str, tuple[Any, Unit]] = {}
    results: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    suspects: list[Unit] = []
    has_more, is_alone, failure = True, False, None

    def send(unit: Unit) -> None:
        packed = cloudpickle.dumps(unit)
        future = client.submit(_serve, packed, versions(), _own_modules(unit), pure=False)
        in_flight[future.key] = future, unit
        future.add_done_callback(fetch)

    def fetch(future: Any) -> None:
        """Fetches a result in another thread: a worker may die with it while jobs are renewed."""
        try:
            results.put((future.key, future.result()))
        except Exception as error:
            results.put((future.key, error))

    try:
        while has_more or in_flight or suspects or failure:
            limit = capacity()  # also when all are sent: jobs that end are replaced then too
            while has_more and failure is None and len(in_flight) < limit:
                claimed = next(claims, ())
                has_more = claimed != ()
                if not claimed:
                    break
                send(claimed[0])
            if not has_more and not in_flight and suspects:
                is_alone = True
                send(suspects.pop())
            try:
                key, result = results.get(timeout=0.0 if failure else POLL_EVERY)
            except Empty:
                if failure is not None:
                    raise failure from failure.__cause__
                continue
            _, unit = in_flight.pop(key)
            if not isinstance(result, Exception):
                yield unit, result
            elif not isinstance(result, KilledWorker):
                failure = failure or _name_failure(unit, result)  # after the other results
            elif not is_alone:
                suspects.append(unit)  # or another unit of the same worker killed it
            else:
                store.set_aside(unit, f"its workers died, the last at {result.last_worker.address}")
                failed.append(unit.title)
                yield unit, None
    finally:
        client.cancel([future for future, _ in in_flight.values()])


def _name_failure(unit: Unit, error: Exception) -> Exception:
    """Returns the error of a unit with the name of the unit."""
    from distributed import CancelledError
    from distributed.comm.core import CommClosedError

    if isinstance(error, CancelledError | CommClosedError):
        return ValueError(_NO_SCHEDULER)
    kind = ValueError if isinstance(error, ValueError) else RuntimeError
    failure = kind(f"{unit.title}: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def _watch_capacity(
    client: Any, renew: Callable[[], object] | None, on_message: OnMessage
) -> Callable[[], int]:
    """Returns what counts the units to have in flight: one per thread, and one per worker."""
    limit = max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_FILES)  # a file each
    size, last_look, last_worker = 0, -_LOOK_EVERY, time.monotonic()

    def count() -> int:
        nonlocal size, last_look, last_worker
        if time.monotonic() - last_look > _LOOK_EVERY:
            try:
                threads = client.nthreads()
            except OSError:
                raise ValueError(_NO_SCHEDULER) from None
            if renew is not None:
                renew()
            last_look, size = time.monotonic(), min(limit, sum(threads.values()) + len(threads))
            if size:
                last_worker = last_look
            elif last_look - last_worker > _WORKER_TIMEOUT:
                last_worker = float("inf")
                on_message("the cluster has no worker; waiting for one")
        return size

    return count


def _own_modules(unit: Unit) -> dict[str, str]:
    """Returns the texts of the modules that a unit is made of and that workers may not have."""
    experiment, modules = unit.experiment, dict[str, str]()
    factory = experiment.learner(unit.problem, unit.learner)
    for value in (factory, experiment.learners, experiment.build, experiment.derive):
        with suppress(ValueError):  # it has a definition instead
            modules.update(trace(value).modules)
    return modules


def _serve(
    packed: bytes, expected: Mapping[str, str], modules: Mapping[str, str]
) -> "xarray.Dataset":
    """Computes a unit on a worker, as this machine would, unless nobody waits for it any more."""
    from distributed import get_worker

    installed = versions()
    for name in expected:
        if _release(name, installed) != _release(name, expected):
            difference = f"a worker has {name} {installed[name]} and not {expected[name]}"
            raise ValueError(f"{difference}; its results would not be the same")
    install(modules)
    worker = get_worker()
    key = worker.get_current_task()

    def check(*_: int) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise KeyboardInterrupt

    try:
        dataset = compute(pickle.loads(packed), worker.state.nthreads, check)
    except KeyboardInterrupt:
        raise RuntimeError("nobody waits for it any more") from None
    return dataset.assign_attrs(provenance=provenance(dataset.attrs["engine"]))


def _release(name: str, versions: Mapping[str, str]) -> list[str]:
    """Returns the parts of a version; of Python those that pickles depend on."""
    return versions[name].split(".")[: 2 if name == "python" else None]
