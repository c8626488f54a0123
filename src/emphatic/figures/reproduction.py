"""Reproduces a figure: runs its experiments, and writes data, summary and drawing."""

import itertools
import json
import shutil
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from .. import _validation as checks
from .._files import atomic_write, make_folder, to_jsonable
from .._schema import conform, Count, read_json
from ..engine.tasks import OnProgress
from ..experiments.completion import OnStart
from ..experiments.provenance import Provenance
from ..types import DeviceName
from . import emphasis, policy_evaluation, style
from .control import figure as control
from .convergence import figure as convergence
from .figure import CHECKPOINTS, Datasets, Figure, Summary
from .verdicts import Claim

FIGURES: dict[str, Figure] = {
    module.FIGURE.name: module.FIGURE
    for module in (emphasis, policy_evaluation, convergence, control)
}
"""The figures by name."""


class Settings(TypedDict):
    """The settings of a figure; it may have more."""

    steps: NotRequired[Count]


class SummaryFile(TypedDict):
    """What `summary.json` has to have; the rows of a figure have a schema of their own."""

    rows: list[dict[str, object]]
    claims: NotRequired[list[Claim]]
    exact: NotRequired[list[dict[str, object]]]
    warnings: NotRequired[list[dict[str, object]]]
    settings: NotRequired[Settings]
    provenance: NotRequired[list[Provenance]]


def read_summary(folder: Path, figure: Figure | None) -> Summary:
    """Reads the summary in the folder of a figure; a `ValueError` says what it is instead."""
    path = folder / "summary.json"
    summary = read_json(path, SummaryFile, "folder")
    for number, row in enumerate(summary["rows"]):
        conform(row, figure.row if figure else dict, f"folder: {path}, rows[{number}]")
    return dict(summary)


def reproduce(
    figure: str,
    out: Path,
    *,
    runs: int = 30,
    seed: int = 0,
    steps: int | None = None,
    authors: bool = False,
    device: DeviceName | None = None,
    on_start: OnStart | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Summary:
    """Runs a figure's experiments, writes data, summary and drawing, and returns the summary.

    Everything goes into the folder `out/figure`. Results are stored in `data` as soon as they are
    finished, and are not computed again, however the process ended.

    **Arguments:**

    - `figure`: A name from `FIGURES`.
    - `runs`, `seed`: The runs of each learner, and the seed of their streams of experience.
    - `steps`: The steps of a run; by default as many as in the paper.
    - `authors`: Follow the authors' code where it differs from the paper.
    - `device`: Where to run; by default the CPU, and for networks JAX's choice. See
      `emphatic.engine.run` and `emphatic.deep.train`.
    - `on_start`: Called with what is left of each part that may take long, before anything runs.
    - `on_progress`: Called with the updates done and the updates of all experiments.
    - `options`: Options that only some figures have: `engine`, see `emphatic.engine.run`; for
      `control`, `algorithms`, `env` and `full`.
    """
    if figure not in FIGURES:
        raise checks.unknown("figure", figure, FIGURES)
    checks.count("runs", runs)
    checks.seed(seed)
    if steps is not None:
        checks.count("steps", steps)
    record = FIGURES[figure]
    execution = {} if device is None else {"device": device}
    parts = record.parts(runs, seed, steps, authors, **options, **execution)
    if on_start is not None:
        for part in parts:
            part.announce(out / figure, on_start)
    folder = make_folder(out / figure)
    make_folder(folder / "data")
    total, done, datasets = sum(part.num_updates for part in parts), 0, []

    def report_progress(updates: int, _: int = 0) -> None:
        if on_progress is not None:
            on_progress(done + updates, total)

    report_progress(0)
    for part in parts:
        datasets.append(part.run(folder, report_progress))
        done += part.num_updates
        report_progress(0)
    summary = record.summarise(datasets)
    summary["engines"] = _engines(datasets)
    settings = {"runs": runs, "seed": seed, "steps": steps, "authors": authors, **options}
    summary["settings"] = {name: value for name, value in settings.items() if value is not None}
    summary["provenance"] = _provenance(datasets)
    with atomic_write(folder / "summary.json") as file:
        file.write(json.dumps(to_jsonable(summary), indent=1, allow_nan=False).encode())
    with style.context():  # some settings are read when a file is written; dates would differ
        drawing = record.draw(datasets, authors)
        style.save(drawing, folder / "figure.png")
        style.save(drawing, folder / "figure.svg")
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    return summary


def _engines(datasets: Datasets) -> dict[str, list[str]]:
    """Returns the engines that ran each algorithm."""
    return {
        str(name): sorted(set(map(str, dataset["engine"].sel(learner=name).values.flat)))
        for dataset in datasets
        for name in dataset["learner"].values
    }


def _provenance(datasets: Datasets) -> list[Summary]:
    """Returns the provenance of all parts, without repetition."""
    records = itertools.chain(*(json.loads(dataset.attrs["provenance"]) for dataset in datasets))
    return list({json.dumps(record, sort_keys=True): record for record in records}.values())
