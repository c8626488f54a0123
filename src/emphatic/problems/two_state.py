"""The two states with values w and 2w."""

import numpy as np

from ..mdp import MDP, Problem


def two_state(discount: float = 0.99) -> Problem:
    r"""The states with features 1 and 2, on which off-policy TD diverges.

    From either state action 0 leads to the first and action 1 to the second; the reward is 0, the
    behaviour uniform and the target always takes action 1. The key matrix of TD is $(5 -
    6\gamma)/2$, negative for $\gamma > 5/6$.

    **Arguments:**

    - `discount`: The discount $\gamma$.
    """
    transition = np.zeros((2, 2, 2))
    transition[:, 0, 0] = transition[:, 1, 1] = 1.0
    mdp = MDP(transition, reward=0.0, discount=discount)
    target, x = np.tile([0.0, 1.0], (2, 1)), np.array([[1.0], [2.0]])
    return Problem(mdp, behavior=np.full((2, 2), 0.5), interest=1.0, x=x, target=target)
