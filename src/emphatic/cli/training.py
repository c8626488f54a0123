"""Commands of deep agents: train and evaluate."""

import dataclasses
import os
import re
from pathlib import Path
from typing import Literal

import numpy as np

from .. import _work as work
from .._files import atomic_write
from ..types import DeviceName
from .output import printable, shell_command
from .parsing import parse_options, parse_path


@dataclasses.dataclass
class TrainOptions:
    """Train deep agents on Reacher or on a Gymnasium environment.

    The behaviour is uniformly random, or a recording.

    After Ctrl-C the same command resumes. With more --steps or --runs it continues."""

    env: str = "reacher"
    """reacher, or a Gymnasium environment with Box or Discrete actions: Id or module:Id."""
    algorithm: str = "cof-pac"
    """cof-pac, ace, off-pac, geoff-pac or td3 (Box actions only)."""
    steps: int = 50_000
    """Environment steps of each run."""
    runs: int = 1
    """The number of runs, which are trained side by side."""
    seed: int = 0
    """The seed of the first run; further runs take the seeds after it."""
    out: Path = Path("trained")
    """The folder to write: policies, curves, checkpoints and, for Gymnasium, experience."""
    experience: Path | None = None
    """A recording to learn from, instead of uniformly random actions."""
    policy: Literal["gaussian", "truncated", "softmax"] | None = None
    """The kind of policy; else truncated for Box and softmax for Discrete actions."""
    discount: float = 0.99
    """The discount gamma."""
    evaluate_every: int = 1000
    """Steps between evaluations."""
    limit_ends: bool = False
    """Treat a time limit as the end of the task, as in the paper's experiment."""
    max_steps: int | None = None
    """The time limit of evaluations, if the environment has none."""
    device: DeviceName = "auto"
    """Where JAX trains; auto: as JAX chooses. The bits of a training depend on it."""
    plot: bool = False
    """Also draw the curves, to curves.png in the same folder."""
    tensorboard: bool = False
    """Also log to TensorBoard, in the same folder."""
    yes: bool = False
    """Begin even what takes more than a day."""


@dataclasses.dataclass
class EvaluateOptions:
    """Run episodes with trained policies and print their returns."""

    episodes: int = 20
    """The number of episodes of each run's policy."""
    seed: int = 0
    """The seed of the episodes."""
    import_: tuple[str, ...] = ()
    """Modules, from this folder or installed, whose environments the policy may be of."""
    json: bool = False
    """Print JSON."""


FASTEST = 1e-5  # seconds that a step of a run takes at the least
# Of a training; those of earlier versions have only the second. (Importing `deep` takes seconds.)
TRAINING_FILES = "training.json", "policy.safetensors"


def training_folders(folder: Path) -> list[Path]:
    """Returns the folders of trainings at or below a folder."""
    return sorted({file.parent for name in TRAINING_FILES for file in folder.rglob(name)})


def use_cores(num_runs: int) -> None:
    """Makes every core a device of JAX, which must not have computed anything yet."""
    flag, flags = "--xla_force_host_platform_device_count", os.environ.get("XLA_FLAGS", "")
    if flag not in flags:
        from ..engine.tasks import num_cores

        os.environ["XLA_FLAGS"] = f"{flags} {flag}={max(1, min(num_cores(), num_runs))}".strip()


def train_command(arguments: list[str]) -> None:
    """Trains policies and prints each evaluation."""
    arguments = [re.sub("^--seeds(?=$|=)", "--runs", text) for text in arguments]  # as it was named
    options = parse_options(TrainOptions, arguments, "emphatic train")
    use_cores(options.runs)
    from .. import _validation as checks
    from ..deep.plan import CURVES, is_finished, require_room
    from ..deep.streams import find_devices
    from ..deep.training import train
    from ..experiments.curves import read_curves
    from ..figures import training as figure
    from . import progress, tables

    checks.count("steps", options.steps)
    checks.count("runs", options.runs)
    checks.seed(options.seed)
    device = find_devices(options.device)[0].device_kind
    require_room(options.runs, options.steps)
    size = f"train: {options.runs:,} runs of {options.steps:,} steps"
    work.require_time(size, FASTEST * options.runs * options.steps, options.yes)
    seeds = range(options.seed, options.seed + options.runs)
    if seeds.stop > 2**32:
        raise ValueError(f"seed: got {seeds.stop - 1}; below 2^32 is required")
    board = _open_board(options.out / "tensorboard") if options.tensorboard else None

    def on_evaluation(steps: int, values: dict[str, np.ndarray]) -> None:
        progress.show_evaluation(steps, options.steps, values, len(seeds))
        if board is not None:
            for name, entries in values.items():
                for seed, value in zip(values["seed"], entries, strict=True):
                    if name != "seed" and np.isfinite(value):  # NaN: not measured
                        board.add_scalar(f"{name}/{seed}", float(value), steps)

    renamed = {
        "policy",
        "seed",
        "runs",
        "plot",
        "tensorboard",
        "yes",
    }  # the others are arguments of `train`
    settings = {key: value for key, value in vars(options).items() if key not in renamed}
    was_finished = is_finished(options.out, seeds, options.steps)
    try:
        policies = train(**settings, seeds=seeds, kind=options.policy, on_evaluation=on_evaluation)
    finally:
        if board is not None:
            board.close()
    if options.plot:
        content = figure.render(read_curves(options.out / CURVES), "png")
        with atomic_write(options.out / "curves.png") as file:
            file.write(content)
    if was_finished:
        size = f"{policies.num_steps} steps of {progress.describe_seeds(policies.seeds)}"
        note = f"already there: {size} in {options.out}; larger --steps or --runs extend them"
        print(printable(note))
    else:
        print(printable(f"written to {options.out}: {tables.list_names(options.out)}"))
        print(printable(f"trained on {device}"))
    commands = (shell_command("emphatic", name, options.out) for name in ("evaluate", "report"))
    print(f"next: {', '.join(commands)}")


def _open_board(folder: Path):
    """Opens a TensorBoard log."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        advice = "run pip install 'emphatic[tensorboard]'"
        raise ValueError(f"tensorboard: tensorboardX is not installed; {advice}") from None
    return SummaryWriter(str(folder))


def evaluate_command(arguments: list[str]) -> None:
    """Prints the returns of trained policies."""
    required = "a folder or a file with a policy"
    path, options = parse_path("evaluate", EvaluateOptions, arguments, "path", required)
    from .. import _validation as checks
    from ..deep.trained_policies import evaluate, load_policies
    from . import tables

    checks.count("episodes", options.episodes)
    results = evaluate(load_policies(path), options.episodes, options.seed, options.import_)
    if options.json:
        print(tables.as_json(results))
    else:
        tables.show_returns(results)
