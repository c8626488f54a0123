"""Progress: of runs a bar, of evaluations a line, of exact answers what they compute."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, wait
from typing import TypeAlias, TypeVar

import numpy as np

from ..engine.tasks import OnProgress
from .output import console, printable, report_error, styled

Result = TypeVar("Result")
OnStage: TypeAlias = Callable[[str], None]
"""A callback, called with the name of what begins."""
PATIENCE = 1.0  # seconds that a computation has to end after Ctrl-C


@contextlib.contextmanager
def progress_bar(title: str) -> Generator[OnProgress]:
    """Shows a bar with updates per second; yields a callback of the updates done and in total.

    The bar appears with the first call, so that an earlier error is a single line.
    """
    from rich import progress

    percentage, remaining = progress.TaskProgressColumn(), progress.TimeRemainingColumn()
    name = progress.TextColumn("{task.description}", style="bold", markup=False)
    rate = progress.TextColumn("{task.fields[rate]}", markup=False)
    columns = name, progress.BarColumn(), percentage, rate, remaining
    bar = progress.Progress(*columns, console=console(stderr=True))
    task, start = bar.add_task(printable(title), total=None, rate=""), time.monotonic()
    earlier: int | None = None  # what was done before

    def update(done: int, total: int) -> None:
        nonlocal earlier
        bar.start()
        earlier = done if earlier is None else earlier
        rate = (done - earlier) / max(time.monotonic() - start, 1e-9)
        bar.update(task, completed=done, total=total, rate=f"{rate:.2e} updates/s")

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()


def show_evaluation(steps: int, total: int, values: dict[str, np.ndarray], num_runs: int) -> None:
    """Prints a line for an evaluation: means, and standard deviations if there are several runs.

    It names its seeds, if they are not those of all runs."""
    cells = []
    for name in ("J", "return"):
        runs = values[name]
        spread = f" +- {runs.std(ddof=1):.2f}" if len(runs) > 1 else ""
        cells.append(f"{name} {runs.mean():.2f}{spread}")
    seeds = values["seed"].tolist()
    part = "" if len(seeds) == num_runs else f"{describe_seeds(seeds)}, "
    print(f"{part}{steps:>{len(str(total))}} of {total} steps: {', '.join(cells)}", flush=True)


def describe_seeds(seeds: Sequence[int]) -> str:
    """Describes seeds in words: one, a range, or how many."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"{len(seeds)} seeds"


def run_in_stages(compute: Callable[[OnStage], Result]) -> Result:
    """Calls a function in a thread, so that Ctrl-C is answered at once, and shows what it does.

    The function is given a callback of the stage that begins. Ctrl-C ends it at its next stage; a
    long computation is not waited for, and the process ends.
    """
    start, future, stopped, stages = time.monotonic(), Future[Result](), threading.Event(), [""]

    def show(stage: str) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stages.append(stage)

    def call() -> None:
        try:
            future.set_result(compute(show))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call, daemon=True).start()
    try:
        with console(stderr=True).status("") as status:
            while not wait([future], timeout=0.2).done:
                status.update(styled(f"{stages[-1]} ({time.monotonic() - start:.0f} s)"))
    except (KeyboardInterrupt, SystemExit) as stop:
        stopped.set()
        if not wait([future], timeout=PATIENCE).done:  # a thread cannot be stopped: LAPACK goes on
            report_error("interrupted" if isinstance(stop, KeyboardInterrupt) else "terminated")
            os._exit(stop.code if isinstance(stop, SystemExit) and type(stop.code) is int else 130)
        raise
    return future.result()
