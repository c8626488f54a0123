"""Charts as SVG: lines with bands over time, and errors over a grid with the rate of divergence.

Every chart is drawn on a linear and, where its numbers are positive, on a logarithmic scale; the
page's style shows one of the two.
"""

import json
from collections.abc import Sequence

import numpy as np

from .._files import to_jsonable
from . import scale as axes
from .markup import Html, join, number, tag
from .scale import BOTTOM, Chart, CUT, HEIGHT, LEFT, RIGHT, Scale, Series, TOP, WIDTH

# Okabe and Ito (2008) without yellow; the light ones are darker, for a contrast of 3 on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#B3558A", "#B87A00", "#3A93C9", "#000000", "#707070")
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
STRIP = 7.0  # the height of a learner's row of rates
FAR = 2000.0  # how far outside a line is still followed


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
    ink, style = color(place), {"fill": "none", "stroke_dasharray": dash(place)}
    line = tag("path", d="M1 7H31", stroke=ink, stroke_width=2.2, **style)
    shape = tag("path", d=mark(place), fill=ink, transform="translate(16 7)")
    return tag("svg", line, shape, viewBox="0 0 32 14", width=32, height=14, aria_hidden="true")


# Drawing


def draw(chart: Chart, key: str) -> Html:
    """The chart as SVG, and its values as data for the page's script."""
    rated = [each for each in chart.series if each.rates is not None and each.rates.any()]
    strip = STRIP * len(chart.series) + 6 if rated else 0.0
    height = HEIGHT + max(0.0, strip - 40.0)
    top, bottom = TOP + strip, height - BOTTOM
    places, ticks = axes.horizontal(chart)
    scales = {"lin": axes.vertical(chart, "lin", top, bottom)}
    if axes.can_be_log(chart):
        scales["log"] = axes.vertical(chart, "log", top, bottom)
    inside = tag("rect", x=LEFT, y=top, width=_px(WIDTH - LEFT - RIGHT), height=_px(bottom - top))
    parts = [
        tag("title", chart.title),
        tag("desc", _describe(chart)),
        tag("defs", tag("clipPath", inside, id=f"{key}-clip")),
        _x_axis(chart, ticks, bottom),
    ]
    for name, scale in scales.items():
        lines = [_series(chart, each, places, scale) for each in chart.series]
        lines = tag("g", tag("g", *lines, class_="lines"), clip_path=f"url(#{key}-clip)")
        ends = [_end(each, places, top) for each in chart.series]
        cut = _cut(axes.beyond(chart, scale), top)
        parts.append(tag("g", _y_axis(scale), lines, cut, *ends, class_=name))
    if strip:
        parts.append(_rates(chart, places))
    turned = {"transform": f"translate(11 {_px((top + bottom) / 2)}) rotate(-90)"}
    parts += [
        tag("text", chart.y_label, class_="label", text_anchor="middle", **turned),
        tag("g", class_="pointer"),
    ]
    size = {"viewBox": f"0 0 {WIDTH:g} {height:g}", "aria_label": chart.title}
    svg = tag("svg", *parts, class_="chart", role="img", **size)
    values = {
        "label": chart.x_label,
        "x": chart.x.tolist(),
        "px": [round(float(p), 1) for p in places],
        "top": top,
        "bottom": bottom,
        "left": LEFT,
        "marks": chart.marks,
        "cut": CUT,
        "scales": {name: [s.start, s.slope] for name, s in scales.items()},
        "series": [_series_values(each) for each in chart.series],
    }
    text = json.dumps(to_jsonable(values), separators=(",", ":"), allow_nan=False)
    data = tag("script", Html(text.replace("<", "\\u003c")), type="application/json")
    return tag("div", svg, data, class_="plot", tabindex="0")


def _series_values(each: Series) -> dict[str, object]:
    names = {"name": each.name, "number": each.number, "color": color(each.number)}
    ends = {
        end: [float(f"{v:.5g}") for v in np.ravel(values)] for end, values in vars(each.y).items()
    }
    return {**names, **ends, "notes": list(each.notes)}


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _describe(chart: Chart) -> str:
    """The ends of the lines in words, for those who do not see them."""
    known = {each.name: each.y.value[~np.isnan(each.y.value)] for each in chart.series}
    words = [f"{name} {number(values[-1])}" for name, values in known.items() if len(values)]
    return f"{chart.y_label} over {chart.x_label}; at the right end: {', '.join(words)}"


def _x_axis(chart: Chart, ticks: list[tuple[float, str]], bottom: float) -> Html:
    line = tag("path", d=f"M{LEFT:g} {_px(bottom)}H{WIDTH - RIGHT:g}", class_="axis")
    marks = [
        tag("text", words, x=_px(place), y=_px(bottom + 15), text_anchor="middle")
        for place, words in ticks
    ]
    small = "".join(f"M{_px(place)} {_px(bottom)}v4" for place, _ in ticks)
    place = {"x": _px((LEFT + WIDTH - RIGHT) / 2), "y": _px(bottom + 32), "text_anchor": "middle"}
    label = tag("text", chart.x_label, class_="label", **place)
    return tag("g", line, tag("path", d=small, class_="axis"), *marks, label)


def _y_axis(scale: Scale) -> Html:
    lines = "".join(f"M{LEFT:g} {_px(place)}H{WIDTH - RIGHT:g}" for place, _ in scale.ticks)
    marks = [
        tag("text", words, x=_px(LEFT - 5), y=_px(place + 4), text_anchor="end")
        for place, words in scale.ticks
    ]
    return tag("g", tag("path", d=lines, class_="grid"), *marks, class_="ticks")


def _series(chart: Chart, each: Series, places: np.ndarray, scale: Scale) -> Html:
    """A band and a line, or whiskers and marks, in the colour of the learner."""
    value, low, high = map(np.ravel, vars(each.y).values())
    kept = np.isfinite(value) & ((value > 0) | (not scale.log))
    line, above, below = (_clamp(scale(ends)) for ends in (value, high, low))
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
            up, back = (places[part], above[part]), (places[part][::-1], below[part][::-1])
            shape = f"M{_path(*up)}L{_path(*back)}Z"
            drawn.append(tag("path", d=shape, fill=ink, fill_opacity=0.15, stroke="none"))
    segments = "".join(f"M{_path(places[part], line[part])}" for part in _stretches(kept))
    words = tag("title", f"{each.name}: {number(value[-1])} at the right end")
    style = {"fill": "none", "stroke_dasharray": dash(each.number), "stroke_linejoin": "round"}
    drawn.append(tag("path", words, d=segments, stroke=ink, stroke_width=1.8, **style))
    if chart.marks:
        drawn += [
            tag("path", d=mark(each.number), fill=ink, transform=f"translate({_px(x)} {y:.2f})")
            for x, y in zip(places[kept], line[kept], strict=True)
        ]
    return tag("g", *drawn, class_=f"s{each.number}", fill="none")


def _end(each: Series, places: np.ndarray, top: float) -> Html | None:
    """A cross above the place where a line becomes infinite."""
    lost = np.flatnonzero(np.isposinf(each.y.value))
    if each.rates is not None or not len(lost):
        return None
    x, y = _px(float(places[lost[0]])), top + 5 + 9 * (each.number % 4)
    words = tag("title", f"{each.name}: infinite from here on, because runs diverged")
    cross = {"d": f"M{x} {_px(y)}m-4-4l8 8m0-8l-8 8", "stroke": color(each.number)}
    return tag("g", tag("path", words, **cross, stroke_width=2), class_=f"s{each.number}")


def _cut(series: Sequence[Series], top: float) -> Html | None:
    """Which lines go on above the panel."""
    if not series:
        return None
    words = [
        tag("tspan", f"{'↑ ' if k == 0 else ', '}{each.name}", class_=f"s{each.number}")
        for k, each in enumerate(series)
    ]
    place = {"x": _px(WIDTH - RIGHT - 3), "y": _px(top + 10), "text_anchor": "end"}
    return tag("text", *words, class_="small", **place)


def _clamp(places: np.ndarray) -> np.ndarray:
    """Infinity is far above, minus infinity and what has no logarithm far below."""
    return np.clip(np.nan_to_num(places, nan=FAR, posinf=FAR, neginf=-FAR), -FAR, FAR)


def _stretches(kept: np.ndarray) -> list[slice]:
    """The parts of a line between what is missing."""
    edges = np.flatnonzero(np.diff(np.r_[0, kept.astype(int), 0]))
    return [slice(first, last) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def _path(x: np.ndarray, y: np.ndarray) -> str:
    return "L".join(f"{_px(a)} {b:.2f}" for a, b in zip(x, y, strict=True))


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
    place = {"x": _px(LEFT - 4), "y": _px(middle), "text_anchor": "end"}
    return tag("g", tag("text", "diverged", **place, class_="small"), *rows)


def side_by_side(charts: Sequence[Html]) -> Html:
    """Charts beside each other."""
    size = " three" if len(charts) in (3, 5, 6) else ""
    return tag("div", join(charts), class_=f"charts{size}")
