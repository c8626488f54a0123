"""What an agent is, and what agents with networks have in common."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, runtime_checkable, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from ...types import Array, Key, Number, Params, Scalar
from ..experience import Action, Observation
from ..networks import init_network
from ..policies import Policy
from ..replay import Count
from ..transition import Transition

Networks: TypeAlias = dict[str, Params]
"""The parameters of all networks of an agent, by name."""
Diagnostics: TypeAlias = dict[str, Float[Array, "..."]]
r"""What an update measured: nothing, or $\rho_t$, $M_t$ and $m(S_t)$ as `ratio`, `trace`, `m`."""
Act: TypeAlias = Callable[[Params, Observation, Key], Action]
r"""A policy in use: from $\theta$, an observation and a random key to an action."""
Setting: TypeAlias = Any
"""A keyword argument of an algorithm."""
Trace: TypeAlias = Callable[[Scalar, Transition], Scalar]
"""What is left at a transition of the trace of the step before."""


@runtime_checkable
class AgentState(Protocol):
    """The state of an agent: a dataclass with all that it learns, and its replay."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def params(self) -> Params:
        """All that is learned."""
        ...

    @property
    def replay(self) -> Transition:
        """The ring of past transitions."""
        ...


State = TypeVar("State", bound=AgentState)


@dataclass(frozen=True, eq=False)
class Agent(Generic[State]):
    r"""How a policy is learned from a fixed behaviour, for one run: pure functions, and their data.

    **Arguments:**

    - `init`: `(key, example, capacity)` to the first state; the example is one iteration's
      [Transition] or its shapes, the capacity how many iterations the replay keeps.
    - `update`: `(state, batch, time, key)` to the state after one iteration, and diagnostics.
    - `theta`: From a state to the parameters of the policy.
    - `act`: `(theta, observation, key)` to an action.
    - `definition`: The algorithm and its arguments, for reports and files; see [describe].
    - `discount`: $\gamma$.
    """

    init: Callable[[Key, Transition, int], State]
    update: Callable[[State, Transition, Count, Key], tuple[State, Diagnostics]]
    theta: Callable[[State], Params]
    act: Act
    definition: dict[str, object]
    discount: float = 0.99


def describe(algorithm: Callable[..., Agent], arguments: Mapping[str, object]) -> dict[str, object]:
    """Returns the definition of an agent, as JSON can hold it: the function that made it, and the
    arguments of that call. Functions are known by their names, policies by their `repr`."""
    names = inspect.signature(algorithm).parameters
    return {"algorithm": algorithm.__name__} | {name: _to_json(arguments[name]) for name in names}


def _to_json(argument: object) -> object:
    if isinstance(argument, tuple):
        return list(argument)
    if isinstance(argument, Policy):
        return repr(argument)
    if callable(argument):
        return getattr(argument, "__qualname__", repr(argument))
    return argument


def init_networks(
    key: Key, policy: Policy, critics: tuple[str, ...], hidden: tuple[int, ...], example: Transition
) -> Networks:
    """Initialises a policy and critics with one output; returns their parameters by name."""
    size, dtype = example.observation.shape[-1], example.observation.dtype
    policy_key, *critic_keys = jax.random.split(key, 1 + len(critics))
    params = {"policy": policy.init(policy_key, size, dtype)}
    for name, critic_key in zip(critics, critic_keys, strict=True):
        params[name] = init_network(critic_key, (size, *hidden, 1), dtype=dtype)
    return params


def log_density(policy: Policy, theta: Params, y: Transition) -> Scalar:
    r"""$\log\pi_\theta(A_t|S_t)$."""
    return policy.log_density(policy.distribution(theta, y.observation), y.action)


def ratio(policy: Policy, theta: Params, y: Transition) -> Scalar:
    r"""$\rho_t = \pi_\theta(A_t|S_t)/\mu(A_t|S_t)$."""
    return jnp.exp(log_density(policy, theta, y)) / y.behavior


def copy_networks(params: Networks, target: Networks, is_due: bool | Bool[Array, ""]) -> Networks:
    """Returns the target networks: copies of their networks if these are due, else as they were."""
    copies = {name: params[name] for name in target}
    return jax.tree.map(lambda new, old: jnp.where(is_due, new, old), copies, target)


def rmsprop(gradient: Networks, params: Networks, averages: Networks) -> tuple[Networks, Networks]:
    r"""Returns parameters and averages after a step of the optimiser of the paper's experiment.

    $$
    n \leftarrow 0.99\,n + 0.01\,g^2, \qquad
    \theta \leftarrow \theta - 10^{-3} g/(\sqrt n + 10^{-8})
    $$

    It is one for all networks: a loss that does not reach a network gives it $g = 0$, and its
    averages $n$ decay all the same.
    """
    averages = jax.tree.map(lambda n: 0.99 * n, averages)

    def accumulate(n: Array, g: Array) -> Array:
        return n + 0.01 * g**2

    def descend(theta: Array, g: Array, n: Array) -> Array:
        return theta - 1e-3 * g / (jnp.sqrt(n) + 1e-8)

    for name, g in gradient.items():
        averages = {**averages, name: jax.tree.map(accumulate, averages[name], g)}
        params = {**params, name: jax.tree.map(descend, params[name], g, averages[name])}
    return params, averages


def mean_loss(loss: Callable[..., Number], axes: tuple[int | None, ...]) -> Callable[..., Scalar]:
    """Returns the mean of a single-transition loss over the mapped arguments."""
    return lambda *args: jnp.mean(jax.vmap(loss, axes)(*args))
