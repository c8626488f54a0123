"""Small networks as plain pytrees of arrays, and the policies on top of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

HIDDEN = (64, 64)
LAST = 1e-3  # what the output layers are scaled by

Layers = tuple[tuple[Any, Any], ...]
"""Weights and biases, one pair for each layer."""


def network(key: Any, sizes: Sequence[int], last: float = LAST, dtype: Any = jnp.float32) -> Layers:
    r"""The layers $(W_l, b_l)$ of a network: orthogonal $W_l$, the last one scaled, and $b_l = 0$.

    **Arguments:**

    - `key`: A random key.
    - `sizes`: The numbers of inputs, of hidden units of each layer, and of outputs.
    - `last`: What the weights of the output layer are multiplied by.
    - `dtype`: The type of the numbers.
    """
    keys = jax.random.split(key, len(sizes) - 1)
    scales = [1.0] * (len(sizes) - 2) + [last]
    return tuple(
        (scale * orthogonal(k, shape, dtype), jnp.zeros(shape[1], dtype))
        for k, scale, shape in zip(keys, scales, pairwise(sizes), strict=True)
    )


def orthogonal(key: Any, shape: tuple[int, int], dtype: Any) -> Any:
    """A uniformly random matrix with orthonormal columns, or rows where it has more columns.

    By Gram and Schmidt, each column twice: what LAPACK does is not safe to call from several
    devices of one processor at a time.
    """
    long, short = max(shape), min(shape)
    drawn = jax.random.normal(key, (short, long), dtype)

    def orthonormalise(j, q):
        row = drawn[j]
        for _ in range(2):
            row = row - (q @ row) @ q
        return q.at[j].set(row / jnp.sqrt(row @ row))

    q = jax.lax.fori_loop(0, short, orthonormalise, jnp.zeros_like(drawn))
    return q if shape == (short, long) else q.T


def outputs(layers: Layers, x: Any) -> Any:
    r"""What a network answers to one input, $W_n\sigma(\cdots\sigma(W_1x + b_1)\cdots) + b_n$.

    The units are $\sigma(z) = \max(z, 0)$.
    """
    *hidden, (weight, bias) = layers
    for w, b in hidden:
        x = jax.nn.relu(x @ w + b)
    return x @ weight + bias


def value(layers: Layers, observation: Any) -> Any:
    r"""$v(s)$, the only output."""
    return outputs(layers, observation)[0]


def positive(layers: Layers, observation: Any) -> Any:
    r"""$m(s) = \log(1 + e^z)$ of the only output $z$: an emphasis is positive."""
    return jax.nn.softplus(outputs(layers, observation)[0])


@dataclass(frozen=True, eq=False)
class Gaussian:
    r"""Actions from $N(c + h\tanh f_\theta(s),\ h^2\operatorname{softplus}(\sigma)^2)$.

    The mean stays in the box with centre $c$ and half widths $h$, the actions do not: with uniform
    behaviour $E_\mu[\rho]$ is the probability of the box, which is below 1. The scale does not
    depend on the state; $\sigma = 0$ at first. An environment sees the action as it is drawn.

    **Arguments:**

    - `low`, `high`: The bounds of the box, one number for each entry of an action.
    - `hidden`: The sizes of the hidden layers.
    """

    low: Any
    high: Any
    hidden: Sequence[int] = HIDDEN

    def __post_init__(self):
        for name in ("low", "high"):
            object.__setattr__(self, name, np.array(getattr(self, name), np.float64))
        _require_box(self.low, self.high)

    def init(self, key: Any, num_inputs: int, dtype: Any = jnp.float32) -> Any:
        r"""The first $\theta$: the layers of $f$, and $\sigma$."""
        sizes = (num_inputs, *self.hidden, self.low.size)
        return network(key, sizes, dtype=dtype), jnp.zeros(self.low.size, dtype)

    def at(self, theta: Any, observation: Any) -> tuple[Any, Any]:
        r"""$\pi_\theta(\cdot|s)$: its mean and its scale."""
        layers, sigma = theta
        centre, half = _box(self.low, self.high, sigma.dtype)
        mean = centre + half * jnp.tanh(outputs(layers, observation))
        return mean, half * jax.nn.softplus(sigma)

    def sample(self, law: tuple[Any, Any], key: Any) -> Any:
        """An action."""
        mean, scale = law
        return mean + scale * jax.random.normal(key, mean.shape, mean.dtype)

    def mode(self, law: tuple[Any, Any]) -> Any:
        """The most probable action."""
        return law[0]

    def log_density(self, law: tuple[Any, Any], action: Any) -> Any:
        r"""$\log\pi(a|s)$."""
        return norm.logpdf(action, *law).sum()

    def entropy(self, law: tuple[Any, Any]) -> Any:
        r"""$\sum_j\tfrac12\log(2\pi e\sigma_j^2)$."""
        return (0.5 * np.log(2 * np.pi * np.e) + jnp.log(law[1])).sum()


@dataclass(frozen=True, eq=False)
class TruncatedGaussian:
    r"""The [Gaussian] given that the action is in the box, so that $E_\mu[\rho] = 1$.

    With $Z = \Phi(\beta) - \Phi(\alpha)$, where $\alpha$ and $\beta$ are the bounds in units of the
    scale from the mean, the density of each entry is that of the Gaussian over $Z$.

    **Arguments:**

    - `low`, `high`: The bounds of the box, one number for each entry of an action.
    - `hidden`: The sizes of the hidden layers.
    """

    low: Any
    high: Any
    hidden: Sequence[int] = HIDDEN

    def __post_init__(self):
        for name in ("low", "high"):
            object.__setattr__(self, name, np.array(getattr(self, name), np.float64))
        _require_box(self.low, self.high)

    init = Gaussian.init
    at = Gaussian.at

    def sample(self, law: tuple[Any, Any], key: Any) -> Any:
        """An action, which is in the box."""
        (mean, scale), (alpha, beta) = law, self._bounds(law)
        drawn = jax.random.truncated_normal(key, alpha, beta, mean.shape, mean.dtype)
        low, high = (jnp.asarray(bound, mean.dtype) for bound in (self.low, self.high))
        return jnp.clip(mean + scale * drawn, low, high)

    def mode(self, law: tuple[Any, Any]) -> Any:
        """The most probable action."""
        return law[0]

    def log_density(self, law: tuple[Any, Any], action: Any) -> Any:
        r"""$\log\pi(a|s)$, which is $-\infty$ outside of the box."""
        alpha, beta = self._bounds(law)
        inside = (action >= jnp.asarray(self.low)) & (action <= jnp.asarray(self.high))
        log_density = norm.logpdf(action, *law) - jnp.log(norm.cdf(beta) - norm.cdf(alpha))
        return jnp.where(inside, log_density, -jnp.inf).sum()

    def entropy(self, law: tuple[Any, Any]) -> Any:
        r"""$\sum\log(\sqrt{2\pi e}\,\sigma Z) + (\alpha\phi(\alpha) - \beta\phi(\beta))/2Z$."""
        alpha, beta = self._bounds(law)
        Z = norm.cdf(beta) - norm.cdf(alpha)
        edges = (alpha * norm.pdf(alpha) - beta * norm.pdf(beta)) / (2 * Z)
        return (0.5 * np.log(2 * np.pi * np.e) + jnp.log(law[1] * Z) + edges).sum()

    def _bounds(self, law: tuple[Any, Any]) -> tuple[Any, Any]:
        mean, scale = law
        low, high = (jnp.asarray(bound, mean.dtype) for bound in (self.low, self.high))
        return (low - mean) / scale, (high - mean) / scale


@dataclass(frozen=True, eq=False)
class Softmax:
    r"""Numbers of actions, with $\pi_\theta(\cdot|s) \propto \exp f_\theta(s)$.

    **Arguments:**

    - `num_actions`: The number of actions.
    - `hidden`: The sizes of the hidden layers.
    """

    num_actions: int
    hidden: Sequence[int] = HIDDEN

    def init(self, key: Any, num_inputs: int, dtype: Any = jnp.float32) -> Any:
        r"""The first $\theta$: the layers of $f$."""
        return network(key, (num_inputs, *self.hidden, self.num_actions), dtype=dtype)

    def at(self, theta: Any, observation: Any) -> Any:
        r"""$\log\pi_\theta(\cdot|s)$."""
        return jax.nn.log_softmax(outputs(theta, observation))

    def sample(self, law: Any, key: Any) -> Any:
        """The number of an action."""
        return jax.random.categorical(key, law)

    def mode(self, law: Any) -> Any:
        """The most probable action."""
        return jnp.argmax(law)

    def log_density(self, law: Any, action: Any) -> Any:
        r"""$\log\pi(a|s)$."""
        return law[action]

    def entropy(self, law: Any) -> Any:
        r"""$-\sum_a\pi(a|s)\log\pi(a|s)$."""
        return -(jnp.exp(law) * law).sum()


Policy = Gaussian | TruncatedGaussian | Softmax
"""What an actor can change."""


def _box(low: np.ndarray, high: np.ndarray, dtype: Any) -> tuple[Any, Any]:
    """Centre and half widths."""
    return jnp.asarray((low + high) / 2, dtype), jnp.asarray((high - low) / 2, dtype)


def _require_box(low: np.ndarray, high: np.ndarray) -> None:
    if low.ndim != 1 or low.shape != high.shape or not np.isfinite(high - low).all():
        raise ValueError(f"low, high: got {low} and {high}; two finite vectors are required")
    if not (low < high).all():
        raise ValueError(f"low: got {low}, high: {high}; each low must be below its high")
