"""Policies: functions from theta to (s, a) probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Protocol, runtime_checkable, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer
from numpy.typing import ArrayLike

from .. import _validation as checks
from ..mdp import ArrayField, Problem
from ..types import Array, Key, StateFeatures

Theta: TypeAlias = Float[Array, " n"]
"""The parameters of a policy."""
Index: TypeAlias = int | np.integer | Integer[Array, "*batch"]
"""A state or an action, or an array of them."""


@runtime_checkable
class Policy(Protocol):
    r"""A policy that an actor can change: a function from $\theta$ to (s, a) probabilities."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of states and actions."""
        ...

    @property
    def num_parameters(self) -> int:
        r"""The size of $\theta$."""
        ...

    def __call__(self, theta: ArrayLike) -> Float[Array, "s a"]:
        r"""$\pi_\theta(a|s)$ of all states and actions."""
        ...

    def init(self, key: Key) -> Theta:
        """The first parameters."""
        ...

    def probabilities(self, theta: Theta, state: Index) -> Float[Array, "*batch a"]:
        r"""$\pi_\theta(\cdot|s)$."""
        ...

    def score(self, theta: Theta, state: Index, action: Index) -> Theta:
        r"""$\nabla\log\pi_\theta(a|s)$."""
        ...

    def bound(self, behavior: Float[np.ndarray, "s a"]) -> float | None:
        r"""A constant $C_0$ of Assumption 3 that serves every $\theta$, or None."""
        ...


@dataclass(frozen=True, eq=False)
class Softmax:
    r"""The linear softmax policy $\pi_\theta(a|s) \propto \exp(\phi(s,a)^\top\theta)$.

    The features are the policy's own; [linear], [tabular] and [over_states] make the usual ones.

    **Arguments:**

    - `features`: $\phi$, an (s, a, n) array.
    """

    features: ArrayField

    def __post_init__(self):
        features = np.array(self.features, dtype=np.float64)
        if features.ndim != 3 or not np.isfinite(features).all():
            raise ValueError(
                f"features: got shape {features.shape}; a finite (states, actions, n) array is "
                "required"
            )
        features.flags.writeable = False
        object.__setattr__(self, "features", features)

    def __call__(self, theta: ArrayLike) -> Float[Array, "s a"]:
        return jax.nn.softmax(self.features @ _check_theta(theta, self.num_parameters), axis=1)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of states and actions."""
        return self.features.shape[:2]

    @property
    def num_parameters(self) -> int:
        r"""The size of $\theta$."""
        return self.features.shape[2]

    def init(self, key: Key) -> Theta:
        """The first parameters: 0, the uniform policy."""
        return jnp.zeros(self.num_parameters)

    def probabilities(self, theta: Theta, state: Index) -> Float[Array, " a"]:
        r"""$\pi_\theta(\cdot|s)$."""
        return _softmax(jnp.asarray(self.features, theta.dtype)[state] @ theta)

    def score(self, theta: Theta, state: Index, action: Index) -> Theta:
        r"""$\nabla\log\pi_\theta(a|s) = \phi(s,a) - \sum_b\pi_\theta(b|s)\phi(s,b)$."""
        phi = jnp.asarray(self.features, theta.dtype)[state]
        return phi[action] - self.probabilities(theta, state) @ phi

    @property
    def spread(self) -> float:
        r"""The largest distance between actions, $\max_{s,a,b}\|\phi(s,a) - \phi(s,b)\|$."""
        actions = (self.features[:, [b]] for b in range(self.features.shape[1]))
        return float(max(np.linalg.norm(self.features - phi, axis=2).max() for phi in actions))

    def bound(self, behavior: Float[np.ndarray, "s a"]) -> float:
        r"""A constant $C_0$ of Assumption 3 that serves every $\theta$.

        With the spread $\Phi$ of the features $\|\nabla\pi_\theta(a|s)\| \le \Phi/4$ and
        $\|\nabla^2\pi_\theta(a|s)\| \le \Phi^2/4$, so that $\psi_\theta = \nabla\pi_\theta/\mu$
        and its gradient are bounded by $C_0 = \max(\Phi, \Phi^2)/(4\min\mu)$, and $\pi_\theta$
        and $\psi_\theta$ are Lipschitz with it. It is infinite where $\mu$ is 0.
        """
        lowest = float(np.min(behavior))
        return max(self.spread, self.spread**2) / 4.0 / lowest if lowest > 0 else float("inf")


def linear(problem: Problem) -> Softmax:
    r"""The softmax policy on the state-action features of a problem, $\phi = \tilde x$."""
    return Softmax(problem.dense_features[1])


def tabular(problem: Problem) -> Softmax:
    r"""The softmax policy with one parameter for each (s, a)."""
    states, actions = problem.behavior.shape
    return Softmax(np.eye(states * actions).reshape(states, actions, -1))


def over_states(x: StateFeatures, num_actions: int) -> Softmax:
    r"""The softmax policy on state features, $\phi(s,a) = e_a \otimes x(s)$.

    **Arguments:**

    - `x`: State features, an (s, k) array: states that look alike are treated alike.
    - `num_actions`: The number of actions.
    """
    x = _check_state_features(x)
    phi = np.einsum("ab,sk->sabk", np.eye(num_actions), x)
    return Softmax(phi.reshape(len(x), num_actions, -1))


@dataclass(frozen=True, eq=False)
class NetworkSoftmax:
    r"""The softmax of the preferences that a small network gives to a state's features.

    $$
    \pi_\theta(\cdot|s) \propto \exp\big(W_n\tanh(\cdots\tanh(W_1x(s) + b_1)\cdots) + b_n\big),
    $$

    where $\theta$ is the vector of all weights and biases. For the actor alone: critics are
    linear. It is smooth, but the gradient in $W_1$ grows with the other layers, so that no constant
    of Assumption 3 serves every $\theta$.

    **Arguments:**

    - `x`: State features, an (s, k) array.
    - `num_actions`: The number of actions.
    - `hidden`: The sizes of the hidden layers.
    """

    x: ArrayField
    num_actions: int
    hidden: Sequence[int] = (16,)

    def __post_init__(self):
        x = _check_state_features(self.x)
        x.flags.writeable = False
        object.__setattr__(self, "x", x)
        sizes = [("num_actions", self.num_actions), *(("hidden", size) for size in self.hidden)]
        for name, size in sizes:
            checks.count(name, size)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of states and actions."""
        return len(self.x), self.num_actions

    @property
    def layers(self) -> list[tuple[int, int]]:
        """The inputs and outputs of each layer."""
        sizes = [self.x.shape[1], *self.hidden, self.num_actions]
        return list(pairwise(sizes))

    @property
    def num_parameters(self) -> int:
        r"""The size of $\theta$."""
        return sum(rows * columns + columns for rows, columns in self.layers)

    def preferences(self, theta: Theta, state: Index) -> Float[Array, "*batch a"]:
        """The network's preferences for the actions of a state, or of an array of states."""
        value, start = jnp.asarray(self.x, theta.dtype)[state], 0
        for number, (rows, columns) in enumerate(self.layers):
            weight = theta[start : start + rows * columns].reshape(rows, columns)
            start += rows * columns
            value = (jnp.tanh(value) if number else value) @ weight
            value = value + jnp.broadcast_to(theta[start : start + columns], value.shape)
            start += columns
        return value

    def __call__(self, theta: ArrayLike) -> Float[Array, "s a"]:
        return _network_probabilities(self, _check_theta(theta, self.num_parameters))

    def init(self, key: Key) -> Theta:
        r"""Hidden weights of variance 1 over their inputs; biases and the last layer 0: uniform."""
        arrays: list[jax.Array] = []
        for number, (rows, columns) in enumerate(self.layers):
            scale = rows**-0.5 if number < len(self.hidden) else 0.0
            noise = jax.random.normal(jax.random.fold_in(key, number), (rows * columns,), "float32")
            arrays += [scale * noise, jnp.zeros(columns, "float32")]
        return jnp.concatenate(arrays)

    def probabilities(self, theta: Theta, state: Index) -> Float[Array, "*batch a"]:
        r"""$\pi_\theta(\cdot|s)$."""
        return jax.nn.softmax(self.preferences(theta, state))

    def score(self, theta: Theta, state: Index, action: Index) -> Theta:
        r"""$\nabla\log\pi_\theta(a|s)$."""
        return jax.grad(lambda t: jax.nn.log_softmax(self.preferences(t, state))[action])(theta)

    def bound(self, behavior: Float[np.ndarray, "s a"]) -> None:
        r"""No constant of Assumption 3 serves every $\theta$."""


@partial(jax.jit, static_argnames="policy")  # compiled at once, not operation by operation
def _network_probabilities(policy: NetworkSoftmax, theta: Theta) -> Float[Array, "s a"]:
    return jax.nn.softmax(policy.preferences(theta, np.arange(len(policy.x))), axis=1)


def _softmax(h: Float[jax.Array, " a"]) -> Float[jax.Array, " a"]:
    r"""$e^{h_a}/\sum_be^{h_b}$; of two, with $e^{-|h_0 - h_1|}$ as the only exponential."""
    if len(h) != 2:
        return jax.nn.softmax(h)
    odds = jnp.exp(-jnp.abs(h[0] - h[1]))
    larger = 1.0 / (1.0 + odds)
    return jnp.where(h < h[::-1], odds * larger, larger)


def _check_theta(theta: ArrayLike, size: int) -> Float[jax.Array, " n"]:
    array = jnp.asarray(theta)
    if array.shape != (size,):
        raise ValueError(f"theta: got shape {array.shape}; {(size,)} is required")
    return array


def _check_state_features(x: ArrayLike) -> Float[np.ndarray, "s k"]:
    x = np.array(x, dtype=np.float64)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise ValueError(f"x: got shape {x.shape}; a finite (states, k) array is required")
    return x
