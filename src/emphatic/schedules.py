"""Step sizes as functions of time, which know which conditions they satisfy."""

import re
from dataclasses import dataclass
from math import inf

import jax.numpy as jnp
from jaxtyping import Float

from . import _validation as checks
from ._schema import show
from .types import Array, Number, Schedule, StepSize, Time


@dataclass(frozen=True)
class Polynomial:
    r"""The step sizes $\alpha_t = c\,(1 + t/\tau)^{-p}$; by default $c\,(t + 1)^{-p}$.

    They are positive and, as $p \ge 0$, nonincreasing. Comparison with $\sum_t t^{-p}$ decides the
    conditions of the paper exactly:

    - $\sum_t \alpha_t = \infty$ iff $p \le 1$, and $\sum_t \alpha_t^2 < \infty$ iff $p > 1/2$;
    - with $\beta_t = c'(1 + t/\tau')^{-p'}$, $\sum_t (\beta_t/\alpha_t)^d < \infty$ for some
      $d > 0$ iff $p' > p$.

    **Arguments:**

    - `scale`: The first step size $c > 0$.
    - `power`: The decay $p \ge 0$; 0 is a constant step size.
    - `onset`: The time $\tau > 0$ around which the decay sets in: at $t = \tau$ the step size is
      $2^{-p}c$.
    """

    scale: Number
    power: Number = 0.0
    onset: Number = 1.0

    def __post_init__(self) -> None:
        checks.positive("scale", self.scale, "a step size must be positive and finite")
        required = "a step size must not grow, so power >= 0"
        checks.number("power", self.power, required, lambda power: 0.0 <= power < inf)
        checks.positive("onset", self.onset, "a positive and finite time is required")

    def __call__(self, time: Time) -> Number | Float[Array, "..."]:
        age, scale = 1.0 + time / _in_range(self.onset), _in_range(self.scale)
        if isinstance(self.power, int | float):
            return scale * age**-self.power if self.power else scale
        return scale * jnp.exp(-self.power * jnp.log(age))  # traced: a single exp

    def __str__(self) -> str:
        if not self.power:
            return f"{self.scale:g}"
        time = "t" if self.onset == 1.0 else f"(1+t/{self.onset:g})"
        return f"{self.scale:g}/{time}^{self.power:g}"

    @property
    def robbins_monro(self) -> bool:
        r"""Whether $\sum_t\alpha_t = \infty$ and $\sum_t\alpha_t^2 < \infty$."""
        return bool(0.5 < self.power <= 1.0)

    def slower_than(self, other: "Polynomial") -> bool:
        r"""Whether $\sum_t(\alpha_t/\alpha'_t)^d < \infty$ for some $d > 0$ ($\alpha'$: other)."""
        return bool(self.power > other.power)


def constant(step_size: Number) -> Polynomial:
    r"""The step size $\alpha_t = \alpha$."""
    return Polynomial(step_size)


def polynomial(scale: Number, power: Number, onset: Number = 1.0) -> Polynomial:
    r"""The step sizes $\alpha_t = c\,(1 + t/\tau)^{-p}$; see [Polynomial]."""
    return Polynomial(scale, power, onset)


def parse(text: str) -> Polynomial:
    """Reads a schedule from text.

    `0.1` is constant, `0.1/t^0.7` decays, `1/t` is power 1, `0.1/(1+t/1e4)^0.6` has an onset.
    """
    number = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    time = rf"t|\(1\+t/(?P<onset>{number})\)"
    pattern = rf"(?P<scale>{number})(?:/(?P<time>{time})(?:\^(?P<power>{number}))?)?"
    match = re.fullmatch(pattern, text.strip())
    if match is None:
        forms = "a number like 0.1, or 0.1/t^0.7, or 0.1/(1+t/1e4)^0.7"
        raise ValueError(f"step size: got {show(text)}; write {forms}")
    power = float(match["power"] or 1.0) if match["time"] else 0.0
    return Polynomial(float(match["scale"]), power, float(match["onset"] or 1.0))


def as_schedule(value: StepSize, name: str = "step_size") -> Schedule:
    """Returns a schedule as it is, and a number (traced or not) as a constant one.

    The error for a number that is no step size calls it by its name.
    """
    if callable(value):
        return value
    checks.positive(name, value, "a step size must be positive and finite")
    return constant(value)


def as_ridge(value: StepSize) -> Schedule:
    """Returns a schedule as it is, and a number >= 0 as a constant one."""
    if callable(value):
        return value
    checks.ridge(value)
    return lambda time: _in_range(value)


def _in_range(value: Number) -> Number:
    """Returns a whole number as it is, or as a float if it is larger than those of JAX."""
    return float(value) if isinstance(value, int) and value >= 2**31 else value
