"""The curves of a training, as its folder has them."""

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from .._files import StrPath
from . import style

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure as Drawing

PANELS = {"J": "J, discounted return of excursions", "return": "return of episodes"}


def write(dataset: "xarray.Dataset", file: StrPath | BytesIO, file_format: str) -> None:
    """Draws J and the return over the steps to a file: each run, and the mean of all that did not
    diverge."""
    with style.context():
        metadata = {"Date": None} if file_format == "svg" else None
        _draw(dataset).savefig(file, format=file_format, dpi=150, metadata=metadata)


def _draw(dataset: "xarray.Dataset") -> "Drawing":
    drawing, (panels,) = style.panels(1, len(PANELS), figsize=(8.0, 3.2), sharex=True)
    steps = dataset["steps"].values
    converged = np.asarray(~dataset["diverged"].values.astype(bool).any(-1))
    for axes, (name, label) in zip(panels, PANELS.items(), strict=True):
        curves = dataset[name].values
        axes.plot(steps, curves.T, color=style.BLUE, lw=0.6, alpha=0.35)
        if converged.any():
            axes.plot(steps, curves[converged].mean(0), color=style.BLUE, lw=1.6)
        axes.set(xlabel="steps", ylabel=label, xlim=(0, max(1, steps[-1])))
    num_runs, algorithm = len(converged), dataset.attrs["algorithm"]
    runs = "1 run" if num_runs == 1 else f"{num_runs} runs and their mean"
    if num_diverged := int(np.count_nonzero(~converged)):
        runs += f"; {num_diverged} diverged"
    drawing.suptitle(f"{algorithm} on {dataset.attrs['environment']}: {runs}", fontsize=10)
    return drawing
