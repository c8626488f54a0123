"""HTML whose text is always escaped, and numbers as they are shown in it."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

VOID = ("meta", "link", "input", "img", "br", "hr")


class Html(str):
    """Text that is markup already."""


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
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


def join(children: Iterable[Any]) -> Html:
    """Markup one after the other."""
    return Html("".join(each if isinstance(each, Html) else _text(each) for each in children))


def _text(value: Any) -> str:
    return "" if value is None else escape(str(value), quote=False)


def number(value: Any, digits: int = 4) -> str:
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


def cell(value: Any) -> Any:
    """What stands in a cell: numbers with a few digits, lists and mappings in a line."""
    if isinstance(value, Html) or value is None:
        return value if value is not None else "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if abs(value) < 10_000 else count(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str) and value in ("inf", "-inf"):
        return number(float(value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {cell(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(str(cell(each)) for each in value)
    return str(value)


def table(
    columns: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str = "", left: int = 1
) -> Html:
    """A table that scrolls by itself where it is too wide; its first columns are words."""

    def row(values: Sequence[Any], name: str) -> Html:
        cells = []
        for place, value in enumerate(values):
            head = {"scope": "col"} if name == "th" else {}
            if name == "td" and place == 0:
                cells.append(tag("th", cell(value), scope="row"))
            else:
                cells.append(tag(name, cell(value), class_=None if place < left else "n", **head))
        return tag("tr", *cells)

    head, body = tag("thead", row(columns, "th")), tag("tbody", *(row(each, "td") for each in rows))
    words = tag("p", caption, class_="caption") if caption else None
    shown = tag("table", head, body)
    region = {"role": "region", "aria_label": caption or "Table", "tabindex": 0}
    return join((words, tag("div", shown, class_="scroll", **region)))


def details(summary: Any, *children: Any, open_: bool = False) -> Html:
    """What is shown when asked for."""
    return tag("details", tag("summary", summary), *children, open=open_)
