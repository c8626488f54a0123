"""The exact quantities and the certificate of a problem, computed without any run."""

from collections.abc import Mapping
from typing import Any

from ..certify.certificate import Certificate, certify
from ..mdp import Problem
from ..oracle.solution import FixedPoint, scalar_rows, solve, state_columns
from .markup import details, Html, join, number, records, table, tag

Quantities = dict[str, Any]
"""Exact quantities by name, as [solve] gives them."""

Known = tuple[Problem, tuple[Quantities, list[str]] | None, Certificate | None]
"""A problem, its exact quantities with notes about them, and its certificate."""

HEADINGS = {"m": "emphasis m", "ratio": "density ratio", "v": "value v"}
MARKS = {"holds": ("✓", "yes"), "fails": ("✗", "no"), "cannot be decided": ("?", "open")}


def verdict(words: str, kind: str, sign: str) -> Html:
    """A verdict in words, with a sign and a colour."""
    return tag("span", tag("span", sign, aria_hidden="true"), f" {words}", class_=f"verdict {kind}")


def overview(problems: Mapping[str, Known]) -> Html:
    """A row for each problem, with what tells them apart."""
    rows = []
    for label, (problem, solved, certificate) in problems.items():
        mdp, exact = problem.mdp, solved[0] if solved else {}
        discount = mdp.constant_discount
        rows.append(
            {
                "problem": label,
                "states": mdp.num_states,
                "actions": mdp.num_actions,
                "features": problem.x.shape[1],
                "discount": "varies" if discount is None else f"{discount:g}",
                "objective J": number(exact.get("objective"), 6),
                "trace's radius": number(exact.get("followon_radius"), 5),
                "contraction": number(getattr(exact.get("contraction"), "modulus", None), 5),
                "covered by": _covered(certificate),
            }
        )
    return records(rows)


def _covered(certificate: Certificate | None) -> str:
    if certificate is None:
        return "–"
    results = [each for each in certificate.theorems if each.converges]
    names = [each.name for each in results if each.covers]
    if names:
        return ", ".join(names)
    failing = {row.key for row in certificate.rows if row.verdict == "fails"}
    if any(not failing & set(each.missing) for each in results):
        return "open: depends on step sizes and ridge"
    return "no theorem"


def solve_and_certify(problem: Problem, certificate: Certificate | None) -> Known:
    """Solves and certifies a problem; None in place of what needs a target that it lacks."""
    try:
        return problem, solve(problem), certificate or certify(problem)
    except ValueError:
        return problem, None, certificate


def problem_details(label: str, known: Known) -> Html:
    """All exact quantities of a problem, and its certificate, folded."""
    problem, solved, certificate = known
    parts: list[Html] = []
    if solved is None:
        parts.append(tag("p", "It has no target policy of its own: nothing more is exact."))
    else:
        exact, notes = solved
        parts += [_facts(exact), _limits(exact), _states(problem, exact)]
        parts += [tag("p", f"Note: {note}", class_="note") for note in notes]
    if certificate is not None:
        parts += _certificate(certificate)
    return details(tag("b", label), *parts)


def _facts(exact: Quantities) -> Html:
    rows = []
    for label, value, remark in scalar_rows(exact):
        text = number(value, 6) if value is not None else remark
        rows.append((label, f"{text} ({remark})" if value is not None and remark else text))
    return table(("quantity", "value"), rows, "Exact quantities")


def _limits(exact: Quantities) -> Html:
    points = [point.row for point in exact.values() if isinstance(point, FixedPoint)]
    rows = [
        (label, symbol, number(error, 6), number(slowest, 4), remark or "–")
        for label, symbol, error, slowest, remark in points
    ]
    columns = ("learner", "learns", "error of its limit", "slowest mode", "remark")
    return table(columns, rows, "Limits of linear learners", left=2)


def _states(problem: Problem, exact: Quantities) -> Html:
    (heading, *labels), columns = state_columns(problem, exact)
    rows = [
        (label, *(number(float(column[row]), 5) for column in columns.values()))
        for row, label in enumerate(labels)
    ]
    caption = "State by state" if heading == "state" else "Over all states"
    return table((heading, *(HEADINGS.get(name, name) for name in columns)), rows, caption)


def _certificate(certificate: Certificate) -> list[Html]:
    rows = []
    for row in certificate.rows:
        sign, kind = MARKS[row.verdict]
        remedy = tag("span", f" → {row.remedy}", class_="remedy") if row.remedy else None
        shown, why = verdict(row.verdict, kind, sign), join((row.evidence, remedy))
        rows.append((row.source, row.statement, shown, why))
    columns = ("assumption", "says that", "verdict", "because")
    lines = []
    for theorem in certificate.theorems:
        if theorem.covers:
            lines.append(tag("li", verdict(theorem.name, "yes", "✓"), f": {theorem.claim}"))
        else:
            needed = [certificate[key] for key in theorem.missing]
            fails = any(row.verdict == "fails" for row in needed)
            shown = verdict(theorem.name, *(("no", "✗") if fails else ("open", "?")))
            missing = ", ".join(row.statement for row in needed)
            lines.append(tag("li", shown, f": needs that {missing}"))
    assumptions = tag("div", table(columns, rows, "Certificate", left=4), class_="words")
    return [assumptions, tag("ul", *lines, class_="theorems")]
