"""The command of figures: reproduce."""

import dataclasses
from pathlib import Path
from typing import Any, Literal

from .._validation import unknown
from ..types import DeviceName
from .experiments import confirm, quick_folder, settle_device
from .output import printable
from .parsing import parse_options, split_argument
from .training import use_cores


@dataclasses.dataclass
class FigureOptions:
    """Options of every figure."""

    runs: int = 30
    """The number of runs, each on its own stream of experience."""
    seed: int = 0
    """The seed of the streams; different seeds share no stream."""
    steps: int | None = None
    """Steps of each run; else as many as in the paper."""
    out: Path = Path("results")
    """The folder for results: OUT/FIGURE/data, figure.png, figure.svg and summary.json."""
    authors: bool = False
    """Follow the authors' code where it differs from the paper."""
    yes: bool = False
    """Begin even what takes more than a day or more than the disk has."""


@dataclasses.dataclass
class ReproduceOptions(FigureOptions):
    """Run the experiments behind a figure of the paper (or all) and draw it.

    Finished work is kept, and the same command resumes after an interruption.

    The figure control has its own options: see emphatic reproduce control --help."""

    engine: Literal["auto", "fused", "scan"] = "auto"
    """fused: native vector code; scan: JAX; auto: fused wherever possible."""
    device: DeviceName = "cpu"
    """Where fused learners run; auto: on a GPU that is there, if it pays (experimental)."""


@dataclasses.dataclass
class ReproduceControlOptions(FigureOptions):
    """Train deep agents on Reacher; write data, policies, a summary, the figure and a film.

    Geoff-PAC gets at most 10 runs and TD3 at most 6, unless --full is given.

    With --authors the authors' variants of COF-PAC and ACE are added.

    After Ctrl-C the same command resumes."""

    algorithms: tuple[str, ...] | None = None
    """Some of cof-pac, ace, off-pac, geoff-pac and td3; else all of them."""
    env: str = "reacher"
    """reacher, or the id of a Gymnasium environment, whose experience is recorded."""
    full: bool = False
    """Give Geoff-PAC and TD3 as many runs as the others."""
    device: DeviceName = "auto"
    """Where JAX trains; auto: as JAX chooses."""


@dataclasses.dataclass
class ReproduceAllOptions:
    """Run the experiments behind every figure, and write a report of all of them."""

    runs: int = 30
    """The number of runs, each on its own stream of experience."""
    seed: int = 0
    """The seed of the streams; different seeds share no stream."""
    out: Path = Path("results")
    """The folder for results; the report is OUT/report.html."""
    quick: bool = False
    """Do two short runs of everything, as a trial, in the folder OUT-quick."""
    device: DeviceName | None = None
    """Where all run; else the CPU, and for networks as JAX chooses."""
    yes: bool = False
    """Begin even what takes more than a day or more than the disk has."""


SPECIAL_FIGURES = {"control": ReproduceControlOptions, "all": ReproduceAllOptions}
REPRODUCE_OPTIONS = (ReproduceOptions, ReproduceControlOptions, ReproduceAllOptions)


def reproduce_command(arguments: list[str]) -> None:
    """Runs the experiments behind a figure, or behind all of them."""
    from ..figures import FIGURES

    names = (*FIGURES, "all")
    required = f"one of {', '.join(names)}"
    name, flags = split_argument(
        "reproduce FIGURE", ReproduceOptions, arguments, required, REPRODUCE_OPTIONS
    )
    if name not in names:
        raise unknown("figure", name, names)
    options_type = SPECIAL_FIGURES.get(name, ReproduceOptions)
    options = parse_options(options_type, flags, f"emphatic reproduce {name}")
    if isinstance(options, ReproduceAllOptions):
        _reproduce_all(options)
        return
    if name == "control":
        use_cores(options.runs)
    elif isinstance(options, ReproduceOptions):
        options.device = settle_device(options.device, options.engine)
    _reproduce_figure(name, **vars(options))


def _reproduce_figure(name: str, out: Path, yes: bool, **options: Any) -> None:
    from ..figures import reproduce
    from . import tables
    from .progress import progress_bar

    callbacks = {"on_start": confirm(name, out / name, yes)}
    with progress_bar(name) as on_progress:
        summary = reproduce(name, out, on_progress=on_progress, **callbacks, **options)
    tables.show_figure(name, summary, out / name)


def _reproduce_all(options: ReproduceAllOptions) -> None:
    from .. import report
    from ..figures import FIGURES

    steps = {"steps": 2000} if options.quick else {}
    runs = 2 if options.quick else options.runs
    out = quick_folder(options.out) if options.quick else options.out
    use_cores(runs)
    settled = options.device and settle_device(options.device)
    if options.device == "gpu":
        from ..deep import find_devices

        find_devices("gpu")  # or says that there is none, before the other figures are made
    for name in FIGURES:
        device = options.device if name == "control" else settled
        settings = {"runs": runs, "seed": options.seed, "device": device, **steps}
        _reproduce_figure(name, out, options.yes, **settings)
    page = out / "report.html"
    sections = [report.from_folder(out / name) for name in FIGURES]
    report.write(page, sections, "The figures of the paper, and beyond")
    print(printable(f"the report is {page}"))
