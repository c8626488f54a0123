"""Completes an experiment: computes what is missing, next to any other processes."""

import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.tasks import OnProgress
from .claims import POLL_EVERY
from .compute import compute, compute_on_gpus, Estimate, estimate, find_gpus
from .experiment import Experiment, Unit
from .groups import Claims, Progress
from .locks import OnMessage, PATIENCE
from .plan import ASIDE
from .store import begin, missing_cells, Store

if TYPE_CHECKING:
    import xarray

Compute = Callable[[Claims], Generator[tuple[Unit, "xarray.Dataset | None"], None, None]]
"""Computes units in any order, taking the next when there is room; None for one that failed."""


OnStart = Callable[[Estimate], None]
"""A callback, called with what is left of long work before it begins."""

MANY = 8 * 10**9  # updates, which may take a day where an engine makes 10^5 a second


def announce(experiment: Experiment, folder: Path | None, on_start: OnStart | None) -> None:
    """Calls `on_start` with what a folder lacks of an experiment, if that may take long."""
    if on_start is not None and experiment.num_updates() > MANY:
        num_left = None if folder is None else missing_cells(experiment, folder)
        on_start(estimate(experiment, num_left))


def complete(
    experiment: Experiment,
    folder: Path,
    *,
    num_threads: int | None = None,
    on_progress: OnProgress | None = None,
    on_message: OnMessage | None = None,
) -> Store:
    """Computes what is missing of an experiment and keeps it in a store, which is returned.

    A unit that is finished is never computed again, whatever ended the process that did it. Several
    processes may do this with one folder: each unit is computed by one of them. Learners must have
    definitions; no bit depends on the number of threads, or on the device. Progress counts what was
    done before.
    """

    def compute_in_turn(claims: Claims) -> Generator[tuple[Unit, "xarray.Dataset"], None, None]:
        for claimed in claims:
            if claimed is not None:
                unit, report = claimed
                yield unit, compute(unit, num_threads, report)

    def compute_side_by_side(claims: Claims) -> Generator[tuple[Unit, "xarray.Dataset"]]:
        from ..engine.fused.cuda import DeviceError

        try:
            yield from compute_on_gpus(claims, num_gpus, num_threads)
        except DeviceError as error:
            raise ValueError(f"{error}; what is finished is kept") from None

    num_gpus = find_gpus(experiment, on_message or warnings.warn)
    computing = compute_side_by_side if num_gpus else compute_in_turn
    store = begin(experiment, folder, on_message)
    complete_with(store, experiment.units, computing, on_progress, on_message)
    return store


def complete_with(
    store: Store,
    units: Sequence[Unit],
    compute: Compute,
    on_progress: OnProgress | None = None,
    on_message: OnMessage | None = None,
) -> None:
    """Computes what is missing of units, by whatever means, and keeps each once it is finished.

    What another process computes is waited for, and computed here if that ends without it; whose
    it is, is said.
    """
    _forget_reasons(store.folder / ASIDE)
    total = sum(unit.num_updates for unit in units)
    pending = [part for unit in units if (part := store.missing_part(unit)) is not None]
    progress = Progress(total, total - sum(unit.num_updates for unit in pending), on_progress)
    open_claims: dict[Unit, ExitStack] = {}

    def report_unit(
        record: Callable[[int], None], report: OnProgress, updates: int, num_updates: int
    ) -> None:
        record(updates)
        report(updates, num_updates)

    def claim_pending() -> Claims:
        nonlocal pending
        waits_from, tell = None, on_message or warnings.warn
        while pending:
            waiting: list[Unit] = []
            for unit in pending:
                with ExitStack() as stack:
                    record = stack.enter_context(store.claim(unit))
                    if record is None:
                        waiting.append(unit)
                    elif store.add_if_finished(unit):
                        progress.end(unit)
                    else:
                        open_claims[unit] = stack.pop_all()
                        yield unit, partial(report_unit, record, progress.track(unit))
            if len(waiting) == len(pending) and not open_claims:
                waits_from = waits_from or time.monotonic()
                if time.monotonic() - waits_from > PATIENCE:
                    waits_from = float("inf")  # it is said once
                    tell(f"waiting for {store.describe_claim(waiting[0])}")
                time.sleep(POLL_EVERY)
            elif waiting:
                yield None
            pending = waiting

    progress.report()
    try:
        with closing(compute(claim_pending())) as results:
            for unit, dataset in results:
                if dataset is not None:
                    store.save(unit, dataset)
                open_claims.pop(unit).close()
                progress.end(unit, is_finished=dataset is not None)
    finally:
        for stack in open_claims.values():
            stack.close()


def _forget_reasons(folder: Path) -> None:
    """Forgets why units were set aside: they are tried again."""
    if not folder.is_symlink():
        for path in folder.glob("*.json"):
            if path.is_file() and not path.is_symlink():
                path.unlink(missing_ok=True)
