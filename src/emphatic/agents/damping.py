r"""Dampings $\Gamma$, which keep the actor slow while a critic's weights are large (Section 4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _validation as checks
from ..types import Array, Number

Weights: TypeAlias = Float[Array, " k"]
"""The weights of a critic."""
Damping: TypeAlias = Callable[[Weights], Number]
r"""A function of a critic's weights, $\Gamma(d)$."""

SIZES = np.append(0.0, 10.0 ** np.arange(-3.0, 31.0, 3.0))  # of weights to evaluate a damping at
UNDERFLOW = 1e-290  # below it a damping is not told from 0


@dataclass(frozen=True)
class Konda:
    r"""Konda's example of a damping, by the size of a critic's weights.

    $$
    \Gamma(d) = \mathbb I_{\|d\| < C_0} + \frac{1 + C_0}{1 + \|d\|}\,\mathbb I_{\|d\| \ge C_0}.
    $$

    **Arguments:**

    - `bound`: $C_0 > 0$; below it nothing is damped.
    """

    bound: int | Number = 100.0

    def __post_init__(self) -> None:
        checks.positive("bound", self.bound, "C_0 must be positive and finite")

    def __call__(self, weights: Weights) -> Number:
        size = jnp.sqrt(weights @ weights)
        return jnp.minimum(1.0, (1.0 + self.bound) / (1.0 + size))


def undamped(weights: Weights) -> Number:
    r"""No damping, $\Gamma = 1$, which Theorem 3 does not cover."""
    return 1.0


def violation(damping: Damping, num_weights: int) -> str | None:
    r"""Says which of the conditions on $\Gamma$ a damping violates, or None if none is found.

    They are (1) $|\Gamma(d)|$ and (2) $|\Gamma(d)|\,\|d\|$ are bounded, (3) $|\Gamma(d)|$ is
    bounded away from 0 where $\|d\|$ is bounded, and (4) $\Gamma$ is Lipschitz. [Konda] meets them;
    any other function is evaluated along rays from the origin, which can refute but not prove.

    **Arguments:**

    - `damping`: $\Gamma$.
    - `num_weights`: The size of $d$.
    """
    if isinstance(damping, Konda):
        return None
    rng = np.random.default_rng(0)
    rays = rng.normal(size=(8, num_weights))
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)

    def evaluate(sizes: Float[np.ndarray, " m"]) -> Float[np.ndarray, "rays m"]:
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            weights = jnp.asarray(rays[:, None] * sizes[:, None])
            values = jax.vmap(jax.vmap(lambda d: jnp.asarray(damping(d), jnp.float64)))(weights)
            return np.abs(np.asarray(values))

    values = evaluate(SIZES)
    if not np.isfinite(values).all():
        return "condition (1): Gamma(d) is not finite"
    grows = values[:, 1:] * SIZES[1:] > 2.0 * values[:, :-1] * SIZES[:-1]
    if grows[:, -3:].all(axis=1).any():
        return f"condition (2): Gamma(d)|d| still grows at |d| = {SIZES[-1]:g}"
    for ray in range(len(rays)):
        if _vanishes(lambda sizes, ray=ray: evaluate(sizes)[ray], SIZES[SIZES <= 1e3]):
            return "condition (3): Gamma(d) is 0 at a bounded d"
    sizes, change = np.geomspace(1e-3, 1e6, 4000), np.inf
    for _ in range(4):  # look ever closer at the largest change
        changes = np.abs(np.diff(evaluate(sizes))).max(axis=0)
        largest = int(changes.argmax())
        sizes, change = np.linspace(sizes[largest], sizes[largest + 1], 100), changes[largest]
    return f"condition (4): Gamma jumps at |d| = {sizes[0]:.4g}" if change > 1e-3 else None


def _vanishes(
    gamma: Callable[[Float[np.ndarray, " m"]], Float[np.ndarray, " m"]],
    sizes: Float[np.ndarray, " m"],
) -> bool:
    """Whether a damping is 0 at one of some sizes along a ray.

    One that falls below the smallest number before it is 0 only underflows, as exp(-|d|) does.
    """
    values = gamma(sizes)
    for _ in range(4):  # look ever closer at where it is 0 first
        zeros = np.flatnonzero(values == 0.0)
        if not zeros.size or not zeros[0]:
            return bool(zeros.size)
        last = zeros[0] - 1
        if values[last] <= UNDERFLOW:
            return False
        sizes = np.linspace(sizes[last], sizes[last + 1], 1000)
        values = gamma(sizes)
    return True
