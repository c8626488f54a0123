"""Commands of experiments: compare, sweep, status and report."""

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any, TYPE_CHECKING

from .. import _work as work
from .._files import output_file
from ..types import DeviceName
from .output import printable, report_error, shell_command
from .parsing import argument_positions, parse_options, parse_path, parse_problem, split_argument
from .training import training_folders

if TYPE_CHECKING:
    from ..engine import Engine
    from ..experiments.completion import OnStart
    from ..experiments.compute import Estimate


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
    """Do two runs of a thousand steps, as a trial, in a folder of its own: OUT-quick."""
    import_: tuple[str, ...] = ()
    """Modules, from this folder or installed, whose code the file may use for learners."""
    cluster: str | None = None
    """Send the units to a Dask cluster: local, slurm, or the address of a scheduler."""
    workers: int | None = None
    """The number of workers of a local or slurm cluster; else one for each core or GPU, or 8 on
    SLURM."""
    device: DeviceName | None = None
    """Where fused learners run; auto: on a GPU that is there, if it pays (experimental).

    Else as the file says, or the CPU."""
    yes: bool = False
    """Begin even what takes more than a day or more than the disk has."""


@dataclasses.dataclass
class CompareOptions:
    """Run two or more learners on a problem and rank them by their error."""

    learners: tuple[str, ...] = ()
    """Two or more expressions, such as "gem(0.025)" and "etd(followon(), 1e-4)"; one's own learners
    are "module:function(...)", from the current folder, too."""
    measure: str | None = None
    """The error to compare: rmsve, emphasis_error, ...; else that of what the learners estimate."""
    steps: int = 1_000_000
    """Steps of each run."""
    runs: int = 30
    """The number of runs; run n of every learner has the same stream of experience."""
    seed: int = 0
    """The seed of the streams."""
    plot: Path | None = None
    """Plot the learning curves to this file."""
    out: Path | None = None
    """Keep the results in this folder, from which the same command resumes; see report, export."""
    device: DeviceName = "cpu"
    """Where fused learners run; auto: on a GPU that is there, if it pays (experimental)."""
    yes: bool = False
    """Begin even what takes more than a day or more than the disk has."""
    json: bool = False
    """Print JSON."""


@dataclasses.dataclass
class StatusOptions:
    """Show the progress of sweeps and trainings: what is done, running, diverged and left."""

    json: bool = False
    """Print JSON."""


@dataclasses.dataclass
class ReportOptions:
    """Write the results of figures, sweeps and trainings to a self-contained HTML page."""

    out: Path = Path("report.html")
    """The file to write."""


def settle_device(device: DeviceName, engine: "Engine" = "auto") -> DeviceName:
    """Returns where learners run; `auto` is the CPU where there is no GPU, of which it warns."""
    from ..engine.choice import count_gpus

    _, reason = count_gpus(device, engine)
    if reason:
        warnings.warn(f"device: {reason}; the CPU is used", stacklevel=2)
        return "cpu"
    return device


def confirm(title: str, folder: Path | None, confirmed: bool) -> "OnStart":
    """Returns a callback that refuses what takes too long or too much disk, if not confirmed."""

    def require(left: "Estimate") -> None:
        size = f"{title}: {left.num_updates:.3g} updates"
        work.require_time(size, left.seconds, confirmed)
        if folder is not None:
            work.require_disk(folder, left.num_bytes, confirmed)

    return require


def quick_folder(folder: Path) -> Path:
    """Returns the folder of a trial, apart from that of full results."""
    return folder.parent / f"{folder.name}-quick"


def _changed_options(options: SweepOptions) -> str:
    """Returns the options that change or allow what the file says, as they are written."""
    names = ("runs", "seed", "steps")
    numbers = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    flags = [f" --{name} {value}" for name, value in numbers.items()]
    if options.import_:
        flags.append(f" --import {' '.join(options.import_)}")
    return "".join([*([" --quick"] if options.quick else []), *flags])


def sweep_command(arguments: list[str]) -> int:
    """Runs the experiment of a TOML file."""
    path, options = parse_path("sweep", SweepOptions, arguments, "file", "a TOML file")
    from ..experiments.completion import complete
    from ..experiments.compute import estimate, require_room
    from ..experiments.plan import require_folder
    from ..experiments.store import missing_cells, status
    from ..experiments.toml import read
    from . import tables
    from .progress import progress_bar

    if options.cluster is not None:
        from ..experiments.workers import require_cluster

        require_cluster(options.cluster, options.workers)
    elif options.workers is not None:
        raise ValueError("workers: only a cluster has workers; give --cluster local or slurm")
    overrides = {"num_runs": options.runs, "seed": options.seed, "num_steps": options.steps}
    overrides |= {"device": options.device}
    if options.quick:
        overrides |= {"num_runs": 2, "num_steps": 1000, "record_every": 100, "num_records": None}
    changes = {key: value for key, value in overrides.items() if value is not None}
    experiment = dataclasses.replace(read(path, options.import_), **changes)
    if changed := _changed_options(options):
        metadata = {**experiment.metadata, "options": changed}
        experiment = dataclasses.replace(experiment, metadata=metadata)
    folder = options.out or Path("results") / experiment.name
    folder = quick_folder(folder) if options.quick else folder
    require_folder(folder, experiment.name)
    if options.cluster in (None, "local"):
        device = settle_device(experiment.device, experiment.engine)
        here = experiment = dataclasses.replace(experiment, device=device)
    else:
        here = dataclasses.replace(experiment, device="cpu")  # whatever the workers have
    left = estimate(here, missing_cells(experiment, folder))
    tables.show_plan(here, left, folder)
    try:
        require_room(experiment, in_memory=False)
        confirm("sweep", folder, options.yes)(left)
    except ValueError as error:
        if not options.dry_run:
            raise
        report_error(error)
    if options.dry_run:
        return 0
    with progress_bar(experiment.name) as on_progress:
        callbacks = {"on_progress": on_progress, "on_message": report_error}
        if options.cluster is None:
            complete(experiment, folder, **callbacks)
        else:
            from ..experiments import cluster

            size = {"num_workers": options.workers}
            cluster.complete(experiment, folder, options.cluster, **size, **callbacks)
    final_status = status(folder)
    tables.show_status(final_status, folder)
    print(f"next: {shell_command('emphatic', 'report', folder)}")
    return 1 if final_status.aside else 0


def status_command(arguments: list[str]) -> int:
    """Shows the progress of an experiment or a training, or of all of them below a folder."""
    required = "the folder of a sweep or a training, or one with several below it"
    folder, options = parse_path("status", StatusOptions, arguments, "folder", required)
    from ..experiments import plan, store
    from . import tables

    path = Path(folder)
    if not path.exists():
        raise ValueError(f"folder: {folder} does not exist")
    sweeps = [file.parent for file in sorted(path.rglob(plan.EXPERIMENT))]
    trainings = training_folders(path)
    if not trainings:
        sweeps = sweeps or [path]  # which says what is missing
    statuses: dict[str, Any] = {str(sweep): store.status(sweep) for sweep in sweeps}
    if trainings:
        from ..deep.plan import training_status

        statuses |= {str(training): training_status(training) for training in trainings}
    if options.json:
        print(tables.as_json(statuses if len(statuses) > 1 else next(iter(statuses.values()))))
    else:
        for name, status in statuses.items():
            if isinstance(status, store.Status):
                tables.show_status(status, name)
            else:
                tables.show_training(status, name)
    return 1 if any(status.left for status in statuses.values()) else 0


def compare_command(arguments: list[str]) -> None:
    """Runs learners on a problem and ranks them."""
    problem, options, title = parse_problem("compare", CompareOptions, arguments)
    from ..experiments.compare import rank, run_learners
    from . import plots, tables
    from .progress import progress_bar

    if options.plot is not None:
        plots.require_plot_file(options.plot)
    command = shell_command("emphatic", "compare", *arguments)
    kept = {"folder": options.out, "title": title, "command": command}
    kept["on_start"] = confirm("compare", options.out, options.yes)
    size = {"num_steps": options.steps, "num_runs": options.runs, "seed": options.seed}
    kept["device"] = settle_device(options.device)
    with progress_bar(title) as on_progress:
        dataset = run_learners(
            problem, options.learners, options.measure, on_progress=on_progress, **size, **kept
        )
    comparison = rank(dataset)
    if options.plot is not None:
        plots.draw_comparison(options.plot, title, dataset, comparison["measure"])
    if options.json:
        print(tables.as_json({"problem": title, **comparison}))
    else:
        tables.show_comparison(title, comparison)
        if options.device != "cpu":
            provenance = json.loads(dataset.attrs["provenance"])
            print(printable(f"run{tables.describe_devices(provenance)}"))


def report_command(arguments: list[str]) -> None:
    """Writes results to one HTML page."""
    usage, required = "report FOLDER...", "folders of figures, sweeps or trainings"
    split_argument(usage, ReportOptions, arguments, required)
    positions = argument_positions((ReportOptions,), arguments)
    folders = [arguments[position] for position in positions]
    flags = [text for n, text in enumerate(arguments) if n not in positions]
    options = parse_options(ReportOptions, flags, f"emphatic {usage}")
    from .. import report

    path = output_file(options.out)
    report.write(path, [report.from_folder(folder) for folder in folders])
    print(printable(f"the report is {options.out}"))
