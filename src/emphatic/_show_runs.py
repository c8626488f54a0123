"""How runs look: a bar while they last, tables and verdicts at their end."""

import contextlib
import time
from pathlib import Path
from typing import Any

import numpy as np

from ._show import console, new_table
from .experiment import Estimate, Experiment


@contextlib.contextmanager
def progress(title: str):
    """A bar with updates per second, moved on by calling it with the updates done and all.

    It is there from the first call on: what fails before that is one line of its own.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = "[bold]{task.description}", BarColumn(), TaskProgressColumn()
    bar = Progress(
        *columns,
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    task, began = bar.add_task(title, total=None, rate=""), time.monotonic()

    def move(done: int, total: int) -> None:
        bar.start()
        rate = done / max(time.monotonic() - began, 1e-9)
        bar.update(task, completed=done, total=total, rate=f"{rate:.2e} updates/s")

    try:
        yield move
    finally:
        if bar.live.is_started:
            bar.stop()


def show_figure(name: str, summary: dict[str, Any], folder: Path) -> None:
    """The figure in a few numbers, the claims, and where everything is."""
    from .figures import FIGURES

    out = console()
    columns, lines = FIGURES[name].table(summary["rows"])
    table = new_table(f"{name}: {FIGURES[name].TITLE}", *columns, left=2)
    for line in lines:
        table.add_row(*line)
    out.print(table)
    for claim in summary["claims"]:
        evidence = claim["evidence"]
        verdict, color = ("holds", "green") if claim["holds"] else ("not shown", "red")
        held = f"{evidence['held']} of {len(evidence['cases'])} cases"
        if all("p_value" in case for case in evidence["cases"]):
            held += f", largest p-value {max(case['p_value'] for case in evidence['cases']):.2g}"
        out.print(f"[{color}]{verdict}[/{color}]  {claim['claim']} [dim]({held})[/dim]")
    ran = (f"{name} by {' and '.join(engines)}" for name, engines in summary["engines"].items())
    out.print(f"[dim]run: {', '.join(ran)}[/dim]")
    out.print(f"written to {folder}: {listed(folder)}")


def show_plan(experiment: Experiment, expected: Estimate, folder: Path) -> None:
    """What a sweep is about to do, in a few lines."""
    out = console()
    axes = [(name, len(values)) for name, values in experiment.cases.items()]
    axes += [("learner", len(experiment.definitions))]
    axes += [(name, np.size(values)) for name, values in experiment.grid.items()]
    axes += [("run", experiment.num_runs)]
    out.print(f"[bold]{experiment.name}[/bold]: " + " x ".join(f"{n} {name}" for name, n in axes))
    out.print(
        f"{expected.num_cells:,} cells of {experiment.num_steps:,} steps in "
        f"{expected.num_units:,} units: {expected.num_updates:.3g} updates"
    )
    minutes, seconds = divmod(round(expected.seconds), 60)
    about = f"{minutes} min {seconds} s" if minutes else f"{max(1, seconds)} s"
    out.print(f"expected: {about} on this machine, {_bytes(float(expected.num_bytes))} in {folder}")


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def show_status(found: dict[str, Any], folder: Path) -> None:
    """How far an experiment is: a bar, and what is running, diverged or set aside."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    out = console()
    line = Table.grid(padding=(0, 1))
    share = found["done"] / max(1, found["cells"])
    bar = ProgressBar(total=1.0, completed=share, width=40)
    line.add_row(f"[bold]{found['name']}[/bold]", bar, f"{100 * share:.0f}%", str(folder))
    out.print(line)
    running = len(found["running"])
    out.print(
        f"{found['done']:,} of {found['cells']:,} cells done in {found['units']} units, "
        f"{found['diverged']:,} of them diverged; {running} units running, {found['left']:,} "
        "cells left"
    )
    for name, done, total in found["running"]:
        out.print(f"[dim]running {name}: {100 * done / max(1, total):.0f}%[/dim]")
    for each in found["aside"]:
        out.print(f"[red]set aside[/red] {each['unit']}: {each['reason']}")


def show_comparison(title: str, found: dict[str, Any]) -> None:
    """The learners of a comparison from the best to the worst, and how sure that is."""
    out = console()
    words = f"{title}: {found['measure']} after {found['steps']:,} steps, mean of runs (95 %)"
    table = new_table(words, "learner", "final error", "area", "diverged")
    for row in found["rows"]:
        final = f"{row['final']:.4g} ({row['low']:.4g} to {row['high']:.4g})"
        table.add_row(
            row["learner"], final, f"{row['area']:.4g}", f"{row['diverged_runs']} of {row['runs']}"
        )
    out.print(table)
    for pair in found["pairs"]:
        ends = f"{pair['difference']:.3g} ({pair['low']:.3g} to {pair['high']:.3g})"
        out.print(
            f"{pair['smaller']} against {pair['larger']}: {ends}; smaller in {pair['wins']} of "
            f"{pair['runs']} runs, p = {pair['p_value']:.2g}",
            markup=False,
        )


def listed(folder: Path) -> str:
    """What a folder has in it."""
    return ", ".join(sorted(path.name for path in folder.iterdir()))


def show_values(steps: int, total: int, values: dict[str, np.ndarray]) -> None:
    """A line for an evaluation: means over runs, and standard deviations where there are more."""
    words = []
    for name in ("J", "return"):
        runs = values[name]
        spread = f" +- {runs.std(ddof=1):.2f}" if len(runs) > 1 else ""
        words.append(f"{name} {runs.mean():.2f}{spread}")
    print(f"{steps:>{len(str(total))}} of {total} steps: {', '.join(words)}", flush=True)


def show_returns(found: dict[str, Any]) -> None:
    """What the episodes of policies returned, a line for each run."""
    out = console()
    words = f"{found['environment']}, {found['algorithm']} after {found['num_steps']} steps"
    columns = ("seed", "discounted return", "undiscounted return", "steps of an episode")
    table = new_table(f"{words}: {found['episodes']} episodes", *columns)
    for run in found["runs"]:
        cells = (f"{run[name]['mean']:.2f} +- {run[name]['std']:.2f}" for name in list(run)[1:])
        table.add_row(str(run["seed"]), *cells)
    out.print(table)
