"""HTML whose text is always escaped, and numbers as they are shown in it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

VOID = ("meta", "link", "input", "img", "br", "hr")


class Html(str):
    """Text that is markup already."""


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element: strings among its children are escaped, markup is not, and None is nothing."""
    words = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(key)
        elif value is not None and value is not False:
            words.append(f'{key}="{escape(str(value))}"')
    start = f"<{' '.join(words)}>"
    return Html(start if name in VOID else f"{start}{join(children)}</{name}>")


def join(children: Iterable[object]) -> Html:
    """Markup one after the other."""
    return Html("".join(each if isinstance(each, Html) else _text(each) for each in children))


def _text(value: object) -> str:
    return "" if value is None else escape(str(value), quote=False)


def number(value: float | int | np.number | None, digits: int = 4) -> str:
    """A number with a few digits, and with a true minus; a dash for what is not known."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{digits}g}"
    mantissa, _, power = text.partition("e")
    if power:
        text = f"{'' if mantissa in ('1', '-1') else mantissa + '×'}10{superscript(int(power))}"
        text = f"-{text}" if mantissa == "-1" else text
    return text.replace("-", "−")


def superscript(power: int) -> str:
    """A whole number, raised."""
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def count(value: float) -> str:
    """A number of steps, with thin spaces between thousands."""
    if math.isinf(value) or math.isnan(value):
        return "never" if value > 0 else "–"
    return f"{value:,.0f}".replace(",", "\u202f")


def cell(value: object) -> str:
    """The text of a cell: numbers with a few digits, lists and mappings in a line."""
    if isinstance(value, Html):
        return value
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if abs(value) < 10_000 else count(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str) and value in ("inf", "-inf"):
        return number(float(value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {cell(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(cell(item) for item in value)
    return str(value)


def table(
    columns: Sequence[object], rows: Iterable[Sequence[object]], caption: str = "", left: int = 1
) -> Html:
    """A table that scrolls by itself where it is too wide; its first columns are words."""

    def row(values: Sequence[object], name: str) -> Html:
        first, other = ("col", "col") if name == "th" else ("row", None)
        cells = [tag("th", cell(value), scope=first) for value in values[:1]]
        for place, value in enumerate(values[1:], 1):
            cells.append(tag(name, cell(value), class_="n" if place >= left else None, scope=other))
        return tag("tr", *cells)

    head, body = tag("thead", row(columns, "th")), tag("tbody", *(row(each, "td") for each in rows))
    words = tag("p", caption, class_="caption") if caption else None
    region = {"role": "region", "aria_label": caption or "Table", "tabindex": 0}
    return join((words, tag("div", tag("table", head, body), class_="scroll", **region)))


def records(rows: Sequence[Mapping[str, object]], caption: str = "", left: int = 1) -> Html:
    """A table of mappings from the names of its columns to values."""
    return table(*to_columns(rows), caption, left)


def to_columns(rows: Sequence[Mapping[str, object]]) -> tuple[list[str], list[list[object]]]:
    """The names of columns and the values of each row, from mappings."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = [[row.get(name) for name in names] for row in rows]
    return [name.replace("_", " ") for name in names], values


def details(summary: object, *children: object, open_: bool = False) -> Html:
    """Content that is folded below its summary."""
    return tag("details", tag("summary", summary), *children, open=open_)
