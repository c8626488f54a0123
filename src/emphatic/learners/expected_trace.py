"""Expected emphatic traces: n-step reversed TD."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from .. import _validation as checks
from ..schedules import as_schedule
from ..types import Array, Key, Learner, Number, Scalar, StepSize, Transition
from ._decay import as_decay
from ._initial import standard_normal
from .followon import followon, FollowonState


class ExpectedTraceState(eqx.Module):
    r"""The last $n - 1$ interests and features, times the discounts and ratios since, and the
    weights; the emphasis estimate is $x^\top w$."""

    interests: FollowonState
    trace: Float[Array, "n k"]
    w: Float[Array, " k"]


def expected_trace(
    step_size: StepSize, length: int, decay: Number | None = None
) -> Learner[ExpectedTraceState, Transition]:
    r"""The expected trace of X-ETD(n), n-step reversed TD: estimates the emphasis $m_\pi$ by $Xw$.

    $$
    \begin{aligned}
    G_{t+1} &= \sum_{k=0}^{n-1}i(S_{t+1-k})\prod_{j=t+1-k}^{t}\gamma_{j+1}\rho_j +
        x_{t+1-n}^\top w_t\prod_{j=t+1-n}^{t}\gamma_{j+1}\rho_j, \\
    w_{t+1} &= w_t + \alpha_t(G_{t+1} - x_{t+1}^\top w_t)x_{t+1}.
    \end{aligned}
    $$

    The step at $t$ moves the estimate at $S_{t+1}$, for which alone $\gamma_{t+1}\rho_t$ is known:
    with $n = 1$ it is [reverse_td]. Before $n$ steps have passed $G$ is the followon trace. As a
    source of [etd] it is X-ETD(n) (Jiang et al., 2021). The limit, where it converges, is the
    solution of [expected_trace_system], which tends to the projection of $m_\pi$ as $n$ grows. It
    starts from a standard normal $w_0$. A step costs $O(nk)$.

    **Arguments:**

    - `step_size`: The step sizes $\alpha_t$, a schedule or a number.
    - `length`: The number $n \ge 1$ of ratios before the estimate.
    - `decay`: A $\beta$ in place of the discount where that is positive, as for [followon].
    """
    checks.count("length", length)
    alpha_of, gamma_of = as_schedule(step_size), as_decay(decay)
    truncated = followon(length - 1, decay)

    def init(key: Key, y: Transition) -> ExpectedTraceState:
        trace = jnp.zeros((length - 1, *y.x.shape), y.x.dtype)
        return ExpectedTraceState(truncated.init(key, y), trace, standard_normal(key, "w", y.x))

    def step(state: ExpectedTraceState, y: Transition) -> ExpectedTraceState:
        w, alpha, interests = state.w, alpha_of(y.time), truncated.step(state.interests, y)
        trace = gamma_of(y) * y.rho * jnp.concatenate([y.x[None], state.trace])
        G = y.interest_next + interests.terms.sum() + trace[-1] @ w
        w_next = w + alpha * (G - y.x_next @ w) * y.x_next
        return ExpectedTraceState(interests, trace[:-1], w_next)

    def predict(state: ExpectedTraceState, y: Transition) -> Scalar:
        return y.x @ state.w

    name = f"expected_trace({length})"
    return Learner(init, step, predict, alpha_of, name=name, estimates="emphasis")
