"""The aliasing counterexample with hallways before its aliased ends."""

import numpy as np
from jaxtyping import Float

from .. import _validation as checks
from .._work import require_memory
from ..mdp import MDP, Problem


def hallway(
    middle_steps: int = 5, continuing: bool = False, discount: float = 0.9, first: float = 0.9
) -> Problem:
    r"""The counterexample of Imani and others, with n steps between the choice and its reward.

    State 0 is the middle of a row, with n states to the left of it, 1, 3, ..., 2n - 1, and n to the
    right, 2, 4, ..., 2n. Action 0 steps to the left and action 1 to the right, for a reward of 0,
    and so can turn back. Only the two ends, 2n - 1 and 2n, are left to state 0 by either action:
    the left end pays 2 for action 0, the right end pays 1 for action 1. The behaviour takes
    action 0 with probability 1/4 everywhere. The critics' features are tabular; the actor's,
    [hallway_actor_features], alias the two ends. With n = 1 this is [counterexample].

    It is defined so in the code that Graves, Imani, Kumaraswamy and White published with
    "Off-policy actor-critic with emphatic weightings" (2023), where n is 5. The behaviour sees the
    right end $3^n$ times as often as the left one, and so Off-PAC learns to take action 1 at the
    ends. A target that goes left earns more by action 0, but it is the emphasis that says so, and
    only if it is carried through n steps.

    **Arguments:**

    - `middle_steps`: The number n of states of each hallway.
    - `continuing`: Whether one discount holds throughout. Otherwise leaving an end ends the episode
      (discount 0), and inside the discount is 1.
    - `discount`: The discount $\gamma$ of the continuing version.
    - `first`: The target's probability of action 0 in every state.
    """
    checks.count("middle_steps", middle_steps)
    checks.probability("first", first)
    num_states = 2 * middle_steps + 1
    advice = "reduce middle_steps"
    require_memory(f"hallway: {num_states:,} states", 128 * num_states**2, advice)
    row = np.r_[np.arange(num_states - 2, 0, -2), np.arange(0, num_states, 2)]  # left to right
    transition = np.zeros((num_states, 2, num_states))
    transition[row[1:], 0, row[:-1]] = transition[row[:-1], 1, row[1:]] = 1.0
    transition[-2:] = np.eye(num_states)[0]
    reward, episodic = np.zeros((num_states, 2)), np.ones((num_states, 2))
    reward[-2:] = [[2.0, 0.0], [0.0, 1.0]]
    episodic[-2:] = 0.0
    mdp, x = MDP(transition, reward, discount if continuing else episodic), np.eye(num_states)
    behavior = np.tile([0.25, 0.75], (num_states, 1))
    target = np.tile([first, 1.0 - first], (num_states, 1))
    return Problem(mdp, behavior, interest=1.0, x=x, start=x[0], target=target)


def hallway_actor_features(middle_steps: int = 5) -> Float[np.ndarray, "s k"]:
    """Returns the state features of the actor of [hallway]: one-hot, but one for both ends."""
    checks.count("middle_steps", middle_steps)
    features = np.eye(2 * middle_steps + 1, 2 * middle_steps)
    features[-1, -1] = 1.0
    return features
