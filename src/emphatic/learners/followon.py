"""The followon trace, whole or truncated."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from .. import _validation as checks
from ..types import Array, Key, Learner, Number, Scalar, Transition
from ._decay import as_decay


class FollowonState(eqx.Module):
    r"""What earlier steps contribute to $M_t$: one term, or one for each ratio if truncated."""

    terms: Float[Array, " n"]


def followon(
    length: int | None = None, decay: Number | None = None
) -> Learner[FollowonState, Transition]:
    r"""The followon trace $M_t = i(S_t) + \gamma_t\rho_{t-1}M_{t-1}$ with $M_{-1} = 0$ (Eq. 1).

    Given $S_t$ its mean tends to the emphasis $m_\pi$ ([emphasis]), its variance to
    [followon_variance]. Truncated to $n$ ratios it is

    $$
    M_t = \sum_{j=0}^{n} i(S_{t-j})\prod_{k=t-j}^{t-1}\gamma_{k+1}\rho_k,
    $$

    whose mean tends to [truncated_emphasis].

    **Arguments:**

    - `length`: How many ratios $n \ge 0$ to keep; None keeps all.
    - `decay`: A $\beta$ in place of the discount where that is positive, to trade bias for
      variance (Hallak et al., 2016); None is the discount itself.
    """
    if length is not None:
        checks.count("length", length, least=0)
    gamma_of = as_decay(decay)

    def init(key: Key, y: Transition) -> FollowonState:
        return FollowonState(jnp.zeros(1 if length is None else length, y.x.dtype))

    def step(state: FollowonState, y: Transition) -> FollowonState:
        if length is None:
            terms = predict(state, y)[None]
        else:  # the term of i(S_{t-j}) becomes that of i(S_{t+1-(j+1)})
            terms = jnp.concatenate([jnp.atleast_1d(y.interest), state.terms])[:length]
        return FollowonState(gamma_of(y) * y.rho * terms)

    def predict(state: FollowonState, y: Transition) -> Scalar:
        return y.interest + state.terms.sum()

    suffix = "" if length is None else f"({length})"
    return Learner(init, step, predict, name=f"followon{suffix}", estimates="emphasis")
