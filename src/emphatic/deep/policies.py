"""Policies with networks: Gaussian, truncated Gaussian and softmax."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jax.typing import DTypeLike
from jaxtyping import Float, PyTree

from ..types import Array, Key, Params, Scalar
from .experience import Action, Observation
from .networks import HIDDEN, init_network, Layers, outputs

Distribution: TypeAlias = PyTree[Float[Array, "..."]]
r"""The distribution $\pi_\theta(\cdot|s)$, as the arrays by which its policy describes it."""
Normal: TypeAlias = tuple[Float[Array, " a"], Float[Array, " a"]]
"""The mean and the scale of each entry of an action."""
Bounds: TypeAlias = Float[Array, " a"] | Sequence[float]
"""The bounds of an action, one number for each of its entries."""
GaussianParams: TypeAlias = tuple[Layers, Float[Array, " a"]]
r"""The layers of $f$, and $\sigma$."""


@runtime_checkable
class Policy(Protocol):
    r"""A policy that an actor can change: $\pi_\theta(\cdot|s)$ for parameters $\theta$."""

    def init(self, key: Key, num_inputs: int, dtype: DTypeLike = jnp.float32) -> Params:
        r"""The first $\theta$."""
        ...

    def distribution(self, theta: Params, observation: Observation) -> Distribution:
        r"""$\pi_\theta(\cdot|s)$."""
        ...

    def sample(self, distribution: Distribution, key: Key) -> Action:
        """Draws an action."""
        ...

    def log_density(self, distribution: Distribution, action: Action) -> Scalar:
        r"""$\log\pi(a|s)$."""
        ...

    def entropy(self, distribution: Distribution) -> Scalar:
        r"""$H(\pi(\cdot|s))$."""
        ...


@dataclass(frozen=True, eq=False, init=False)
class Gaussian:
    r"""Gaussian actions from $N(c + h\tanh f_\theta(s),\ h^2\operatorname{softplus}(\sigma)^2)$.

    The mean stays in the box with centre $c$ and half widths $h$, the actions do not: with uniform
    behaviour $E_\mu[\rho]$ is the probability of the box, which is below 1. The scale does not
    depend on the state; $\sigma = 0$ at first. An environment receives the action as it is drawn.
    """

    low: Float[np.ndarray, " a"]
    high: Float[np.ndarray, " a"]
    hidden: Sequence[int] = HIDDEN

    def __init__(self, low: Bounds, high: Bounds, hidden: Sequence[int] = HIDDEN) -> None:
        _set_box(self, low, high, hidden)

    def init(self, key: Key, num_inputs: int, dtype: DTypeLike = jnp.float32) -> GaussianParams:
        r"""The first $\theta$: the layers of $f$, and $\sigma$."""
        sizes = (num_inputs, *self.hidden, self.low.size)
        return init_network(key, sizes, dtype=dtype), jnp.zeros(self.low.size, dtype)

    def distribution(self, theta: GaussianParams, observation: Observation) -> Normal:
        r"""$\pi_\theta(\cdot|s)$: its mean and its scale."""
        layers, sigma = theta
        centre, half = box(self.low, self.high, sigma.dtype)
        mean = centre + half * jnp.tanh(outputs(layers, observation))
        return mean, half * jax.nn.softplus(sigma)

    def sample(self, distribution: Normal, key: Key) -> Action:
        """Draws an action."""
        mean, scale = distribution
        return mean + scale * jax.random.normal(key, mean.shape, mean.dtype)

    def log_density(self, distribution: Normal, action: Action) -> Scalar:
        r"""$\log\pi(a|s)$."""
        return norm.logpdf(action, *distribution).sum()

    def entropy(self, distribution: Normal) -> Scalar:
        r"""$\sum_j\tfrac12\log(2\pi e\sigma_j^2)$."""
        return (0.5 * np.log(2 * np.pi * np.e) + jnp.log(distribution[1])).sum()


@dataclass(frozen=True, eq=False, init=False)
class TruncatedGaussian:
    r"""The [Gaussian] conditioned on an action in the box, so that $E_\mu[\rho] = 1$.

    With $Z = \Phi(\beta) - \Phi(\alpha)$, where $\alpha$ and $\beta$ are the bounds in units of the
    scale from the mean, the density of each entry is that of the Gaussian over $Z$. The arguments
    are those of [Gaussian].
    """

    low: Float[np.ndarray, " a"]
    high: Float[np.ndarray, " a"]
    hidden: Sequence[int] = HIDDEN

    def __init__(self, low: Bounds, high: Bounds, hidden: Sequence[int] = HIDDEN) -> None:
        _set_box(self, low, high, hidden)

    init = Gaussian.init
    distribution = Gaussian.distribution

    def sample(self, distribution: Normal, key: Key) -> Action:
        """Draws an action, which is in the box."""
        (mean, scale), (alpha, beta) = distribution, self._standardised_bounds(distribution)
        standard = jax.random.truncated_normal(key, alpha, beta, mean.shape, mean.dtype)
        low, high = (jnp.asarray(bound, mean.dtype) for bound in (self.low, self.high))
        return jnp.clip(mean + scale * standard, low, high)

    def log_density(self, distribution: Normal, action: Action) -> Scalar:
        r"""$\log\pi(a|s)$, which is $-\infty$ outside of the box."""
        alpha, beta = self._standardised_bounds(distribution)
        inside = (action >= jnp.asarray(self.low)) & (action <= jnp.asarray(self.high))
        log_density = norm.logpdf(action, *distribution) - jnp.log(norm.cdf(beta) - norm.cdf(alpha))
        return jnp.where(inside, log_density, -jnp.inf).sum()

    def entropy(self, distribution: Normal) -> Scalar:
        r"""$\sum\log(\sqrt{2\pi e}\,\sigma Z) + (\alpha\phi(\alpha) - \beta\phi(\beta))/2Z$."""
        alpha, beta = self._standardised_bounds(distribution)
        Z = norm.cdf(beta) - norm.cdf(alpha)
        edges = (alpha * norm.pdf(alpha) - beta * norm.pdf(beta)) / (2 * Z)
        return (0.5 * np.log(2 * np.pi * np.e) + jnp.log(distribution[1] * Z) + edges).sum()

    def _standardised_bounds(self, distribution: Normal) -> Normal:
        mean, scale = distribution
        low, high = (jnp.asarray(bound, mean.dtype) for bound in (self.low, self.high))
        return (low - mean) / scale, (high - mean) / scale


@dataclass(frozen=True, eq=False)
class Softmax:
    r"""A policy over finitely many actions, with $\pi_\theta(\cdot|s) \propto \exp f_\theta(s)$."""

    num_actions: int
    hidden: Sequence[int] = HIDDEN

    def init(self, key: Key, num_inputs: int, dtype: DTypeLike = jnp.float32) -> Layers:
        r"""The first $\theta$: the layers of $f$."""
        return init_network(key, (num_inputs, *self.hidden, self.num_actions), dtype=dtype)

    def distribution(self, theta: Layers, observation: Observation) -> Float[Array, " a"]:
        r"""$\log\pi_\theta(\cdot|s)$."""
        return jax.nn.log_softmax(outputs(theta, observation))

    def sample(self, distribution: Float[Array, " a"], key: Key) -> Action:
        """Draws an action, as its number."""
        return jax.random.categorical(key, distribution)

    def log_density(self, distribution: Float[Array, " a"], action: Action) -> Scalar:
        r"""$\log\pi(a|s)$."""
        return distribution[action]

    def entropy(self, distribution: Float[Array, " a"]) -> Scalar:
        r"""$-\sum_a\pi(a|s)\log\pi(a|s)$."""
        return -(jnp.exp(distribution) * distribution).sum()


def box(
    low: Float[np.ndarray, " a"], high: Float[np.ndarray, " a"], dtype: DTypeLike
) -> tuple[Float[Array, " a"], Float[Array, " a"]]:
    """The centre and the half widths of a box."""
    return jnp.asarray((low + high) / 2, dtype), jnp.asarray((high - low) / 2, dtype)


def _set_box(
    policy: Gaussian | TruncatedGaussian, low: Bounds, high: Bounds, hidden: Sequence[int]
) -> None:
    low, high = np.array(low, np.float64), np.array(high, np.float64)
    for name, field in (("low", low), ("high", high), ("hidden", hidden)):
        object.__setattr__(policy, name, field)
    if low.ndim != 1 or low.shape != high.shape or not np.isfinite(high - low).all():
        raise ValueError(f"low, high: got {low} and {high}; two finite vectors are required")
    if not (low < high).all():
        raise ValueError(f"low: got {low}, high: {high}; each low must be below its high")
