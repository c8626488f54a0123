"""What passes between a problem and whatever learns from it."""

from dataclasses import dataclass
from typing import Any

import jax


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sample:
    r"""What happened at time $t$, whatever the target policy is.

    $(t, S_t, A_t, R_{t+1}, \gamma_{t+1}, S_{t+1}, A_{t+1})$. The discount is part of what
    happened: $\gamma_{t+1} = 0$ is the end of an episode, and $S_{t+1}$ then starts the next.
    """

    time: Any
    state: Any
    action: Any
    reward: Any
    discount: Any
    state_next: Any
    action_next: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Transition:
    r"""What a linear learner may see of a [Sample] under one target policy.

    Features $x_t, x_{t+1}, \tilde x_t, \tilde x_{t+1}$, importance sampling ratios $\rho_t,
    \rho_{t+1}$ with $\rho_t = \pi(A_t|S_t)/\mu(A_t|S_t)$, interests $i(S_t), i(S_{t+1})$, the
    reward $R_{t+1}$ and the discount $\gamma_{t+1}$.
    """

    time: Any
    x: Any
    x_next: Any
    xa: Any
    xa_next: Any
    rho: Any
    rho_next: Any
    interest: Any
    interest_next: Any
    reward: Any
    discount: Any
