"""The curves of a training, as its folder has them."""

from typing import TYPE_CHECKING

import numpy as np

from . import style

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure as Drawing

PANELS = {"J": "J, discounted return of excursions", "return": "return of episodes"}


def render(dataset: "xarray.Dataset", file_format: str) -> bytes:
    """Draws J and the return over the steps: each run, and the mean of all that did not diverge;
    returns the contents of a file."""
    with style.context():
        return style.render(_draw(dataset), file_format)


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
    num_runs, algorithm = len(converged), style.literal(dataset.attrs["algorithm"])
    environment = style.literal(dataset.attrs["environment"])
    runs = "1 run" if num_runs == 1 else f"{num_runs} runs and their mean"
    if num_diverged := int(np.count_nonzero(~converged)):
        runs += f"; {num_diverged} diverged"
    drawing.suptitle(f"{algorithm} on {environment}: {runs}", fontsize=10)
    return drawing
