"""How figures look: colours that all can tell apart, and few lines that carry no data."""

from contextlib import AbstractContextManager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from .summary import SCALE

# Okabe and Ito (2008)
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY, BLACK = "#CC79A7", "#56B4E9", "#707070", "#000000"
SETTINGS: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "none",
    "svg.hashsalt": "emphatic",  # the same figure is the same file
}


def context() -> AbstractContextManager[None]:
    """The settings in which a figure is drawn."""
    return matplotlib.rc_context(SETTINGS)


def panels(rows: int, columns: int, **options: Any) -> tuple[Figure, np.ndarray]:
    """A figure that no window shows, and its (rows, columns) axes."""
    figure = Figure(figsize=options.pop("figsize"), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def dark(color: str) -> str:
    """The colour of what is exact, over what is simulated in this colour."""
    red, green, blue = to_rgb(color)
    return to_hex((0.55 * red, 0.55 * green, 0.55 * blue))


def band(axes: Axes, time: np.ndarray, curves: np.ndarray, color: str, **line: Any) -> None:
    """The mean over runs with one standard deviation, from an array of axes (run, time)."""
    finite = np.isfinite(curves).all(axis=0)
    curves = np.where(finite, curves, np.nan).astype(np.float64)
    mean = curves.mean(axis=0)
    std = curves.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros_like(mean)
    axes.fill_between(time, mean - std, mean + std, color=color, alpha=0.18, lw=0)
    axes.plot(time, mean, color=color, **{"lw": 1.3, **line})


def powers(axes: Axes, sizes: np.ndarray) -> np.ndarray:
    """The places of step sizes 0.1 x 2^p on an axis that shows p."""
    places = np.rint(np.log2(sizes / SCALE)).astype(int)
    axes.set_xticks(sorted(places)[:: 1 if len(places) < 10 else 3])
    axes.set_xlim(places.min() - 0.7, places.max() + 0.7)
    axes.set_xlabel(r"$p$ of the step size $0.1\times 2^p$")
    return places


def rates(axes: Axes, places: np.ndarray, rate: np.ndarray, row: int, color: str) -> None:
    """Crosses above a panel, as dark as the share of runs that diverged."""
    for place, share in zip(places[rate > 0], rate[rate > 0], strict=True):
        axes.plot(
            place,
            1.03 + 0.05 * row,
            "x",
            color=color,
            alpha=0.25 + 0.75 * float(share),
            ms=4,
            clip_on=False,
            transform=axes.get_xaxis_transform(),
        )
