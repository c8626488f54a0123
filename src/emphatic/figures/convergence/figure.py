"""The drawing of the figure on convergence."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from . import style
from .agents import BAIRD, CONTINUING, EPISODIC, GARNETS, NUM_GARNETS, Setting, WARNINGS
from .convergence import ascent, conditioning, curves_of, levels, part_of

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Datasets = Sequence["xarray.Dataset"]
COLORS = {
    "off-pac": style.ORANGE,
    "ace": style.BLUE,
    "cof-pac": style.VERMILION,
    "exact-gradient": style.BLACK,
}
LABELS = {
    "off-pac": "Off-PAC",
    "ace": "ACE",
    "cof-pac": "COF-PAC",
    "exact-gradient": "exact gradient",
}
SIX = (style.VERMILION, style.BLUE, style.GREEN, style.ORANGE, style.PURPLE, style.SKY)
RIDGES = 10.0 ** np.arange(-6, 1)
SHOWN = (EPISODIC, CONTINUING, *BAIRD)


def drawn(datasets: Datasets) -> "Figure":
    """J and the norms of Theorem 3 side by side; below, warnings, ridges and Garnets."""
    with style.context():
        figure, axes = style.panels(4, 4, figsize=(13.6, 12.6))
        for number, setting in enumerate(SHOWN):
            row, column = number // 2, 2 * (number % 2)
            _objective(axes[row, column], datasets, setting)
            _norms(axes[row, column + 1], datasets, setting)
        _warnings(axes[3, 0], datasets)
        _ridges(axes[3, 1])
        for axis in axes[3, 2:]:
            axis.remove()
        _garnets(figure.add_subplot(axes[3, 2].get_gridspec()[3, 2:]), datasets)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        more = axes[0, 1].get_legend_handles_labels()
        figure.legend(
            handles + more[0],
            labels + more[1],
            loc="outside upper center",
            ncols=7,
            title="thick: the median over runs; faint: each run",
        )
    return figure


def _runs(axes: "Axes", time: np.ndarray, curves: np.ndarray, color: str, label: str) -> None:
    """The median over a faint line for every run: a band would hide the ones that are lost."""
    axes.plot(time, curves.T, color=color, lw=0.4, alpha=0.35, rasterized=True)
    axes.plot(time, np.median(curves, axis=0), color=color, lw=1.8, label=label)


def _steps(axes: "Axes", time: np.ndarray) -> None:
    axes.set(xlabel="steps", xscale="log", xlim=(time[0], time[-1]))


def _objective(axes: "Axes", datasets: Datasets, setting: Setting) -> None:
    ridge = setting.ridges[0]
    time = part_of(datasets, setting, "cof-pac", ridge)["time"].values
    for name in (name for name in COLORS if name in setting.algorithms):
        curves = curves_of(part_of(datasets, setting, name, ridge))["objective"]
        _runs(axes, time, curves, COLORS[name], LABELS[name])
    path = ascent(setting, ridge, int(time[-1]), len(time))
    label = LABELS["exact-gradient"]
    axes.plot(path["time"][1:], path["objective"][1:], color=style.BLACK, lw=1.8, label=label)
    for name, level in levels(setting, ridge).items():
        axes.axhline(level, color=COLORS[name], ls="--", lw=1.1)
    axes.plot([], [], "--", color=style.GREY, label="where the exact field leads")
    axes.set_title(rf"{setting.name}, $\eta = {_tex(ridge)}$")
    axes.set_ylabel(r"$J(\theta_t)$")
    _steps(axes, time)


def _norms(axes: "Axes", datasets: Datasets, setting: Setting) -> None:
    part = part_of(datasets, setting, "cof-pac", setting.ridges[0])
    time, curves = part["time"].values, curves_of(part)
    bias, gradient = curves["bias_norm"], curves["gradient_norm"]
    for each, color, label in (
        (bias, style.SKY, r"$\|b(\theta_t)\|$"),
        (gradient, style.PURPLE, r"$\|\nabla J(\theta_t)\|$"),
    ):
        _runs(axes, time, each, color, label)
    axes.set_yscale("log")
    floor = axes.get_ylim()[0]
    axes.fill_between(time, floor, np.median(bias, axis=0), color=style.SKY, alpha=0.15, lw=0)
    axes.set_ylim(bottom=floor)
    axes.set_title("along COF-PAC's path")
    _steps(axes, time)


def _warnings(axes: "Axes", datasets: Datasets) -> None:
    for (name, setting), color in zip(WARNINGS.items(), SIX, strict=False):
        part = part_of(datasets, setting, "cof-pac", setting.ridges[0])
        _runs(axes, part["time"].values, curves_of(part)["objective"], color, name)
        _steps(axes, part["time"].values)
    axes.set_title("counterexample, COF-PAC: why two timescales")
    axes.set_ylabel(r"$J(\theta_t)$")
    axes.set_ylim(0.25, 1.3)
    axes.legend(loc="lower left", fontsize=6.5)


def _ridges(axes: "Axes") -> None:
    for setting, color in zip(SHOWN, SIX, strict=True):
        found = [conditioning(setting, ridge) for ridge in RIDGES]
        times, bias = (
            np.array([each[name] for each in found]) for name in ("critic_time", "relative_bias")
        )
        axes.plot(times, bias, "o-", color=color, ms=3, lw=1.2, label=setting.name)
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel(r"time of the slowest critic, $1/\min\mathrm{Re}\,\lambda$")
    axes.set_ylabel(r"$\|b(\theta_0)\| / \|\nabla J(\theta_0)\|$")
    axes.set_title(r"what $\eta$ does, exactly: 1 (left) to $10^{-6}$")
    axes.legend(loc="lower right", fontsize=6.5)


def _garnets(axes: "Axes", datasets: Datasets) -> None:
    shown = {
        "COF-PAC": ("cof-pac", 0, "o", style.VERMILION),
        "COF-PAC, aliased emphasis critic": ("cof-pac", NUM_GARNETS, "s", style.PURPLE),
        "ACE": ("ace", 0, "^", style.BLUE),
        "Off-PAC": ("off-pac", 0, "D", style.ORANGE),
    }
    for shift, (label, (algorithm, first, marker, color)) in enumerate(shown.items()):
        gaps = []
        for number in range(NUM_GARNETS):
            setting = GARNETS[first + number]
            part = part_of(datasets, setting, algorithm, setting.ridges[0])
            best = levels(GARNETS[number], setting.ridges[0])["exact-gradient"]
            gaps.append(best - curves_of(part)["objective"][:, -1])
        middle = np.median(gaps, axis=1)
        reach = np.abs(np.quantile(gaps, (0.1, 0.9), axis=1) - middle)
        places = np.arange(NUM_GARNETS) + 0.17 * (shift - 1.5)
        axes.errorbar(places, middle, reach, fmt=marker, color=color, ms=4, lw=0.8, label=label)
    axes.set_xticks(range(NUM_GARNETS))
    axes.set_yscale("log")
    axes.set_ylim(top=100.0 * axes.get_ylim()[1] ** 0.5)  # room for the legend
    axes.set_xlabel("Garnet (an actor that cannot tell pairs of states apart)")
    axes.set_ylabel("J below the exact gradient's end")
    axes.set_title("ten Garnets: median, and the middle 80 % of runs")
    axes.legend(loc="upper right", fontsize=7, ncols=4)


def _tex(number: float) -> str:
    power = round(float(np.log10(number)))
    return "1" if power == 0 else f"10^{{{power}}}"
