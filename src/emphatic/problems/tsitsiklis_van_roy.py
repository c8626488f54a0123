"""The counterexample of Tsitsiklis and Van Roy to fitted values."""

import numpy as np

from .. import _validation as checks
from ..mdp import MDP, Problem


def tsitsiklis_van_roy(epsilon: float = 0.05, discount: float = 0.99) -> Problem:
    r"""The states with values w and 2w, on which even exact fits of the values diverge.

    Tsitsiklis and Van Roy (1997; Example 11.1 of Sutton and Barto, 2018) fit w and 2w to the values
    of a chain that steps from state 0 to state 1 and stays there, until it ends there with
    probability $\epsilon$ a step. Rewards are 0, and so is $v_\pi$. Least squares that weight both
    states alike turn w into $\gamma(6 - 4\epsilon)w/5$: it grows if $\gamma > 5/(6 - 4\epsilon)$.

    The chain itself is hardly ever in state 0: the equal weights are those of a behaviour. Here the
    target always goes on (action 1), from state 0 to state 1, and from state 1 to itself or, with
    probability $\epsilon$, to the end of the episode (discount 0, straight to state 0). Action 0
    leads to state 0 from both states, with discount $\gamma$, and is the behaviour's alone, which
    goes on with probability $(1 + \epsilon)/2$ in state 0 and 1/2 in state 1. So it leaves either
    state as often as the other, $d_\mu = (1/2, 1/2)$, and the ratios of going on are $2/(1 +
    \epsilon)$ and 2. The key matrix of TD is $(5 - (6 - 4\epsilon)\gamma)/2$, negative under the
    same condition, and that of ETD is $(5 + 2\gamma)/2$.

    **Arguments:**

    - `epsilon`: The probability that an episode ends when going on from state 1; 0 is [two_state].
    - `discount`: The discount $\gamma$ inside an episode, in [0, 1].
    """
    checks.probability("epsilon", epsilon)
    transition, gamma = np.zeros((2, 2, 2)), np.full((2, 2, 2), float(discount))
    transition[:, 0, 0] = transition[0, 1, 1] = 1.0
    transition[1, 1] = epsilon, 1.0 - epsilon
    gamma[1, 1, 0] = 0.0
    behavior = np.array([[0.5 - epsilon / 2.0, 0.5 + epsilon / 2.0], [0.5, 0.5]])
    target, x = np.tile([0.0, 1.0], (2, 1)), np.array([[1.0], [2.0]])
    mdp, start = MDP(transition, reward=0.0, discount=gamma), np.eye(2)[0]
    return Problem(mdp, behavior, interest=1.0, x=x, start=start, target=target)
