"""Charts as SVG: lines with bands over time, and errors over a grid with the rate of divergence.

Every chart is drawn on a linear and, where its numbers are positive, on a logarithmic scale; the
page's style shows one of the two.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .._json import plain
from ..statistics import Interval
from .markup import Html, join, number, superscript, tag

# Okabe and Ito (2008), without yellow, which is too light for a line on white.
COLORS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#AA4499",
    "#B87A00",
    "#3A93C9",
    "#000000",
    "#707070",
)
DASHES = (None, "7 3", "2.5 2.5", "9 3 2 3", "12 4", "5 2 2 2 2 2", "1.5 3", "15 3 3 3")
MARKS = (
    "M-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0Z",
    "M-2.9-2.9h5.8v5.8h-5.8Z",
    "M0-3.8L3.6 2.6H-3.6Z",
    "M0-4L4 0L0 4L-4 0Z",
    "M0 3.8L3.6-2.6H-3.6Z",
    "M-3.6-1.2h2.4v-2.4h2.4v2.4h2.4v2.4h-2.4v2.4h-2.4v-2.4h-2.4Z",
    "M-4-1.6h8v3.2h-8Z",
    "M-1.6-4h3.2v8h-3.2Z",
)
WIDTH, HEIGHT = 400.0, 262.0
LEFT, RIGHT, TOP, BOTTOM = 47.0, 9.0, 10.0, 38.0
STRIP = 7.0  # the height of a learner's row of rates
FAR = 2000.0  # how far outside a line is still followed
MOST_POINTS = 300

Axis = Literal["linear", "log", "ordinal"]


@dataclass(frozen=True)
class Series:
    """A line: the number that chooses its colour, dash and mark, its values, and what to say."""

    name: str
    number: int
    y: Interval
    notes: Sequence[str] = ()
    rates: np.ndarray | None = None


@dataclass(frozen=True)
class Chart:
    """Series over one axis, and the words around them."""

    title: str
    x: np.ndarray
    x_label: str
    y_label: str
    x_axis: Axis
    series: Sequence[Series]
    marks: bool = False


@dataclass(frozen=True)
class Scale:
    """From numbers to places: `start + slope * number`, or of its logarithm."""

    log: bool
    start: float
    slope: float
    low: float
    high: float

    def __call__(self, values: Any) -> np.ndarray:
        values = np.asarray(values, float)
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                values = np.log10(values)
        return self.start + self.slope * values


def color(place: int) -> str:
    """The colour of a learner."""
    return COLORS[place % len(COLORS)]


def dash(place: int) -> str | None:
    """Its dashes: after all colours were used, they go on differently."""
    return DASHES[(place + place // len(COLORS)) % len(DASHES)]


def mark(place: int) -> str:
    """Its mark, as a path around 0."""
    return MARKS[(place + place // len(COLORS)) % len(MARKS)]


def swatch(place: int) -> Html:
    """A learner's line and mark, for a legend."""
    line = tag(
        "path",
        d="M1 7H31",
        stroke=color(place),
        stroke_width=2.2,
        fill="none",
        stroke_dasharray=dash(place),
    )
    shape = tag("path", d=mark(place), fill=color(place), transform="translate(16 7)")
    return tag("svg", line, shape, viewBox="0 0 32 14", width=32, height=14, aria_hidden="true")


# Scales


def thinned(size: int) -> np.ndarray:
    """At most 300 places of so many, evenly, the last among them."""
    every = -(-size // MOST_POINTS)
    return np.arange(size - 1, -1, -every)[::-1]


def can_be_log(chart: Chart) -> bool:
    """Whether there are numbers, and all of them are positive."""
    values = _finite(chart)
    return bool(len(values) and values.min() > 0)


def starts_log(chart: Chart) -> bool:
    """Whether the logarithmic scale is the better first one: where lines are decades apart."""
    values = _finite(chart)
    return can_be_log(chart) and bool(values.max() > 25 * values.min())


def _finite(chart: Chart) -> np.ndarray:
    parts = [np.ravel(each.y.value) for each in chart.series]
    values = np.concatenate([np.zeros(0), *parts])
    return values[np.isfinite(values)]


def _vertical(chart: Chart, log: bool, top: float, bottom: float) -> Scale:
    """The scale of errors; a linear one does not follow a line that leaves all others behind."""
    values = _finite(chart)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    if log:
        low, high = math.log10(low), math.log10(high)
        gap = 0.06 * max(high - low, 0.2)
    else:
        tops = [each.y.value[np.isfinite(each.y.value)] for each in chart.series]
        usual = float(np.median([part.max() for part in tops if len(part)] or [1.0]))
        high = min(high, 5 * usual) if usual > 0 else high
        low = 0.0 if 0 <= low < 0.6 * high else low
        gap = 0.05 * (max(high - low, abs(high) * 1e-3) or 1.0)
    first = low if low == 0 and not log else low - gap
    last = high + gap
    slope = (top - bottom) / (last - first)
    ends = (10**first, 10**last) if log else (first, last)
    return Scale(log, bottom - slope * first, slope, *ends)


def _horizontal(chart: Chart) -> tuple[np.ndarray, list[tuple[float, str]]]:
    """The places of the points along the axis, and its ticks."""
    left, right = LEFT, WIDTH - RIGHT
    x = chart.x
    if chart.x_axis == "ordinal" or len(x) == 1:
        step = (right - left) / max(len(x), 1)
        places = left + step * (np.arange(len(x)) + 0.5)
        every = max(1, math.ceil(len(x) / 9))
        return places, [(p, number(v, 3)) for p, v in zip(places, x, strict=True)][::every]
    values = np.log10(x) if chart.x_axis == "log" else np.asarray(x, float)
    low, high = float(values.min()), float(values.max())
    if chart.marks:
        margin = 0.5 / len(x) * (high - low)
        low, high = low - margin, high + margin
    else:
        low = min(low, 0.0)
    slope = (right - left) / (high - low)
    places = left + slope * (values - low)
    if chart.x_axis == "log":
        ticks = _decades(10**low, 10**high)
        return places, [(left + slope * (math.log10(v) - low), _power(v)) for v in ticks]
    return places, [(left + slope * (v - low), _steps(v)) for v in _round_numbers(low, high, 5)]


def _round_numbers(low: float, high: float, about: int) -> list[float]:
    """Numbers that are multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= 0.999 * rough)
    return [
        k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    ]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten, with numbers between them where these would be too few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((last - first) / 7))
    for between in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        powers = range(-(-first // every) * every, last + 1, every)
        found = [m * 10.0**p for p in powers for m in between]
        found = [v for v in found if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
        if len(found) >= 3:
            return found
    return _round_numbers(low, high, 4)


def _power(value: float) -> str:
    power = math.floor(math.log10(value) + 1e-9)
    if -3 <= power <= 3:
        return f"{value:.3g}"
    digit = value / 10.0**power
    return f"{'' if round(digit, 6) == 1 else f'{digit:g}·'}10{superscript(power)}"


def _steps(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}".replace("-", "−")


def _plain(value: float) -> str:
    return number(0.0 if abs(value) < 1e-300 else value, 3)


# Drawing


def draw(chart: Chart, key: str) -> Html:
    """The chart as SVG, and its values as data for the page's script."""
    rated = [each for each in chart.series if each.rates is not None and each.rates.any()]
    strip = STRIP * len(chart.series) + 6 if rated else 0.0
    top, bottom = TOP + strip, HEIGHT + strip - BOTTOM
    places, ticks = _horizontal(chart)
    scales = {"lin": _vertical(chart, False, top, bottom)}
    if can_be_log(chart):
        scales["log"] = _vertical(chart, True, top, bottom)
    inside = tag("rect", x=LEFT, y=top, width=_px(WIDTH - LEFT - RIGHT), height=_px(bottom - top))
    parts = [
        tag("title", chart.title),
        tag("desc", _described(chart)),
        tag("defs", tag("clipPath", inside, id=f"{key}-clip")),
        _x_axis(chart, ticks, bottom),
    ]
    for name, scale in scales.items():
        lines = [_series(chart, each, places, scale, top) for each in chart.series]
        lines = tag("g", *lines, clip_path=f"url(#{key}-clip)")
        ends = [_end(each, places, top) for each in chart.series]
        parts.append(tag("g", _y_axis(scale), lines, *ends, class_=name))
    if strip:
        parts.append(_rates(chart, places))
    middle = _px((top + bottom) / 2)
    parts.append(
        tag(
            "text",
            chart.y_label,
            class_="label",
            text_anchor="middle",
            transform=f"translate(11 {middle}) rotate(-90)",
        )
    )
    svg = tag(
        "svg",
        *parts,
        tag("g", class_="pointer"),
        class_="chart",
        role="img",
        viewBox=f"0 0 {WIDTH:g} {HEIGHT + strip:g}",
        aria_label=chart.title,
    )
    values = {
        "label": chart.x_label,
        "x": [_short(v) for v in chart.x],
        "px": [round(float(p), 1) for p in places],
        "top": top,
        "bottom": bottom,
        "scales": {name: [s.start, s.slope] for name, s in scales.items()},
        "series": [
            {
                "name": each.name,
                "number": each.number,
                "color": color(each.number),
                **{
                    end: [_short(v) for v in np.ravel(getattr(each.y, end))]
                    for end in ("value", "low", "high")
                },
                "notes": list(each.notes),
            }
            for each in chart.series
        ],
    }
    text = json.dumps(plain(values), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    data = tag("script", Html(text), type="application/json")
    return tag("div", svg, data, class_="plot", tabindex="0")


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _described(chart: Chart) -> str:
    """The ends of the lines in words, for those who do not see them."""
    words = []
    for each in chart.series:
        known = np.flatnonzero(~np.isnan(each.y.value))
        if len(known):
            words.append(f"{each.name} {number(each.y.value[known[-1]])}")
    return f"{chart.y_label} over {chart.x_label}; at the right end: {', '.join(words)}"


def _x_axis(chart: Chart, ticks: list[tuple[float, str]], bottom: float) -> Html:
    line = tag("path", d=f"M{LEFT:g} {_px(bottom)}H{WIDTH - RIGHT:g}", class_="axis")
    marks = [
        tag("text", words, x=_px(place), y=_px(bottom + 15), text_anchor="middle")
        for place, words in ticks
    ]
    small = "".join(f"M{_px(place)} {_px(bottom)}v4" for place, _ in ticks)
    middle = _px((LEFT + WIDTH - RIGHT) / 2)
    label = tag(
        "text", chart.x_label, class_="label", x=middle, y=_px(bottom + 32), text_anchor="middle"
    )
    return tag("g", line, tag("path", d=small, class_="axis"), *marks, label)


def _y_axis(scale: Scale) -> Html:
    if scale.log:
        ticks, words = _decades(scale.low, scale.high), _power
    else:
        ticks, words = _round_numbers(scale.low, scale.high, 5), _plain
    places = [float(scale(value)) for value in ticks]
    lines = "".join(f"M{LEFT:g} {_px(place)}H{WIDTH - RIGHT:g}" for place in places)
    marks = [
        tag("text", words(value), x=_px(LEFT - 5), y=_px(place + 4), text_anchor="end")
        for value, place in zip(ticks, places, strict=True)
    ]
    return tag("g", tag("path", d=lines, class_="grid"), *marks)


def _series(chart: Chart, each: Series, places: np.ndarray, scale: Scale, top: float) -> Html:
    """A band and a line, or whiskers and marks, in the colour of the learner."""
    value, low, high = (np.ravel(getattr(each.y, end)) for end in ("value", "low", "high"))
    kept = np.isfinite(value) & ((value > 0) | (not scale.log))
    line, above, below = (_clamped(scale(ends), top) for ends in (value, high, low))
    ink = color(each.number)
    drawn = []
    if chart.marks:
        stems = "".join(
            f"M{_px(x)} {_px(b)}V{_px(a)}"
            for x, a, b in zip(places[kept], above[kept], below[kept], strict=True)
        )
        drawn.append(tag("path", d=stems, stroke=ink, stroke_opacity=0.45, stroke_width=1.3))
    else:
        for part in _stretches(kept & ~np.isnan(low)):
            up = _path(places[part], above[part])
            back = _path(places[part][::-1], below[part][::-1])
            shape = f"M{up}L{back}Z"
            drawn.append(tag("path", d=shape, fill=ink, fill_opacity=0.15, stroke="none"))
    segments = "".join(f"M{_path(places[part], line[part])}" for part in _stretches(kept))
    words = f"{each.name}: {number(value[-1])} at the right end"
    drawn.append(
        tag(
            "path",
            tag("title", words),
            d=segments,
            stroke=ink,
            stroke_width=1.8,
            fill="none",
            stroke_dasharray=dash(each.number),
            stroke_linejoin="round",
        )
    )
    if chart.marks:
        drawn += [
            tag("path", d=mark(each.number), fill=ink, transform=f"translate({_px(x)} {_px(y)})")
            for x, y in zip(places[kept], line[kept], strict=True)
        ]
    return tag("g", *drawn, class_=f"s{each.number}", fill="none")


def _end(each: Series, places: np.ndarray, top: float) -> Html | None:
    """A cross above the place where a line becomes infinite."""
    value = np.ravel(each.y.value)
    lost = np.flatnonzero(np.isposinf(value))
    if each.rates is not None or not len(lost):
        return None
    x, y = _px(places[lost[0]]), top + 5 + 9 * (each.number % 4)
    words = f"{each.name}: infinite from here on, because runs diverged"
    cross = tag(
        "path",
        tag("title", words),
        d=f"M{x} {_px(y)}m-4-4l8 8m0-8l-8 8",
        stroke=color(each.number),
        stroke_width=2,
    )
    return tag("g", cross, class_=f"s{each.number}")


def _clamped(places: np.ndarray, top: float) -> np.ndarray:
    """Infinity is far above, minus infinity and what has no logarithm far below."""
    return np.clip(np.nan_to_num(places, nan=FAR, posinf=FAR, neginf=-FAR), -FAR, FAR)


def _stretches(kept: np.ndarray) -> list[slice]:
    """The parts of a line between what is missing."""
    edges = np.flatnonzero(np.diff(np.r_[0, kept.astype(int), 0]))
    return [slice(first, last) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def _path(x: np.ndarray, y: np.ndarray) -> str:
    return "L".join(f"{_px(a)} {_px(b)}" for a, b in zip(x, y, strict=True))


def _rates(chart: Chart, places: np.ndarray) -> Html:
    """A row for each learner above the panel, darker where more runs diverged."""
    gaps = np.diff(places)
    size = min(float(gaps.min()) if len(gaps) else 30.0, 34.0) - 2
    rows = []
    for row, each in enumerate(chart.series):
        if each.rates is None:
            continue
        y, shapes = TOP - 2 + STRIP * row, []
        for x, rate, note in zip(places, each.rates, each.notes, strict=True):
            if rate > 0:
                ink = {"fill": color(each.number), "fill_opacity": f"{0.2 + 0.8 * rate:.2f}"}
            elif rate == 0:
                ink = {"class_": "none"}
            else:
                continue
            words = tag("title", f"{each.name}: {note}")
            box = {"x": _px(x - size / 2), "y": _px(y), "width": _px(size), "height": 5}
            shapes.append(tag("rect", words, **box, **ink))
        rows.append(tag("g", *shapes, class_=f"s{each.number}"))
    middle = TOP + STRIP * len(chart.series) / 2 + 1
    label = tag(
        "text", "diverged", x=_px(LEFT - 4), y=_px(middle), text_anchor="end", class_="small"
    )
    return tag("g", label, *rows)


def joined(charts: Sequence[Html]) -> Html:
    """Charts beside each other."""
    return tag("div", join(charts), class_="charts")
