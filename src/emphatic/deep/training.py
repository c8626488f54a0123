"""Training for a task: policies, curves and experience in one folder."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import jax
import numpy as np

from .. import _validation as check
from .._files import atomic_write, make_folder
from ..types import DeviceName, Params
from .agents.agent import Agent
from .agents.table import make_agent
from .evaluation import play
from .experience import Experience, load_experience
from .loop import cached_excursions, train_agent, Training, Values
from .plan import (
    assign_checkpoints,
    CURVES,
    is_finished,
    POLICIES,
    policy_kind,
    require_extension,
    require_room,
    TrainingPlan,
    write_plan,
)
from .streams import find_devices, Source
from .task import load_or_record, make_policy, make_task, policy_kinds, Task, WORKERS
from .trained_policies import load_policies, save_policies, TrainedPolicies

if TYPE_CHECKING:
    import xarray

OnValues: TypeAlias = Callable[[int, Values], None]
"""Called at each evaluation with the steps so far and the values of all runs."""

MEASURES = ("J", "return", "ratio", "sample_size", "emphasis", "trace", "slope")


def train(
    out: Path,
    env: str,
    algorithm: str = "cof-pac",
    *,
    steps: int,
    seeds: Sequence[int] = (0,),
    kind: str | None = None,
    experience: Path | None = None,
    discount: float = 0.99,
    evaluate_every: int = 1000,
    limit_ends: bool = False,
    max_steps: int | None = None,
    device: DeviceName = "auto",
    on_evaluation: OnValues | None = None,
) -> TrainedPolicies:
    r"""Trains policies for a task, and writes the results to a folder.

    These are `policy.safetensors`, see [TrainedPolicies]; `curves.nc`, a dataset with the axes
    `run` and `steps`; `experience`, the recordings, if the environment is Gymnasium's; and
    `training.json` and checkpoints, from which the same call resumes after an interruption, and a
    call with more `steps` or more `seeds` continues. More steps end with the same bits as if they
    had been trained at once. Runs that are there are not trained again: new ones learn beside
    them, from the same experience as in a training of all seeds at once. A call for what the folder
    has returns its policies. For `env`, `algorithm` and `kind` see [make_task], [AGENTS] and
    [make_policy].

    **Arguments:**

    - `steps`: The environment steps of a run; there is one run for each seed.
    - `experience`: A recording that all runs learn from, in place of uniform behaviour.
    - `limit_ends`: Whether a time limit counts as the end of the task; see [transitions].
    - `max_steps`: The longest episode in an evaluation, if the environment has no limit of its own.
    - `device`: The kind of JAX's devices, `cpu` or `gpu`; `auto` leaves that to JAX. The bits of a
      training depend on it. The curves' attribute `device` says what it was.
    - `on_evaluation`: The values that it is called with have the `seed` of each run, too.
    """
    check.probability("discount", discount)
    kind_of_device = find_devices(device)[0].device_kind
    require_room(len(seeds), steps)
    recording = None if experience is None else load_experience(experience)
    task = make_task(env, max_steps, recording)
    kind = kind or policy_kind(out) or policy_kinds(task)[0]
    agent = make_agent(algorithm, make_policy(task, kind), discount=discount)
    _num_workers(recording, steps, evaluate_every)
    source = None if experience is None else str(experience)
    settings = discount, evaluate_every, limit_ends, max_steps, source
    plan = TrainingPlan(algorithm, env, kind, tuple(seeds), steps, *settings)
    require_extension(out, plan)
    if is_finished(out, seeds, steps):
        return load_policies(out)
    checkpoints = assign_checkpoints(out, plan)
    write_plan(make_folder(out), plan)
    # The observation after the last step is recorded, too: it follows, where an episode ends there.
    recorded = recording or load_or_record(task, seeds, steps + WORKERS, out / "experience")

    def train_seeds(checkpoint: Path, seeds: tuple[int, ...]) -> Training:
        def report(steps: int, values: Values) -> None:
            if on_evaluation is not None:
                on_evaluation(steps, {"seed": np.array(seeds), **values})

        source = recorded
        if isinstance(recorded, list):
            source = [next(r for r in recorded if r.seed == seed) for seed in seeds]
        return train_on_task(
            task,
            agent,
            source,
            seeds,
            steps,
            evaluate_every=evaluate_every,
            limit_ends=limit_ends,
            checkpoint=checkpoint,
            device=device,
            on_evaluation=report,
        )

    training = _join([train_seeds(*group) for group in checkpoints.items()], plan.seeds)
    dataset = to_dataset(training, algorithm, environment=env, device=kind_of_device)
    with atomic_write(out / CURVES) as file:
        file.write(dataset.to_netcdf(engine="scipy"))
    policies = TrainedPolicies(
        algorithm, env, kind, training.theta, training.seeds, steps, discount, max_steps
    )
    save_policies(policies, out / POLICIES)
    return policies


def _join(trainings: Sequence[Training], seeds: Sequence[int]) -> Training:
    """Joins trainings of different seeds, in the order of these."""
    joined = [seed for training in trainings for seed in training.seeds]
    order = [joined.index(seed) for seed in seeds]

    def join(*leaves: np.ndarray) -> np.ndarray:
        return np.concatenate(leaves)[order]

    curves, theta = jax.tree.map(join, *((part.curves, part.theta) for part in trainings))
    diverged = join(*(training.diverged for training in trainings))
    return Training(tuple(seeds), trainings[0].steps, curves, theta, diverged)


def train_on_task(
    task: Task,
    agent: Agent,
    experience: Source,
    seeds: Sequence[int],
    num_steps: int,
    *,
    evaluate_every: int = 1000,
    limit_ends: bool = True,
    checkpoint: str | os.PathLike | None = None,
    device: DeviceName = "auto",
    on_evaluation: OnValues | None = None,
) -> Training:
    """Trains an agent for a task, once for each seed, and evaluates it there as it learns.

    The arguments are those of [train_agent], but `num_steps` and `evaluate_every` count the
    environment steps of all workers together. Experience comes from [load_or_record].
    """
    num_workers = _num_workers(experience, num_steps, evaluate_every)
    environment = task.environment

    def evaluate_and_report(steps: int, values: Values, theta: Params) -> Values:
        returns = {} if environment else _evaluate_runs(task, agent, seeds, theta, steps)
        if on_evaluation is not None:
            on_evaluation(steps, {**values, **returns})
        return returns

    return train_agent(
        agent,
        experience,
        seeds,
        num_steps // num_workers,
        num_workers=num_workers,
        evaluate_every=evaluate_every // num_workers,
        evaluate=cached_excursions(environment, agent.act, agent.discount) if environment else None,
        limit_ends=limit_ends,
        checkpoint=checkpoint,
        device=device,
        on_evaluation=evaluate_and_report,
    )


def _num_workers(experience: Source | None, num_steps: int, evaluate_every: int) -> int:
    """The number of workers, each with a step in every iteration; a `ValueError` if steps do not
    add up."""
    recordings = [experience] if isinstance(experience, Experience) else experience
    recordings = recordings if isinstance(recordings, Sequence) else []
    num_workers = recordings[0].behavior.shape[1] if recordings else WORKERS
    if evaluate_every < 1 or evaluate_every % num_workers:
        raise ValueError(
            f"evaluate_every: got {evaluate_every}; {num_workers} workers must divide it"
        )
    if num_steps < 1 or num_steps % evaluate_every:
        raise ValueError(f"steps: got {num_steps}; a multiple of {evaluate_every} is required")
    for recording in recordings:
        if recording.num_steps < num_steps:
            raise ValueError(f"steps: got {num_steps}; the experience has {recording.num_steps}")
    return num_workers


def _evaluate_runs(
    task: Task, agent: Agent, seeds: Sequence[int], theta: Params, steps: int
) -> Values:
    """Estimates J and the return of each run, as [excursions] does; NaN for one that diverged."""
    values = {"J": np.full(len(seeds), np.nan), "return": np.full(len(seeds), np.nan)}
    for run, seed in enumerate(seeds):
        params = jax.tree.map(lambda leaf, run=run: leaf[run], theta)
        if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params)):
            run_seed = int(np.random.SeedSequence((seed, steps)).generate_state(1)[0])
            play_run = partial(
                play, task, agent.act, params, seed=run_seed, discount=agent.discount
            )
            values["J"][run] = play_run(random_steps=task.horizon).discounted.mean()
            values["return"][run] = play_run().undiscounted.mean()
    return values


def to_dataset(training: Training, algorithm: str, **attributes: str) -> "xarray.Dataset":
    """Makes a dataset of the curves of a training, with the axes `run` and `steps`."""
    import xarray

    steps, diverged = training.steps, training.diverged[:, None]
    missing = np.full((len(training.seeds), len(steps)), np.nan)
    axes = "run", "steps"
    return xarray.Dataset(
        {name: (axes, training.curves.get(name, missing)) for name in MEASURES}
        | {"diverged": (axes, (diverged >= 0) & (steps >= diverged))}
        | {"seed": ("run", np.array(training.seeds)), "engine": ("learner", ["scan"])},
        {"run": np.arange(len(training.seeds)), "steps": steps, "learner": [algorithm]},
        {"interrupted": 0, "algorithm": algorithm, **attributes},
    )
