"""Trained policies: saved to one file, loaded, and evaluated."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict

import jax
import numpy as np

from .. import statistics
from .._schema import Count, parse_json, Probability, Rule, show
from ..types import Key, named_leaves, Params
from .agents.agent import Act
from .agents.table import make_agent
from .checkpoint import read_signed, Seeds, write_signed
from .evaluation import play
from .experience import Action, Observation
from .task import make_policy, make_task, Task

FORMAT = "emphatic policy 1"
METADATA = ("algorithm", "environment", "kind", "seeds", "num_steps", "discount", "max_steps")


class Description(TypedDict):
    """What a file says of its policies; `theta` has the names of its tensors in nested lists."""

    format: Annotated[str, Rule(repr(FORMAT), lambda text: text == FORMAT)]
    algorithm: str
    environment: str
    kind: str
    seeds: Seeds
    num_steps: Count
    discount: Probability
    max_steps: NotRequired[Count | None]
    theta: object


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

    The tensors are the leaves of theta. The metadata has an entry `policy`, in JSON: `format`,
    all other fields of [TrainedPolicies], and as `theta` the names of the leaves in nested lists;
    and as `checksum` the SHA-256 of all else, which files of earlier versions lack.
    """
    leaves = named_leaves(policies.theta)
    arrays = {name: np.asarray(leaf) for name, leaf in leaves.items()}
    names = jax.tree.unflatten(jax.tree.structure(policies.theta), list(leaves))
    fields = {name: getattr(policies, name) for name in METADATA}
    description = json.dumps({"format": FORMAT, **fields, "theta": names}, sort_keys=True)
    write_signed(path, arrays, {"policy": description})


def load_policies(path: str | os.PathLike) -> TrainedPolicies:
    """Reads policies that [save_policies] wrote, from a file or from a folder with a
    `policy.safetensors`; anything else is a `ValueError`."""
    path = os.path.join(path, "policy.safetensors") if os.path.isdir(path) else os.fspath(path)
    arrays, metadata = read_signed(path, ("policy",), "policy")
    origin = f"policy: {path}, its description"
    fields = parse_json(metadata["policy"], Description, origin)
    theta = _unflatten(fields["theta"], arrays, origin)
    leaves = jax.tree.leaves(theta)
    if not len({id(leaf) for leaf in leaves}) == len(leaves) == len(arrays) > 0:
        raise ValueError(f"{origin}, theta: it must name each of {len(arrays)} tensors once")
    seeds = tuple(fields["seeds"])
    for name, leaf in arrays.items():
        if leaf.dtype.kind != "f" or leaf.shape[:1] != (len(seeds),):
            got = f"{leaf.dtype} of shape {leaf.shape}"
            raise ValueError(
                f"policy: {path}, {show(name)}: got {got}; numbers of {len(seeds)} runs required"
            )
    settings: dict[str, Any] = {name: fields.get(name) for name in METADATA}
    return TrainedPolicies(**{**settings, "theta": theta, "seeds": seeds})


def _unflatten(names: object, arrays: Mapping[str, np.ndarray], origin: str) -> Params:
    """Puts arrays in the place of their names in nested lists."""
    if isinstance(names, str) and names in arrays:
        return arrays[names]
    if isinstance(names, list):
        return tuple(_unflatten(inner, arrays, origin) for inner in names)
    raise ValueError(f"{origin}, theta: got {show(names)}; the name of a tensor is required")


def restore(policies: TrainedPolicies) -> tuple[Task, Act]:
    """Restores the task of policies, and the function by which they act in it.

    The function raises a `ValueError` where theta is not that of such policies in this task."""
    task = make_task(policies.environment, policies.max_steps)
    agent = make_agent(policies.algorithm, make_policy(task, policies.kind))
    shape = () if task.low is None else task.low.shape

    def act(theta: Params, observation: Observation, key: Key) -> Action:
        try:
            action = agent.act(theta, observation, key)
        except (TypeError, ValueError, IndexError) as error:  # of shapes, while it is compiled
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"policy: its theta does not fit {task.name!r}: {reason}") from None
        if action.shape != shape:
            got = f"actions of shape {action.shape}, not {shape}"
            raise ValueError(f"policy: its theta does not fit {task.name!r}: it gives {got}")
        return action

    return task, act


def evaluate(policies: TrainedPolicies, num_episodes: int = 20, seed: int = 0) -> dict[str, Any]:
    """Plays episodes with each run's policy; returns means and standard deviations over them."""
    task, act = restore(policies)
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
