"""What the recorded weights of agents mean, for every point of a grid."""

from itertools import product
from typing import cast, TYPE_CHECKING

import numpy as np

from ..engine import request
from ..mdp import Problem
from ..oracle.mean_field import track
from ..schedules import as_ridge
from ..types import Agent
from .experiment import Learners

if TYPE_CHECKING:
    import xarray

TRACKED = ("objective", "gradient_norm", "bias_norm", "emphasis_tracking", "critic_tracking")
"""The exact quantities along the path of an agent."""


def track_agents(problem: Problem, agents: Learners, dataset: "xarray.Dataset") -> "xarray.Dataset":
    """Replaces the weights that an engine recorded of agents by exact quantities.

    The quantities are those of [track], at the ridge of the agent's critic; what an agent has no
    weights for is NaN. `theta` has the last parameters.
    """
    for name in dataset["learner"].values.tolist():
        weight, weights = f"{name}_weight", dataset[f"{name}_weights"]
        grid = [str(axis) for axis in weights.dims if axis not in ("run", "time", weight)]
        points = {axis: dataset[axis].values for axis in grid}
        factory = request.parse_learners({name: agents[name]}, points, problem)[name]
        weights = weights.transpose(*grid, "run", "time", weight)
        owners = np.array([str(label).split("[")[0] for label in dataset[weight].values])
        states = {owner: weights.values[..., owners == owner] for owner in set(owners.tolist())}
        results = {quantity: np.full(weights.shape[:-1], np.nan) for quantity in TRACKED}
        for index in product(*(range(dataset.sizes[axis]) for axis in grid)):
            point = {axis: float(dataset[axis][n]) for axis, n in zip(grid, index, strict=True)}
            agent = cast(object, factory(**point))
            if not isinstance(agent, Agent):
                raise ValueError(f"measures: {name!r} is no agent, and its path has no objective")
            state = {owner: values[index] for owner, values in states.items()}
            ridge = as_ridge(getattr(agent.critic, "ridge", None) or 0.0)(0.0)
            critics = state.get("emphasis.w"), state.get("critic.u")
            tracked = track(problem, agent.policy, state["theta"], float(ridge), *critics)
            for quantity, values in tracked.items():
                results[quantity][index] = values
        axes = ("learner", *grid, "run", "time")
        dataset = dataset.drop_vars([weight, f"{name}_weights"])
        for quantity, values in results.items():
            dataset[quantity] = axes, values[None]
        dataset["theta"] = (*axes[:-1], "parameter"), states["theta"][..., -1, :][None]
    return dataset
