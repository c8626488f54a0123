"""Kolter's two states, whose off-policy TD fixed point can be arbitrarily far off."""

import numpy as np

from .. import _validation as checks
from ..mdp import MDP, Problem

VALUES = np.array([1.0, 1.05])


def kolter(behavior_first: float = 0.7, epsilon: float = 0.001, discount: float = 0.99) -> Problem:
    r"""Two states on which the fixed point of off-policy TD is arbitrarily bad.

    This is the example of Kolter ("The fixed points of off-policy TD", 2011). From either state
    action 0 leads to the first and action 1 to the second, so that a behaviour that takes action 0
    with probability p in both visits them with $d_\mu = (p, 1 - p)$. The target is uniform. Both
    actions of a state pay the same, such that $v_\pi = (1, 1.05)$: -0.01475 and 0.03525 for
    $\gamma = 0.99$. There are no episodes.

    The one feature, $(1, 1.05 + \epsilon)$, expresses the values up to $\epsilon$. Still, for
    $\gamma = 0.99$ the key matrix of TD passes through 0 at

    $$
    p = \frac{2961 + 45240\epsilon + 40400\epsilon^2}{4141 + 84840\epsilon + 40400\epsilon^2},
    $$

    which is 0.7114 for $\epsilon = 0.001$. Beyond it TD diverges, and near it the error of the
    fixed point, which TDC and GTD2 share, is unbounded. ETD's is below $2\epsilon$ for every p.

    **Arguments:**

    - `behavior_first`: The behaviour's probability p of action 0, in (0, 1).
    - `epsilon`: What the second feature is off by.
    - `discount`: The discount $\gamma$.
    """
    required = "a probability in (0, 1) is required"
    checks.number("behavior_first", behavior_first, required, lambda known: 0.0 < known < 1.0)
    checks.number("epsilon", epsilon, "a finite number is required")
    transition = np.zeros((2, 2, 2))
    transition[:, 0, 0] = transition[:, 1, 1] = 1.0
    target, behavior = np.full((2, 2), 0.5), np.tile([behavior_first, 1.0 - behavior_first], (2, 1))
    reward = np.tile(VALUES - discount * VALUES.mean(), (2, 1)).T
    mdp, x = MDP(transition, reward, discount), np.array([[1.0], [1.05 + epsilon]])
    return Problem(mdp, behavior, interest=1.0, x=x, target=target)
