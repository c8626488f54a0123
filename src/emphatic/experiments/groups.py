"""Groups of units: what one call computes on a GPU, which the ten runs of a unit do not fill."""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, TypeAlias

from ..engine.tasks import OnProgress
from .experiment import Unit

if TYPE_CHECKING:
    import xarray

GPU_CELLS = 2**20  # curves that fill a GPU
LOOK_EVERY = 0.1  # seconds, at the progress of groups

Claim: TypeAlias = tuple[Unit, OnProgress]
"""A unit that no other process computes, and the callback of its progress."""
Claims: TypeAlias = Iterator[Claim | None]
"""Claims, one by one; None if there is none now."""
Group: TypeAlias = list[Claim]
"""Units of one learner, case and grid; none of them if there is none now."""
ComputeGroup: TypeAlias = Callable[[Sequence[Unit], OnProgress, int], "list[xarray.Dataset]"]
"""Computes the units of a group on the GPU of a number."""


class Progress:
    """The updates made so far: of units that are finished, and of those in flight."""

    def __init__(self, total: int, done: int, on_progress: OnProgress | None):
        self.total, self.done, self.on_progress = total, done, on_progress
        self.in_flight: dict[Unit, int] = {}

    def report(self) -> None:
        """Reports all updates."""
        if self.on_progress is not None:
            self.on_progress(self.done + sum(self.in_flight.values()), self.total)

    def track(self, unit: Unit) -> OnProgress:
        """Returns the callback of a unit."""
        return partial(self._update, unit)

    def _update(self, unit: Unit, updates: int, _: int) -> None:
        self.in_flight[unit] = updates
        self.report()

    def end(self, unit: Unit, is_finished: bool = True) -> None:
        """Reports that a unit is finished, or that it failed."""
        self.in_flight.pop(unit, None)
        self.done += unit.num_updates * is_finished
        self.report()


def group_claims(claims: Claims, units_per_call: Callable[[Unit], int]) -> Iterator[Group]:
    """Groups claims in a row, as many as one call should compute."""
    group, limit = Group(), 1
    for claim in claims:
        if claim is None or (group and not _is_alike(group[-1][0], claim[0])):
            yield group
            group = Group()
        if claim is None:
            continue
        if not group:
            limit = units_per_call(claim[0])
        group.append(claim)
        if len(group) >= limit:
            yield group
            group = Group()
    if group:
        yield group


def _is_alike(unit: Unit, other: Unit) -> bool:
    """Whether units differ in their runs alone."""
    return (unit.case, unit.learner, unit.grid) == (other.case, other.learner, other.grid)


@dataclass
class _Call:
    """A call that computes a group on a GPU, and the share of its updates that are made."""

    group: Group
    gpu: int
    stopped: Event
    share: float = field(default=0.0, init=False)

    def run(self, compute: ComputeGroup) -> "list[xarray.Dataset]":
        return compute([unit for unit, _ in self.group], self._update, self.gpu)

    def _update(self, updates: int, total: int) -> None:
        if self.stopped.is_set():
            raise KeyboardInterrupt
        self.share = updates / total

    def report(self) -> None:
        for unit, on_progress in self.group:
            on_progress(int(self.share * unit.num_updates), unit.num_updates)


def compute_groups(
    groups: Iterator[Group], num_gpus: int, compute: ComputeGroup
) -> Generator[tuple[Unit, "xarray.Dataset"], None, None]:
    """Computes groups side by side, one on each GPU, and yields their units.

    Where a group fails, the others that have begun are finished before the error is raised.
    """
    calls: dict[Future[list[xarray.Dataset]], _Call] = {}
    free, stopped = list(range(num_gpus)), Event()
    group: Group | None = []
    failure: Exception | None = None
    with ThreadPoolExecutor(num_gpus) as pool:
        try:
            while calls or (group is not None and failure is None):
                while free and failure is None:
                    try:
                        group = next(groups, None)
                    except Exception as error:
                        failure = error
                    if failure is not None or not group:
                        break
                    call = _Call(group, free.pop(0), stopped)
                    calls[pool.submit(call.run, compute)] = call
                finished, _ = wait(calls, LOOK_EVERY, FIRST_COMPLETED)
                for call in calls.values():
                    call.report()
                for future in finished:
                    call = calls.pop(future)
                    free.append(call.gpu)
                    try:
                        results = future.result()
                    except Exception as error:
                        failure = failure or error
                        continue
                    for (unit, _), result in zip(call.group, results, strict=True):
                        yield unit, result
        finally:
            stopped.set()
    if failure is not None:
        raise failure
