"""From learners of the emphasis to learners of the density ratio."""

from dataclasses import replace

import jax.numpy as jnp

from .. import _validation as checks
from ..types import Learner, Number, Scalar, State, Transition


def ratio(emphasis: Learner[State, Transition], discount: Number) -> Learner[State, Transition]:
    r"""A learner of the emphasis as one of the discounted density ratio.

    The ratio $c_{\hat\gamma} = (1 - \hat\gamma)D^{-1}(I - \hat\gamma P_\pi^\top)^{-1}d_\mu$
    ([density_ratio]) is the emphasis for an interest of $1 - \hat\gamma$ and the discount
    $\hat\gamma$ in every state: what is shown to the learner has these. The interest of the problem
    and its discount do not matter, and the end of an episode is a transition as any other: the
    ratio is that of the continuing chain of $\pi$, restarts included. As $\hat\gamma \to 1$ it is
    $d_\pi/d_\mu$, and the interest of $1 - \hat\gamma$ fades: a learner has then nothing that says
    how large the ratio is, but [gradient_dice] has.

    [cop_td] is this of [reverse_td], [gradient_cop_td] of [gem]. `ratio(followon(), 0.9)` is the
    trace whose mean is the ratio, and `ratio(lsgem(1e-3), 0.9)` the least-squares solution.

    **Arguments:**

    - `emphasis`: A learner of the emphasis, without a decay of its own.
    - `discount`: $\hat\gamma$ in [0, 1).
    """
    required = "a number in [0, 1) is required"
    checks.number("discount", discount, required, lambda known: 0.0 <= known < 1.0)

    def continuing(y: Transition) -> Transition:
        gamma = jnp.asarray(discount, y.x.dtype)
        return replace(y, discount=gamma, interest=1 - gamma, interest_next=1 - gamma)

    def step(state: State, y: Transition) -> State:
        return emphasis.step(state, continuing(y))

    def predict(state: State, y: Transition) -> Scalar:
        return emphasis.predict(state, continuing(y))

    return replace(
        emphasis,
        step=step,
        predict=predict,
        name=f"ratio({emphasis.name})",
        estimates="ratio",
        discount=discount,
    )
