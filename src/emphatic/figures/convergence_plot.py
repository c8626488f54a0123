"""The drawing of the figure on convergence."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from . import style
from .agents import BAIRD, CONTINUING, EPISODIC, GARNETS, NUM_GARNETS, Setting, WARNINGS
from .convergence import ascent, conditioning, levels, part_of

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = {
    "cof-pac": style.VERMILION,
    "ace": style.BLUE,
    "off-pac": style.ORANGE,
    "exact-gradient": style.BLACK,
}
LABELS = {
    "cof-pac": "COF-PAC",
    "ace": "ACE",
    "off-pac": "Off-PAC",
    "exact-gradient": "exact gradient",
}
RIDGES = 10.0 ** np.arange(-6, 1)


def drawn(datasets: Sequence["xarray.Dataset"]) -> "Figure":
    """J and the norms of Theorem 3 side by side; below, warnings, ridges and Garnets."""
    with style.context():
        figure, axes = style.panels(4, 4, figsize=(13.6, 12.4))
        for number, setting in enumerate((EPISODIC, CONTINUING, *BAIRD)):
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
        figure.legend(handles + more[0], labels + more[1], loc="outside upper center", ncols=7)
    return figure


def _curves(part: "xarray.Dataset", name: str) -> np.ndarray:
    return part[name].transpose("run", "time").values.astype(np.float64)


def _steps(axes: "Axes", time: np.ndarray) -> None:
    axes.set(xlabel="steps", xscale="log", xlim=(time[0], time[-1]))


def _objective(axes: "Axes", datasets: Sequence["xarray.Dataset"], setting: Setting) -> None:
    ridge = setting.ridges[0]
    time = part_of(datasets, setting, "cof-pac", ridge)["time"].values
    for name in setting.algorithms:
        part = part_of(datasets, setting, name, ridge)
        style.band(axes, time, _curves(part, "objective"), COLORS[name], label=LABELS[name])
    path = ascent(setting, ridge, int(time[-1]), len(time))
    label = LABELS["exact-gradient"]
    axes.plot(path["time"][1:], path["objective"][1:], color=style.BLACK, lw=1.3, label=label)
    ends = levels(setting, ridge)
    for name, level in ends.items():
        axes.axhline(level, color=COLORS[name], ls="--", lw=1)
    axes.set_ylim(top=1.02 * max(ends.values()))
    axes.plot([], [], "--", color=style.GREY, label="where its exact mean field leads")
    title = setting.problem if setting.problem != "baird" else f"Baird, {setting.features}"
    axes.set_title(rf"{title}, $\eta = {_tex(ridge)}$")
    axes.set_ylabel(r"$J(\theta_t)$")
    _steps(axes, time)


def _norms(axes: "Axes", datasets: Sequence["xarray.Dataset"], setting: Setting) -> None:
    part = part_of(datasets, setting, "cof-pac", setting.ridges[0])
    time = part["time"].values
    gradient, bias = (_curves(part, name) for name in ("gradient_norm", "bias_norm"))
    lines = ((bias, style.SKY, r"$\|b(\theta_t)\|$"), (gradient, style.PURPLE, _GRADIENT))
    for curves, color, label in lines:
        # On a logarithmic axis: the middle run and the extreme ones.
        axes.fill_between(time, curves.min(0), curves.max(0), color=color, alpha=0.25, lw=0)
        axes.plot(time, np.median(curves, axis=0), color=color, lw=1.5, label=label)
    floor = axes.get_ylim()[0]
    axes.fill_between(time, floor, np.median(bias, axis=0), color=style.SKY, alpha=0.12, lw=0)
    axes.set_yscale("log")
    axes.set_title("along COF-PAC's path: median, all runs")
    _steps(axes, time)


_GRADIENT = r"$\|\nabla J(\theta_t)\|$"


def _warnings(axes: "Axes", datasets: Sequence["xarray.Dataset"]) -> None:
    colors = (style.VERMILION, style.BLUE, style.GREEN, style.ORANGE, style.PURPLE)
    time = datasets[-1]["time"].values
    for (name, setting), color in zip(WARNINGS.items(), colors, strict=True):
        part = part_of(datasets, setting, "cof-pac", setting.ridges[0])
        style.band(axes, time, _curves(part, "objective"), color, label=name)
    axes.set_title("counterexample, COF-PAC: why two timescales")
    axes.set_ylabel(r"$J(\theta_t)$")
    axes.legend(loc="lower right", fontsize=6)
    _steps(axes, time)


def _ridges(axes: "Axes") -> None:
    colors = (style.VERMILION, style.BLUE, style.GREEN, style.ORANGE, style.PURPLE, style.SKY)
    for setting, color in zip((EPISODIC, CONTINUING, *BAIRD), colors, strict=True):
        found = [conditioning(setting, ridge) for ridge in RIDGES]
        times, bias = (
            np.array([each[name] for each in found]) for name in ("critic_time", "relative_bias")
        )
        name = setting.problem if setting.problem != "baird" else f"Baird, {setting.features}"
        axes.plot(times, bias, "o-", color=color, ms=3, lw=1.2, label=name)
        for place in (0, len(RIDGES) - 1):
            label = rf"${_tex(RIDGES[place])}$"
            axes.annotate(label, (times[place], bias[place]), fontsize=6, color=color)
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel(r"time of the slowest critic, $1/\min\mathrm{Re}\,\lambda$")
    axes.set_ylabel(r"$\|b(\theta_0)\| / \|\nabla J(\theta_0)\|$")
    axes.set_title(r"what $\eta$ does, exactly ($10^{-6}$ to 1)")
    axes.legend(fontsize=6)


def _garnets(axes: "Axes", datasets: Sequence["xarray.Dataset"]) -> None:
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
            ends = _curves(part_of(datasets, setting, algorithm, setting.ridges[0]), "objective")
            best = levels(GARNETS[number], setting.ridges[0])["exact-gradient"]
            gaps.append(best - ends[:, -1])
        middle = np.median(gaps, axis=1)
        reach = np.abs(np.quantile(gaps, (0.1, 0.9), axis=1) - middle)
        places = np.arange(NUM_GARNETS) + 0.17 * (shift - 1.5)
        axes.errorbar(places, middle, reach, fmt=marker, color=color, ms=3.5, lw=0.8, label=label)
    axes.set_xticks(range(NUM_GARNETS))
    axes.set_yscale("log")
    axes.set_xlabel("Garnet (an actor that cannot tell pairs of states apart)")
    axes.set_ylabel("J below the exact gradient's end")
    axes.set_title("ten Garnets: median, and the middle 80 % of runs")
    axes.legend(fontsize=7, ncols=2)


def _tex(number: float) -> str:
    power = round(float(np.log10(number)))
    return "1" if power == 0 else f"10^{{{power}}}"
