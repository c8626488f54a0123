"""Trained policies: saved to one file, loaded, and evaluated."""

import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from .. import statistics
from .._files import read_arrays, write_arrays
from ..types import named_leaves, Params
from .agents.agent import Act
from .agents.table import make_agent
from .evaluation import play
from .task import make_policy, make_task, Task

FORMAT = "emphatic policy 1"
METADATA = ("algorithm", "environment", "kind", "seeds", "num_steps", "discount", "max_steps")


@dataclass(frozen=True, eq=False)
class TrainedPolicies:
    """The policies of all runs of an agent, with the runs as the leading axis of `theta`, and what
    is needed to use them; see [train]."""

    algorithm: str
    environment: str
    kind: str
    theta: Params
    seeds: tuple[int, ...]
    num_steps: int
    discount: float
    max_steps: int | None = None


def save_policies(policies: TrainedPolicies, path: str | os.PathLike) -> None:
    """Writes policies to a safetensors file, whole or not at all.

    The tensors are the leaves of theta. The metadata has one entry, `policy`, in JSON: `format`,
    all other fields of [TrainedPolicies], and as `theta` the names of the leaves in nested lists.
    """
    leaves = named_leaves(policies.theta)
    arrays = {name: np.asarray(leaf) for name, leaf in leaves.items()}
    names = jax.tree.unflatten(jax.tree.structure(policies.theta), list(leaves))
    fields = {name: getattr(policies, name) for name in METADATA}
    description = json.dumps({"format": FORMAT, **fields, "theta": names}, sort_keys=True)
    write_arrays(path, arrays, {"policy": description})


def load_policies(path: str | os.PathLike) -> TrainedPolicies:
    """Reads policies that [save_policies] wrote, from a file or from a folder with a
    `policy.safetensors`; anything else is a `ValueError`."""
    path = os.path.join(path, "policy.safetensors") if os.path.isdir(path) else os.fspath(path)
    if not os.path.exists(path):
        raise ValueError(f"policy: {path} does not exist")
    try:
        arrays, metadata = read_arrays(path)
        fields = json.loads(metadata.get("policy", "{}"))
        if fields.pop("format", None) != FORMAT:
            raise ValueError(f"it does not say {FORMAT!r}")

        def unflatten(names: PyTree[str]) -> Params:
            return arrays[names] if isinstance(names, str) else tuple(map(unflatten, names))

        theta, seeds = unflatten(fields.pop("theta")), tuple(fields.pop("seeds"))
        if any(len(leaf) != len(seeds) for leaf in arrays.values()):
            raise ValueError(f"it does not have {len(seeds)} runs")
        return TrainedPolicies(theta=theta, seeds=seeds, **fields)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"policy: {path} cannot be read as a policy: {error}") from None


def restore(policies: TrainedPolicies, imports: Collection[str] = ()) -> tuple[Task, Act]:
    """Restores the task of policies, and the function by which they act in it.

    Policies are data, and the module of their environment is imported only if it is in `imports`.
    """
    task = make_task(policies.environment, policies.max_steps, imports=imports)
    return task, make_agent(policies.algorithm, make_policy(task, policies.kind)).act


def evaluate(
    policies: TrainedPolicies, num_episodes: int = 20, seed: int = 0, imports: Collection[str] = ()
) -> dict[str, Any]:
    """Plays episodes with each run's policy; returns means and standard deviations over them.

    If the environment is `module:Id`, the module must be in `imports`, or have been imported.
    """
    task, act = restore(policies, imports)
    runs = []
    for run, run_seed in enumerate(policies.seeds):
        theta = jax.tree.map(lambda leaf, run=run: leaf[run], policies.theta)
        returns = play(task, act, theta, num_episodes, seed=seed, discount=policies.discount)
        summary = {
            name: {"mean": float(values.mean()), "std": float(statistics.spread(values * 1.0))}
            for name, values in vars(returns).items()
        }
        runs.append({"seed": run_seed, **summary})
    fields = {name: getattr(policies, name) for name in METADATA if name != "seeds"}
    return {**fields, "episodes": num_episodes, "runs": runs}
