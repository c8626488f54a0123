"""Commands of experiments: compare, sweep, status, reproduce and report."""

import dataclasses
import itertools
import sys
from pathlib import Path
from typing import Any, Literal

from .._validation import unknown
from .parsing import parse_options, parse_path, parse_problem, split_argument
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


@dataclasses.dataclass
class ReproduceOptions(FigureOptions):
    """Run the experiments behind a figure of the paper (or all) and draw it.

    Finished work is kept, and the same command resumes after an interruption.

    The figure control has its own options: see emphatic reproduce control --help."""

    engine: Literal["auto", "fused", "scan"] = "auto"
    """fused: native vector code; scan: JAX; auto: fused wherever possible."""


@dataclasses.dataclass
class ReproduceControlOptions(FigureOptions):
    """Train deep agents on Reacher; write data, policies, a summary, the figure and a film.

    Geoff-PAC gets at most 10 runs and TD3 at most 5, unless --full is given.

    With --authors the authors' variants of COF-PAC and ACE are added.

    After Ctrl-C the same command resumes."""

    algorithms: tuple[str, ...] | None = None
    """Some of cof-pac, ace, off-pac, geoff-pac and td3; else all of them."""
    env: str = "reacher"
    """reacher, or the id of a Gymnasium environment, whose experience is recorded."""
    full: bool = False
    """Give Geoff-PAC and TD3 as many runs as the others."""


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
    """Do two short runs of everything, as a trial."""


@dataclasses.dataclass
class SweepOptions:
    """Run the experiment in a TOML file, or the part of it that is missing.

    First prints the numbers of cells (curves) and updates, the expected time and the disk space.

    Finished work is kept: the same command resumes after an interruption.

    More runs, learners or values of the grid are added to the existing results."""

    out: Path | None = None
    """The folder for results; else results/NAME."""
    dry_run: bool = False
    """Check the file and print what the experiment would take, but do not run it."""
    runs: int | None = None
    """The number of runs; else as the file says."""
    seed: int | None = None
    """The seed of the streams; else as the file says."""
    steps: int | None = None
    """Steps of each run; else as the file says."""
    quick: bool = False
    """Do two runs of a thousand steps, as a trial."""
    import_: tuple[str, ...] = ()
    """Modules, from this folder or installed, whose code the file may use for learners."""
    cluster: str | None = None
    """Send the units to a Dask cluster: local, slurm, or the address of a scheduler."""


@dataclasses.dataclass
class CompareOptions:
    """Run two or more learners on a problem and rank them by their error."""

    learners: tuple[str, ...] = ()
    """Two or more expressions, such as "td(0.01)" and "etd(followon(), 1e-4)"; one's own learners
    are "module:function(...)", from the current folder, too."""
    measure: str | None = None
    """The error to compare: rmsve, emphasis_error, ...; else that of what the learners estimate."""
    steps: int = 100_000
    """Steps of each run."""
    runs: int = 30
    """The number of runs; run n of every learner has the same stream of experience."""
    seed: int = 0
    """The seed of the streams."""
    json: bool = False
    """Print JSON."""


@dataclasses.dataclass
class StatusOptions:
    """Show the progress of an experiment: what is done, running, diverged and left."""

    json: bool = False
    """Print JSON."""


@dataclasses.dataclass
class ReportOptions:
    """Write the results of figures and sweeps to a self-contained HTML page."""

    out: Path = Path("report.html")
    """The file to write."""


REPRODUCE_OPTIONS = (ReproduceOptions, ReproduceControlOptions, ReproduceAllOptions)


def reproduce_command(arguments: list[str]) -> None:
    """Runs the experiments behind a figure, or behind all of them."""
    from ..figures import FIGURES

    names = (*FIGURES, "all")
    required = f"one of {', '.join(names)}"
    name, flags = split_argument("reproduce FIGURE", ReproduceOptions, arguments, required)
    if name not in names:
        raise unknown("figure", name, names)
    special = {"control": ReproduceControlOptions, "all": ReproduceAllOptions}
    options_type = special.get(name, ReproduceOptions)
    options = parse_options(options_type, flags, f"emphatic reproduce {name}")
    if isinstance(options, ReproduceAllOptions):
        _reproduce_all(options)
        return
    if name == "control":
        use_cores(options.runs)
    _reproduce_figure(name, **vars(options))


def _reproduce_figure(name: str, out: Path, **options: Any) -> None:
    from ..figures import reproduce
    from . import tables
    from .progress import progress_bar

    with progress_bar(name) as on_progress:
        summary = reproduce(name, out, on_progress=on_progress, **options)
    tables.show_figure(name, summary, out / name)


def _reproduce_all(options: ReproduceAllOptions) -> None:
    from .. import report
    from ..figures import FIGURES

    steps = {"steps": 2000} if options.quick else {}
    runs = 2 if options.quick else options.runs
    use_cores(runs)
    for name in FIGURES:
        _reproduce_figure(name, options.out, runs=runs, seed=options.seed, **steps)
    page = options.out / "report.html"
    sections = [report.from_folder(options.out / name) for name in FIGURES]
    report.write(page, sections, "The figures of the paper, and beyond")
    print(f"the report is {page}")


def sweep_command(arguments: list[str]) -> int:
    """Runs the experiment of a TOML file."""
    path, options = parse_path("sweep", SweepOptions, arguments, "file", "a TOML file")
    from ..experiments.completion import complete
    from ..experiments.compute import estimate
    from ..experiments.plan import require_folder
    from ..experiments.store import status
    from ..experiments.toml import read
    from . import tables
    from .progress import progress_bar

    overrides = {"num_runs": options.runs, "seed": options.seed, "num_steps": options.steps}
    if options.quick:
        overrides |= {"num_runs": 2, "num_steps": 1000, "record_every": 100, "num_records": None}
    changes = {key: value for key, value in overrides.items() if value is not None}
    experiment = dataclasses.replace(read(path, options.import_), **changes)
    folder = options.out or Path("results") / experiment.name
    require_folder(folder, experiment.name)
    tables.show_plan(experiment, estimate(experiment), folder)
    if options.dry_run:
        return 0
    messages: list[str] = []
    with progress_bar(experiment.name) as on_progress:
        callbacks = {"on_progress": on_progress, "on_message": messages.append}
        if options.cluster is None:
            complete(experiment, folder, **callbacks)
        else:
            from ..experiments import cluster

            cluster.complete(experiment, folder, options.cluster, **callbacks)
    for message in messages:
        print(f"emphatic: {message}", file=sys.stderr)
    final_status = status(folder)
    tables.show_status(final_status, folder)
    print(f"next: emphatic report {folder}")
    return 1 if final_status.aside else 0


def status_command(arguments: list[str]) -> int:
    """Shows the progress of an experiment, or of all experiments below a folder."""
    required = "the folder of a sweep, or one with several below it"
    folder, options = parse_path("status", StatusOptions, arguments, "folder", required)
    from ..experiments import plan, store
    from . import tables

    folders = [path.parent for path in sorted(Path(folder).rglob(plan.EXPERIMENT))]
    statuses = {str(path): store.status(path) for path in folders or [Path(folder)]}
    if options.json:
        print(tables.as_json(statuses if len(statuses) > 1 else next(iter(statuses.values()))))
    else:
        for path, status in statuses.items():
            tables.show_status(status, path)
    return 1 if any(status.left for status in statuses.values()) else 0


def compare_command(arguments: list[str]) -> None:
    """Runs learners on a problem and ranks them."""
    problem, options, title = parse_problem("compare", CompareOptions, arguments)
    from ..experiments.compare import compare
    from . import tables
    from .progress import progress_bar

    size = {"num_steps": options.steps, "num_runs": options.runs, "seed": options.seed}
    with progress_bar(title) as on_progress:
        comparison = compare(
            problem, options.learners, options.measure, on_progress=on_progress, **size
        )
    if options.json:
        print(tables.as_json({"problem": title, **comparison}))
    else:
        tables.show_comparison(title, comparison)


def report_command(arguments: list[str]) -> None:
    """Writes results to one HTML page."""
    usage, required = "report FOLDER...", "folders of figures or of sweeps"
    split_argument(usage, ReportOptions, arguments, required)
    folders = list(itertools.takewhile(lambda text: not text.startswith("-"), arguments))
    options = parse_options(ReportOptions, arguments[len(folders) :], f"emphatic {usage}")
    from .. import report

    report.write(options.out, [report.from_folder(folder) for folder in folders])
    print(f"the report is {options.out}")
