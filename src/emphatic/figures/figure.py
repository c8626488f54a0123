"""The record of a figure: the parts it is computed from, its summary in numbers, its drawing."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..certify.certificate import Certificate
from ..engine import Engine
from ..engine.tasks import OnProgress
from ..experiments import completion, store
from ..experiments.completion import OnStart
from ..experiments.compute import require_room
from ..experiments.experiment import Experiment
from ..experiments.toml import read
from ..mdp import Problem
from ..types import DeviceName

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure as Drawing

CHECKPOINTS = "checkpoints"  # a folder that exists until all parts are finished

Summary = dict[str, Any]
"""What `summary.json` holds, or a part of it: rows, claims and their evidence."""

Number = float | Literal["inf", "-inf"] | None
"""A number as JSON has it: infinities are text, and None is what was not measured."""


Datasets = Sequence["xarray.Dataset"]
"""The results of a figure's parts, in the order of the parts."""

Runs = Float[np.ndarray, " run"]
"""One number for each run."""

Curves = Float[np.ndarray, "run time"]
"""One curve for each run."""

Table = tuple[list[str], list[list[str]]]
"""The names of the columns, and the lines of a table, as text."""


@dataclass(frozen=True)
class Part:
    """A part of a figure: one dataset, and how to compute or load it in the figure's folder.

    `announce` says what a part takes that may take long.
    """

    name: str
    num_updates: int
    run: Callable[[Path, OnProgress], "xarray.Dataset"]
    announce: Callable[[Path, OnStart], None] = lambda folder, on_start: None


@dataclass(frozen=True)
class Figure:
    """A figure, as data and pure functions from results to numbers and to a drawing.

    **Arguments:**

    - `name`, `title`, `caption`: Its name as a command, what it shows, and its table's caption.
    - `parts`: Returns its parts, given the number of runs, the seed, the steps of a run or None,
      whether to follow the authors' code, options that only some figures have, and the device.
    - `summarise`, `table`: From datasets to a summary, and from its rows to columns and lines.
    - `row`: What the table needs of a row that was read from a file, as a schema.
    - `draw`: Draws the datasets; with True, as in the authors' code.
    - `problems`: Returns the problems by label, with certificates where the figure has its own.
    - `remark`: What a reader of the exact quantities of these problems should know.
    """

    name: str
    title: str
    caption: str
    parts: Callable[..., list[Part]]
    summarise: Callable[[Datasets], Summary]
    table: Callable[[Sequence[Summary]], Table]
    row: type
    draw: Callable[[Datasets, bool], "Drawing"]
    problems: Callable[[], Mapping[str, tuple[Problem, Certificate | None]]] = dict
    remark: str = ""


def read_shipped(name: str) -> Experiment:
    """Reads one of the experiments that the package ships, a TOML file."""
    return read(Path(__file__).parent / "experiments" / f"{name}.toml")


def parts_from(
    figure: str, experiments: Sequence[Experiment], authors_experiments: Sequence[Experiment] = ()
) -> Callable[..., list[Part]]:
    """Returns the `parts` of a figure that consists of experiments."""

    def parts(
        runs: int,
        seed: int,
        steps: int | None,
        authors: bool,
        engine: Engine = "auto",
        device: DeviceName = "cpu",
    ) -> list[Part]:
        if authors and not authors_experiments:
            raise ValueError(f"authors: no public code of the authors does what {figure} shows")
        changes = {"num_runs": runs, "seed": seed, "engine": engine, "device": device}
        changes |= {} if steps is None else {"num_steps": steps}
        variant = "authors" if authors else "paper"
        originals = authors_experiments if authors else experiments
        return [_part(dataclasses.replace(original, **changes), variant) for original in originals]

    return parts


def _part(experiment: Experiment, variant: str) -> Part:
    require_room(experiment, in_memory=True)

    def announce(folder: Path, on_start: OnStart) -> None:
        completion.announce(experiment, folder / "data" / experiment.name, on_start)

    def run(folder: Path, on_progress: OnProgress) -> "xarray.Dataset":
        data = folder / "data" / experiment.name
        finished = completion.complete(experiment, data, on_progress=on_progress)
        return store.load_dataset(finished).assign_attrs(variant=variant)

    return Part(experiment.name, experiment.num_updates(), run, announce)


def problems_from(experiments: Sequence[Experiment]) -> dict[str, tuple[Problem, None]]:
    """Returns the problems of experiments by label, each once, without certificates."""
    problems: dict[str, tuple[Problem, None]] = {}
    for experiment in experiments:
        for point in experiment.points():
            label = ", ".join(f"{name} {value}" for name, value in point.items())
            problems.setdefault(label or experiment.name, (experiment.build(**point), None))
    return problems
