"""Boyan's chain, restarted."""

import numpy as np

from .. import _validation as checks
from ..mdp import MDP, Problem


def boyan(discount: float = 1.0, one_down: float = 0.1) -> Problem:
    r"""Boyan's chain of 13 states, restarted uniformly when it reaches state 0.

    From $s \ge 2$ action 0 moves one down and action 1 two down, for a reward of -3; from 1
    both lead to 0 for -2; from 0 both restart uniformly for 0, with discount 0. The behaviour
    is uniform. The four features are unit vectors at states 12, 8, 4 and 0 and interpolate
    linearly between.

    **Arguments:**

    - `discount`: The discount inside an episode, in [0, 1].
    - `one_down`: The target's probability of moving one down (action 0).
    """
    checks.probability("one_down", one_down)
    transition = np.zeros((13, 2, 13))
    transition[0] = 1.0 / 13.0
    transition[1, :, 0] = 1.0
    transition[range(2, 13), 0, range(1, 12)] = transition[range(2, 13), 1, range(11)] = 1.0
    reward, gamma = np.full((13, 2), -3.0), np.full((13, 2), float(discount))
    reward[0], reward[1] = 0.0, -2.0
    gamma[0] = 0.0
    x = np.maximum(0.0, 1.0 - np.abs(np.arange(13)[:, None] - [12, 8, 4, 0]) / 4.0)
    behavior, start = np.full((13, 2), 0.5), np.full(13, 1.0 / 13.0)
    target = np.tile([one_down, 1.0 - one_down], (13, 1))
    return Problem(MDP(transition, reward, gamma), behavior, 1.0, x, start=start, target=target)
