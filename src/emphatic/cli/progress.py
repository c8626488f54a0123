"""What is shown during runs: a progress bar, and a line for each evaluation."""

import contextlib
import time
from collections.abc import Generator

import numpy as np

from ..engine.tasks import OnProgress


@contextlib.contextmanager
def progress_bar(title: str) -> Generator[OnProgress]:
    """Shows a bar with updates per second; yields the callback that takes the updates done and all.

    The bar appears with the first call: what fails before that is one line of its own.
    """
    from rich import progress
    from rich.console import Console

    share, left = progress.TaskProgressColumn(), progress.TimeRemainingColumn()
    columns = "[bold]{task.description}", progress.BarColumn(), share, "{task.fields[rate]}", left
    bar = progress.Progress(*columns, console=Console(stderr=True))
    task, start = bar.add_task(title, total=None, rate=""), time.monotonic()

    def update(done: int, total: int) -> None:
        bar.start()
        rate = done / max(time.monotonic() - start, 1e-9)
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
