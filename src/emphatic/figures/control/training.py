"""The training of Figure 4's agents: one part for each algorithm and variant."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, TYPE_CHECKING

import numpy as np

from ..._files import to_jsonable
from ..._validation import unknown
from ...engine.tasks import OnProgress
from ...experiments.curves import require_curves
from ...experiments.provenance import provenance
from ...experiments.shards import read_if_matching, write
from ...types import DeviceName
from ..figure import CHECKPOINTS, Part

if TYPE_CHECKING:
    import xarray

    from ...deep.agents.agent import Agent
    from ...deep.environments.environment import Environment
    from ...deep.loop import Training
    from ...deep.task import Task

ALGORITHMS: tuple[str, ...] = ("cof-pac", "ace", "off-pac", "geoff-pac", "td3")
MAX_RUNS = {"geoff-pac": 10, "td3": 6}  # of slow algorithms, unless `full`
NAMES = ("COF-PAC", "ACE", "Off-PAC", "Geoff-PAC", "TD3")
LABELS: dict[str, str] = dict(zip(ALGORITHMS, NAMES, strict=True))
VARIED, VARIANTS = ("cof-pac", "ace"), ("authors", "masked", "unclipped")  # besides ours
NUM_STEPS, EVALUATE_EVERY = 50_000, 1000
NUM_SEEDS = 2**16  # of runs for each seed of the figure, and of the figure


def training_parts(
    runs: int,
    seed: int,
    steps: int | None,
    authors: bool,
    algorithms: Sequence[str] | None = None,
    env: str = "reacher",
    full: bool = False,
    device: DeviceName = "auto",
) -> list[Part]:
    """Returns a part for each algorithm, and for each variant of the first two with `authors`.

    The authors' variant has their trace, their loss of the emphasis, their goals of Reacher and
    their clipping of actions; `masked` has their loss alone. `unclipped` is what the paper's text
    says about ratios; otherwise they are clipped as in the code. `device` is the kind of JAX's
    devices.
    """
    from ...deep.agents import make_agent
    from ...deep.agents.actor_critic import AUTHORS, PAPER
    from ...deep.environments.environment import clip_actions
    from ...deep.losses import masked_emphasis_loss
    from ...deep.streams import find_devices
    from ...deep.task import make_policy, make_task, policy_kinds

    steps = NUM_STEPS if steps is None else steps
    if steps % EVALUATE_EVERY:
        raise ValueError(f"steps: got {steps}; a multiple of {EVALUATE_EVERY} is required")
    for name, value, largest in (("seed", seed, NUM_SEEDS - 1), ("runs", runs, NUM_SEEDS)):
        if value > largest:
            raise ValueError(f"{name}: got {value}; at most {largest} is possible")
    algorithms = ALGORITHMS if algorithms is None else tuple(dict.fromkeys(algorithms))
    if not algorithms:
        raise ValueError(f"algorithms: got none; known: {', '.join(ALGORITHMS)}")
    for name in algorithms:
        if name not in ALGORITHMS:
            raise unknown("algorithms", name, ALGORITHMS)
    find_devices(device)  # or says that there is none
    task = make_task(env)
    kind = policy_kinds(task)[-1]  # the paper's
    authors_task = make_task(env, goals="square") if authors else task
    if authors_task.environment is not None:
        clipped = clip_actions(authors_task.environment)
        authors_task = replace(authors_task, environment=clipped)
    settings: dict[str, dict[str, Any]] = {"ours": {}, "authors": AUTHORS, "unclipped": PAPER}
    settings["masked"] = {"emphasis_loss": masked_emphasis_loss}
    parts: list[Part] = []
    for name in algorithms:
        for variant in ("ours", *VARIANTS) if authors and name in VARIED else ("ours",):
            variant_task = authors_task if variant == "authors" else task
            agent = make_agent(name, make_policy(variant_task, kind), **settings[variant])
            num_runs = runs if full else min(runs, MAX_RUNS.get(name, runs))
            seeds = range(NUM_SEEDS * seed, NUM_SEEDS * seed + num_runs)
            settings_of_part = variant_task, agent, seeds, steps, device
            parts.append(_part(name, variant, *settings_of_part, film=not parts))
    return parts


def _part(
    algorithm: str,
    variant: str,
    task: "Task",
    agent: "Agent",
    seeds: range,
    steps: int,
    device: DeviceName,
    film: bool,
) -> Part:
    name = algorithm if variant == "ours" else f"{algorithm}-{variant}"

    def run(folder: Path, on_progress: OnProgress) -> "xarray.Dataset":
        from ...deep.streams import find_devices
        from ...deep.task import load_or_record, policy_kinds
        from ...deep.trained_policies import save_policies, TrainedPolicies
        from ...deep.training import to_dataset, train_on_task

        path = folder / "data" / f"{name}.safetensors"
        definition = {
            "agent": to_jsonable(agent.definition),
            "task": task.name if task.environment is None else task.environment.name,
            "seeds": [seeds.start, seeds.stop],
            "steps": steps,
        }
        dataset = read_if_matching(path, definition, require_curves)
        if dataset is not None:
            return dataset
        for subfolder in (CHECKPOINTS, "policies"):
            (folder / subfolder).mkdir(exist_ok=True)
        total = len(seeds) * steps
        training = train_on_task(
            task,
            agent,
            load_or_record(task, seeds, steps, folder / "experience"),
            seeds,
            steps,
            evaluate_every=EVALUATE_EVERY,
            checkpoint=folder / CHECKPOINTS / f"{name}.safetensors",
            device=device,
            on_evaluation=lambda done, _: on_progress(len(seeds) * done, total),
        )
        names = algorithm, task.name, policy_kinds(task)[-1]
        gamma = cast(float, agent.definition["discount"])
        policies = TrainedPolicies(*names, training.theta, training.seeds, steps, gamma)
        save_policies(policies, folder / "policies" / f"{name}.safetensors")
        if film and task.environment is not None:
            _film_episode(folder, algorithm, task.environment, agent, training)
        dataset = to_dataset(training, algorithm, variant=variant, environment=task.name)
        origin = provenance("scan", find_devices(device)[0].device_kind)
        dataset.attrs["provenance"] = json.dumps([origin])
        write(path, dataset, definition)
        return dataset

    return Part(name, len(seeds) * steps, run)


def _film_episode(
    folder: Path, algorithm: str, environment: "Environment", agent: "Agent", training: "Training"
) -> None:
    """Films an episode of the first run's last policy."""
    import jax

    from ...deep.environments.reacher import LINK, TIP
    from ...deep.evaluation import rollout
    from .film import write_film

    theta = jax.tree.map(lambda leaf: leaf[0], training.theta)
    play_episode = jax.jit(lambda theta, key: rollout(environment, agent.act, theta, key))
    states, reward, _ = play_episode(theta, jax.random.key(training.seeds[0]))
    policy = f"{LABELS[algorithm]} after {training.steps[-1]:,} steps"
    title = f"{policy}: an episode that returns {float(reward.sum()):.1f}"
    write_film(folder, np.asarray(states.q), np.asarray(states.goal), (LINK, TIP), title)
