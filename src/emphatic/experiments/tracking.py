"""What the recorded weights of agents mean, for every point of a grid."""

from collections.abc import Mapping
from itertools import product
from typing import Any, TYPE_CHECKING

import numpy as np

from .._types import Agent, Learner
from ..mdp import Problem
from ..schedules import as_ridge
from .exact import track

if TYPE_CHECKING:
    import xarray

TRACKED = ("objective", "gradient_norm", "bias_norm", "emphasis_tracking", "critic_tracking")


def paths(
    problem: Problem, makes: Mapping[str, Any], dataset: "xarray.Dataset"
) -> "xarray.Dataset":
    """The dataset of an engine with exact quantities in place of the weights of its agents.

    The quantities are those of [track], at the ridge of the agent's critic; what an agent has no
    weights for is NaN. `theta` has the last parameters.

    **Arguments:**

    - `problem`: The problem.
    - `makes`: The agents, or functions that make them from values of the grid.
    - `dataset`: What was recorded of them, with `weights` among the measures.
    """
    for learner in dataset["learner"].values.tolist():
        weight, weights = f"{learner}_weight", dataset[f"{learner}_weights"]
        grid = [str(axis) for axis in weights.dims if axis not in ("run", "time", weight)]
        weights = weights.transpose(*grid, "run", "time", weight)
        names = np.array([str(name).split("[")[0] for name in dataset[weight].values])
        axes, shape = ("learner", *grid, "run", "time"), weights.shape[:-1]
        found = {name: np.full(shape, np.nan) for name in TRACKED}
        parts = {name: weights.values[..., names == name] for name in set(names.tolist())}
        for place in product(*(range(dataset.sizes[axis]) for axis in grid)):
            point = {axis: float(dataset[axis][n]) for axis, n in zip(grid, place, strict=True)}
            agent = (
                makes[learner] if isinstance(makes[learner], Learner) else makes[learner](**point)
            )
            if not isinstance(agent, Agent):
                raise ValueError(
                    f"measures: {learner!r} is no agent, and its path has no objective"
                )
            here = {name: values[place] for name, values in parts.items()}
            ridge = as_ridge(getattr(agent.critic, "ridge", None) or 0.0)(0.0)
            critics = here.get("emphasis.w"), here.get("critic.u")
            tracked = track(problem, agent.policy, here["theta"], float(ridge), *critics)
            for name, values in tracked.items():
                found[name][place] = values
        dataset = dataset.drop_vars([weight, f"{learner}_weights"])
        for name, values in found.items():
            dataset[name] = axes, values[None]
        last = parts["theta"][..., -1, :][None]
        dataset["theta"] = (*axes[:-1], "parameter"), last
    return dataset
