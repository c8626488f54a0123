"""Statements and what runs decide about them: the paper's first, then what was found beyond it."""

from collections.abc import Sequence

from ..figures import verdicts
from .markup import details, Html, join, records, tag
from .problem import verdict
from .section import Json, Section

SIGNS = {"holds": ("yes", "✓"), "does not hold": ("no", "✗"), "not decided": ("open", "–")}
VERBS = {  # of one statement, and of several
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "not decided": ("is not decided", "are not decided"),
}


def chapter(claims: Sequence[Json]) -> Html:
    """Returns the statements of a section, each with its evidence case by case."""
    parts: list[object] = []
    for source, group in verdicts.by_source(claims).items():
        if group:
            parts.append(_table(verdicts.HEADINGS[source], group))
            parts += map(_evidence, group)
    if any("independent" in _evidence_of(claim) for claim in claims):
        sentence = f"{verdicts.SELECTION[:1].upper()}{verdicts.SELECTION[1:]}."
        parts.append(tag("p", sentence, class_="note"))
    return join(parts)


def overview(sections: Sequence[Section], keys: Sequence[str]) -> Html | None:
    """Counts the statements with each verdict; of several sections, returns them in a table."""
    claims = [claim for section in sections for claim in section.claims]
    if not claims:
        return None
    groups = verdicts.by_source(claims)
    parts: list[object] = [
        tag("p", f"{verdicts.HEADINGS[source]}: {_count(group)}.", class_="lead")
        for source, group in groups.items()
        if group
    ]
    if sum(bool(section.claims) for section in sections) > 1:
        links = {
            id(claim): tag("a", section.title.partition(":")[0], href=f"#{key}")
            for section, key in zip(sections, keys, strict=True)
            for claim in section.claims
        }
        for source, group in groups.items():
            if group:
                where = [links[id(claim)] for claim in group]
                parts.append(_table(verdicts.HEADINGS[source], group, where))
    return join(parts)


def _count(claims: Sequence[Json]) -> str:
    kinds = [verdicts.verdict(claim) for claim in claims]
    counts = {kind: kinds.count(kind) for kind in VERBS}
    return ", ".join(f"{n} {VERBS[kind][n > 1]}" for kind, n in counts.items() if n)


def _table(caption: str, claims: Sequence[Json], where: Sequence[Html] | None = None) -> Html:
    again = [verdicts.describe_independent(_evidence_of(claim)) for claim in claims]
    rows: list[dict[str, object]] = []
    for index, claim in enumerate(claims):
        kind = verdicts.verdict(claim)
        row: dict[str, object] = {"statement": str(claim.get("claim", ""))}
        row |= {} if where is None else {"section": where[index]}
        row["verdict"] = verdict(kind, *SIGNS[kind])
        row |= {"on independent runs": again[index] or None} if any(again) else {}
        rows.append(row)
    return tag("div", records(rows, caption, left=len(rows[0])), class_="words claims")


def _evidence_of(claim: Json) -> Json:
    return claim.get("evidence") or {}


def _evidence(claim: Json) -> Html:
    """The evidence for a statement: what it comes to, and below it the cases."""
    evidence = _evidence_of(claim)
    test = str(evidence["test"]) if "test" in evidence else ""
    texts = [text for text in (verdicts.describe(evidence), test) if text]
    parts = [tag("p", f"{'; '.join(texts)}.")] if texts else []
    for name, group in (("", evidence), ("On independent runs", evidence.get("independent") or {})):
        if group.get("cases"):
            parts.append(records(group["cases"], name))
    return details(join(("Evidence: ", str(claim.get("claim", "")))), *parts)
