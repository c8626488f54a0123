"""Plots of exact quantities and of exact learning curves."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._files import atomic_write, output_file
from ..mdp import Problem
from ..oracle.solution import MOST_STATES
from .tables import Json

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

COLORS = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#707070"
NUM_DOTS = 40  # simulated errors that are drawn


def require_plot_file(path: Path) -> None:
    """Raises a `ValueError` if no plot can be written there, before anything is computed."""
    import matplotlib.figure

    formats = matplotlib.figure.Figure().canvas.get_supported_filetypes()
    ending = path.suffix.lower().lstrip(".")
    if ending not in formats:
        required = f"one of {', '.join(formats)} is required"
        raise ValueError(f"plot: {path} ends in {ending!r}; {required}")
    output_file(path, "plot")


def draw_solution(path: Path, title: str, problem: Problem, exact: Json) -> None:
    """Plots the emphasis, the values and the distribution over states."""
    from matplotlib.figure import Figure

    from ..figures import style

    figure = Figure(figsize=(8.0, 6.4), layout="constrained")
    figure.suptitle(style.literal(title))
    axes = figure.subplots(3, sharex=True)
    states, is_small = problem.labels, len(problem.labels) <= MOST_STATES
    deviation = np.sqrt(exact["followon_variance"])
    finite, infinite = np.isfinite(deviation), np.isinf(deviation)
    label_every = -(-len(states) // 24)  # as many labels as fit beside each other
    names = {"emphasis": "emphasis m", "values": "value v", "stationary": "distribution d"}
    colors = ("tab:red", "tab:blue", "tab:gray")
    for ax, (key, name), color in zip(axes, names.items(), colors, strict=True):
        values = exact[key]
        if is_small:
            positions = np.arange(len(states))
            ax.bar(positions, values, color=color, width=0.7)
            ax.set_xticks(positions[::label_every], [str(s) for s in states[::label_every]])
        else:
            ax.plot(states, values, ".", color=color, markersize=2, rasterized=True)
        ax.set_ylabel(name)
        ax.spines[["top", "right"]].set_visible(False)
    if is_small and finite.any():
        means, spread = exact["emphasis"][finite], deviation[finite]
        whiskers = [np.zeros_like(spread), spread]  # the trace is never negative: none below 0
        axes[0].errorbar(
            finite.nonzero()[0], means, whiskers, fmt="none", ecolor="k", capsize=3, lw=1
        )
    remarks = ["whiskers: one standard deviation of the followon trace"] if is_small else []
    if infinite.any():
        extent = "" if infinite.all() else f" at {infinite.sum()} of {len(states)} states"
        remarks = [] if infinite.all() else remarks
        remarks.append(f"the followon trace has infinite variance{extent}")
    axes[0].set_title("; ".join(remarks), fontsize=9, loc="right")
    axes[-1].set_xlabel("state")
    _save(figure, path)


def draw_prediction(
    path: Path, title: str, prediction: Json, simulation: tuple[np.ndarray, np.ndarray] | None
) -> None:
    """Plots the exact curve and its limit, with simulated errors as dots."""
    from ..figures import style

    name = next(key for key in prediction if key.endswith("_rmse"))
    with style.context():
        figure, ((axes,),) = style.panels(1, 1, figsize=(6.4, 4.2))
        curve = np.where(np.isfinite(prediction[name]), prediction[name], np.nan)
        axes.plot(prediction["steps"], curve, color=style.BLACK, lw=1.3, label="exact")
        limit = prediction["limit"]
        if np.isfinite(limit):
            axes.axhline(limit, color=style.VERMILION, ls="--", lw=1, label="exact limit")
        if simulation is not None:
            times, errors = simulation
            drawn = np.unique(np.geomspace(1, len(times), NUM_DOTS).astype(int)) - 1
            label = "simulated: root mean square over runs"
            axes.plot(times[drawn], errors[drawn], "o", color=style.BLUE, mfc="none", label=label)
        axes.set_xscale("symlog", linthresh=1.0)
        label = f"{name.removesuffix('_rmse')} error, root mean square"
        axes.set(
            title=style.literal(title),
            xlabel="steps",
            ylabel=label,
            xlim=(0, prediction["steps"][-1]),
        )
        axes.set_ylim(bottom=0)
        axes.legend()
        _save(figure, path)


def draw_comparison(path: Path, title: str, dataset: "xarray.Dataset", measure: str) -> None:
    """Plots the mean error of each learner over its runs, with a band of one standard deviation."""
    from ..figures import style

    with style.context():
        figure, ((axes,),) = style.panels(1, 1, figsize=(6.4, 4.2))
        for n, learner in enumerate(dataset["learner"].values.tolist()):
            curves, color = dataset[measure].sel(learner=learner), COLORS[n % len(COLORS)]
            errors = curves.transpose("run", "time").values
            style.draw_band(
                axes, dataset["time"].values, errors, color, label=style.literal(learner)
            )
        axes.set(title=style.literal(title), xlabel="steps", ylabel=measure, ylim=(0, None))
        axes.set_xlim(0, int(dataset["time"][-1]))
        axes.legend()
        _save(figure, path)


def _save(figure: "Figure", path: Path) -> None:
    from ..figures import style

    content = style.render(figure, path.suffix.lower().removeprefix("."))
    with atomic_write(output_file(path, "plot")) as file:
        file.write(content)
