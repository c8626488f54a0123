"""The same units on a Dask cluster: on this machine, at a scheduler's address, or on SLURM."""

import pickle
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TYPE_CHECKING

from ..engine.choice import count_gpus
from ..engine.source import install, trace
from ..engine.tasks import OnProgress
from .claims import max_claims, POLL_EVERY
from .completion import complete_with
from .compute import compute_together, UNIT_CELL_BYTES
from .experiment import BLOCK, Experiment, Unit
from .groups import Claims, GPU_CELLS, group_claims
from .locks import OnMessage
from .provenance import versions
from .slurm import Jobs
from .store import begin, Store
from .workers import connect, require_cluster, silence_dask

if TYPE_CHECKING:
    import xarray

_LOOK_EVERY = 1.0  # seconds, at the workers
_PATIENCE = 60.0  # seconds without a worker, after which a message says so
_TASK_BYTES = 2**30  # of results that a worker computes and sends at once
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
    - `num_workers`: Processes on this machine, by default one for each core, or for each GPU where
      the experiment runs on GPUs; or workers on SLURM, by default 8; none at an address, which has
      its own.
    """
    on_message = on_message or warnings.warn
    require_cluster(address, num_workers)
    if address == "local" and experiment.device == "gpu":
        num_workers = num_workers or count_gpus("gpu", experiment.engine)[0]
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

    in_flight: dict[str, tuple[Any, list[Unit]]] = {}
    results: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    suspects: list[Unit] = []
    has_more, is_alone, failure = True, False, None
    modules: dict[int, dict[str, str]] = {}  # by case
    groups = group_claims(claims, lambda unit: _units_per_task(unit, capacity()))

    def send(*units: Unit) -> None:
        packed, case = cloudpickle.dumps(units), units[0].case
        if case not in modules:
            modules[case] = _own_modules(units[0])
        future = client.submit(_serve, packed, versions(), modules[case], pure=False)
        in_flight[future.key] = future, [*units]
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
                group = next(groups, None)
                has_more = group is not None
                if not group:
                    break
                send(*(unit for unit, _ in group))
            if not has_more and not in_flight and suspects:
                is_alone = True
                send(suspects.pop())
            try:
                key, result = results.get(timeout=0.0 if failure else POLL_EVERY)
            except Empty:
                if failure is not None:
                    raise failure from failure.__cause__
                continue
            _, units = in_flight.pop(key)
            if not isinstance(result, Exception):
                yield from zip(units, result, strict=True)
            elif not isinstance(result, KilledWorker):
                failure = failure or _name_failure(units, result)  # after the other results
            elif not is_alone:
                suspects += units  # or another unit of the same worker killed it
            else:
                (unit,) = units
                store.set_aside(unit, f"its workers died, the last at {result.last_worker.address}")
                failed.append(unit.title)
                yield unit, None
    finally:
        client.cancel([future for future, _ in in_flight.values()])


def _units_per_task(unit: Unit, num_tasks: int) -> int:
    """Returns how many units like this one a worker computes at once, which may have a GPU."""
    experiment = unit.experiment
    if experiment.device != "gpu":
        return 1
    num_windows = -(-experiment.num_steps // experiment.window())
    cells = unit.num_lanes * BLOCK
    num_bytes = UNIT_CELL_BYTES * num_windows * max(1, len(experiment.measures)) * cells
    share = -(-experiment.num_runs // (BLOCK * max(1, num_tasks)))
    fitting = min(GPU_CELLS // cells, _TASK_BYTES // num_bytes)
    return max(1, min(share, fitting, max_claims() // (1 + num_tasks)))


def _name_failure(units: Sequence[Unit], error: Exception) -> Exception:
    """Returns the error of units with their name."""
    from distributed import CancelledError
    from distributed.comm.core import CommClosedError

    if isinstance(error, CancelledError | CommClosedError):
        return ValueError(_NO_SCHEDULER)
    kind = ValueError if isinstance(error, ValueError) else RuntimeError
    runs = [run for unit in units for run in unit.runs]
    failure = kind(f"{replace(units[0], runs=runs).title}: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def _watch_capacity(client: Any, jobs: Jobs | None, on_message: OnMessage) -> Callable[[], int]:
    """Returns what counts the units to have in flight: one per thread, and one per worker."""
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
            last_look = time.monotonic()
            size = min(max_claims(), sum(threads.values()) + len(threads))
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
    """Returns the texts of the modules that an experiment is made of and workers may not have.

    A unit brings the whole experiment, and so all its learners.
    """
    experiment, modules = unit.experiment, dict[str, str]()
    learners = experiment.learners(unit.problem)
    factories = [experiment.learner(unit.problem, name) for name in learners]
    for value in (*factories, experiment.learners, experiment.build, experiment.derive):
        with suppress(ValueError):  # it has a definition instead
            modules.update(trace(value).modules)
    return modules


def _serve(
    packed: bytes, expected: Mapping[str, str], modules: Mapping[str, str]
) -> "list[xarray.Dataset]":
    """Computes units on a worker, as this machine would, unless nobody waits for them any more."""
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

    units: Sequence[Unit] = pickle.loads(packed)
    gpu = _choose_gpu(units, worker.name)
    try:
        return compute_together(units, worker.state.nthreads, check, gpu)
    except KeyboardInterrupt:
        raise RuntimeError("nobody waits for it any more") from None


def _choose_gpu(units: Sequence[Unit], worker: object) -> int:
    """Chooses the GPU of a worker; those of this machine have numbers, and take turns."""
    if isinstance(worker, int) and units[0].experiment.device != "cpu":
        from ..engine.fused.cuda import count_devices, DeviceError

        with suppress(DeviceError):
            return worker % count_devices()
    return 0


def _release(name: str, versions: Mapping[str, str]) -> list[str]:
    """Returns the parts of a version; of Python those that pickles depend on."""
    return versions[name].split(".")[: 2 if name == "python" else None]
