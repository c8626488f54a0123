"""A followon trace that restarts, with growing periods."""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from .. import _validation as checks
from ..types import Array, Learner, Number, Scalar, Time, Transition
from .followon import followon, FollowonState

LAST = 2**31 - 1  # the last time that every engine can count


@dataclass(frozen=True)
class Periods:
    r"""Periods of the lengths $b_k = b_0 + g\lfloor\log_2(k + 1)\rfloor$, for $k = 0, 1, \dots$

    **Arguments:**

    - `length`: The first length $b_0 \ge 1$.
    - `growth`: How much longer, $g \ge 0$, the periods are whenever there are twice as many.
    """

    length: int
    growth: int = 0

    def __post_init__(self) -> None:
        checks.count("length", self.length)
        checks.count("growth", self.growth, least=0)

    @cached_property
    def _begins(self) -> Int[np.ndarray, " j"]:
        """When the length grows for the j-th time: 2^j periods have the length b_0 + g j."""
        doublings = np.arange(32)
        times = np.cumsum(2**doublings * (self.length + self.growth * doublings))
        return np.append(0, times[times <= LAST])

    def _place(self, time: Time) -> tuple[jax.Array, ...]:
        """The period's number, its length, and how many of its steps are over."""
        begins, time = jnp.asarray(self._begins, jnp.int32), jnp.asarray(time, jnp.int32)
        doublings = (time >= begins).sum(dtype=jnp.int32) - 1
        length = self.length + self.growth * doublings
        periods, passed = jnp.divmod(time - begins[doublings], length)
        return jnp.left_shift(1, doublings) - 1 + periods, length, passed

    def number(self, time: Time) -> Int[Array, ""]:
        """The number $k$ of the period of a time."""
        return self._place(time)[0]

    def begins(self, time: Time) -> Bool[Array, ""]:
        """Whether a time is the first of its period."""
        return self._place(time)[2] == 0

    def ends(self, time: Time) -> Bool[Array, ""]:
        """Whether a time is the last of its period."""
        _, length, passed = self._place(time)
        return passed == length - 1


def restarting(
    length: int, growth: int = 0, decay: Number | None = None
) -> Learner[FollowonState, Transition]:
    r"""The followon trace, started afresh in each of many periods.

    $M_t = i(S_t)$ at the first time of a period, and within it $M_t = i(S_t) +
    \gamma_t\rho_{t-1}M_{t-1}$. After $p$ steps of a period it has $p$ ratios, and its mean given
    $S_t$ is the [truncated_emphasis] of length $p$. The periods have the lengths

    $$
    b_k = b_0 + g\lfloor\log_2(k + 1)\rfloor, \qquad k = 0, 1, \dots
    $$

    [periodic_etd] learns values from its last moments (Guan, Xu and Liang, 2022).

    **Arguments:**

    - `length`: The first length $b_0 \ge 1$.
    - `growth`: How much longer, $g \ge 0$, the periods are whenever there are twice as many.
    - `decay`: A $\beta$ in place of the discount where that is positive, as for [followon].
    """
    periods, trace = Periods(length, growth), followon(decay=decay)

    def restart(state: FollowonState, y: Transition) -> FollowonState:
        return FollowonState(jnp.where(periods.begins(y.time), 0.0, state.terms))

    def step(state: FollowonState, y: Transition) -> FollowonState:
        return trace.step(restart(state, y), y)

    def predict(state: FollowonState, y: Transition) -> Scalar:
        return trace.predict(restart(state, y), y)

    return Learner(trace.init, step, predict, name="restarting", estimates="emphasis")
