"""The style of figures: colours that everyone can tell apart, and little ink without data."""

from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import Any, TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Integer, Shaped

from .._files import atomic_write
from .figure import Curves
from .summary import SCALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

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
    """Returns a context with the Matplotlib settings of a figure."""
    import matplotlib

    return matplotlib.rc_context(SETTINGS)


def panels(
    rows: int, columns: int, figsize: tuple[float, float], **options: Any
) -> tuple["Drawing", np.ndarray]:
    """Returns a drawing without a window, and its (rows, columns) axes."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=figsize, layout="constrained")
    return drawing, drawing.subplots(rows, columns, squeeze=False, **options)


def render(drawing: "Drawing", file_format: str) -> bytes:
    """Returns a drawing as the contents of a file; the same drawing is the same file."""
    metadata: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}}
    content = BytesIO()
    drawing.savefig(content, format=file_format, dpi=150, metadata=metadata.get(file_format))
    return content.getvalue()


def save(drawing: "Drawing", path: Path) -> None:
    """Writes a drawing to a file, whole or not at all, in the format of its name's ending."""
    content = render(drawing, path.suffix.lower().removeprefix("."))
    with atomic_write(path) as file:
        file.write(content)


def literal(text: str) -> str:
    """Returns a text, such as a name from a file, so that no dollar in it begins mathematics."""
    return text.replace("$", r"\$")


def darken(color: str) -> str:
    """Returns the colour of an exact curve over simulated ones in this colour."""
    from matplotlib.colors import to_hex, to_rgb

    red, green, blue = to_rgb(color)
    return to_hex((0.55 * red, 0.55 * green, 0.55 * blue))


def draw_legend_below(axes: "Axes", columns: int = 2) -> None:
    """Draws the legend of a panel below it, where it covers no curve."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), borderaxespad=4.5, ncols=columns)


def draw_band(
    axes: "Axes", time: Shaped[np.ndarray, " time"], curves: Curves, color: str, **line: Any
) -> None:
    """Draws the mean over runs with a band of one standard deviation."""
    finite = np.isfinite(curves).all(axis=0)
    curves = np.where(finite, curves, np.nan).astype(np.float64)
    mean = curves.mean(axis=0)
    std = curves.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros_like(mean)
    axes.fill_between(time, mean - std, mean + std, color=color, alpha=0.18, lw=0)
    axes.plot(time, mean, color=color, **{"lw": 1.3, **line})


def set_power_axis(axes: "Axes", sizes: Float[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
    """Sets up an axis over p for step sizes 0.1 x 2^p, and returns the powers p."""
    powers = np.rint(np.log2(sizes / SCALE)).astype(int)
    axes.set_xticks(sorted(powers)[:: 1 if len(powers) < 10 else 3])
    axes.set_xlim(powers.min() - 0.7, powers.max() + 0.7)
    axes.set_xlabel(r"$p$ of the step size $0.1\times 2^p$")
    return powers


def draw_divergence(
    axes: "Axes", x: Integer[np.ndarray, " n"], rates: Float[np.ndarray, " n"], row: int, color: str
) -> None:
    """Draws crosses above a panel, as dark as the share of runs that diverged."""
    above = {"transform": axes.get_xaxis_transform(), "clip_on": False}
    for position, rate in zip(x[rates > 0], rates[rates > 0], strict=True):
        alpha = 0.25 + 0.75 * float(rate)
        axes.plot(position, 1.03 + 0.05 * row, "x", color=color, alpha=alpha, ms=4, **above)
