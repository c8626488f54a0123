"""The five-state random walk."""

from typing import Literal

import numpy as np

from .. import _validation as checks
from ..mdp import MDP, Problem

Features = Literal["tabular", "inverted", "dependent"]


def random_walk(features: Features = "tabular", right: float = 0.6) -> Problem:
    r"""Five states in a row, left or right, from the middle until an end is passed.

    Passing the right end pays 1 and the left 0; both end the episode (discount 0, straight to the
    middle), and inside the discount is 1. The behaviour is (1/2, 1/2).

    **Arguments:**

    - `features`: One-hot rows; their complement halved, $(1 - \text{one-hot})/2$; or three
      features on which the five states depend.
    - `right`: The target's probability of stepping right (action 1).
    """
    checks.probability("right", right)
    states = np.arange(5)
    transition = np.zeros((5, 2, 5))
    transition[states, 0, np.where(states > 0, states - 1, 2)] = 1.0
    transition[states, 1, np.where(states < 4, states + 1, 2)] = 1.0
    reward, discount = np.zeros((5, 2)), np.ones((5, 2))
    reward[4, 1] = 1.0
    discount[0, 0] = discount[4, 1] = 0.0
    dependent = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 1]], dtype=float)
    x = {
        "tabular": np.eye(5),
        "inverted": (1.0 - np.eye(5)) / 2.0,
        "dependent": dependent / np.sqrt(dependent.sum(1, keepdims=True)),
    }
    if features not in x:
        raise ValueError(f"features: got {features!r}; one of {', '.join(x)} is required")
    mdp, behavior = MDP(transition, reward, discount), np.full((5, 2), 0.5)
    start, target = np.eye(5)[2], np.tile([1.0 - right, right], (5, 1))
    return Problem(mdp, behavior, interest=1.0, x=x[features], start=start, target=target)
