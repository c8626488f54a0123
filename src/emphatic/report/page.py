"""Sections as one self-contained page of HTML."""

import base64
import os
import re
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files

from .._files import atomic_write
from . import results
from .markup import cell, details, Html, join, number, records, table, tag
from .problem import overview, problem_details, solve_and_certify, verdict
from .section import Json, Picture, Section

MOST_PROBLEMS = 10  # that are shown without unfolding
POLICY = (  # a browser then asks no one for anything, whatever the page says
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
MIME = {"svg": "image/svg+xml", "png": "image/png", "gif": "image/gif"}


def page(sections: Sequence[Section], title: str = "Report") -> str:
    """One self-contained page of HTML from sections.

    Hyper-parameters are chosen on the first half of the runs and reported on the other half, as
    [select] does; a run that diverged is an infinite error in every number of the page. Equal
    sections give equal pages.
    """
    if not sections:
        raise ValueError("sections: got none; at least one is required")
    parts, links = [], []
    for index, section in enumerate(sections):
        key = f"s{index + 1}-{_slug(section.title)[:40]}"
        chapters = _chapters(key, section)
        inner = [tag("li", tag("a", name, href=f"#{key}-{_slug(name)}")) for name, _ in chapters]
        entry = tag("a", section.title, href=f"#{key}")
        links.append(tag("li", entry, tag("ul", *inner) if inner else None))
        body = [tag("h2", section.title)]
        for name, content in chapters:
            body += [tag("h3", name, id=f"{key}-{_slug(name)}"), content]
        parts.append(tag("section", *body, id=key))
    folder = files("emphatic.report")
    style, script = ((folder / name).read_text("utf-8") for name in ("style.css", "script.js"))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"emphatic {version('emphatic')}"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Html(style + _toggles(sections))),
    )
    contents = details("Contents", tag("ol", *links), open_=True)
    header = tag("header", tag("h1", title), _summary(sections))
    made = f"Made by emphatic {version('emphatic')}. Everything on this page is in this one file."
    body = tag(
        "body",
        tag("a", "To the text", href="#text", class_="skip"),
        tag("nav", contents, id="contents", aria_label="Contents"),
        tag("main", header, *parts, tag("footer", made), id="text"),
        tag("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def write(path: str | os.PathLike, sections: Sequence[Section], title: str = "Report") -> None:
    """Writes the [page] to a file, atomically; it is replaced if it exists."""
    content = page(sections, title).encode("utf-8")
    with atomic_write(path) as file:
        file.write(content)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


def _toggles(sections: Sequence[Section]) -> str:
    """Hides what belongs to a learner whose box is empty."""
    counts = [sum(each.sizes["learner"] for each in section.datasets) for section in sections]
    return "".join(
        f".card:has(.t{n}:not(:checked)) .chart .s{n} {{ display: none; }}\n"
        for n in range(max(counts))
    )


def _summary(sections: Sequence[Section]) -> Html | None:
    """How many claims there are and how many of them hold."""
    claims = [claim for section in sections for claim in section.claims]
    if not claims:
        return None
    held = sum(bool(each.get("holds")) for each in claims)
    return tag("p", f"{held} of {len(claims)} claims were shown to hold.", class_="lead")


def _chapters(key: str, section: Section) -> list[tuple[str, Html]]:
    """The chapters of a section that are not empty, by heading."""
    found: list[tuple[str, Html]] = []
    texts = re.split(r"\n\s*\n", section.question.strip())
    question = [tag("p", paragraph) for paragraph in texts if paragraph]
    if section.definition:
        question.append(tag("pre", tag("code", section.definition.strip("\n"))))
    if question:
        found.append(("Question", join(question)))
    if section.problems:
        found.append(("Problems", _problems(section)))
    if section.datasets:
        found.append(("Results", results.show(key, section)))
    if section.pictures:
        found.append(("Figures", join(_picture(each) for each in section.pictures)))
    if section.claims:
        found.append(("Claims", tag("ul", *map(_claim, section.claims), class_="claims")))
    if section.tables:
        found.append(("In numbers", join(_tables(section))))
    for name, values in (("Settings", section.settings), ("Provenance", section.provenance)):
        if values:
            rows = [(key.replace("_", " "), cell(value)) for key, value in values.items()]
            shown = tag("div", table(("", ""), rows, left=2), class_="facts")
            long = len(rows) > MOST_PROBLEMS
            found.append((name, details(f"{len(rows)} entries", shown) if long else shown))
    if section.command:
        found.append(("Run it again", tag("pre", tag("code", section.command))))
    return found


def _problems(section: Section) -> Html:
    known = {
        label: solve_and_certify(problem, section.certificates.get(label))
        for label, problem in section.problems.items()
    }
    words = (
        "Computed exactly, without any run. Unfold a problem for its quantities state by state, "
        "the limits of linear learners and its certificate."
    )
    folded = [problem_details(label, each) for label, each in known.items()]
    if len(folded) > MOST_PROBLEMS:
        folded = [details(f"All {len(folded)} problems, one by one", *folded)]
    return join((tag("p", words, class_="note"), overview(known), *folded))


def _picture(picture: Picture) -> Html:
    encoded = base64.b64encode(picture.data).decode("ascii")
    image = tag("img", src=f"data:{MIME[picture.kind]};base64,{encoded}", alt=picture.alt)
    return tag("figure", image, tag("figcaption", picture.caption), class_="picture")


def _tables(section: Section) -> list[Html]:
    return [
        details(f"{caption} ({len(rows)} rows)", table(columns, rows), open_=len(rows) <= 24)
        for caption, (columns, rows) in section.tables.items()
    ]


def _claim(claim: Json) -> Html:
    """A claim, its verdict, and the evidence case by case."""
    holds, evidence = bool(claim.get("holds")), claim.get("evidence") or {}
    shown = verdict("holds", "yes", "✓") if holds else verdict("not shown", "open", "–")
    cases = evidence.get("cases") or []
    words = []
    if "held" in evidence:
        words.append(f"{evidence['held']} of {len(cases)} cases")
    values = [case["p_value"] for case in cases if isinstance(case.get("p_value"), float | int)]
    if values and len(values) == len(cases):
        words.append(f"largest p-value {number(float(max(values)), 2)}")
    if "test" in evidence:
        words.append(str(evidence["test"]))
    text = ", ".join(words)
    folded = details(text or "Evidence", records(cases)) if cases else tag("p", text)
    return tag("li", tag("p", shown, " ", str(claim.get("claim", ""))), folded)
