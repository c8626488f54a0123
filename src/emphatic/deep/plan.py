"""The folder of a training, and the file in it that says what the training is."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from .._files import atomic_write
from .._schema import Count, Probability, read_json, Rule
from .._work import require_memory
from .checkpoint import find_extent, FINITE, load_checkpoint, Seeds
from .trained_policies import load_policies

FORMAT = "emphatic training 1"
PLAN, POLICIES, CURVES = "training.json", "policy.safetensors", "curves.nc"
CHECKPOINTS = "checkpoint*.safetensors"  # one for all seeds that began together
RUN_BYTES, STEP_BYTES = 50_000, 32  # of memory, at the least: networks, a transition
GROWING = ("seeds", "steps", "experience")  # what may differ when a training is extended


class _Fields(TypedDict):
    """What `training.json` has to have."""

    format: Annotated[str, Rule(repr(FORMAT), lambda text: text == FORMAT)]
    algorithm: str
    environment: str
    kind: str
    seeds: Seeds
    steps: Count
    discount: Probability
    evaluate_every: Count
    limit_ends: bool
    max_steps: Count | None
    experience: str | None


@dataclass(frozen=True)
class TrainingPlan:
    """What a training is, as `training.json` says it; see [train]."""

    algorithm: str
    environment: str
    kind: str
    seeds: tuple[int, ...]
    steps: int
    discount: float
    evaluate_every: int
    limit_ends: bool
    max_steps: int | None
    experience: str | None


@dataclass(frozen=True)
class TrainingStatus:
    """The progress of a training: the environment steps of all runs, and how many diverged."""

    name: str
    runs: int
    steps: int
    done: int
    left: int
    diverged: int


def require_room(num_runs: int, num_steps: int) -> None:
    """A `ValueError` if runs with their replay need more memory than there is, at the least."""
    size = f"runs: {num_runs:,} runs of {num_steps:,} steps"
    num_bytes = num_runs * (RUN_BYTES + STEP_BYTES * num_steps)
    require_memory(size, num_bytes, "take fewer runs or steps")


def write_plan(folder: Path, plan: TrainingPlan) -> None:
    """Writes a plan to a folder, whole or not at all."""
    text = json.dumps({"format": FORMAT, **dataclasses.asdict(plan)}, indent=1)
    with atomic_write(folder / PLAN) as file:
        file.write(text.encode())


def read_plan(folder: Path) -> TrainingPlan | None:
    """Reads the plan in a folder; None if there is none."""
    path = folder / PLAN
    if not path.exists():
        return None
    fields: dict[str, Any] = {**read_json(path, _Fields, "out")}
    fields["seeds"] = tuple(fields["seeds"])
    return TrainingPlan(**{f.name: fields[f.name] for f in dataclasses.fields(TrainingPlan)})


def policy_kind(folder: Path) -> str | None:
    """Returns the kind of policy that a folder has, or will have; None where there is none."""
    plan = read_plan(folder)
    if plan is not None:
        return plan.kind
    return load_policies(folder).kind if (folder / POLICIES).exists() else None


def is_finished(folder: Path, seeds: Sequence[int], steps: int) -> bool:
    """Whether a folder has the policies of all these seeds after as many steps, or more."""
    if not (folder / POLICIES).exists():
        return False
    policies = load_policies(folder)
    return set(seeds) <= set(policies.seeds) and steps <= policies.num_steps


def require_extension(folder: Path, plan: TrainingPlan) -> None:
    """Raises a `ValueError` if a folder has a training that a plan does not extend."""
    held: dict[str, object] = {}
    if (folder / POLICIES).exists():  # also of a version that wrote no plan
        policies = load_policies(folder)
        held = {"steps": policies.num_steps, **vars(policies)}
    if (held_plan := read_plan(folder)) is not None:
        held |= vars(held_plan)
    for name, value in vars(plan).items():
        if name in held and name not in GROWING and held[name] != value:
            raise ValueError(
                f"out: {folder} has a training whose {name} is {held[name]!r}, not {value!r}; "
                "choose another folder"
            )


def assign_checkpoints(folder: Path, plan: TrainingPlan) -> dict[Path, tuple[int, ...]]:
    """Returns the seeds of each checkpoint of a folder, and of one for those that are new."""
    seeds: dict[Path, tuple[int, ...]] = {}
    for path in sorted(folder.glob(CHECKPOINTS)):
        seeds[path] = tuple(find_extent(path, *load_checkpoint(path))["seeds"])
    begun = {seed for group in seeds.values() for seed in group}
    if (folder / POLICIES).exists() and not begun.issuperset(load_policies(folder).seeds):
        raise ValueError(
            f"out: {folder} is of a version that kept no checkpoint; more needs another folder"
        )
    held = read_plan(folder)
    if begun and (not begun <= set(plan.seeds) or (held and plan.steps < held.steps)):
        steps = f"{held.steps} steps of " if held else ""
        raise ValueError(
            f"out: {folder} has {steps}the seeds {min(begun)} to {max(begun)}; "
            "as many and more can be trained there"
        )
    if new := tuple(seed for seed in plan.seeds if seed not in begun):
        seeds[folder / f"checkpoint-{new[0]}.safetensors"] = new
    return seeds


def training_status(folder: Path) -> TrainingStatus:
    """Reads the progress of the training in a folder."""
    done, diverged = 0, 0
    for path in sorted(folder.glob(CHECKPOINTS)):
        definition, arrays = load_checkpoint(path)
        extent = find_extent(path, definition, arrays)
        num_runs, num_evaluations = arrays[FINITE].shape
        steps = extent["evaluate_every"] * extent["num_workers"]
        done += num_runs * (num_evaluations - 1) * steps
        diverged += int((arrays[FINITE] == 0).any(1).sum())
    plan = read_plan(folder)
    if plan is None:  # a version before this one finished it
        policies = load_policies(folder)
        name = f"{policies.algorithm} on {policies.environment}"
        runs = len(policies.seeds)
        done = steps = runs * policies.num_steps
    else:
        name = f"{plan.algorithm} on {plan.environment}"
        runs, steps = len(plan.seeds), len(plan.seeds) * plan.steps
    return TrainingStatus(name, runs, steps, done, steps - done, diverged)
