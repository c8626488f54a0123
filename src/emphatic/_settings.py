"""The paper's conditions on what a person sets: ridge, step sizes, damping; each as a row."""

from collections.abc import Callable
from numbers import Real

import numpy as np

from . import _checks as checks
from ._assumptions import FAILS, HOLDS, OPEN, Row
from .schedules import Polynomial


def schedule(name: str, step_size) -> Polynomial | Callable | None:
    """The step sizes that an argument of this name gives: a number is a constant schedule."""
    if isinstance(step_size, Real):
        return Polynomial(float(step_size))
    if step_size is not None and not callable(step_size):
        raise ValueError(f"{name}: got {step_size!r}; a number or a schedule is required")
    return step_size


def ridge(ridge: float | None, fixed: bool) -> Row:
    statement = "the ridge eta is positive"
    if ridge is None:
        return Row("ridge", "Section 3", statement, OPEN, "not given", "give ridge")
    checks.ridge(ridge)
    if ridge > 0:
        return Row("ridge", "Section 3", statement, HOLDS, f"eta = {ridge:g}")
    remedy = "make eta positive" + (
        "" if fixed else "; with eta = 0 and a changing policy convergence is an open problem"
    )
    return Row("ridge", "Section 3", statement, FAILS, "eta = 0", remedy)


def robbins_monro(key: str, whose: str, argument: str, schedule) -> Row:
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
    return Row(key, source, statement, FAILS, f"{schedule}: {why}", remedy)


def timescales(alpha, beta) -> Row:
    source, statement = "Section 4", "the actor is slower: the sum of (beta/alpha)^d is finite"
    if alpha is None or beta is None:
        figure, remedy = "not given", "give step_size and actor_step_size"
        return Row("timescales", source, statement, OPEN, figure, remedy)
    if not (isinstance(alpha, Polynomial) and isinstance(beta, Polynomial)):
        figure, remedy = "not polynomial schedules", "polynomial schedules decide it"
        return Row("timescales", source, statement, OPEN, figure, remedy)
    if beta.slower_than(alpha):
        figure = (
            f"powers {beta.power:g} > {alpha.power:g}: any d > {1 / (beta.power - alpha.power):.3g}"
        )
        return Row("timescales", source, statement, HOLDS, figure)
    figure = f"powers {beta.power:g} <= {alpha.power:g}"
    remedy = "let the actor's step sizes decay faster than the critics'"
    return Row("timescales", source, statement, FAILS, figure, remedy)


def damping(damping) -> Row:
    source, statement = "Section 4", "the dampings Gamma_1, Gamma_2 bound the actor's step"
    if damping is None:
        return Row("damping", source, statement, OPEN, "not given", "give damping, the paper's C_0")
    if callable(damping):
        figure, remedy = "not the paper's Gamma", "the paper's Gamma, given by its C_0, decides it"
        return Row("damping", source, statement, OPEN, figure, remedy)
    if not (isinstance(damping, int | float) and damping > 0):
        raise ValueError(f"damping: got {damping}; C_0 must be positive")
    if np.isinf(damping):
        figure, remedy = "Gamma = 1: Gamma(d)|d| is unbounded", "give a finite damping C_0"
        return Row("damping", source, statement, FAILS, figure, remedy)
    figure = f"0 < Gamma <= 1, sup Gamma(d)|d| = {1 + damping:g}, Lipschitz"
    return Row("damping", source, statement, HOLDS, figure)


def condition(rows: list[Row], fixed: bool) -> Row:
    source, statement = "Condition 1", "theta changes slowly"
    if fixed:
        return Row("condition", source, statement, HOLDS, "the target is fixed")
    needs = [row for row in rows if row.key in ("1.positive", "3", "beta", "timescales", "damping")]
    bad = [row for row in needs if row.verdict != HOLDS]
    if not bad:
        figure = "the dampings, Assumption 3 and the step sizes give it"
        return Row("condition", source, statement, HOLDS, figure)
    verdict = FAILS if any(row.verdict == FAILS for row in bad) else OPEN
    remedy = "; ".join(row.remedy for row in bad)
    return Row(
        "condition",
        source,
        statement,
        verdict,
        "needs: " + "; ".join(r.statement for r in bad),
        remedy,
    )
