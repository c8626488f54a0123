"""Learned policies: one file, from which they can act again."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import safe_open, SafetensorError
from safetensors.numpy import save as serialized

from .. import _checks as check
from .. import statistics
from .._files import replacing, writable
from . import experience as recordings
from .checkpoint import named
from .task import (
    agent,
    experienced,
    iteration,
    kinds,
    labelled,
    learn,
    policy,
    returns,
    Task,
    task,
)

FORMAT = "emphatic policy 1"
DESCRIBED = ("algorithm", "environment", "kind", "seeds", "num_steps", "discount", "max_steps")


@dataclass(frozen=True, eq=False)
class Learned:
    r"""The policies of all runs of an agent, and what one must know to use them.

    **Arguments:**

    - `algorithm`: The name of the algorithm that learned them.
    - `environment`: `reacher`, or the id of a Gymnasium environment.
    - `kind`: The kind of policy; see [policy].
    - `theta`: What the policies need to act: arrays with the runs as their leading axis.
    - `seeds`: The seeds of the runs.
    - `num_steps`: How many environment steps each learned from.
    - `discount`: $\gamma$.
    - `max_steps`: The limit of an episode, where the environment has none of its own.
    """

    algorithm: str
    environment: str
    kind: str
    theta: Any
    seeds: tuple[int, ...]
    num_steps: int
    discount: float
    max_steps: int | None = None


def save(learned: Learned, path: str | os.PathLike) -> None:
    """Writes policies to a safetensors file, whole or not at all.

    The tensors are the leaves of theta. The metadata has one entry, `policy`, in JSON: `format`,
    all other fields of [Learned], and as `theta` the names of the leaves in nested lists.
    """
    leaves = named(learned.theta)
    arrays = {name: np.ascontiguousarray(leaf) for name, leaf in leaves.items()}
    places = jax.tree.unflatten(jax.tree.structure(learned.theta), list(leaves))
    described = {name: getattr(learned, name) for name in DESCRIBED}
    words = json.dumps({"format": FORMAT, **described, "theta": places}, sort_keys=True)
    with replacing(path) as file:
        file.write(serialized(arrays, {"policy": words}))


def load(path: str | os.PathLike) -> Learned:
    """Reads policies that [save] wrote; whatever is not that is a `ValueError`.

    **Arguments:**

    - `path`: The file, or a folder with `policy.safetensors` in it.
    """
    path = os.path.join(path, "policy.safetensors") if os.path.isdir(path) else os.fspath(path)
    if not os.path.exists(path):
        raise ValueError(f"policy: {path} does not exist")
    try:
        with safe_open(path, "np") as file:
            names, metadata = file.keys(), file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in names}
        described = json.loads(metadata.get("policy", "{}"))
        if described.pop("format", None) != FORMAT:
            raise ValueError(f"it does not say {FORMAT!r}")

        def grown(node: Any) -> Any:
            return arrays[node] if isinstance(node, str) else tuple(map(grown, node))

        theta, seeds = grown(described.pop("theta")), tuple(described.pop("seeds"))
        if any(len(leaf) != len(seeds) for leaf in arrays.values()):
            raise ValueError(f"it does not have {len(seeds)} runs")
        return Learned(theta=theta, seeds=seeds, **described)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"policy: {path} cannot be read as a policy: {error}") from None


def player(learned: Learned) -> tuple[Task, Callable[[Any, Any, Any], Any]]:
    """The task of policies, and how they act in it: `(theta, observation, key)` to an action.

    **Arguments:**

    - `learned`: The policies.
    """
    where = task(learned.environment, learned.max_steps)
    return where, agent(learned.algorithm, policy(where, learned.kind)).act


def played(learned: Learned, num_episodes: int = 20, seed: int = 0) -> dict[str, Any]:
    """What episodes of policies return: means and standard deviations over them, for each run.

    **Arguments:**

    - `learned`: The policies.
    - `num_episodes`: How many episodes of each.
    - `seed`: What everything random depends on.
    """
    where, act = player(learned)
    runs = []
    for run, own in enumerate(learned.seeds):
        theta = jax.tree.map(lambda leaf, run=run: leaf[run], learned.theta)
        found = returns(where, act, theta, num_episodes, seed=seed, discount=learned.discount)
        numbers = {
            name: {"mean": float(values.mean()), "std": float(statistics.spread(values * 1.0))}
            for name, values in vars(found).items()
        }
        runs.append({"seed": own, **numbers})
    described = {name: getattr(learned, name) for name in DESCRIBED if name != "seeds"}
    return {**described, "episodes": num_episodes, "runs": runs}


def trained(
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
    watch: Callable[[int, dict[str, np.ndarray]], None] | None = None,
) -> Learned:
    r"""Learns policies for a task, and leaves in a folder all that came of it.

    These are `policy.safetensors`, see [Learned]; `curves.nc`, a dataset with the axes `run` and
    `steps`; and `experience`, the recordings, if the environment is Gymnasium's. Until the end
    there is a checkpoint, from which the same call goes on after an interruption.

    **Arguments:**

    - `out`: The folder. It must not have a policy yet.
    - `env`: `reacher`, or the id of a Gymnasium environment.
    - `algorithm`: The name of an algorithm; see [NAMED].
    - `steps`: The environment steps of a run.
    - `seeds`: The seeds, one for each run.
    - `kind`: The kind of policy; see [policy].
    - `experience`: A recording that all runs learn from, in place of uniform behaviour.
    - `discount`: $\gamma$.
    - `evaluate_every`: The steps between evaluations.
    - `limit_ends`: Whether a limit of time counts as the end of the task; see [transitions].
    - `max_steps`: The longest episode in an evaluation, if the environment has no limit of its own.
    - `watch`: Called at each evaluation with the steps so far and the values of all runs.
    """
    check.probability("discount", discount)
    recorded = None if experience is None else recordings.load(experience)
    where = task(env, max_steps, recorded)
    learner = agent(algorithm, policy(where, kind), discount=discount)
    iteration(recorded, steps, evaluate_every)
    if (out / "policy.safetensors").exists():
        raise ValueError(f"out: {out} has a policy already; choose another folder, or remove it")
    checkpoint = writable(out) / "checkpoint.safetensors"
    training = learn(
        where,
        learner,
        recorded or experienced(where, seeds, steps, out / "experience"),
        seeds,
        steps,
        evaluate_every=evaluate_every,
        limit_ends=limit_ends,
        checkpoint=checkpoint,
        watch=watch,
    )
    labelled(training, algorithm, environment=env).to_netcdf(out / "curves.nc", engine="scipy")
    found = Learned(
        algorithm,
        env,
        kind or kinds(where)[0],
        training.theta,
        training.seeds,
        steps,
        discount,
        max_steps,
    )
    save(found, out / "policy.safetensors")
    checkpoint.unlink(missing_ok=True)
    return found
