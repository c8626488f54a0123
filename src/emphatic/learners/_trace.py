"""Eligibility traces: what earlier steps add to the features of this one.

A state keeps $\\gamma_{t+1}z_t$, so that the discount of a step meets the features before it. A
decay that is known to be 0 keeps nothing, (), and its learner is the one without a trace, to the
last bit.
"""

from dataclasses import replace
from typing import TypeAlias

import jax.numpy as jnp
from jaxtyping import Float

from .. import _validation as checks
from ..types import Array, Learner, Number, Scalar, State, Transition

Trace: TypeAlias = Float[Array, " k"] | tuple[()]
"""A decayed sum of features, or () where nothing is kept."""


def require_decay(decay: Number, name: str = "trace_decay") -> None:
    """Raises a `ValueError` unless the decay is a number in [0, 1], or traced."""
    checks.probability(name, decay, "a number")


def start(decay: Number, x: Float[Array, " k"]) -> Trace:
    """Returns the trace before the first step."""
    return () if is_zero(decay) else jnp.zeros_like(x)


def is_zero(decay: Number) -> bool:
    """Whether a decay is known to be 0."""
    return not checks.is_traced(decay) and float(decay) == 0.0


def add(vector: Float[Array, " k"], scale: Number, trace: Trace) -> Float[Array, " k"]:
    """Returns the vector and a multiple of the trace, if there is one."""
    return vector if isinstance(trace, tuple) else vector + scale * trace


def carry(trace: Trace, factor: Scalar, eligibility: Float[Array, " k"]) -> Trace:
    """Returns the next trace, a multiple of this step's eligibility, if there is one."""
    return () if isinstance(trace, tuple) else factor * eligibility


def emphasize(source: Learner[State, Transition], decay: Number) -> Learner[State, Transition]:
    r"""Returns what predicts $M_t = \lambda i(S_t) + (1-\lambda)F_t$, $F_t$ of the source."""
    if is_zero(decay):
        return source

    def predict(state: State, y: Transition) -> Scalar:
        return decay * y.interest + (1.0 - decay) * source.predict(state, y)

    return replace(source, predict=predict)
