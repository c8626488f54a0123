"""An episode of Reacher, as a strip of pictures and as a film."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

STRIP = (0, 3, 6, 10, 15, 20, 30, 49)  # the times on the strip


def film(
    folder: Path, q: np.ndarray, goal: np.ndarray, lengths: Sequence[float], title: str
) -> None:
    """Writes `film.png`, a few moments of an episode, and `film.gif`, all of it.

    **Arguments:**

    - `folder`: Where to.
    - `q`, `goal`: Angles of the joints and places of the goal, with time as the leading axis.
    - `lengths`: The lengths of the links.
    - `title`: What is shown.
    """
    from matplotlib.animation import PillowWriter

    from . import style

    places = joints(q, lengths)
    times = [t for t in STRIP if t < len(q)]
    with style.context():
        figure, axes = style.panels(1, len(times), figsize=(1.5 * len(times), 1.9))
        for panel, t in zip(axes[0], times, strict=True):
            _arm(panel, places, goal, t)
        figure.suptitle(title, fontsize=9)
        figure.savefig(folder / "film.png", dpi=150, metadata={"Software": None})
        figure, ((panel,),) = style.panels(1, 1, figsize=(2.4, 2.7))
        writer = PillowWriter(fps=12)
        writer.setup(figure, folder / "film.gif", dpi=100)
        for t in range(len(q)):
            panel.clear()
            _arm(panel, places, goal, t)
            writer.grab_frame()
        writer.finish()


def joints(q: np.ndarray, lengths: Sequence[float]) -> np.ndarray:
    """Shoulder, elbow and fingertip at each time."""
    angles = np.cumsum(q, axis=1)
    links = np.array(lengths)[:, None] * np.stack([np.cos(angles), np.sin(angles)], -1)
    return np.concatenate([np.zeros((len(q), 1, 2)), np.cumsum(links, axis=1)], axis=1)


def _arm(axes: Any, places: np.ndarray, goal: np.ndarray, t: int) -> None:
    from . import style

    axes.plot(*places[: t + 1, 2].T, color=style.SKY, lw=1)
    axes.plot(*places[t].T, "-o", color=style.BLUE, lw=3, ms=4, solid_capstyle="round")
    axes.plot(*places[t, 2], "o", color=style.BLACK, ms=4)
    axes.plot(*goal[t], "o", color=style.VERMILION, ms=7, mfc="none", mew=1.6)
    axes.set(xlim=(-0.23, 0.23), ylim=(-0.23, 0.23), xticks=[], yticks=[], title=f"t = {t}")
    axes.set_aspect("equal")
    axes.spines[:].set_visible(True)
