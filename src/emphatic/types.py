"""What passes between a problem and whatever learns from it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import jax

State = TypeVar("State")
Data = TypeVar("Data")


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
    reward $R_{t+1}$ and the discount $\gamma_{t+1}$. The state $S_t$ itself is there for exact
    predictions only: a learner must not look at it.
    """

    time: Any
    state: Any
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


@dataclass(frozen=True)
class Learner(Generic[State, Data]):
    r"""How something is learned, for one stream of experience and without a batch axis.

    **Arguments:**

    - `init`: The first state, from a random key and an example of the data (for its shapes).
    - `step`: The state after one piece of data, a pure function.
    - `predict`: The estimate at $S_t$, before the step.
    - `step_size`: Its step sizes, for whoever compares timescales; None if it has none.
    - `ridge`: Its ridge, likewise.
    - `name`: What it is called, for whoever must know whether a theorem is about it.
    """

    init: Callable[[Any, Data], State]
    step: Callable[[State, Data], State]
    predict: Callable[[State, Data], Any]
    step_size: Callable[[Any], Any] | None = None
    ridge: Any = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class Agent(Learner[State, Data]):
    """A [Learner] that acts, so that its target policy changes: it learns from [Sample]s.

    Its step sizes are the actor's. It knows what it is made of, as [actor_critic] was told.
    """

    policy: Any = None
    emphasis: Any = None
    critic: Any = None
    dampings: tuple[Callable[[Any], Any], ...] = ()
    theta: Any = None
    features: Any = None
