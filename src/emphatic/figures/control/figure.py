"""Figure 4: COF-PAC and others with networks on Reacher, from the experience of random actions."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Integer

from .. import style
from ..figure import Datasets, Figure
from .summary import by_algorithm, is_reacher, resting_objective, Row, summarise, table
from .training import ALGORITHMS, LABELS, training_parts, VARIANTS, VARIED

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

J_AXIS = (-20.0, -3.0)


def draw(datasets: Datasets, authors: bool = False) -> "Drawing":
    """Draws J as in the paper and beyond it; ratios and emphasis; variants of the authors' code."""
    palette = style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.ORANGE
    colors: dict[str, str] = dict(zip(ALGORITHMS, palette, strict=True))
    ours = by_algorithm(datasets)
    with style.context():
        height = 10.5 if authors else 7.4
        drawing, axes = style.panels(2 + authors, 2, (8.4, height))
        for panel, names, title in (
            (axes[0, 0], ("ace", "td3", "cof-pac"), "as in the paper"),
            (axes[0, 1], ("geoff-pac", "off-pac", "cof-pac"), "beyond the paper (dotted: medians)"),
        ):
            for name in (name for name in names if name in ours):
                _draw_runs(panel, ours[name], colors[name])
                if "medians" in title:
                    time, curves = _curves(ours[name], "J")
                    panel.plot(time, np.median(curves, axis=0), ":", color=colors[name], lw=1)
            _set_frame(panel, datasets, title)
        for name in ("ace", "off-pac", "cof-pac"):
            if name in ours:
                _draw_means(axes[1, 0], ours[name], ("ratio", "sample_size"), colors[name])
                _draw_means(axes[1, 1], ours[name], ("emphasis", "trace"), colors[name])
        axes[1, 0].plot([], [], color=style.GREY, label=r"mean ratio $\rho$")
        axes[1, 0].plot([], [], ":", color=style.GREY, label="effective share of the sample")
        axes[1, 0].set(ylim=(0, 1.05), title="ratios", xlim=axes[0, 0].get_xlim())
        axes[1, 1].plot([], [], color=style.GREY, label="learned $m(S_t)$")
        axes[1, 1].plot([], [], ":", color=style.GREY, label="trace $M_t$")
        axes[1, 1].set(yscale="log", title="mean emphasis", xlim=axes[0, 0].get_xlim())
        if authors:
            shades = dict(zip(VARIANTS, (style.BLACK, style.ORANGE, style.SKY), strict=True))
            for panel, name in zip(axes[2], VARIED, strict=True):
                for dataset in datasets:
                    if dataset.attrs["algorithm"] == name:
                        variant = dataset.attrs["variant"]
                        color = shades.get(variant, colors[name])
                        style.draw_band(panel, *_curves(dataset, "J"), color, label=variant)
                _set_frame(panel, datasets, f"{LABELS[name]}: ours, the authors' and the paper's")
        for panel in axes.flat:
            panel.set_xlabel("steps")
            if panel.get_legend_handles_labels()[0]:
                style.draw_legend_below(panel)
        axes[0, 0].set_ylabel(r"$J(\pi)$")
    return drawing


def _curves(
    dataset: "xarray.Dataset", name: str
) -> tuple[Integer[np.ndarray, " evaluation"], Float[np.ndarray, "run evaluation"]]:
    return dataset["steps"].values, dataset[name].transpose("run", "steps").values


def _draw_runs(axes: "Axes", dataset: "xarray.Dataset", color: str) -> None:
    """Draws mean and standard deviation, or the mean alone if the axis is too small for both."""
    time, curves = _curves(dataset, "J")
    label = f"{LABELS[dataset.attrs['algorithm']]}, {len(curves)} runs"
    if is_reacher(dataset) and np.nanmax(curves.std(axis=0)) > J_AXIS[1] - J_AXIS[0]:
        label += " (spread off axis)"
        axes.plot(time, curves.mean(axis=0), color=color, lw=1.3, label=label)
    else:
        style.draw_band(axes, time, curves, color, label=label)


def _set_frame(axes: "Axes", datasets: Datasets, title: str) -> None:
    """Sets the title and limits, which on Reacher are the paper's."""
    axes.set(title=title, xlim=(0, int(datasets[0]["steps"][-1])))
    if is_reacher(datasets[0]):
        axes.set_ylim(*J_AXIS)
    if datasets[0].attrs["environment"] == "reacher":
        label = "an arm that does not move"
        axes.axhline(resting_objective(), color=style.BLACK, ls="--", lw=1, label=label)


def _draw_means(
    axes: "Axes", dataset: "xarray.Dataset", names: tuple[str, str], color: str
) -> None:
    """Draws the mean over runs of one variable as a solid line, of another as a dotted one."""
    for name, line in zip(names, ("-", ":"), strict=True):
        time, curves = _curves(dataset, name)
        axes.plot(time, curves.mean(axis=0), line, color=color, lw=1.3)


FIGURE = Figure(
    name="control",
    title="Figure 4: COF-PAC and others with networks on Reacher, from the experience of random "
    "actions",
    caption="J, mean and one standard deviation over runs",
    parts=training_parts,
    summarise=summarise,
    table=table,
    row=Row,
    draw=draw,
)
"""Deep agents on Reacher."""
