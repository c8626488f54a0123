"""HTML whose text is always escaped, and the format of numbers in it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

MOST_COLUMNS = 2  # that fit on a phone
VOID = ("meta", "link", "input", "img", "br", "hr")


class Html(str):
    """Text that is markup already."""


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element: strings among its children are escaped, markup is not, and None is left out."""
    tokens = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            tokens.append(key)
        elif value is not None and value is not False:
            tokens.append(f'{key}="{escape(str(value))}"')
    start = f"<{' '.join(tokens)}>"
    return Html(start if name in VOID else f"{start}{join(children)}</{name}>")


def join(children: Iterable[object]) -> Html:
    """Joins text, which is escaped, and markup."""
    return Html("".join(child if isinstance(child, Html) else _escape(child) for child in children))


def _escape(value: object) -> str:
    return "" if value is None else escape(str(value), quote=False)


def format_number(value: float | int | np.number | None, digits: int = 4) -> str:
    """Formats a number with a few digits and a true minus; a dash for what is not known."""
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
    """Formats a whole number as a superscript."""
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def format_count(value: float | int) -> str:
    """Formats a number of steps, with thin spaces between thousands."""
    if math.isinf(value) or math.isnan(value):
        return "never" if value > 0 else "–"
    return f"{value:,.0f}".replace(",", "\u202f")


def format_cell(value: object) -> str:
    """Formats a cell: numbers with a few digits, lists and mappings in a line."""
    if isinstance(value, Html):
        return value
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if abs(value) < 10_000 else format_count(value)
    if isinstance(value, float):
        return format_number(value)
    if isinstance(value, str) and value in ("inf", "-inf"):
        return format_number(float(value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {format_cell(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(format_cell(item) for item in value)
    return str(value)


def table(
    columns: Sequence[object], rows: Iterable[Sequence[object]], caption: str = "", left: int = 1
) -> Html:
    """A table whose first `left` columns are text; on a phone a wide one is a card for each row."""

    def to_row(values: Sequence[object], name: str) -> Html:
        first, other = ("col", "col") if name == "th" else ("row", None)
        cells = [tag("th", format_cell(value), scope=first) for value in values[:1]]
        for column, value in enumerate(values[1:], 1):
            kind = "n" if column >= left else None
            label = {"data_label": columns[column]} if name == "td" else {}
            cells.append(tag(name, format_cell(value), class_=kind, scope=other, **label))
        return tag("tr", *cells)

    head, body = to_row(columns, "th"), [to_row(row, "td") for row in rows]
    content = tag("table", tag("thead", head), tag("tbody", *body))
    title = tag("p", caption, class_="caption") if caption else None
    region = {"role": "region", "aria_label": caption or "Table", "tabindex": 0}
    kind = "scroll cards" if len(columns) > MOST_COLUMNS else "scroll"
    return join((title, tag("div", content, class_=kind, **region)))


def records(rows: Sequence[Mapping[str, object]], caption: str = "", left: int = 1) -> Html:
    """A table of mappings from the names of its columns to values."""
    return table(*to_columns(rows), caption, left)


def to_columns(rows: Sequence[Mapping[str, object]]) -> tuple[list[str], list[list[object]]]:
    """Converts mappings to the names of columns and the values of each row."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = [[row.get(name) for name in names] for row in rows]
    return [name.replace("_", " ") for name in names], values


def details(summary: object, *children: object, open_: bool = False) -> Html:
    """Content that is folded below its summary."""
    return tag("details", tag("summary", summary), *children, open=open_)
