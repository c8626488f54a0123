"""Completes an experiment: computes what is missing, next to any other processes."""

import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.tasks import OnProgress
from .claims import POLL_EVERY
from .compute import compute, Estimate, estimate
from .experiment import Experiment, Unit
from .locks import OnMessage, PATIENCE
from .plan import ASIDE
from .store import begin, missing_cells, Store

if TYPE_CHECKING:
    import xarray

Claims = Iterator[tuple[Unit, OnProgress] | None]
"""Units that no other process computes, each with its callback; None if there is none now."""

Compute = Callable[[Claims], Generator[tuple[Unit, "xarray.Dataset | None"], None, None]]
"""Computes units in any order, taking the next when there is room; None for one that failed."""


OnStart = Callable[[Estimate], None]
"""A callback, called with what is left of long work before it begins."""

MANY = 10**9  # updates that may take more than a day, by the slowest engine


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
    definitions; no bit depends on the number of threads. Progress counts what was done before.
    """

    def compute_in_turn(claims: Claims) -> Generator[tuple[Unit, "xarray.Dataset"], None, None]:
        for claimed in claims:
            if claimed is not None:
                unit, report = claimed
                yield unit, compute(unit, num_threads, report)

    store = begin(experiment, folder, on_message)
    complete_with(store, experiment.units, compute_in_turn, on_progress, on_message)
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
    done = total - sum(unit.num_updates for unit in pending)
    open_claims: dict[Unit, ExitStack] = {}

    def report(updates: int = 0) -> None:
        if on_progress is not None:
            on_progress(done + updates, total)

    def report_unit(record: Callable[[int], None], updates: int, _: int) -> None:
        record(updates)
        report(updates)

    def claim_pending() -> Claims:
        nonlocal done, pending
        waits_from, tell = None, on_message or warnings.warn
        while pending:
            waiting: list[Unit] = []
            for unit in pending:
                with ExitStack() as stack:
                    record = stack.enter_context(store.claim(unit))
                    if record is None:
                        waiting.append(unit)
                    elif store.add_if_finished(unit):
                        done += unit.num_updates
                        report()
                    else:
                        open_claims[unit] = stack.pop_all()
                        yield unit, partial(report_unit, record)
            if len(waiting) == len(pending) and not open_claims:
                waits_from = waits_from or time.monotonic()
                if time.monotonic() - waits_from > PATIENCE:
                    waits_from = float("inf")  # it is said once
                    tell(f"waiting for {store.describe_claim(waiting[0])}")
                time.sleep(POLL_EVERY)
            elif waiting:
                yield None
            pending = waiting

    report()
    try:
        with closing(compute(claim_pending())) as results:
            for unit, dataset in results:
                if dataset is not None:
                    store.save(unit, dataset)
                    done += unit.num_updates
                open_claims.pop(unit).close()
                report()
    finally:
        for stack in open_claims.values():
            stack.close()


def _forget_reasons(folder: Path) -> None:
    """Forgets why units were set aside: they are tried again."""
    if not folder.is_symlink():
        for path in folder.glob("*.json"):
            if path.is_file() and not path.is_symlink():
                path.unlink(missing_ok=True)
