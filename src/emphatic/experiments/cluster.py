"""The same units on a Dask cluster: on this machine, at a scheduler's address, or on SLURM."""

import pickle
import resource
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TYPE_CHECKING

from ..engine.source import install, trace
from ..engine.tasks import OnProgress
from .claims import POLL_EVERY
from .completion import Claims, complete_with
from .compute import compute
from .experiment import Experiment, Unit
from .locks import OnMessage
from .provenance import provenance, versions
from .slurm import Jobs
from .store import begin, Store
from .workers import connect, require_cluster, silence_dask

if TYPE_CHECKING:
    import xarray

_LOOK_EVERY = 1.0  # seconds, at the workers
_PATIENCE = 60.0  # seconds without a worker, after which a message says so
_SPARE_FILES = 128  # that may be open besides those of units in flight
_PAUSED = (
    "the workers are paused, as Dask does with those that use 80 % of their memory; give them more "
    "(dask worker --memory-limit), or none of them goes on"
)
_NO_SCHEDULER = "cluster: its scheduler is gone; what is finished is kept, run the same again"


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
        size = num_workers, num_missing
        with silence_dask(), connect(address, *size, on_message) as (client, jobs):
            capacity = _watch_capacity(client, jobs, on_message)
            distribute = partial(_distribute, store, client, capacity, failed)
            complete_with(store, experiment.units, distribute, on_progress, on_message)
        for title in failed:
            on_message(
                f"{title} is set aside: its workers died; run the same again to try it again"
            )
    return store


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


def _watch_capacity(client: Any, jobs: Jobs | None, on_message: OnMessage) -> Callable[[], int]:
    """Returns what counts the units to have in flight: one per thread, and one per worker."""
    limit = max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE_FILES)  # a file each
    size, last_look, last_active = 0, -_LOOK_EVERY, time.monotonic()

    def count() -> int:
        nonlocal size, last_look, last_active
        if time.monotonic() - last_look > _LOOK_EVERY:
            try:
                threads = client.nthreads()
                states = {w["status"] for w in client.scheduler_info()["workers"].values()}
            except OSError:
                raise ValueError(_NO_SCHEDULER) from None
            if jobs is not None:
                jobs.renew(bool(threads))
            last_look, size = time.monotonic(), min(limit, sum(threads.values()) + len(threads))
            if "running" in states:
                last_active = last_look
            elif last_look - last_active > _PATIENCE:
                last_active = float("inf")
                on_message(_PAUSED if "paused" in states else _describe_queue(jobs))
        return size

    return count


def _describe_queue(jobs: Jobs | None) -> str:
    state = f" (its jobs: {jobs.state})" if jobs is not None and jobs.state else ""
    return f"the cluster has no worker; waiting for one{state}"


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
