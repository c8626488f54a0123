"""Commands of experiments: compare, sweep, status, reproduce and report."""

import dataclasses
import sys
from pathlib import Path
from typing import Any, Literal

from .._names import unknown
from .networks import use_cores
from .parsing import parse, parsed, place_and_options


@dataclasses.dataclass
class Reproduce:
    """Runs the experiments behind a figure of the paper; writes data, summary and drawing.

    What is finished is kept: the same command goes on where an interrupted one was."""

    runs: int = 30
    """How many runs, each on a stream of experience of its own."""
    seed: int = 0
    """Chooses the streams; different seeds share none."""
    steps: int | None = None
    """Steps of each run; by default as many as in the paper."""
    out: Path = Path("results")
    """The folder for results: DIR/FIGURE/data, figure.png, figure.svg and summary.json."""
    authors: bool = False
    """Follow the authors' code where it differs from the paper."""


@dataclasses.dataclass
class Sweep(Reproduce):
    """Runs the experiments behind a figure of the paper; writes data, summary and drawing.

    What is finished is kept: the same command goes on where an interrupted one was. The figure
    `control` has no engine but options of its own; see reproduce control --help."""

    engine: Literal["auto", "fused", "scan"] = "auto"
    """What runs the learners: vector code (fused), JAX (scan), or the former where possible."""


@dataclasses.dataclass
class Control(Reproduce):
    """Trains networks on Reacher; writes data, policies, summary, drawing and a film.

    Geoff-PAC has at most 10 runs and TD3 at most 5, unless all are asked for. After Ctrl-C the same
    command goes on where it was. With --authors their variants of COF-PAC and ACE are added."""

    algorithms: tuple[str, ...] | None = None
    """Which of cof-pac, ace, off-pac, geoff-pac and td3; by default all."""
    env: str = "reacher"
    """Reacher, or the id of a Gymnasium environment; experience is then recorded and kept."""
    full: bool = False
    """As many runs of Geoff-PAC and TD3 as of the others."""


@dataclasses.dataclass
class All:
    """Runs the experiments behind all figures, and ends with a report of them."""

    runs: int = 30
    """How many runs, each on a stream of experience of its own."""
    seed: int = 0
    """Chooses the streams; different seeds share none."""
    out: Path = Path("results")
    """The folder for results; the report is DIR/report.html."""
    quick: bool = False
    """Two short runs of everything, to see that it works."""


@dataclasses.dataclass
class File:
    """Runs the experiment of a TOML file, or what is missing of it.

    The number of cells (curves), of updates, the expected time and the disk space are printed
    first. What is finished is kept: the same command goes on where an interrupted one was, and more
    runs, learners or values of the grid add to what is there."""

    out: Path | None = None
    """The folder for results; by default results/NAME."""
    dry_run: bool = False
    """Check the file, print what it would take, and stop."""
    runs: int | None = None
    """How many runs, in place of what the file says."""
    seed: int | None = None
    """Chooses the streams, in place of what the file says."""
    steps: int | None = None
    """Steps of a run, in place of what the file says."""
    quick: bool = False
    """Two runs of a thousand steps, to see that it works."""
    cluster: str | None = None
    """Send units to a Dask cluster: local, the address of a scheduler, or slurm."""


@dataclasses.dataclass
class Compare:
    """Runs learners on one problem, and says which has the smaller error."""

    learners: tuple[str, ...] = ()
    """Two or more expressions, such as "gem(0.025)" or "etd(followon(), 1e-4)"."""
    measure: str = "rmsve"
    """What is compared: rmsve, emphasis_error, rmsqe, fixed_point_distance, ..."""
    steps: int = 100_000
    """Steps of a run."""
    runs: int = 30
    """How many runs; run n of every learner has the same stream."""
    seed: int = 0
    """Chooses the streams."""
    json: bool = False
    """Print JSON."""


@dataclasses.dataclass
class Status:
    """Shows what of an experiment is done, running, diverged and left."""

    json: bool = False
    """Print JSON."""


@dataclasses.dataclass
class Report:
    """Writes the results of figures and sweeps as one page of HTML that needs nothing else."""

    out: Path = Path("report.html")
    """The file to write."""


def reproduce_command(arguments: list[str]) -> int:
    """Runs the experiments behind a figure, or all of them."""
    program, (name, *rest) = "emphatic reproduce FIGURE", arguments or [""]
    if name in ("-h", "--help"):
        parsed(Sweep, ["--help"], program)
    from ..figures import FIGURES

    known = (*FIGURES, "all")
    if name.startswith("-") or not name:
        raise ValueError(f"figure: not given; `{program}` needs one of {', '.join(known)}")
    if name not in known:
        raise unknown("figure", name, known)
    if name == "all":
        return _reproduce_all(parsed(All, rest, "emphatic reproduce all"))
    options = parsed(Control if name == "control" else Sweep, rest, f"emphatic reproduce {name}")
    if name == "control":
        use_cores(options.runs)
    _figure(name, **vars(options))
    return 0


def _figure(name: str, out: Path, **options: Any) -> None:
    from .. import _show_runs
    from ..figures.reproduce import reproduce

    with _show_runs.progress(name) as progress:
        summary = reproduce(name, out, progress=progress, **options)
    _show_runs.show_figure(name, summary, out / name)


def _reproduce_all(options: All) -> int:
    from .. import report
    from ..figures import FIGURES

    steps = {"steps": 2000} if options.quick else {}
    runs = 2 if options.quick else options.runs
    use_cores(runs)
    for name in FIGURES:
        _figure(name, options.out, runs=runs, seed=options.seed, **steps)
    page = options.out / "report.html"
    found = [report.from_folder(options.out / name) for name in FIGURES]
    report.write(page, found, "The figures of the paper, and beyond")
    print(f"the report is {page}")
    return 0


def sweep_command(arguments: list[str]) -> int:
    """Runs the experiment of a TOML file."""
    path, options = place_and_options("sweep", File, arguments, "file", "a TOML file")
    from .. import _show_runs, store
    from ..experiment import estimate, units
    from ..experiment_file import read

    given = {"num_runs": options.runs, "seed": options.seed, "num_steps": options.steps}
    if options.quick:
        given |= {"num_runs": 2, "num_steps": 1000, "record_every": 100, "num_records": None}
    asked = {key: value for key, value in given.items() if value is not None}
    experiment = dataclasses.replace(read(path), **asked)
    folder = options.out or Path("results") / experiment.name
    store.require(folder, experiment.name)
    _show_runs.show_plan(experiment, estimate(units(experiment)), folder)
    if options.dry_run:
        return 0
    told: list[str] = []
    with _show_runs.progress(experiment.name) as progress:
        if options.cluster is None:
            store.run(experiment, folder, progress=progress, tell=told.append)
        else:
            from .. import cluster

            cluster.run(experiment, folder, options.cluster, progress=progress, tell=told.append)
    for words in told:
        print(f"emphatic: {words}", file=sys.stderr)
    found = store.status(folder)
    _show_runs.show_status(found, folder)
    print(f"next: emphatic report {folder}")
    return 1 if found["aside"] else 0


def status_command(arguments: list[str]) -> int:
    """Shows how far an experiment is, or all experiments below a folder."""
    needs = "the folder of a sweep, or one with several below it"
    folder, options = place_and_options("status", Status, arguments, "folder", needs)
    from .. import _show_runs, store
    from .._json import as_json

    below = [path.parent for path in sorted(Path(folder).rglob(store.EXPERIMENT))]
    found = {place: store.status(place) for place in below or [Path(folder)]}
    if options.json:
        every = {str(place): each for place, each in found.items()}
        print(as_json(every if len(every) > 1 else next(iter(every.values()))))
    else:
        for place, each in found.items():
            _show_runs.show_status(each, place)
    return 1 if any(each["left"] for each in found.values()) else 0


def compare_command(arguments: list[str]) -> int:
    """Runs learners on a problem, side by side."""
    problem, options, title = parse("compare", Compare, arguments)
    from .. import _show_runs
    from .._json import as_json
    from ..comparison import compare

    with _show_runs.progress(title) as progress:
        found = compare(
            problem,
            options.learners,
            options.measure,
            num_steps=options.steps,
            num_runs=options.runs,
            seed=options.seed,
            progress=progress,
        )
    if options.json:
        print(as_json({"problem": title, **found}))
    else:
        _show_runs.show_comparison(title, found)
    return 0


def report_command(arguments: list[str]) -> int:
    """Writes results as one page."""
    program = "emphatic report DIR..."
    if arguments[:1] in (["-h"], ["--help"]):
        parsed(Report, ["--help"], program)
    first = next((n for n, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    folders, rest = arguments[:first], arguments[first:]
    if not folders:
        raise ValueError(f"folder: not given; `{program}` needs folders of figures or of sweeps")
    options = parsed(Report, rest, program)
    from .. import report

    report.write(options.out, [report.from_folder(folder) for folder in folders])
    print(f"the report is {options.out}")
    return 0
