"""Baird's counterexample, in the variant of the paper."""

from typing import Literal

import numpy as np

from .. import _validation as checks
from ..mdp import MDP, Problem

Features = Literal["original", "one-hot", "zero-hot", "aliased"]


def baird(features: Features = "original", solid: float = 0.1, discount: float = 0.99) -> Problem:
    r"""Baird's counterexample, in the variant of the paper (Section 5).

    Seven states. `solid` (action 0) leads to state 7 and pays 0; `dashed` (action 1) leads to
    states 1 to 6 uniformly and pays 1. The behaviour takes `solid` with probability 1/7, so
    that $d_\mu$ is uniform; the start is uniform and the interest 1. The original features are
    linearly dependent ($C$ is singular), and only the aliased ones cannot express $m_\pi$.

    **Arguments:**

    - `features`: Which features $X$ to use.
    - `solid`: The target's probability $\pi(\mathrm{solid})$.
    - `discount`: The discount $\gamma$.
    """
    checks.probability("solid", solid)
    transition = np.zeros((7, 2, 7))
    transition[:, 0, 6] = 1.0
    transition[:, 1, :6] = 1.0 / 6.0
    original = np.zeros((7, 8))
    original[range(6), range(6)] = 2.0
    original[:6, 7] = 1.0
    original[6, 6:] = 1.0, 2.0
    aliased = original.copy()
    aliased[6] = aliased[5]
    x = {
        "original": original,
        "one-hot": np.eye(7),
        "zero-hot": 1.0 - np.eye(7),
        "aliased": aliased[:, :6],  # the last two columns are now the same for all states
    }
    if features not in x:
        raise ValueError(f"features: got {features!r}; one of {', '.join(x)} is required")
    mdp = MDP(transition, reward=np.tile([0.0, 1.0], (7, 1)), discount=discount)
    behavior = np.tile([1.0 / 7.0, 6.0 / 7.0], (7, 1))
    target, start = np.tile([solid, 1.0 - solid], (7, 1)), np.full(7, 1.0 / 7.0)
    return Problem(mdp, behavior, 1.0, x[features], None, start, target, labels=np.arange(1, 8))
