"""Statements about a figure, the paper's and ours, and what runs decide about them."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np

from .. import statistics
from .figure import Runs, Summary

LEVEL = 0.05  # the largest p-value that decides
Verdict = Literal["holds", "does not hold", "not decided"]
Source = Literal["paper", "beyond"]
HEADINGS: dict[Source, str] = {
    "paper": "The paper's claims",
    "beyond": "What we found beyond the paper",
}
SELECTION = (
    "step sizes were chosen on the runs that are tested, as in the paper; on independent runs: "
    "chosen on the first half of the runs, tested on the others"
)


class Case(TypedDict):
    """The evidence of a case, as `summary.json` holds it; it has more, which is shown as it is."""

    holds: NotRequired[bool]
    p_value: NotRequired[float]


class Independent(TypedDict):
    """The evidence on independent runs."""

    verdict: Verdict
    held: int
    runs: int
    cases: list[Case]


class Evidence(TypedDict):
    """The evidence for or against a statement."""

    test: NotRequired[str]
    held: NotRequired[int]
    against: NotRequired[int]
    needed: NotRequired[int]
    cases: NotRequired[list[Case]]
    independent: NotRequired[Independent]


class Claim(TypedDict):
    """A statement with a verdict; that of an earlier version has neither verdict nor source."""

    claim: NotRequired[str]
    source: NotRequired[Source]
    holds: NotRequired[bool]
    verdict: NotRequired[Verdict]
    evidence: NotRequired[Evidence]


@dataclass(frozen=True)
class Statement:
    """A statement, whose it is, and in how many of its cases it must hold (None: in all)."""

    text: str
    source: Source = "paper"
    num_needed: int | None = None


def medians(names: Sequence[str], *errors: Runs) -> dict[str, float]:
    """Returns the medians of several errors over runs, by name."""
    return dict(zip(names, (float(np.median(runs)) for runs in errors), strict=True))


def compare_signs(first: Runs, second: Runs) -> Summary:
    """Tests by paired signs whether the first is smaller, and whether it is larger."""
    against = statistics.sign_test(second, first)["p_value"]
    return {**statistics.sign_test(first, second), "p_value_against": against}


def compare(first: Runs, second: Runs, names: Sequence[str]) -> Summary:
    """Tests by paired signs whether the first is smaller; returns this and both medians by name."""
    return {"medians": medians(names, first, second), **compare_signs(first, second)}


def _decide(case: Summary) -> Verdict:
    """Decides a case by its test, its further `condition`, and whether it is `refuted` anyway."""
    is_met, is_refuted = case.pop("condition", True), case.pop("refuted", False)
    if is_met and case["p_value"] <= LEVEL:
        return "holds"
    is_opposite = case.get("p_value_against", 1.0) <= LEVEL
    return "does not hold" if is_refuted or is_opposite else "not decided"


def _count(cases: Sequence[Summary], num_needed: int) -> Summary:
    """Returns what the verdicts of cases come to."""
    verdicts = [case["verdict"] for case in cases]
    num_held, num_against = verdicts.count("holds"), verdicts.count("does not hold")
    verdict: Verdict = "not decided"
    if num_held >= num_needed:
        verdict = "holds"
    elif num_against > len(cases) - num_needed:
        verdict = "does not hold"
    return {"verdict": verdict, "held": num_held, "against": num_against, "needed": num_needed}


def assess(
    statement: Statement, cases: Sequence[Summary], independent: Sequence[Summary] | None = None
) -> Summary:
    """Returns a statement, the verdict on it, and its evidence case by case.

    A case holds if its p-value is at most 0.05 and its further `condition`, if any, is true; it
    does not hold if the opposite has such a p-value, or if it is `refuted` whatever the test says.
    `independent` has the same cases on runs that had no part in the choice of step sizes.
    """
    num_needed = len(cases) if statement.num_needed is None else statement.num_needed
    for case in itertools.chain(cases, independent or ()):
        case["verdict"] = _decide(case)
        case["holds"] = case["verdict"] == "holds"
    counts = _count(cases, num_needed)
    evidence = {"test": "paired sign test, one-sided", "cases": list(cases)}
    if independent is not None:
        again = {"runs": max(case["runs"] for case in independent), "cases": list(independent)}
        evidence["independent"] = _count(independent, num_needed) | again
    return conclude(statement, counts, evidence)


def conclude(statement: Statement, counts: Summary, evidence: Summary) -> Summary:
    """Returns a statement with a verdict on it and its evidence, as `summary.json` holds it."""
    verdict = counts.pop("verdict")
    return {
        "claim": statement.text,
        "source": statement.source,
        "holds": verdict == "holds",
        "verdict": verdict,
        "evidence": counts | evidence,
    }


def assess_all(
    statements: Mapping[str, Statement],
    cases: Mapping[str, Sequence[Summary]],
    independent: Mapping[str, Sequence[Summary]] | None = None,
) -> list[Summary]:
    """Assesses statements by name."""
    return [
        assess(statement, cases[name], independent[name] if independent else None)
        for name, statement in statements.items()
    ]


# What is said about them; a summary of an earlier version has neither verdicts nor sources


def verdict(claim: Mapping[str, Any]) -> Verdict:
    """Returns the verdict on a claim."""
    return claim.get("verdict") or ("holds" if claim.get("holds") else "not decided")


def by_source(claims: Iterable[Mapping[str, Any]]) -> dict[Source, list[Mapping[str, Any]]]:
    """Groups claims by whose they are, the paper's first."""
    groups: dict[Source, list[Mapping[str, Any]]] = {"paper": [], "beyond": []}
    for claim in claims:
        is_ours = str(claim.get("claim", "")).startswith("Beyond the paper")
        groups[claim.get("source", "beyond" if is_ours else "paper")].append(claim)
    return groups


def length_note(summary: Mapping[str, Any]) -> str:
    """Says that runs do not have the figure's own length, on which verdicts depend."""
    steps = summary.get("settings", {}).get("steps")
    return f"These are runs of {steps:,} steps, not of the figure's own length." if steps else ""


def notes(summary: Mapping[str, Any]) -> list[str]:
    """Returns what a reader of the verdicts of a summary should know."""
    has_choice = any("independent" in claim.get("evidence", {}) for claim in summary["claims"])
    return [text for text in (length_note(summary), SELECTION if has_choice else "") if text]


def describe(evidence: Mapping[str, Any]) -> str:
    """Describes in how many cases a claim holds and in how many it does not, and how sure it is."""
    cases = evidence.get("cases") or []
    if "held" not in evidence:
        return ""
    num_needed = evidence.get("needed", len(cases))
    texts = [f"holds in {evidence['held']} of {len(cases)} cases"]
    if num_needed < len(cases):
        texts[0] += f", {num_needed} needed"
    p_values = [case["p_value"] for case in cases if case.get("holds") and "p_value" in case]
    if p_values:
        texts.append(f"p at most {max(p_values):.2g} there")
    if evidence.get("against"):
        texts.append(f"the opposite in {evidence['against']}")
    return "; ".join(texts)


def describe_independent(evidence: Mapping[str, Any]) -> str:
    """Describes the verdict on runs that had no part in the choice of step sizes, if there is."""
    independent = evidence.get("independent")
    if not independent:
        return ""
    counts = f"{independent['held']} of {len(independent['cases'])} cases"
    return f"{independent['verdict']} ({counts}, {independent['runs']} runs)"
