"""Tasks: Reacher, inside the compiled program, or any environment of Gymnasium."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from .environments import gymnasium as gym
from .environments.environment import Environment
from .environments.reacher import reacher
from .experience import Experience, load_experience, save_experience
from .policies import Gaussian, Policy, Softmax, TruncatedGaussian

WORKERS = 10
"""The number of copies of an environment that act side by side."""


@dataclass(frozen=True, eq=False)
class Task:
    """What an agent must know of the environment in which it acts: the longest episode, and the
    bounds of actions that are vectors or the number of actions that are numbers. The environment
    itself is here if it is a compiled one."""

    name: str
    horizon: int
    low: Float[np.ndarray, " a"] | None = None
    high: Float[np.ndarray, " a"] | None = None
    num_actions: int | None = None
    environment: Environment | None = None


def make_task(
    name: str,
    max_steps: int | None = None,
    experience: Experience | None = None,
    goals: str = "disc",
    imports: Collection[str] | None = None,
) -> Task:
    """Makes a task by its name, `reacher` or the id of a Gymnasium environment; a `ValueError` if
    there is none, or nothing can be learned in it. Without experience that was recorded in it,
    uniform behaviour must be possible. An environment without a limit of its own needs
    `max_steps`, the longest episode in an evaluation; for `goals` see [reacher]. Of an id
    `module:Id` the module is imported; whoever has the name from a file says as `imports` which
    modules may be."""
    if experience is not None and experience.environment != name:
        raise ValueError(f"experience: it is of {experience.environment!r}, not of {name!r}")
    if name == "reacher":
        arm = reacher(goals=goals)
        return Task(name, arm.horizon, arm.low, arm.high, environment=arm)
    gym.find_spec(name, imports)
    if experience is None:
        experience = gym.record(name, 1, 1)  # one step shows all that can be wrong
    horizon = max_steps or _time_limit(name)
    return Task(name, horizon, experience.low, experience.high, experience.num_actions)


def _time_limit(name: str) -> int:
    limit = gym.find_spec(name).max_episode_steps
    if limit is None:
        raise ValueError(f"max_steps: {name!r} has no limit of its own; one is required")
    return limit


def policy_kinds(task: Task) -> tuple[str, ...]:
    """The kinds of policy for the actions of a task: the default, and last that of the paper, a
    Gaussian, which also acts outside the box, where the behaviour never does."""
    return ("softmax",) if task.num_actions is not None else ("truncated", "gaussian")


def make_policy(task: Task, kind: str | None = None) -> Policy:
    """Makes a policy for the actions of a task: `truncated` or `gaussian` for vectors, `softmax`
    for numbers; see [policy_kinds]."""
    kinds = policy_kinds(task)
    kind = kind or kinds[0]
    if kind not in kinds:
        actions = "vectors" if task.num_actions is None else "numbers"
        raise ValueError(
            f"policy: got {kind!r}; the actions of {task.name!r} are {actions}, for which there is "
            f"{' or '.join(kinds)}"
        )
    if task.num_actions is not None:
        return Softmax(task.num_actions)
    if task.low is None or task.high is None:
        raise ValueError("task: bounds of actions, or else their number, are required")
    return {"gaussian": Gaussian, "truncated": TruncatedGaussian}[kind](task.low, task.high)


def load_or_record(
    task: Task, seeds: Sequence[int], num_steps: int, folder: Path
) -> Environment | list[Experience]:
    """Loads recordings of uniform behaviour, one for each seed, and records those that are missing.

    They are files of the folder, with at least `num_steps` steps. A compiled environment needs no
    recording: the environment itself is returned.
    """
    if task.environment is not None:
        return task.environment
    folder.mkdir(parents=True, exist_ok=True)
    recordings = []
    for seed in seeds:
        path = folder / f"{re.sub('[/:]', '-', task.name)}-{seed}.safetensors"
        if path.exists():
            recording = load_experience(path)
            origin = recording.environment, recording.seed
            if origin != (task.name, seed):
                raise ValueError(f"experience: {path} is of {origin[0]!r}, {origin[1]}")
            if recording.num_steps >= num_steps:
                recordings.append(recording)
                continue
        recordings.append(gym.record(task.name, num_steps, WORKERS, seed))
        save_experience(recordings[-1], path)
    return recordings
