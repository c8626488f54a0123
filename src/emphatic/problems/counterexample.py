"""The aliasing counterexample of Imani, Graves and White."""

import numpy as np

from .. import _validation as checks
from ..mdp import MDP, Problem

ACTOR_FEATURES = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
"""The state features of the actor: the last two states look the same to it."""


def counterexample(continuing: bool = False, discount: float = 0.9, first: float = 0.9) -> Problem:
    r"""Three states on which ignoring the emphasis leads the actor away from the optimum.

    State 0 leads to state 1 by action 0 and to state 2 by action 1, for a reward of 0. State 1
    pays 2 for action 0, state 2 pays 1 for action 1, and both lead back to state 0. The
    behaviour takes action 0 with probability 1/4, so that $d_\mu = (1/2, 1/8, 3/8)$. The critics'
    features are tabular; the actor's, `ACTOR_FEATURES`, alias states 1 and 2.

    **Arguments:**

    - `continuing`: Whether one discount holds throughout. Otherwise leaving states 1 and 2 ends the
      episode (discount 0), and inside the discount is 1.
    - `discount`: The discount $\gamma$ of the continuing version.
    - `first`: The target's probability of action 0 in every state.
    """
    checks.probability("first", first)
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 2] = 1.0
    transition[1:, :, 0] = 1.0
    reward = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    episodic = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    mdp = MDP(transition, reward, discount if continuing else episodic)
    behavior, target = np.tile([0.25, 0.75], (3, 1)), np.tile([first, 1.0 - first], (3, 1))
    return Problem(mdp, behavior, interest=1.0, x=np.eye(3), start=np.eye(3)[0], target=target)
