"""The exact quantities and the certificate of a problem, computed without any run."""

from collections.abc import Mapping
from typing import Any

from ..certify.certificate import Certificate, certify
from ..mdp import Problem
from ..oracle.solution import FixedPoint, scalar_rows, solve, state_columns
from .markup import details, format_number, Html, join, records, table, tag

Quantities = dict[str, Any]
"""Exact quantities by name, as [solve] returns them."""

SolvedProblem = tuple[Problem, tuple[Quantities, list[str]] | None, Certificate | None]
"""A problem, its exact quantities with notes about them, and its certificate."""

HEADINGS = {"m": "emphasis m", "ratio": "density ratio", "v": "value v"}
MARKS = {"holds": ("✓", "yes"), "fails": ("✗", "no"), "cannot be decided": ("?", "open")}


def verdict(text: str, kind: str, sign: str) -> Html:
    """The text of a verdict, with a sign and a colour."""
    return tag("span", tag("span", sign, aria_hidden="true"), f" {text}", class_=f"verdict {kind}")


def overview(problems: Mapping[str, SolvedProblem]) -> Html:
    """A table with a row for each problem."""
    rows = []
    for label, (problem, solution, certificate) in problems.items():
        mdp, exact = problem.mdp, solution[0] if solution else {}
        discount = mdp.constant_discount
        rows.append(
            {
                "problem": label,
                "states": mdp.num_states,
                "actions": mdp.num_actions,
                "features": problem.x.shape[1],
                "discount": "varies" if discount is None else f"{discount:g}",
                "objective J": format_number(exact.get("objective"), 6),
                "trace's radius": format_number(exact.get("followon_radius"), 5),
                "contraction": format_number(getattr(exact.get("contraction"), "modulus", None), 5),
                "covered by": _covering_theorems(certificate),
            }
        )
    return records(rows)


def _covering_theorems(certificate: Certificate | None) -> str:
    if certificate is None:
        return "–"
    theorems = [theorem for theorem in certificate.theorems if theorem.converges]
    names = [theorem.name for theorem in theorems if theorem.covers]
    if names:
        return ", ".join(names)
    failing = {row.key for row in certificate.rows if row.verdict == "fails"}
    if any(not failing & set(theorem.missing) for theorem in theorems):
        return "open: depends on step sizes and ridge"
    return "no theorem"


def solve_and_certify(problem: Problem, certificate: Certificate | None) -> SolvedProblem:
    """Solves and certifies a problem; None in place of what needs a target that it lacks."""
    try:
        return problem, solve(problem), certificate or certify(problem)
    except ValueError:
        return problem, None, certificate


def problem_details(label: str, solved: SolvedProblem) -> Html:
    """All exact quantities of a problem, and its certificate, folded."""
    problem, solution, certificate = solved
    parts: list[Html] = []
    if solution is None:
        parts.append(tag("p", "It has no target policy of its own: nothing more is exact."))
    else:
        exact, notes = solution
        parts += [_scalar_table(exact), _limit_table(exact), _state_table(problem, exact)]
        parts += [tag("p", f"Note: {note}", class_="note") for note in notes]
    if certificate is not None:
        parts += _certificate(certificate)
    return details(tag("b", label), *parts)


def _scalar_table(exact: Quantities) -> Html:
    rows = []
    for label, value, remark in scalar_rows(exact):
        text = format_number(value, 6) if value is not None else remark
        rows.append((label, f"{text} ({remark})" if value is not None and remark else text))
    return table(("quantity", "value"), rows, "Exact quantities")


def _limit_table(exact: Quantities) -> Html:
    points = [point.row for point in exact.values() if isinstance(point, FixedPoint)]
    rows = [
        (label, symbol, format_number(error, 6), format_number(slowest, 4), remark or "–")
        for label, symbol, error, slowest, remark in points
    ]
    columns = ("learner", "learns", "error of its limit", "slowest mode", "remark")
    return table(columns, rows, "Limits of linear learners", left=2)


def _state_table(problem: Problem, exact: Quantities) -> Html:
    (heading, *labels), columns = state_columns(problem, exact)
    rows = [
        (label, *(format_number(float(column[row]), 5) for column in columns.values()))
        for row, label in enumerate(labels)
    ]
    caption = "State by state" if heading == "state" else "Over all states"
    return table((heading, *(HEADINGS.get(name, name) for name in columns)), rows, caption)


def _certificate(certificate: Certificate) -> list[Html]:
    rows = []
    for row in certificate.rows:
        sign, kind = MARKS[row.verdict]
        remedy = tag("span", f" → {row.remedy}", class_="remedy") if row.remedy else None
        evidence = join((row.evidence, remedy))
        rows.append((row.source, row.statement, verdict(row.verdict, kind, sign), evidence))
    columns = ("assumption", "says that", "verdict", "because")
    items = []
    for theorem in certificate.theorems:
        if theorem.covers:
            items.append(tag("li", verdict(theorem.name, "yes", "✓"), f": {theorem.claim}"))
        else:
            missing = [certificate[key] for key in theorem.missing]
            fails = any(row.verdict == "fails" for row in missing)
            name = verdict(theorem.name, *(("no", "✗") if fails else ("open", "?")))
            statements = ", ".join(row.statement for row in missing)
            items.append(tag("li", name, f": needs that {statements}"))
    assumptions = tag("div", table(columns, rows, "Certificate", left=4), class_="words")
    return [assumptions, tag("ul", *items, class_="theorems")]
