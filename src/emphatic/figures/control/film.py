"""An episode of Reacher as a strip of pictures and as a film."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..._files import atomic_write
from .. import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Planar = Float[np.ndarray, "time 2"]
STRIP = (0, 3, 6, 10, 15, 20, 30, 49)  # the times on the strip


def write_film(folder: Path, q: Planar, goal: Planar, lengths: Sequence[float], title: str) -> None:
    """Writes an episode with joint angles `q`: some times as `film.png`, all as `film.gif`."""
    from matplotlib.animation import PillowWriter

    positions = joints(q, lengths)
    times = [t for t in STRIP if t < len(q)]
    with style.context():
        drawing, axes = style.panels(1, len(times), (1.5 * len(times), 1.9))
        for panel, t in zip(axes[0], times, strict=True):
            _draw_arm(panel, positions, goal, t)
        drawing.suptitle(title, fontsize=9)
        style.save(drawing, folder / "film.png")
        drawing, ((panel,),) = style.panels(1, 1, (2.4, 2.7))
        writer = PillowWriter(fps=12)
        with TemporaryDirectory() as temporary:  # the writer takes no open file
            writer.setup(drawing, Path(temporary, "film.gif"), dpi=100)
            for t in range(len(q)):
                panel.clear()
                _draw_arm(panel, positions, goal, t)
                writer.grab_frame()
            writer.finish()
            content = Path(temporary, "film.gif").read_bytes()
    with atomic_write(folder / "film.gif") as file:
        file.write(content)


def joints(q: Planar, lengths: Sequence[float]) -> Float[np.ndarray, "time 3 2"]:
    """Returns the positions of shoulder, elbow and fingertip at each time."""
    angles = np.cumsum(q, axis=1)
    links = np.array(lengths)[:, None] * np.stack([np.cos(angles), np.sin(angles)], -1)
    return np.concatenate([np.zeros((len(q), 1, 2)), np.cumsum(links, axis=1)], axis=1)


def _draw_arm(axes: "Axes", positions: Float[np.ndarray, "time 3 2"], goal: Planar, t: int) -> None:
    axes.plot(*positions[: t + 1, 2].T, color=style.SKY, lw=1)
    axes.plot(*positions[t].T, "-o", color=style.BLUE, lw=3, ms=4, solid_capstyle="round")
    axes.plot(*positions[t, 2], "o", color=style.BLACK, ms=4)
    axes.plot(*goal[t], "o", color=style.VERMILION, ms=7, mfc="none", mew=1.6)
    axes.set(xlim=(-0.23, 0.23), ylim=(-0.23, 0.23), xticks=[], yticks=[], title=f"t = {t}")
    axes.set_aspect("equal")
    axes.spines[:].set_visible(True)
