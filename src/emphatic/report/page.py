"""Writes sections as one self-contained page of HTML."""

import base64
import os
import re
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files

from .._files import atomic_write
from . import results, statements
from .markup import details, format_cell, Html, join, table, tag
from .problem import overview, problem_details, solve_and_certify
from .section import Picture, Section

MOST_ROWS = 10  # problems or settings that are not folded
POLICY = (  # the browser then loads nothing from anywhere, whatever the page says
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
MIME = {"svg": "image/svg+xml", "png": "image/png", "gif": "image/gif"}


def page(sections: Sequence[Section], title: str = "Report") -> str:
    """Returns sections as one self-contained page of HTML.

    Hyper-parameters are chosen on the first half of the runs and reported on the other half, as
    [select] does; a run that diverged is an infinite error in every number of the page. Equal
    sections give equal pages.
    """
    if not sections:
        raise ValueError("sections: got none; at least one is required")
    parts, links = [], []
    keys = [f"s{n}-{_slug(section.title)[:40]}" for n, section in enumerate(sections, 1)]
    for key, section in zip(keys, sections, strict=True):
        chapters = _chapters(key, section)
        items = [tag("li", tag("a", name, href=f"#{key}-{_slug(name)}")) for name, _ in chapters]
        link = tag("a", section.title, href=f"#{key}")
        links.append(tag("li", link, tag("ul", *items) if items else None))
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
    header = tag("header", tag("h1", title), statements.overview(sections, keys))
    footer = f"Made by emphatic {version('emphatic')}. Everything on this page is in this one file."
    body = tag(
        "body",
        tag("a", "To the text", href="#text", class_="skip"),
        tag("nav", contents, id="contents", aria_label="Contents"),
        tag("main", header, *parts, tag("footer", footer), id="text"),
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
    """The style rules that hide a learner whose box is not checked."""
    counts = [sum(data.sizes["learner"] for data in section.datasets) for section in sections]
    return "".join(
        f".card:has(.t{index}:not(:checked)) .chart .s{index} {{ display: none; }}\n"
        for index in range(max(counts))
    )


def _chapters(key: str, section: Section) -> list[tuple[str, Html]]:
    """The chapters of a section that are not empty, by heading."""
    chapters: list[tuple[str, Html]] = []
    paragraphs = re.split(r"\n\s*\n", section.question.strip())
    question = [tag("p", paragraph) for paragraph in paragraphs if paragraph]
    if section.definition:
        question.append(tag("pre", tag("code", section.definition.strip("\n"))))
    if question:
        chapters.append(("Question", join(question)))
    if section.problems:
        chapters.append(("Problems", _problems(section)))
    if section.datasets:
        chapters.append(("Results", results.show(key, section)))
    if section.pictures:
        chapters.append(("Figures", join(_picture(picture) for picture in section.pictures)))
    if section.claims:
        chapters.append(("Claims", statements.chapter(section.claims)))
    if section.tables:
        chapters.append(("In numbers", join(_tables(section))))
    for name, values in (("Settings", section.settings), ("Provenance", section.provenance)):
        if values:
            rows = [(label.replace("_", " "), format_cell(v)) for label, v in values.items()]
            content = tag("div", table(("", ""), rows, left=2), class_="facts")
            if len(rows) > MOST_ROWS:
                content = details(f"{len(rows)} entries", content)
            chapters.append((name, content))
    if section.command:
        chapters.append(("Run it again", tag("pre", tag("code", section.command))))
    return chapters


def _problems(section: Section) -> Html:
    solved = {
        label: solve_and_certify(problem, section.certificates.get(label))
        for label, problem in section.problems.items()
    }
    note = (
        "Computed exactly, without any run. Unfold a problem for its quantities state by state, "
        "the limits of linear learners and its certificate."
    )
    folded = [problem_details(label, problem) for label, problem in solved.items()]
    if len(folded) > MOST_ROWS:
        folded = [details(f"All {len(folded)} problems, one by one", *folded)]
    return join((tag("p", note, class_="note"), overview(solved), *folded))


def _picture(picture: Picture) -> Html:
    encoded = base64.b64encode(picture.data).decode("ascii")
    image = tag("img", src=f"data:{MIME[picture.kind]};base64,{encoded}", alt=picture.alt)
    box = tag("input", type="checkbox", aria_label="Enlarge the picture")
    hint = tag("span", " (tap to enlarge or shrink)", class_="hint")
    caption = tag("figcaption", picture.caption, hint)
    return tag("figure", tag("label", box, image), caption, class_="picture")


def _tables(section: Section) -> list[Html]:
    return [
        details(f"{caption} ({len(rows)} rows)", table(columns, rows), open_=len(rows) <= 24)
        for caption, (columns, rows) in section.tables.items()
    ]
