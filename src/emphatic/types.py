"""What passes between a problem and whatever learns from it, and the names of types."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Integer, PRNGKeyArray, PyTree, Real
from numpy.typing import ArrayLike

State = TypeVar("State")
Data = TypeVar("Data")

Array: TypeAlias = jax.Array | np.ndarray
"""An array of JAX or NumPy."""
Key: TypeAlias = PRNGKeyArray
"""A random key of JAX."""
Scalar: TypeAlias = Float[Array, ""]
"""One real number, as an array without axes; it may be traced."""
Number: TypeAlias = int | float | np.integer | np.floating | Real[Array, ""]
"""One real number of Python, NumPy or JAX."""
Time: TypeAlias = int | float | np.number | Real[Array, "..."]
"""A time $t$, or several."""
Schedule: TypeAlias = Callable[[Time], Number]
"""A function of the time $t$: a number for each step."""
StepSize: TypeAlias = Number | Schedule
"""The step sizes of a learner: a number, or one for each time."""
Params: TypeAlias = PyTree[Float[Array, "..."]]
"""The parameters of a policy or a network: a pytree of real arrays."""
StateValues: TypeAlias = Annotated[ArrayLike, Real[np.ndarray, " s"]]
"""A number for each state, as an array or a list."""
StateFeatures: TypeAlias = Annotated[ArrayLike, Real[np.ndarray, "s n"]]
"""A row of features for each state, as an array or lists."""
Estimand: TypeAlias = Literal["emphasis", "values", "action_values", "ratio"]
"""The exact function that a learner estimates."""
DeviceName: TypeAlias = Literal["auto", "cpu", "gpu"]
"""What computes; `auto` takes a GPU where one is there and the work is worth it."""


class Sample(eqx.Module):
    r"""What happened at time $t$, whatever the target policy is.

    $(t, S_t, A_t, R_{t+1}, \gamma_{t+1}, S_{t+1}, A_{t+1})$. The discount is part of what
    happened: $\gamma_{t+1} = 0$ is the end of an episode, and $S_{t+1}$ then starts the next.
    """

    time: Integer[Array, "*batch"]
    state: Integer[Array, "*batch"]
    action: Integer[Array, "*batch"]
    reward: Float[Array, "*batch"]
    discount: Float[Array, "*batch"]
    state_next: Integer[Array, "*batch"]
    action_next: Integer[Array, "*batch"]


class Transition(eqx.Module):
    r"""What a linear learner may see of a [Sample] under one target policy.

    Features $x_t, x_{t+1}, \tilde x_t, \tilde x_{t+1}$, importance sampling ratios $\rho_t,
    \rho_{t+1}$ with $\rho_t = \pi(A_t|S_t)/\mu(A_t|S_t)$, interests $i(S_t), i(S_{t+1})$, the
    reward $R_{t+1}$, the discount $\gamma_{t+1}$, and the probabilities $\pi(A_t|S_t)$ and
    $\mu(A_t|S_t)$. The state $S_t$ itself is there for exact predictions only: a learner must not
    look at it.
    """

    time: Integer[Array, "*batch"]
    state: Integer[Array, "*batch"]
    x: Float[Array, "*batch k"]
    x_next: Float[Array, "*batch k"]
    xa: Float[Array, "*batch l"]
    xa_next: Float[Array, "*batch l"]
    rho: Float[Array, "*batch"]
    rho_next: Float[Array, "*batch"]
    interest: Float[Array, "*batch"]
    interest_next: Float[Array, "*batch"]
    reward: Float[Array, "*batch"]
    discount: Float[Array, "*batch"]
    pi: Float[Array, "*batch"]
    mu: Float[Array, "*batch"]


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
    - `estimates`: What it estimates; None for a prediction that may stand for anything.
    - `discount`: Of a density ratio the discount $\hat\gamma$ that it is of, as in [density_ratio].
    """

    init: Callable[[Key, Data], State]
    step: Callable[[State, Data], State]
    predict: Callable[[State, Data], Scalar]
    step_size: Schedule | None = None
    ridge: StepSize | None = None
    name: str = ""
    estimates: Estimand | None = None
    discount: Number | None = None


LearnerFactory: TypeAlias = Callable[..., Learner[Any, Any]]
"""A function that makes a learner from the values of its arguments, such as a step size."""
Critic: TypeAlias = Learner[Any, Transition]
"""A [Learner] for a fixed target policy, whatever its state is."""


@dataclass(frozen=True, eq=False)
class Agent(Learner[State, Data]):
    """A [Learner] that acts, so that its target policy changes: it learns from [Sample]s.

    Its step sizes are the actor's; what it is made of are the arguments of [actor_critic].
    """

    policy: Any = None
    emphasis: Critic | Callable[..., Array] | None = None
    critic: Critic | Callable[..., Array] | None = None
    dampings: tuple[Callable[..., Number], ...] = ()
    theta: Array | None = None
    features: Callable[..., Transition] | None = None


def named_leaves(tree: PyTree) -> dict[str, Any]:
    """Returns the leaves of a pytree, each by its path, such as `emphasis.w`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
