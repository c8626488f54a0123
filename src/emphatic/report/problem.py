"""What is true of a problem, without any run: its exact quantities and its certificate."""

from typing import Any

import numpy as np

from ..certify import Certificate, certify
from ..mdp import Problem
from ..solve import FixedPoint, LEARNERS, solve
from .markup import details, Html, join, number, table, tag

MOST_STATES = 64  # that are listed one by one
LETTERS = {"emphasis": "m", "values": "v", "action_values": "q"}
MARKS = {"holds": ("✓", "yes"), "fails": ("✗", "no"), "cannot be decided": ("?", "open")}


def verdict(words: str, kind: str, sign: str) -> Html:
    """A verdict in words, with a sign and a colour."""
    return tag("span", tag("span", sign, aria_hidden="true"), f" {words}", class_=f"verdict {kind}")


def overview(problems: dict[str, tuple[Problem, Any, Any]]) -> Html:
    """A row for each problem, with what tells them apart."""
    columns = (
        "problem",
        "states",
        "actions",
        "features",
        "discount",
        "objective J",
        "trace's radius",
        "contraction",
        "covered by",
    )
    rows = []
    for label, (problem, solved, certificate) in problems.items():
        mdp, exact = problem.mdp, solved[0] if solved else {}
        contraction = exact.get("contraction")
        rows.append(
            (
                label,
                mdp.num_states,
                mdp.num_actions,
                problem.x.shape[1],
                _discount(problem),
                number(exact.get("objective"), 6),
                number(exact.get("followon_radius"), 5),
                number(getattr(contraction, "modulus", None), 5),
                _covered(certificate),
            )
        )
    return table(columns, rows)


def _discount(problem: Problem) -> str:
    constant = problem.mdp.constant_discount
    return "varies" if constant is None else f"{constant:g}"


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


def looked_up(problem: Problem, certificate: Certificate | None) -> tuple[Problem, Any, Any]:
    """The problem with what [solve] and [certify] say of it; None where it has no target."""
    try:
        return problem, solve(problem), certificate or certify(problem)
    except ValueError:
        return problem, None, certificate


def problem_details(label: str, problem: Problem, solved: Any, certificate: Any) -> Html:
    """All exact quantities of a problem, and its certificate, folded."""
    parts: list[Any] = []
    if solved is None:
        parts.append(tag("p", "It has no target policy of its own: nothing more is exact."))
    else:
        exact, notes = solved
        parts += [_facts(exact), _limits(exact), _states(problem, exact)]
        parts += [tag("p", f"Note: {note}", class_="note") for note in notes]
    if certificate is not None:
        parts += _certificate(certificate)
    return details(tag("b", label), *parts)


def _facts(exact: dict[str, Any]) -> Html:
    rows = [("objective J", number(exact["objective"], 6))]
    if "followon_radius" in exact:
        infinite = np.isinf(exact["followon_variance"]).any()
        words = "infinite variance" if infinite else "finite variance"
        rows.append(
            (
                "radius of the trace's second moment",
                f"{number(exact['followon_radius'], 6)} ({words})",
            )
        )
    rows.append(("contraction modulus (Proposition 1)", number(exact["contraction"].modulus, 6)))
    if "truncation_length" in exact:
        length = exact["truncation_length"]
        rows.append(
            (
                "truncated emphasis stable from",
                "none is stable" if length is None else f"{length} ratio{'s' * (length != 1)}",
            )
        )
    return table(("quantity", "value"), rows, "Exact quantities")


def _limits(exact: dict[str, Any]) -> Html:
    rows = []
    for name, (learner, truth) in LEARNERS.items():
        if name in exact:
            point: FixedPoint = exact[name]
            remark = "" if point.unique else "singular: least norm"
            if point.slowest is not None and point.slowest < 0:
                remark = "diverges" + (f"; {remark}" if remark else "")
            error = 0.0 if point.error < 1e-9 else point.error
            rows.append(
                (learner, LETTERS[truth], number(error, 6), number(point.slowest, 4), remark or "–")
            )
    columns = ("learner", "learns", "error of its limit", "slowest mode", "remark")
    return table(columns, rows, "Limits of linear learners", left=2)


def _states(problem: Problem, exact: dict[str, Any]) -> Html:
    deviation = np.sqrt(exact["followon_variance"])
    columns = {
        "d": exact["stationary"],
        "emphasis m": exact["emphasis"],
        "sd of trace": deviation,
        "density ratio": exact["density_ratio"],
        "value v": exact["values"],
    }
    if problem.mdp.num_actions <= 6:
        q = exact["action_values"]
        columns |= {f"q({a})": q[:, a] for a in range(problem.mdp.num_actions)}
    if problem.mdp.num_states <= MOST_STATES:
        rows = [
            (str(state), *(number(each[s], 5) for each in columns.values()))
            for s, state in enumerate(problem.labels)
        ]
        return table(("state", *columns), rows, "State by state")
    d = exact["stationary"]
    summaries = {
        "smallest": np.nanmin,
        "mean under d": lambda y: d[~np.isnan(y)] @ y[~np.isnan(y)],
        "largest": np.nanmax,
    }
    rows = [
        (name, *(number(float(of(each)), 5) for each in columns.values()))
        for name, of in summaries.items()
    ]
    return table(("over states", *columns), rows, "Over all states")


def _certificate(certificate: Certificate) -> list[Html]:
    rows = []
    for row in certificate.rows:
        sign, kind = MARKS[row.verdict]
        why = [row.figure, tag("span", f" → {row.remedy}", class_="remedy") if row.remedy else None]
        rows.append((row.source, row.statement, verdict(row.verdict, kind, sign), join(why)))
    columns = ("assumption", "says that", "verdict", "because")
    found = [tag("div", table(columns, rows, "Certificate", left=4), class_="words")]
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
    return [*found, tag("ul", *lines, class_="theorems")]
