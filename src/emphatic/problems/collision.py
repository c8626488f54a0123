"""The collision task of Ghiassian and Sutton."""

from itertools import combinations

import numpy as np

from .. import _validation as checks
from ..mdp import MDP, Problem


def collision(seed: int = 0, discount: float = 0.9) -> Problem:
    r"""The collision task: eight states in a row, drive forward or turn away.

    Episodes start uniformly in the first four states, where the behaviour only drives forward;
    in the last four it drives or turns with probability 1/2 each. Turning (action 1) ends the
    episode for 0, driving forward (action 0) from the last state ends it for 1, and the target
    always drives. The features are six binary ones, three of them on, drawn without
    replacement. Because the behaviour never turns in the first four states, Assumption 1 of the
    paper does not hold.

    **Arguments:**

    - `seed`: Draws the features.
    - `discount`: The discount inside an episode, in [0, 1].
    """
    checks.seed(seed)
    transition = np.zeros((8, 2, 8))
    transition[range(7), 0, range(1, 8)] = 1.0
    transition[7, 0, :4] = transition[:, 1, :4] = 0.25
    reward, gamma = np.zeros((8, 2)), np.zeros((8, 2))
    reward[7, 0] = 1.0
    gamma[:7, 0] = discount
    rows = np.zeros((20, 6))
    for row, ones in zip(rows, combinations(range(6), 3), strict=True):
        row[list(ones)] = 1.0
    x, start = np.random.default_rng(seed).permutation(rows)[:8], np.repeat([0.25, 0.0], 4)
    behavior = np.repeat([[1.0, 0.0], [0.5, 0.5]], 4, axis=0)
    target = np.tile([1.0, 0.0], (8, 1))
    return Problem(MDP(transition, reward, gamma), behavior, 1.0, x, start=start, target=target)
