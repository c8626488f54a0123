"""Commands of networks: train and evaluate."""

import dataclasses
import os
from pathlib import Path
from typing import Literal

import numpy as np

from .parsing import parsed, place_and_options


@dataclasses.dataclass
class Train:
    """Trains networks from random or recorded behaviour; writes a policy, curves and experience.

    After Ctrl-C the same command goes on where it was."""

    env: str = "reacher"
    """Reacher, or the id of a Gymnasium environment with Box or Discrete actions."""
    algorithm: str = "cof-pac"
    """One of cof-pac, ace, off-pac, geoff-pac and td3; the last one needs a Box."""
    steps: int = 50_000
    """Environment steps of a run."""
    seeds: int = 1
    """How many runs, side by side."""
    seed: int = 0
    """The first seed; each further run has the next one."""
    out: Path = Path("trained")
    """The folder to write: policy.safetensors, curves.nc and, for Gymnasium, experience."""
    experience: Path | None = None
    """A recording to learn from, in place of uniformly random actions."""
    policy: Literal["gaussian", "truncated", "softmax"] | None = None
    """The kind of policy; by default gaussian for a Box and softmax for Discrete actions."""
    discount: float = 0.99
    """The discount gamma."""
    evaluate_every: int = 1000
    """Steps between evaluations."""
    limit_ends: bool = False
    """Treat a limit of time as the end of the task, as in the paper's experiment."""
    max_steps: int | None = None
    """The longest episode in an evaluation, if the environment has no limit of its own."""
    tensorboard: bool = False
    """Also log to TensorBoard, in the same folder."""


@dataclasses.dataclass
class Evaluate:
    """Plays episodes with a policy that was trained, and prints what they return."""

    episodes: int = 20
    """How many episodes of each run's policy."""
    seed: int = 0
    """What everything random depends on."""
    json: bool = False
    """Print JSON."""


def use_cores(num_runs: int) -> None:
    """Makes every core a device of JAX, which reads this when it first computes."""
    flag, given = "--xla_force_host_platform_device_count", os.environ.get("XLA_FLAGS", "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if flag not in given:
        os.environ["XLA_FLAGS"] = f"{given} {flag}={max(1, min(cores or 1, num_runs))}".strip()


def train_command(arguments: list[str]) -> int:
    options = parsed(Train, arguments, "emphatic train")
    use_cores(options.seeds)
    from .. import _checks as checks
    from .. import _show_runs
    from ..deep.policy import trained

    checks.count("steps", options.steps)
    checks.count("seeds", options.seeds)
    checks.seed(options.seed)
    seeds = range(options.seed, options.seed + options.seeds)
    if seeds.stop > 2**32:
        raise ValueError(f"seed: got {seeds.stop - 1}; below 2^32 is required")
    board = _board(options.out / "tensorboard") if options.tensorboard else None

    def watch(steps: int, values: dict[str, np.ndarray]) -> None:
        _show_runs.show_values(steps, options.steps, values)
        if board is not None:
            for name, entries in values.items():
                for seed, value in zip(seeds, entries, strict=True):
                    if np.isfinite(value):  # NaN is what was not measured
                        board.add_scalar(f"{name}/{seed}", float(value), steps)

    others = {**vars(options), "seeds": seeds, "kind": options.policy, "watch": watch}
    try:
        trained(**{k: v for k, v in others.items() if k not in ("seed", "policy", "tensorboard")})
    finally:
        if board is not None:
            board.close()
    print(f"written to {options.out}: {_show_runs.listed(options.out)}")
    return 0


def _board(folder: Path):
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError(
            "tensorboard: tensorboardX is not installed; run pip install 'emphatic[tensorboard]'"
        ) from None
    return SummaryWriter(str(folder))


def evaluate_command(arguments: list[str]) -> int:
    needs = "a folder or a file with a policy"
    path, options = place_and_options("evaluate", Evaluate, arguments, "path", needs)
    from .. import _checks as checks
    from .. import _show_runs
    from .._json import as_json
    from ..deep.policy import load, played

    checks.count("episodes", options.episodes)
    learned = load(path)
    found = played(learned, options.episodes, options.seed)
    if options.json:
        print(as_json(found))
    else:
        _show_runs.show_returns(found)
    return 0
