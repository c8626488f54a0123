"""Progress of runs: a bar, and a line for each evaluation."""

import contextlib
import time
from collections.abc import Generator

import numpy as np

from ..engine.tasks import OnProgress


@contextlib.contextmanager
def progress_bar(title: str) -> Generator[OnProgress]:
    """Shows a bar with updates per second; yields a callback of the updates done and in total.

    The bar appears with the first call, so that an earlier error is a single line.
    """
    from rich import progress
    from rich.console import Console

    percentage, remaining = progress.TaskProgressColumn(), progress.TimeRemainingColumn()
    name, rate = "[bold]{task.description}", "{task.fields[rate]}"
    columns = name, progress.BarColumn(), percentage, rate, remaining
    bar = progress.Progress(*columns, console=Console(stderr=True))
    task, start = bar.add_task(title, total=None, rate=""), time.monotonic()
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


def show_evaluation(steps: int, total: int, values: dict[str, np.ndarray]) -> None:
    """Prints a line for an evaluation: means, and standard deviations if there are several runs."""
    cells = []
    for name in ("J", "return"):
        runs = values[name]
        spread = f" +- {runs.std(ddof=1):.2f}" if len(runs) > 1 else ""
        cells.append(f"{name} {runs.mean():.2f}{spread}")
    print(f"{steps:>{len(str(total))}} of {total} steps: {', '.join(cells)}", flush=True)
