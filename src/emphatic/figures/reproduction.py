"""A figure from nothing: runs its experiments, and writes data, summary and drawing."""

import dataclasses
import json
import shutil
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TYPE_CHECKING

from .. import _checks as checks
from .. import store
from .._files import replacing, writable
from .._json import plain
from .._names import unknown
from ..engine import Engine
from ..engine.tasks import Progress
from ..experiment import Experiment
from . import FIGURES
from .part import CHECKPOINTS, Part

if TYPE_CHECKING:
    import xarray


def reproduce(
    figure: str,
    out: Path,
    *,
    runs: int = 30,
    seed: int = 0,
    steps: int | None = None,
    authors: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Runs the experiments of a figure and writes `data`, `summary.json` and the drawing.

    Everything goes into the folder `out/figure`; results are kept in `data` as they are finished,
    and what is there is not computed again, whatever ended the process.

    **Arguments:**

    - `figure`: Its name, from `FIGURES`.
    - `out`: The folder for results.
    - `runs`: How many runs there are of each learner.
    - `seed`: Chooses their streams of experience.
    - `steps`: Steps of a run; by default as many as in the paper.
    - `authors`: Follow the authors' code where it differs from the paper.
    - `progress`: Called with the updates done and the updates of all experiments.
    - `options`: What only some figures have: `engine`, see `emphatic.engine.run`; for `control`,
      `algorithms`, `env` and `full`.

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
    parts = getattr(module, "parts", partial(_experiments, module))
    asked = parts(runs, seed, steps, authors, **options)
    folder = writable(out / figure)
    writable(folder / "data")
    total, done, datasets = sum(each.num_updates for each in asked), 0, []

    def move(updates: int, _: int = 0) -> None:
        if progress is not None:
            progress(done + updates, total)

    move(0)
    for each in asked:
        datasets.append(each.make(folder, move))
        done += each.num_updates
        move(0)
    summary = module.summarise(datasets)
    summary["engines"] = _engines(datasets)
    given = {"runs": runs, "seed": seed, "steps": steps, "authors": authors, **options}
    summary["settings"] = {name: value for name, value in given.items() if value is not None}
    summary["provenance"] = _provenance(datasets)
    with replacing(folder / "summary.json") as file:
        file.write(json.dumps(plain(summary), indent=1, allow_nan=False).encode())
    from . import style

    drawing = module.plot(datasets, authors)
    with style.context():  # some settings are read when a file is written
        for suffix in ("png", "svg"):
            drawing.savefig(folder / f"figure.{suffix}", dpi=150, metadata=_undated(suffix))
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    return summary


def _experiments(
    module: ModuleType,
    runs: int,
    seed: int,
    steps: int | None,
    authors: bool,
    engine: Engine = "auto",
) -> list[Part]:
    """The experiments of a figure that has such, as its parts."""
    if authors and not module.AUTHORS:
        raise ValueError(f"authors: no public code of the authors does what {module.NAME} shows")
    variant = "authors" if authors else "paper"

    def part(each: Experiment) -> Part:
        each = dataclasses.replace(
            each, num_runs=runs, seed=seed, num_steps=steps or each.num_steps, engine=engine
        )

        def make(folder: Path, progress: Progress) -> "xarray.Dataset":
            def move(updates: int, _: int) -> None:
                progress(updates, 0)

            found = store.run(each, folder / "data" / each.name, progress=move)
            return found.assign_attrs(variant=variant)

        return Part(each.name, each.num_updates(), make)

    return [part(each) for each in (module.AUTHORS if authors else module.EXPERIMENTS)]


def _engines(datasets: list[Any]) -> dict[str, list[str]]:
    """By algorithm, what ran it."""
    return {
        str(name): sorted({str(each) for each in dataset["engine"].sel(learner=name).values.flat})
        for dataset in datasets
        for name in dataset["learner"].values
    }


def _provenance(datasets: list[Any]) -> list[Any]:
    """What computed the parts, each once."""
    every = [each for dataset in datasets for each in json.loads(dataset.attrs["provenance"])]
    return list({json.dumps(each, sort_keys=True): each for each in every}.values())


def _undated(suffix: str) -> dict[str, Any]:
    """Metadata by which equal figures are equal files."""
    return {"Date": None} if suffix == "svg" else {"Software": None}
