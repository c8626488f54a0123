"""Policies: functions from theta to (s, a) probabilities."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True, eq=False)
class Softmax:
    r"""The linear softmax policy $\pi_\theta(a|s) \propto \exp(\phi(s,a)^\top\theta)$.

    **Arguments:**

    - `features`: $\phi$, an (s, a, n) array.
    """

    features: Any

    def __post_init__(self):
        features = np.array(self.features, dtype=np.float64)
        if features.ndim != 3 or not np.isfinite(features).all():
            raise ValueError(
                f"features: got shape {features.shape}; a finite (states, actions, n) array is "
                "required"
            )
        features.flags.writeable = False
        object.__setattr__(self, "features", features)

    def __call__(self, theta):
        theta = jnp.asarray(theta)
        if theta.shape != self.features.shape[2:]:
            raise ValueError(
                f"theta: got shape {theta.shape}; {self.features.shape[2:]} is required"
            )
        return jax.nn.softmax(self.features @ theta, axis=1)

    def init(self, key: Any) -> Any:
        """The first parameters: 0, the uniform policy."""
        return jnp.zeros(self.features.shape[2])

    def at(self, theta: Any, state: Any) -> Any:
        r"""$\pi_\theta(\cdot|s)$."""
        return jax.nn.softmax(jnp.asarray(self.features, theta.dtype)[state] @ theta)

    def score(self, theta: Any, state: Any, action: Any) -> Any:
        r"""$\nabla\log\pi_\theta(a|s) = \phi(s,a) - \sum_b\pi_\theta(b|s)\phi(s,b)$."""
        phi = jnp.asarray(self.features, theta.dtype)[state]
        return phi[action] - self.at(theta, state) @ phi

    @property
    def spread(self) -> float:
        r"""The largest distance between actions, $\max_{s,a,b}\|\phi(s,a) - \phi(s,b)\|$."""
        return float(
            max(
                np.linalg.norm(self.features - self.features[:, [b]], axis=2).max()
                for b in range(self.features.shape[1])
            )
        )
