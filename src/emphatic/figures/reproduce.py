"""A figure from nothing: runs its experiments, and writes data, summary and drawing."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from .. import _checks as checks
from .. import experiment
from .._json import plain
from .._names import unknown
from ..engine import Engine
from ..engine.tasks import Progress
from . import FIGURES


def writable(folder: Path) -> Path:
    """The folder, made if it is not there; a `ValueError` if nothing can be written in it."""
    probe = folder / ".probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"out: {folder} cannot be written: {error.strerror}") from None
    return folder


def reproduce(
    figure: str,
    out: Path,
    *,
    runs: int = 30,
    seed: int = 0,
    steps: int | None = None,
    engine: Engine = "auto",
    authors: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Runs the experiments of a figure and writes `data`, `summary.json` and the drawing.

    Everything goes into the folder `out/figure`; each experiment's data are written as it ends.
    Ctrl-C raises `KeyboardInterrupt` after what is finished has been written.

    **Arguments:**

    - `figure`: Its name, from `FIGURES`.
    - `out`: The folder for results.
    - `runs`: How many runs there are of each learner.
    - `seed`: Chooses their streams of experience.
    - `steps`: Steps of a run; by default as many as in the paper.
    - `engine`: What runs the learners; see `emphatic.engine.run`.
    - `authors`: Follow the authors' code where it differs from the paper.
    - `progress`: Called with the updates done and the updates of all experiments.

    **Returns:**

    The summary: rows, claims, exact levels, and by algorithm the engine that ran it.
    """
    if figure not in FIGURES:
        raise unknown("figure", figure, FIGURES)
    checks.count("runs", runs)
    checks.seed(seed)
    if steps is not None:
        checks.count("steps", steps)
    module = FIGURES[figure]
    if authors and not module.AUTHORS:
        raise ValueError(f"authors: no public code of the authors does what {figure} shows")
    asked = [
        dataclasses.replace(
            each, num_runs=runs, seed=seed, num_steps=steps if steps else each.num_steps
        )
        for each in (module.AUTHORS if authors else module.EXPERIMENTS)
    ]
    folder = writable(out / figure)
    data = writable(folder / "data")
    total, done, datasets = sum(each.num_updates() for each in asked), 0, []
    if progress is not None:
        progress(0, total)
    for each in asked:

        def of_all(updates: int, _: int, before: int = done) -> None:
            if progress is not None:
                progress(before + updates, total)

        dataset = experiment.run(each, engine=engine, progress=of_all)
        dataset.attrs["variant"] = "authors" if authors else "paper"
        dataset.to_netcdf(data / f"{each.name}.nc", engine="scipy")
        if dataset.attrs["interrupted"]:
            raise KeyboardInterrupt
        datasets.append(dataset)
        done += each.num_updates()
    summary = module.summarise(datasets)
    summary["engines"] = _engines(datasets)
    (folder / "summary.json").write_text(json.dumps(plain(summary), indent=1, allow_nan=False))
    from . import style

    drawing = module.plot(datasets, authors)
    with style.context():  # some settings are read when a file is written
        for suffix in ("png", "svg"):
            drawing.savefig(folder / f"figure.{suffix}", dpi=150, metadata=_undated(suffix))
    return summary


def _engines(datasets: list[Any]) -> dict[str, list[str]]:
    """By algorithm, what ran it."""
    return {
        str(name): sorted({str(each) for each in dataset["engine"].sel(learner=name).values.flat})
        for dataset in datasets
        for name in dataset["learner"].values
    }


def _undated(suffix: str) -> dict[str, Any]:
    """Metadata by which equal figures are equal files."""
    return {"Date": None} if suffix == "svg" else {"Software": None}
