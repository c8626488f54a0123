"""The paper's conditions on what a person sets: critics, ridge, step sizes, damping; as rows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from . import _checks as checks
from ._assumptions import FAILS, HOLDS, OPEN, Row
from ._types import Agent, Learner
from .agents.damping import Konda, undamped, violation
from .schedules import Polynomial


def pair(name: str, value: Any) -> tuple[Any, Any]:
    """What each critic has, of the emphasis and of values: a pair as it is, or one for both."""
    both = value if isinstance(value, tuple) else (value, value)
    if len(both) != 2:
        raise ValueError(
            f"{name}: got {len(both)} values; one for both critics or two are required"
        )
    return both


def _joined(rows: Iterable[Row]) -> Row:
    """One row for both critics: the worse verdict, and both figures where they differ."""
    emphasis, values = rows
    worse = max(emphasis, values, key=lambda row: (HOLDS, OPEN, FAILS).index(row.verdict))
    if emphasis.figure == values.figure:
        return worse
    return replace(worse, figure=f"emphasis: {emphasis.figure}; values: {values.figure}")


def critics(agent: Agent) -> Row:
    source, statement = "Algorithm 1", "the critics are GEM and GQ2 on the problem's features"
    seen = [
        each.name or "a learner without a name" if isinstance(each, Learner) else "exact"
        for each in (agent.emphasis, agent.critic)
    ]
    figure = f"the emphasis is {seen[0]}, the critic {seen[1]}"
    if agent.features is not None:
        figure += ", on features of their own, as compatible ones that change with theta"
    if agent.features is None and seen == ["gem", "gq2"]:
        return Row("critics", source, statement, HOLDS, figure)
    remedy = "use gem and gq2 on the problem's features: the theorem covers nothing else"
    return Row("critics", source, statement, FAILS, figure, remedy)


def of_critics(agent: Agent, name: str) -> tuple[Any, Any]:
    """An attribute of both critics; where one has none, that of the other."""
    emphasis, critic = (getattr(each, name, None) for each in (agent.emphasis, agent.critic))
    return critic if emphasis is None else emphasis, emphasis if critic is None else critic


def schedules(name: str, step_size: Any) -> tuple[Any, Any]:
    """The step sizes that an argument of this name gives to both critics."""
    first, second = pair(name, step_size)
    return schedule(name, first), schedule(name, second)


def schedule(name: str, step_size) -> Polynomial | Callable | None:
    """A schedule as it is, and a number as a constant one."""
    if isinstance(step_size, Real):
        return Polynomial(float(step_size))
    if step_size is not None and not callable(step_size):
        raise ValueError(f"{name}: got {step_size!r}; a number or a schedule is required")
    return step_size


def ridges(ridges: tuple[Any, Any], fixed: bool) -> Row:
    return _joined(_ridge(each, fixed) for each in ridges)


def _ridge(ridge: Any, fixed: bool) -> Row:
    statement = "the ridge eta is positive"
    if ridge is None:
        return Row("ridge", "Section 3", statement, OPEN, "not given", "give ridge")
    if callable(ridge):
        figure = "a schedule, where the paper has a constant"
        return Row("ridge", "Section 3", statement, OPEN, figure, "make eta a number")
    checks.ridge(ridge)
    if ridge > 0:
        return Row("ridge", "Section 3", statement, HOLDS, f"eta = {ridge:g}")
    remedy = "make eta positive" + (
        "" if fixed else "; with eta = 0 and a changing policy convergence is an open problem"
    )
    return Row("ridge", "Section 3", statement, FAILS, "eta = 0", remedy)


def robbins_monro(key: str, whose: str, argument: str, schedules: tuple[Any, Any]) -> Row:
    return _joined(_robbins_monro(key, whose, argument, each) for each in schedules)


def _robbins_monro(key: str, whose: str, argument: str, schedule) -> Row:
    source, statement = "Sections 3, 4", f"{whose} step sizes satisfy Robbins-Monro"
    if schedule is None:
        return Row(key, source, statement, OPEN, "not given", f"give {argument}")
    if not isinstance(schedule, Polynomial):
        figure = "not a polynomial schedule"
        return Row(key, source, statement, OPEN, figure, "a polynomial schedule decides it")
    power = schedule.power
    if schedule.robbins_monro:
        return Row(key, source, statement, HOLDS, f"{schedule}: 1/2 < {power:g} <= 1")
    why = "the sum is finite: power > 1" if power > 1 else "the squares do not sum: power <= 1/2"
    remedy = "let the step size decay like t^-p with 1/2 < p <= 1"
    if not power:
        remedy += "; no theorem here covers a constant one"
    return Row(key, source, statement, FAILS, f"{schedule}: {why}", remedy)


def timescales(alphas: tuple[Any, Any], beta) -> Row:
    source, statement = "Section 4", "the actor is slower: the sum of (beta/alpha)^d is finite"
    if None in (*alphas, beta):
        figure, remedy = "not given", "give step_size and actor_step_size"
        return Row("timescales", source, statement, OPEN, figure, remedy)
    if not all(isinstance(each, Polynomial) for each in (*alphas, beta)):
        figure, remedy = "not polynomial schedules", "polynomial schedules decide it"
        return Row("timescales", source, statement, OPEN, figure, remedy)
    alpha = max(alphas, key=lambda each: each.power)  # the critic that is the slower one in the end
    if beta.slower_than(alpha):
        figure = (
            f"powers {beta.power:g} > {alpha.power:g}: any d > {1 / (beta.power - alpha.power):.3g}"
        )
        return Row("timescales", source, statement, HOLDS, figure)
    figure = f"powers {beta.power:g} <= {alpha.power:g}: no d will do"
    remedy = "let the actor's step sizes decay faster than the critics'"
    return Row("timescales", source, statement, FAILS, figure, remedy)


def dampings(damping: Any, sizes: Sequence[int]) -> Row:
    """Conditions (1) to (4), for weights of these sizes."""
    return _joined(map(_damping, pair("damping", damping), sizes))


def _damping(damping: Any, num_weights: int) -> Row:
    source, statement = "Section 4", "the dampings Gamma_1, Gamma_2 bound the actor's step"
    if damping is None:
        return Row("damping", source, statement, OPEN, "not given", "give damping, the paper's C_0")
    if isinstance(damping, Real) and float(damping) > 0:
        damping = undamped if damping == np.inf else Konda(float(damping))
    if not callable(damping):
        raise ValueError(f"damping: got {damping!r}; C_0 must be positive, or Gamma a function")
    if damping is undamped:
        figure, remedy = "Gamma = 1: (2) Gamma(d)|d| is unbounded", "give a finite damping C_0"
        return Row("damping", source, statement, FAILS, figure, remedy)
    if isinstance(damping, Konda):
        above = 1.0 + damping.bound
        figure = (
            f"(1) 0 < Gamma <= 1, (2) sup Gamma(d)|d| = {above:g}, (3) Gamma(d) >= "
            f"min(1, {above:g}/(1 + C_1)) where |d| < C_1, (4) Lipschitz with {1 / above:.3g}"
        )
        return Row("damping", source, statement, HOLDS, figure)
    remedy = "the paper's Gamma, given by its C_0, meets all four"
    why = violation(damping, num_weights)
    if why is not None:
        return Row("damping", source, statement, FAILS, f"violates {why}", remedy)
    figure = "no violation of (1) to (4) is seen, which proves nothing"
    return Row("damping", source, statement, OPEN, figure, remedy)


def condition(rows: list[Row], fixed: bool) -> Row:
    source, statement = "Condition 1", "theta changes slowly"
    if fixed:
        return Row("condition", source, statement, HOLDS, "the target is fixed")
    keys = ("critics", "1.positive", "3", "beta", "timescales", "damping")
    bad = [row for row in rows if row.key in keys and row.verdict != HOLDS]
    if not bad:
        figure = "the dampings, Assumption 3 and the step sizes give it"
        return Row("condition", source, statement, HOLDS, figure)
    # Other critics may satisfy it too; then it does not follow from what the paper says.
    failed = any(row.verdict == FAILS for row in bad if row.key != "critics")
    remedy = "; ".join(row.remedy for row in bad)
    return Row(
        "condition",
        source,
        statement,
        FAILS if failed else OPEN,
        "needs: " + "; ".join(r.statement for r in bad),
        remedy,
    )
