"""Sections as one page of HTML that needs nothing but itself."""

import base64
import itertools
import os
import re
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from .._files import replacing
from . import results
from .exact import looked_up, overview, problem_details, verdict
from .markup import cell, details, Html, join, number, table, tag
from .section import Picture, Section

MOST_PROBLEMS = 10  # that are listed without being asked for
POLICY = (  # a browser then asks no one for anything, whatever the page says
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
MIME = {"svg": "image/svg+xml", "png": "image/png", "gif": "image/gif"}


def page(sections: Sequence[Section], title: str = "Report") -> str:
    """One self-contained page of HTML from sections.

    Hyper-parameters are chosen by the first half of the runs and reported by the other half, as
    [select] does; a run that diverged is an infinite error in every number of the page. The same
    sections are the same page.

    **Arguments:**

    - `sections`: What to tell, in this order.
    - `title`: The title of the page.
    """
    if not sections:
        raise ValueError("sections: got none; at least one is required")
    keys, parts, links = _keys(sections), [], []
    for key, section in zip(keys, sections, strict=True):
        chapters = _chapters(key, section)
        inner = [tag("li", tag("a", name, href=f"#{key}-{_slug(name)}")) for name, _ in chapters]
        entry = tag("a", section.title, href=f"#{key}")
        links.append(tag("li", entry, tag("ul", *inner) if inner else None))
        body = [
            join((tag("h3", name, id=f"{key}-{_slug(name)}"), content))
            for name, content in chapters
        ]
        parts.append(tag("section", tag("h2", section.title), *body, id=key))
    style, script = (
        files("emphatic.report").joinpath(name).read_text("utf-8")
        for name in ("style.css", "script.js")
    )
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
    contents = tag(
        "nav",
        details("Contents", tag("ol", *links), open_=True),
        id="contents",
        aria_label="Contents",
    )
    header = tag("header", tag("h1", title), _summary(sections))
    made = f"Made by emphatic {version('emphatic')}. Everything on this page is in this one file."
    body = tag(
        "body",
        tag("a", "To the text", href="#text", class_="skip"),
        contents,
        tag("main", header, *parts, tag("footer", made), id="text"),
        tag("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def write(path: str | os.PathLike, sections: Sequence[Section], title: str = "Report") -> None:
    """Writes the page to a file, whole or not at all.

    **Arguments:**

    - `path`: The file, which is replaced if it is there.
    - `sections`, `title`: As for [page].
    """
    text = page(sections, title)
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def _slug(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or "section"


def _keys(sections: Sequence[Section]) -> list[str]:
    """An identifier for each section, no two alike and none with a strange character."""
    return [f"s{place + 1}-{_slug(each.title)[:40]}" for place, each in enumerate(sections)]


def _toggles(sections: Sequence[Section]) -> str:
    """Hides what belongs to a learner whose box is empty."""
    counts = [sum(each.sizes["learner"] for each in section.datasets) for section in sections]
    return "".join(
        f".card:has(.t{n}:not(:checked)) .chart .s{n} {{ display: none; }}\n"
        for n in range(max(counts))
    )


def _summary(sections: Sequence[Section]) -> Html | None:
    """How many statements there are and how many of them were shown."""
    claims = list(itertools.chain.from_iterable(each.claims for each in sections))
    if not claims:
        return None
    held = sum(bool(each.get("holds")) for each in claims)
    words = f"{held} of {len(claims)} statements were shown to hold."
    return tag("p", words, class_="lead")


def _chapters(key: str, section: Section) -> list[tuple[str, Html]]:
    """The parts of a section, those that there are."""
    found: list[tuple[str, Html]] = []
    asked = [tag("p", part) for part in re.split(r"\n\s*\n", section.asked.strip()) if part]
    if section.definition:
        asked.append(tag("pre", tag("code", section.definition.strip("\n"))))
    if asked:
        found.append(("What was asked", join(asked)))
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
        label: looked_up(problem, section.certificates.get(label))
        for label, problem in section.problems.items()
    }
    words = (
        "Computed exactly, without any run. Unfold a problem for its quantities state by state, "
        "the limits of linear learners and its certificate."
    )
    folded = [problem_details(label, *each) for label, each in known.items()]
    if len(folded) > MOST_PROBLEMS:
        folded = [details(f"All {len(folded)} problems, one by one", *folded)]
    return join((tag("p", words, class_="note"), overview(known), *folded))


def _picture(picture: Picture) -> Html:
    encoded = base64.b64encode(picture.data).decode("ascii")
    image = tag("img", src=f"data:{MIME[picture.kind]};base64,{encoded}", alt=picture.alt)
    return tag("figure", image, tag("figcaption", picture.caption), class_="picture")


def _tables(section: Section) -> list[Html]:
    found = []
    for caption, (columns, rows) in section.tables.items():
        shown = table(columns, rows)
        folded = len(rows) > 24
        found.append(details(f"{caption} ({len(rows)} rows)", shown, open_=not folded))
    return found


def _claim(claim: Any) -> Html:
    """A statement, its verdict, and the evidence case by case."""
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
    names = list(dict.fromkeys(name for case in cases for name in case))
    rows = [[case.get(name) for name in names] for case in cases]
    folded = (
        details(", ".join(words) or "Evidence", table([n.replace("_", " ") for n in names], rows))
        if rows
        else tag("p", ", ".join(words))
    )
    return tag("li", tag("p", shown, " ", str(claim.get("claim", ""))), folded)
