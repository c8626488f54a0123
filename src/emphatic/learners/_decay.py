"""What a trace of emphasis is multiplied by: the discount, or a decay in its place."""

from collections.abc import Callable

import jax.numpy as jnp

from .. import _validation as checks
from ..types import Number, Scalar, Transition


def as_decay(decay: Number | None) -> Callable[[Transition], Scalar]:
    r"""Returns the function from a transition to its discount, or to $\beta$ where it is positive.

    Thus the end of an episode cuts a trace, whatever its decay is.
    """
    if decay is None:
        return lambda y: y.discount
    checks.probability("decay", decay, "a number")
    return lambda y: jnp.where(y.discount > 0, decay, 0.0).astype(y.discount.dtype)
