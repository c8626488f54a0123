"""Charts as data, and where their numbers are drawn: scales, ticks and what lies outside."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..statistics import Interval
from .markup import format_number, superscript

WIDTH, HEIGHT = 400.0, 262.0
LEFT, RIGHT, TOP, BOTTOM = 47.0, 15.0, 10.0, 38.0
MOST_POINTS = 300  # of a curve
CUT = {"lin": 4.0, "log": 100.0}  # times the median of the lines: where a panel ends

Axis = Literal["linear", "log", "ordinal"]


@dataclass(frozen=True)
class Series:
    """A line: its values, their notes, and the index of its colour, dash and mark."""

    name: str
    index: int
    y: Interval
    notes: Sequence[str] = ()
    rates: np.ndarray | None = None


@dataclass(frozen=True)
class Chart:
    """Series over one axis, and the labels around them."""

    title: str
    x: np.ndarray
    x_label: str
    y_label: str
    x_axis: Axis
    series: Sequence[Series]
    marks: bool = False


@dataclass(frozen=True)
class Scale:
    """From numbers to pixels: `start + slope * number`, or of its logarithm."""

    log: bool
    start: float
    slope: float
    low: float
    high: float

    def __call__(self, values: Any) -> Any:
        values = np.asarray(values, float)
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                values = np.log10(values)
        return self.start + self.slope * values

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """The pixels of round numbers, and their labels."""
        if self.log:
            return [(float(self(v)), format_power(v)) for v in decades(self.low, self.high)]
        values = round_numbers(self.low, self.high, 5)
        return [(float(self(v)), format_number(0.0 if abs(v) < 1e-300 else v, 3)) for v in values]


def thin(size: int) -> np.ndarray:
    """Returns at most 300 of `size` indices, evenly spaced, the last one included."""
    return np.arange(size - 1, -1, -math.ceil(size / MOST_POINTS))[::-1]


def can_be_log(chart: Chart) -> bool:
    """Whether some numbers are positive and none is negative."""
    values = np.concatenate([np.zeros(0), *map(_finite, chart.series)])
    return bool((values > 0).any() and (values >= 0).all())


def prefers_log(chart: Chart) -> bool:
    """Whether a chart starts on the logarithmic scale: its lines are decades apart."""
    scale = vertical_scale(chart, "log", 0.0, 1.0)
    return can_be_log(chart) and scale.high > 20 * scale.low


def _finite(series: Series) -> np.ndarray:
    values = np.ravel(series.y.value)
    return values[np.isfinite(values)]


def vertical_scale(chart: Chart, name: Literal["lin", "log"], top: float, bottom: float) -> Scale:
    """The scale of errors, cut off above the lines that most of them stay below."""
    log, lines = name == "log", [_finite(series) for series in chart.series]
    lines = [line[line > 0] if log else line for line in lines]
    lines = [line for line in lines if len(line)] or [np.ones(1)]
    low, high = min(float(line.min()) for line in lines), max(float(line.max()) for line in lines)
    heights = sorted(float(line.min() if chart.marks else line.max()) for line in lines)
    median = heights[(len(heights) - 1) // 2]
    if median > 0:
        high = min(high, max(CUT[name] * median, low))
    if log:
        low, high = math.log10(low), math.log10(high)
        gap = 0.06 * max(high - low, 0.2)
    else:
        low = 0.0 if 0 <= low < 0.6 * high else low
        gap = 0.05 * (max(high - low, abs(high) * 1e-3) or 1.0)
    first, last = (low if low == 0 and not log else low - gap), high + gap
    slope = (top - bottom) / (last - first)
    ends = (10**first, 10**last) if log else (first, last)
    return Scale(log, bottom - slope * first, slope, *ends)


def series_beyond(chart: Chart, scale: Scale) -> list[Series]:
    """The lines that leave the panel at its top."""
    return [series for series in chart.series if (_finite(series) > scale.high).any()]


def horizontal_axis(chart: Chart) -> tuple[np.ndarray, list[tuple[float, str]]]:
    """The pixels of the points along the axis, and its ticks."""
    x, left, right = chart.x, LEFT, WIDTH - RIGHT
    if chart.x_axis == "ordinal" or len(x) == 1:
        step = (right - left) / max(len(x), 1)
        pixels = left + step * (np.arange(len(x)) + 0.5)
        stride = max(1, math.ceil(len(x) / 9))
        labels = [format_number(v, 3) if x.dtype.kind in "iuf" else str(v) for v in x.tolist()]
        return pixels, list(zip(pixels.tolist(), labels, strict=True))[::stride]
    values = np.log10(x) if chart.x_axis == "log" else np.asarray(x, float)
    low, high = float(values.min()), float(values.max())
    if chart.marks:
        margin = 0.5 / len(x) * (high - low)
        low, high = low - margin, high + margin
    else:
        low = min(low, 0.0)
    slope = (right - left) / (high - low)
    pixels = left + slope * (values - low)
    if chart.x_axis == "log":
        ticks = decades(10**low, 10**high)
        return pixels, [(left + slope * (math.log10(v) - low), format_power(v)) for v in ticks]
    ticks = round_numbers(low, high, 5)
    return pixels, [(left + slope * (v - low), _format_steps(v)) for v in ticks]


def round_numbers(low: float, high: float, num_ticks: int) -> list[float]:
    """About so many multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / num_ticks
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= 0.999 * rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten, with numbers between them where these would be too few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = max(1, math.ceil((last - first) / 7))
    powers = range(-(-first // stride) * stride, last + 1, stride)
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        ticks = [digit * 10.0**power for power in powers for digit in digits]
        ticks = [v for v in ticks if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
        if len(ticks) >= 3:
            return ticks
    return round_numbers(low, high, 4)


def format_power(value: float) -> str:
    power = math.floor(math.log10(value) + 1e-9)
    if -3 <= power <= 3:
        return f"{value:.4g}"
    digit = value / 10.0**power
    return f"{'' if round(digit, 6) == 1 else f'{digit:g}·'}10{superscript(power)}"


def _format_steps(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}".replace("-", "−")
