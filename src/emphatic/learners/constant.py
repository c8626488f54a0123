"""Predictions that are not learned: one number."""

import jax.numpy as jnp

from .. import _validation as checks
from ..types import Learner, Number, Transition


def constant(value: Number) -> Learner[tuple[()], Transition]:
    r"""Predicts the same number everywhere, and learns nothing.

    As an emphasis, 1 turns [etd] into off-policy TD(0), and $1/(1-\gamma)$ is an honest reference
    for the error of an emphasis.

    **Arguments:**

    - `value`: The number.
    """
    checks.number("value", value, "a finite number is required")
    return Learner(
        init=lambda key, y: (),
        step=lambda state, y: state,
        predict=lambda state, y: jnp.asarray(value, y.x.dtype),
        name="constant",
    )
