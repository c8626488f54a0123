"""Charts as SVG: lines with bands over time, and errors over a grid with the rate of divergence.

Every chart is drawn on a linear and, where its numbers are positive, on a logarithmic scale; the
style sheet of the page shows one of the two.
"""

import json
from collections.abc import Sequence

import numpy as np

from .._files import to_jsonable
from . import scale as axes
from .markup import format_number, Html, join, tag
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
STRIP = 7.0  # the height of a row of divergence rates
FAR = 2000.0  # pixels at which lines outside of a panel are clipped


def color(index: int) -> str:
    """The colour of a learner."""
    return COLORS[index % len(COLORS)]


def dash(index: int) -> str | None:
    """The dashes of a learner; they are shifted each time that the colours repeat."""
    return DASHES[(index + index // len(COLORS)) % len(DASHES)]


def mark(index: int) -> str:
    """The mark of a learner, as a path around 0."""
    return MARKS[(index + index // len(COLORS)) % len(MARKS)]


def swatch(index: int) -> Html:
    """The line and mark of a learner, for a legend."""
    ink, style = color(index), {"fill": "none", "stroke_dasharray": dash(index)}
    line = tag("path", d="M1 7H31", stroke=ink, stroke_width=2.2, **style)
    shape = tag("path", d=mark(index), fill=ink, transform="translate(16 7)")
    return tag("svg", line, shape, viewBox="0 0 32 14", width=32, height=14, aria_hidden="true")


# Drawing


def draw(chart: Chart, key: str) -> Html:
    """Draws a chart as SVG, with its values as data for the script of the page."""
    rates = [series.rates for series in chart.series if series.rates is not None]
    strip = STRIP * len(chart.series) + 6 if any(values.any() for values in rates) else 0.0
    height = HEIGHT + max(0.0, strip - 40.0)
    top, bottom = TOP + strip, height - BOTTOM
    pixels, ticks = axes.horizontal_axis(chart)
    scales = {"lin": axes.vertical_scale(chart, "lin", top, bottom)}
    if axes.can_be_log(chart):
        scales["log"] = axes.vertical_scale(chart, "log", top, bottom)
    panel = tag("rect", x=LEFT, y=top, width=_px(WIDTH - LEFT - RIGHT), height=_px(bottom - top))
    parts = [
        tag("title", chart.title),
        tag("desc", _describe(chart)),
        tag("defs", tag("clipPath", panel, id=f"{key}-clip")),
        _draw_x_axis(chart, ticks, bottom),
    ]
    for name, scale in scales.items():
        lines = [_draw_series(chart, series, pixels, scale) for series in chart.series]
        lines = tag("g", tag("g", *lines, class_="lines"), clip_path=f"url(#{key}-clip)")
        crosses = [_draw_cross(series, pixels, top) for series in chart.series]
        names = _draw_names(axes.series_beyond(chart, scale), top)
        parts.append(tag("g", _draw_y_axis(scale), lines, names, *crosses, class_=name))
    if strip:
        parts.append(_draw_rates(chart, pixels))
    rotation = {"transform": f"translate(11 {_px((top + bottom) / 2)}) rotate(-90)"}
    parts += [
        tag("text", chart.y_label, class_="label", text_anchor="middle", **rotation),
        tag("g", class_="pointer"),
    ]
    size = {"viewBox": f"0 0 {WIDTH:g} {height:g}", "aria_label": chart.title}
    svg = tag("svg", *parts, class_="chart", role="img", **size)
    values = {
        "label": chart.x_label,
        "x": chart.x.tolist(),
        "px": [round(float(pixel), 1) for pixel in pixels],
        "top": top,
        "bottom": bottom,
        "left": LEFT,
        "marks": chart.marks,
        "cut": CUT,
        "scales": {name: [scale.start, scale.slope] for name, scale in scales.items()},
        "series": [_series_values(series) for series in chart.series],
    }
    text = json.dumps(to_jsonable(values), separators=(",", ":"), allow_nan=False)
    data = tag("script", Html(text.replace("<", "\\u003c")), type="application/json")
    return tag("div", svg, data, class_="plot", tabindex="0")


def _series_values(series: Series) -> dict[str, object]:
    names = {"name": series.name, "number": series.index, "color": color(series.index)}
    ends = {
        end: [float(f"{v:.5g}") for v in np.ravel(values)] for end, values in vars(series.y).items()
    }
    return {**names, **ends, "notes": list(series.notes)}


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _describe(chart: Chart) -> str:
    """Describes where the lines end, for screen readers."""
    lines = {line.name: line.y.value[~np.isnan(line.y.value)] for line in chart.series}
    ends = [f"{name} {format_number(values[-1])}" for name, values in lines.items() if len(values)]
    return f"{chart.y_label} over {chart.x_label}; at the right end: {', '.join(ends)}"


def _draw_x_axis(chart: Chart, ticks: list[tuple[float, str]], bottom: float) -> Html:
    line = tag("path", d=f"M{LEFT:g} {_px(bottom)}H{WIDTH - RIGHT:g}", class_="axis")
    labels = [
        tag("text", text, x=_px(x), y=_px(bottom + 15), text_anchor="middle") for x, text in ticks
    ]
    marks = "".join(f"M{_px(x)} {_px(bottom)}v4" for x, _ in ticks)
    middle = {"x": _px((LEFT + WIDTH - RIGHT) / 2), "y": _px(bottom + 32), "text_anchor": "middle"}
    title = tag("text", chart.x_label, class_="label", **middle)
    return tag("g", line, tag("path", d=marks, class_="axis"), *labels, title)


def _draw_y_axis(scale: Scale) -> Html:
    lines = "".join(f"M{LEFT:g} {_px(y)}H{WIDTH - RIGHT:g}" for y, _ in scale.ticks)
    labels = [
        tag("text", text, x=_px(LEFT - 5), y=_px(y + 4), text_anchor="end")
        for y, text in scale.ticks
    ]
    return tag("g", tag("path", d=lines, class_="grid"), *labels, class_="ticks")


def _draw_series(chart: Chart, series: Series, pixels: np.ndarray, scale: Scale) -> Html:
    """Draws a band and a line, or whiskers and marks, in the colour of the learner."""
    value, low, high = map(np.ravel, vars(series.y).values())
    drawable = np.isfinite(value) & ((value > 0) | (not scale.log))
    bounded = drawable & ~np.isnan(low) & ~(np.isneginf(low) & np.isposinf(high))
    line, above, below = (_clamp(scale(ends)) for ends in (value, high, low))
    ink = color(series.index)
    paths = []
    if chart.marks:
        whiskers = "".join(
            f"M{_px(x)} {_px(b)}V{_px(a)}"
            for x, a, b in zip(pixels[bounded], above[bounded], below[bounded], strict=True)
        )
        paths.append(tag("path", d=whiskers, stroke=ink, stroke_opacity=0.45, stroke_width=1.3))
    else:
        for part in _segments(bounded):
            up, back = (pixels[part], above[part]), (pixels[part][::-1], below[part][::-1])
            band = f"M{_path(*up)}L{_path(*back)}Z"
            paths.append(tag("path", d=band, fill=ink, fill_opacity=0.15, stroke="none"))
    segments = "".join(f"M{_path(pixels[part], line[part])}" for part in _segments(drawable))
    title = tag("title", f"{series.name}: {format_number(value[-1])} at the right end")
    style = {"fill": "none", "stroke_dasharray": dash(series.index), "stroke_linejoin": "round"}
    paths.append(tag("path", title, d=segments, stroke=ink, stroke_width=1.8, **style))
    if chart.marks:
        paths += [
            tag("path", d=mark(series.index), fill=ink, transform=f"translate({_px(x)} {y:.2f})")
            for x, y in zip(pixels[drawable], line[drawable], strict=True)
        ]
    return tag("g", *paths, class_=f"s{series.index}", fill="none")


def _draw_cross(series: Series, pixels: np.ndarray, top: float) -> Html | None:
    """Draws a cross at the top of the panel where a line becomes infinite."""
    infinite = np.flatnonzero(np.isposinf(series.y.value))
    if series.rates is not None or not len(infinite):
        return None
    x, y = _px(float(pixels[infinite[0]])), top + 5 + 9 * (series.index % 4)
    title = tag("title", f"{series.name}: infinite from here on, because runs diverged")
    cross = {"d": f"M{x} {_px(y)}m-4-4l8 8m0-8l-8 8", "stroke": color(series.index)}
    return tag("g", tag("path", title, **cross, stroke_width=2), class_=f"s{series.index}")


def _draw_names(lines: Sequence[Series], top: float) -> Html | None:
    """Names the lines that continue above the panel."""
    if not lines:
        return None
    names = [
        tag("tspan", f"{'↑ ' if k == 0 else ', '}{series.name}", class_=f"s{series.index}")
        for k, series in enumerate(lines)
    ]
    corner = {"x": _px(WIDTH - RIGHT - 3), "y": _px(top + 10), "text_anchor": "end"}
    return tag("text", *names, class_="small", **corner)


def _clamp(pixels: np.ndarray) -> np.ndarray:
    """Puts infinity far above, minus infinity and what has no logarithm far below."""
    return np.clip(np.nan_to_num(pixels, nan=FAR, posinf=FAR, neginf=-FAR), -FAR, FAR)


def _segments(drawable: np.ndarray) -> list[slice]:
    """The stretches of a line without gaps."""
    edges = np.flatnonzero(np.diff(np.r_[0, drawable.astype(int), 0]))
    return [slice(first, last) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def _path(x: np.ndarray, y: np.ndarray) -> str:
    return "L".join(f"{_px(a)} {b:.2f}" for a, b in zip(x, y, strict=True))


def _draw_rates(chart: Chart, pixels: np.ndarray) -> Html:
    """Draws a row for each learner above the panel, darker where more runs diverged."""
    gaps = np.diff(pixels)
    size = min(float(gaps.min()) if len(gaps) else 30.0, 34.0) - 2
    rows = []
    for row, series in enumerate(chart.series):
        if series.rates is None:
            continue
        y, boxes = TOP - 2 + STRIP * row, []
        for x, rate, note in zip(pixels, series.rates, series.notes, strict=True):
            if rate > 0:
                ink = {"fill": color(series.index), "fill_opacity": f"{0.2 + 0.8 * rate:.2f}"}
            elif rate == 0:
                ink = {"class_": "none"}
            else:
                continue
            title = tag("title", f"{series.name}: {note}")
            box = {"x": _px(x - size / 2), "y": _px(y), "width": _px(size), "height": 5}
            boxes.append(tag("rect", title, **box, **ink))
        rows.append(tag("g", *boxes, class_=f"s{series.index}"))
    middle = TOP + STRIP * len(chart.series) / 2 + 1
    position = {"x": _px(LEFT - 4), "y": _px(middle), "text_anchor": "end"}
    return tag("g", tag("text", "diverged", **position, class_="small"), *rows)


def side_by_side(charts: Sequence[Html]) -> Html:
    """Puts charts beside each other."""
    size = " three" if len(charts) in (3, 5, 6) else ""
    return tag("div", join(charts), class_=f"charts{size}")
