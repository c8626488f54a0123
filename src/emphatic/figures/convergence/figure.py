"""Theorem 3 made visible: where COF-PAC, ACE and Off-PAC go, and where exact fields lead."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Integer

from .. import style
from ..figure import Curves, Datasets, Figure, parts_from
from .agents import BAIRD, CONTINUING, EPISODIC, GARNETS, NUM_GARNETS, Setting, WARNINGS
from .levels import ascent, certified_problems, conditioning, levels
from .summary import EXPERIMENTS, Row, select_runs, summarise, table, tracked_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

NAME = "convergence"
Times = Integer[np.ndarray, " time"]
COLORS = {"off-pac": style.ORANGE, "ace": style.BLUE, "cof-pac": style.VERMILION}
COLORS |= {"exact-gradient": style.BLACK}
LABELS = dict(zip(COLORS, ("Off-PAC", "ACE", "COF-PAC", "exact gradient"), strict=True))
PALETTE = (style.VERMILION, style.BLUE, style.GREEN, style.ORANGE, style.PURPLE, style.SKY)
RIDGES = 10.0 ** np.arange(-6, 1)
PANELS = (EPISODIC, CONTINUING, *BAIRD)


def draw(datasets: Datasets, authors: bool = False) -> "Drawing":
    """Draws J and the norms of Theorem 3 beside each other; below, warnings, ridges and Garnets."""
    with style.context():
        heights = (*(1.0 for _ in PANELS), 1.2, 1.4)
        drawing, axes = style.panels(len(heights), 2, (8.4, 19.5), height_ratios=heights)
        *rows, (left, right), bottom = axes
        for (objective, norms), setting in zip(rows, PANELS, strict=True):
            _draw_objective(objective, datasets, setting)
            _draw_norms(norms, datasets, setting)
        _draw_warnings(left, datasets)
        _draw_ridges(right)
        for axis in bottom:
            axis.remove()
        _draw_garnets(drawing.add_subplot(bottom[0].get_gridspec()[-1, :]), datasets)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        norm_handles, norm_labels = axes[0, 1].get_legend_handles_labels()
        handles, labels = handles + norm_handles, labels + norm_labels
        title = "thick: the median over runs; faint: each run"
        drawing.legend(handles, labels, title=title, loc="outside upper center", ncols=4)
    return drawing


def _draw_runs(axes: "Axes", time: Times, curves: Curves, color: str, label: str) -> None:
    """Draws the median over a faint line for every run: a band would hide runs that are lost."""
    axes.plot(time, curves.T, color=color, lw=0.4, alpha=0.35, rasterized=True)
    axes.plot(time, np.median(curves, axis=0), color=color, lw=1.8, label=label)


def _set_time_axis(axes: "Axes", time: Times) -> None:
    axes.set(xlabel="steps", xscale="log", xlim=(time[0], time[-1]))


def _draw_objective(axes: "Axes", datasets: Datasets, setting: Setting) -> None:
    ridge = setting.ridges[0]
    time = select_runs(datasets, setting, "cof-pac", ridge)["time"].values
    for name in (name for name in COLORS if name in setting.algorithms):
        curves = tracked_curves(select_runs(datasets, setting, name, ridge))["objective"]
        _draw_runs(axes, time, curves, COLORS[name], LABELS[name])
    path = ascent(setting, ridge, int(time[-1]), len(time))
    label = LABELS["exact-gradient"]
    axes.plot(path["time"][1:], path["objective"][1:], color=style.BLACK, lw=1.8, label=label)
    for name, level in levels(setting, ridge).items():
        axes.axhline(level, color=COLORS[name], ls="--", lw=1.1)
    axes.plot([], [], "--", color=style.GREY, label="where the exact field leads")
    axes.set_title(rf"{setting.name}, $\eta = {_tex(ridge)}$")
    axes.set_ylabel(r"$J(\theta_t)$")
    _set_time_axis(axes, time)


def _draw_norms(axes: "Axes", datasets: Datasets, setting: Setting) -> None:
    runs = select_runs(datasets, setting, "cof-pac", setting.ridges[0])
    time, curves = runs["time"].values, tracked_curves(runs)
    bias, gradient = curves["bias_norm"], curves["gradient_norm"]
    _draw_runs(axes, time, bias, style.SKY, r"$\|b(\theta_t)\|$")
    _draw_runs(axes, time, gradient, style.PURPLE, r"$\|\nabla J(\theta_t)\|$")
    axes.set_yscale("log")
    floor = axes.get_ylim()[0]
    axes.fill_between(time, floor, np.median(bias, axis=0), color=style.SKY, alpha=0.15, lw=0)
    axes.set_ylim(bottom=floor)
    axes.set_title("along COF-PAC's path")
    _set_time_axis(axes, time)


def _draw_warnings(axes: "Axes", datasets: Datasets) -> None:
    for (name, setting), color in zip(WARNINGS.items(), PALETTE, strict=False):
        runs = select_runs(datasets, setting, "cof-pac", setting.ridges[0])
        _draw_runs(axes, runs["time"].values, tracked_curves(runs)["objective"], color, name)
        _set_time_axis(axes, runs["time"].values)
    axes.set_title("counterexample, COF-PAC: why two timescales")
    axes.set_ylabel(r"$J(\theta_t)$")
    axes.set_ylim(0.25, 1.3)
    style.draw_legend_below(axes)


def _draw_ridges(axes: "Axes") -> None:
    for setting, color in zip(PANELS, PALETTE, strict=True):
        points = [conditioning(setting, ridge) for ridge in RIDGES]
        times, bias = ([p[name] for p in points] for name in ("critic_time", "relative_bias"))
        axes.plot(times, bias, "o-", color=color, ms=3, lw=1.2, label=setting.name)
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel(r"time of the slowest critic, $1/\min\mathrm{Re}\,\lambda$")
    axes.set_ylabel(r"$\|b(\theta_0)\| / \|\nabla J(\theta_0)\|$")
    axes.set_title(r"what $\eta$ does, exactly: 1 (left) to $10^{-6}$")
    style.draw_legend_below(axes)


def _draw_garnets(axes: "Axes", datasets: Datasets) -> None:
    series = {
        "COF-PAC": ("cof-pac", 0, "o", style.VERMILION),
        "COF-PAC, aliased emphasis critic": ("cof-pac", NUM_GARNETS, "s", style.PURPLE),
        "ACE": ("ace", 0, "^", style.BLUE),
        "Off-PAC": ("off-pac", 0, "D", style.ORANGE),
    }
    for index, (label, (algorithm, first, marker, color)) in enumerate(series.items()):
        gaps = []
        for seed in range(NUM_GARNETS):
            setting = GARNETS[first + seed]
            runs = select_runs(datasets, setting, algorithm, setting.ridges[0])
            best = levels(GARNETS[seed], setting.ridges[0])["exact-gradient"]
            gaps.append(best - tracked_curves(runs)["objective"][:, -1])
        medians = np.median(gaps, axis=1)
        bars = np.abs(np.quantile(gaps, (0.1, 0.9), axis=1) - medians)
        x = np.arange(NUM_GARNETS) + 0.17 * (index - 1.5)
        axes.errorbar(x, medians, bars, fmt=marker, color=color, ms=4, lw=0.8, label=label)
    axes.set_xticks(range(NUM_GARNETS))
    axes.set_yscale("log")
    axes.set_ylim(top=100.0 * axes.get_ylim()[1] ** 0.5)  # room for the legend
    axes.set_xlabel("Garnet (an actor that cannot tell pairs of states apart)")
    axes.set_ylabel("J below the exact gradient's end")
    axes.set_title("ten Garnets: median, and the middle 80 % of runs")
    axes.legend(loc="upper right", ncols=4)


def _tex(number: float) -> str:
    power = round(float(np.log10(number)))
    return "1" if power == 0 else f"10^{{{power}}}"


FIGURE = Figure(
    name=NAME,
    title="Theorem 3 made visible: where COF-PAC, ACE and Off-PAC go, and where exact fields lead",
    caption="J at the end, and the norms of COF-PAC",
    parts=parts_from(NAME, EXPERIMENTS),  # no public code has Algorithm 1
    summarise=summarise,
    table=table,
    row=Row,
    draw=draw,
    problems=certified_problems,
    remark="Exact quantities are those of the policies from which actors start.",
)
"""Where actors go, and where exact fields lead."""
