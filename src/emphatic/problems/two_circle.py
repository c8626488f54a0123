"""The two circles of Zhang, Boehmer and Whiteson."""

import numpy as np

from .. import _validation as checks
from ..mdp import MDP, Problem

NEXT = [[1, 4], [2, 2], [3, 3], [7, 7], [5, 5], [6, 6], [7, 7], [8, 8], [9, 9], [10, 10], [0, 0]]
"""Where each action of each state leads."""


def two_circle(first: float = 0.9, discount: float = 0.6) -> Problem:
    r"""Eleven states on two circles, where the excursion objective prefers the lesser reward.

    It is the example of Zhang, Boehmer and Whiteson ("Generalized off-policy actor-critic", 2019).
    State 0 leads to state 1 by action 0 and to state 4 by action 1; everywhere else both
    actions lead on: 1, 2, 3, 7 on one circle and 4, 5, 6, 7 on the other, then 8, 9, 10 and back to
    0 on both. Leaving state 3 pays 10, leaving state 4 pays 5, and nothing else pays. There are no
    episodes. The behaviour is uniform, so that $d_\mu$ is 1/8 in states 0, 7, 8, 9 and 10 and 1/16
    in the others; the chain has period 8. The target differs from it in state 0 alone. The
    features are tabular.

    With q the target's probability of action 0, $v_\pi(0) = (10q\gamma^3 + 5(1 - q)\gamma)/(1 -
    \gamma^8)$. The reward of a whole round is best for q = 1, but the larger reward is also the
    later one: below a discount of $1/\sqrt2$ the excursion objective is best for q = 0.

    **Arguments:**

    - `first`: The target's probability of action 0 in state 0.
    - `discount`: The discount $\gamma$.
    """
    checks.probability("first", first)
    transition, reward = np.eye(11)[NEXT], np.zeros((11, 2))
    reward[3], reward[4] = 10.0, 5.0
    behavior = np.full((11, 2), 0.5)
    target = behavior.copy()
    target[0] = first, 1.0 - first
    return Problem(MDP(transition, reward, discount), behavior, 1.0, np.eye(11), target=target)
