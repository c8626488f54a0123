"""The paper's conditions on what a person chooses: critics, ridge, step sizes and damping."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast, Literal

import numpy as np

from .. import _validation as checks
from ..agents.damping import Damping, Konda, undamped, violation
from ..schedules import Polynomial
from ..types import Agent, Learner, Schedule
from .assumptions import Assumption, decide, FAILS, HOLDS, OPEN, Setting


def as_pair(name: str, value: Setting | tuple[Setting, ...]) -> tuple[Setting, Setting]:
    """Returns the settings of both critics, emphasis first: a pair as it is, or one for both."""
    settings = value if isinstance(value, tuple) else (value, value)
    if len(settings) != 2:
        raise ValueError(
            f"{name}: got {len(settings)} values; one for both critics or two are required"
        )
    return settings[0], settings[1]


def as_ridges(ridge: Setting) -> tuple[Setting, Setting]:
    """Returns the ridges of both critics, numbers as floats."""
    first, second = as_pair("ridge", ridge)
    return _as_ridge(first), _as_ridge(second)


def _as_ridge(ridge: Setting) -> Setting:
    if ridge is None or callable(ridge):
        return ridge
    checks.ridge(ridge)
    return float(ridge)


def _combine(rows: Iterable[Assumption]) -> Assumption:
    """Combines the assumptions of both critics: the worse verdict, and the evidence of both."""
    emphasis, values = rows
    worse = max(emphasis, values, key=lambda row: (HOLDS, OPEN, FAILS).index(row.verdict))
    if emphasis.evidence == values.evidence:
        return worse
    return replace(worse, evidence=f"emphasis: {emphasis.evidence}; values: {values.evidence}")


def split(emphasis: Assumption, values: Assumption) -> list[Assumption]:
    """Returns one row if both critics have the same, else a row for each: the second's key has a ~.

    Theorem 1 is about GEM alone and Theorem 2 about GQ2: neither fails by what the other lacks.
    """
    if emphasis == values:
        return [emphasis]
    return [
        replace(emphasis, statement=f"{emphasis.statement} (emphasis)"),
        replace(values, key=f"{values.key}~", statement=f"{values.statement} (values)"),
    ]


def check_critics(agent: Agent) -> Assumption:
    statement = "the critics are GEM and GQ2 on the problem's features"
    names = [
        source.name or "a learner without a name" if isinstance(source, Learner) else "exact"
        for source in (agent.emphasis, agent.critic)
    ]
    evidence = f"the emphasis is {names[0]}, the critic {names[1]}"
    if agent.features is not None:
        evidence += ", on features of their own, as compatible ones that change with theta"
    holds = agent.features is None and names == ["gem", "gq2"]
    remedy = "use gem and gq2 on the problem's features: the theorem covers nothing else"
    return decide("critics", "Algorithm 1", statement, holds, evidence, remedy)


def critic_settings(agent: Agent, name: Literal["ridge", "step_size"]) -> tuple[Setting, Setting]:
    """Returns an attribute of both critics; where one has none, that of the other."""
    emphasis, critic = (getattr(source, name, None) for source in (agent.emphasis, agent.critic))
    return critic if emphasis is None else emphasis, emphasis if critic is None else critic


def as_schedules(name: str, step_size: Setting) -> tuple[Schedule | None, Schedule | None]:
    """Returns the step sizes that an argument of this name gives to both critics."""
    first, second = as_pair(name, step_size)
    return as_schedule(name, first), as_schedule(name, second)


def as_schedule(name: str, step_size: Setting) -> Schedule | None:
    """Returns a schedule as it is, and a number as a constant one."""
    if checks.is_number(step_size):
        return Polynomial(float(step_size))
    if step_size is not None and not callable(step_size):
        raise ValueError(f"{name}: got {step_size!r}; a number or a schedule is required")
    return cast(Schedule | None, step_size)


def check_ridge(ridge: Setting, is_fixed: bool) -> Assumption:
    row = partial(Assumption, "ridge", "Section 3", "the ridge eta is positive")
    if ridge is None:
        return row(OPEN, "not given", "give ridge")
    if callable(ridge):
        return row(OPEN, "a schedule, where the paper has a constant", "make eta a number")
    if ridge > 0:
        return row(HOLDS, f"eta = {ridge:g}")
    changing = "; with eta = 0 and a changing policy convergence is an open problem"
    return row(FAILS, "eta = 0", "make eta positive" + ("" if is_fixed else changing))


def check_robbins_monro(
    key: str, owner: str, argument: str, schedule: Schedule | None
) -> Assumption:
    row = partial(Assumption, key, "Sections 3, 4", f"{owner} step sizes satisfy Robbins-Monro")
    if schedule is None:
        return row(OPEN, "not given", f"give {argument}")
    if not isinstance(schedule, Polynomial):
        return row(OPEN, "not a polynomial schedule", "a polynomial schedule decides it")
    power = schedule.power
    if schedule.robbins_monro:
        return row(HOLDS, f"{schedule}: 1/2 < {power:g} <= 1")
    reason = "the sum is finite: power > 1" if power > 1 else "the squares do not sum: power <= 1/2"
    remedy = "let the step size decay like t^-p with 1/2 < p <= 1"
    if not power:
        remedy += "; no theorem here covers a constant one"
    return row(FAILS, f"{schedule}: {reason}", remedy)


def check_timescales(alpha: Schedule | None, beta: Schedule | None) -> Assumption:
    statement = "the actor is slower: the sum of (beta/alpha)^d is finite"
    row = partial(Assumption, "timescales", "Section 4", statement)
    if alpha is None or beta is None:
        return row(OPEN, "not given", "give step_size and actor_step_size")
    if not (isinstance(alpha, Polynomial) and isinstance(beta, Polynomial)):
        return row(OPEN, "not polynomial schedules", "polynomial schedules decide it")
    if beta.slower_than(alpha):
        least = 1 / (beta.power - alpha.power)
        return row(HOLDS, f"powers {beta.power:g} > {alpha.power:g}: any d > {least:.3g}")
    remedy = "let the actor's step sizes decay faster than the critic's"
    return row(FAILS, f"powers {beta.power:g} <= {alpha.power:g}: no d will do", remedy)


def check_dampings(damping: Setting, sizes: Sequence[int]) -> Assumption:
    """Checks conditions (1) to (4), for weights of these sizes."""
    return _combine(map(_check_damping, as_pair("damping", damping), sizes))


def _check_damping(damping: Setting, num_weights: int) -> Assumption:
    statement = "the dampings Gamma_1, Gamma_2 bound the actor's step"
    row = partial(Assumption, "damping", "Section 4", statement)
    if damping is None:
        return row(OPEN, "not given", "give damping, the paper's C_0")
    if not callable(damping):
        required = "C_0 must be positive, or Gamma a function"
        checks.number("damping", damping, required, lambda bound: bound > 0)
        damping = undamped if damping == np.inf else Konda(float(damping))
    if damping is undamped:
        return row(FAILS, "Gamma = 1: (2) Gamma(d)|d| is unbounded", "give a finite damping C_0")
    if isinstance(damping, Konda):
        bound = 1.0 + damping.bound
        evidence = (
            f"(1) 0 < Gamma <= 1, (2) sup Gamma(d)|d| = {bound:g}, (3) Gamma(d) >= "
            f"min(1, {bound:g}/(1 + C_1)) where |d| < C_1, (4) Lipschitz with {1 / bound:.3g}"
        )
        return row(HOLDS, evidence)
    remedy = "the paper's Gamma, given by its C_0, meets all four"
    violated = violation(cast(Damping, damping), num_weights)
    if violated is not None:
        return row(FAILS, f"violates {violated}", remedy)
    return row(OPEN, "no violation of (1) to (4) is seen, which proves nothing", remedy)


def check_slow_change(rows: list[Assumption], is_fixed: bool) -> list[Assumption]:
    """Checks Condition 1 of the paper, which follows from other assumptions, for both critics."""
    row = partial(Assumption, "condition", "Condition 1", "theta changes slowly")
    if is_fixed:
        return [row(HOLDS, "the target is fixed")]
    by_key = {other.key: other for other in rows}

    def check(timescales: Assumption) -> Assumption:
        keys = ("critics", "1.positive", "3", "beta", "damping")
        needs = [*(by_key[key] for key in keys if key in by_key), timescales]
        missing = [other for other in needs if other.verdict != HOLDS]
        if not missing:
            return row(HOLDS, "the dampings, Assumption 3 and the step sizes give it")
        # Other critics may satisfy it too; then it does not follow from what the paper says.
        failed = any(other.verdict == FAILS for other in missing if other.key != "critics")
        evidence = "needs: " + "; ".join(other.statement for other in missing)
        return row(
            FAILS if failed else OPEN, evidence, "; ".join(other.remedy for other in missing)
        )

    timescales = by_key["timescales"]
    return split(check(timescales), check(by_key.get("timescales~", timescales)))
