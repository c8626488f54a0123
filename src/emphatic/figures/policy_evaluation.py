"""Figure 3: policy evaluation with a learned emphasis and with the trace, and honest baselines."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .. import oracle, statistics
from ..oracle.linear import weighted_norm
from ..problems.baird import baird, Features
from . import style
from .authors import with_authors_gem
from .figure import Curves, Datasets, Figure, parts_from, problems_from, read_shipped, Runs, Summary
from .summary import error_rows, FEATURES, halves, Row, SCALE, select, select_best, table
from .verdicts import assess_all, compare, LEVEL, Statement

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

NAME, MEASURE = "evaluation", "rmsve"
SOLID = 0.05
AUTHORS_SCALE = 7**0.5  # their RMSVE is this much larger, by a slip of broadcasting
BETTER = "better of gem-etd and etd"
LABELS = {"gem-etd": "GEM-ETD(0)", "etd": "ETD(0)", "td": "off-policy TD(0)"}
LABELS |= {"etd-exact": "ETD(0), exact emphasis"}
EXPERIMENTS = read_shipped("gem-etd"), read_shipped("baselines")
AUTHORS = tuple(map(with_authors_gem, EXPERIMENTS))
STATEMENTS = {
    "wins": Statement(
        "GEM-ETD(0) has a clear win over ETD(0) under all four sets of features (area under the "
        "curve)"
    ),
    "orders": Statement(
        "The best step size of ETD(0) is usually several orders smaller than that of GEM-ETD(0) "
        "(a hundredth or less, on three of four sets of features)",
        num_needed=3,
    ),
    "calmer": Statement(
        "ETD(0) curves tend to have smaller variance than GEM-ETD(0) curves (distance of a run to "
        "the median run, on three of four sets of features)",
        num_needed=3,
    ),
    "reduced": Statement(
        "A smaller step size reduces the variance of GEM-ETD(0), and its area is still smaller "
        "than that of ETD(0)"
    ),
    "td": Statement(
        "Plain off-policy TD(0) beats GEM-ETD(0) and ETD(0), with a smaller area than the better "
        "of the two in each run",
        "beyond",
    ),
    "etd-exact": Statement("ETD(0) with the exact emphasis beats both, likewise", "beyond"),
}


def exact_error(features: Features, algorithm: str) -> float:
    r"""Computes the error $\|X\nu^* - v_\pi\|_D$ where the mean field of an algorithm vanishes."""
    problem = baird(features, SOLID)
    emphasis = np.ones(problem.mdp.num_states) if algorithm == "td" else None
    if algorithm == "gem-etd":
        w = oracle.gem_system(problem).least_norm_solution()[-problem.x.shape[1] :]
        emphasis = problem.x @ w
    solution = oracle.etd_system(problem, emphasis=emphasis).least_norm_solution()
    return weighted_norm(problem.stationary, problem.x @ solution - oracle.values(problem))


def _select(datasets: Datasets, algorithm: str, features: Features) -> "xarray.Dataset":
    ridge = {"ridge": 0.0} if algorithm == "gem-etd" else {}
    return select(datasets, algorithm, features=features, solid=SOLID, **ridge)


def _select_best(
    datasets: Datasets, algorithm: str, features: Features, judging: Datasets | None = None
) -> "xarray.Dataset":
    """Selects an algorithm at its best step size; perhaps the runs of other datasets."""
    others = None if judging is None else _select(judging, algorithm, features)
    return select_best(_select(datasets, algorithm, features), MEASURE, statistics.area, others)


def _areas(results: "xarray.Dataset") -> Runs:
    return statistics.area(results, MEASURE).values


def _curves(results: "xarray.Dataset") -> Curves:
    return results[MEASURE].transpose("run", "time").values.astype(np.float64)


def _distances_to_median(results: "xarray.Dataset") -> Runs:
    """Computes the mean distance over time of each run's curve to the median of the runs."""
    curves = _curves(results)
    curves = np.where(np.isfinite(curves), curves, np.finfo(np.float32).max)
    return np.abs(curves - np.median(curves, axis=0)).mean(axis=1)


def _best_exponents(results: "xarray.Dataset") -> Runs:
    """Returns the exponent of the step size that is best for each run alone."""
    areas = statistics.area(results, MEASURE).transpose("step_size", "run").values
    return np.log2(results["step_size"].values / SCALE)[areas.argmin(axis=0)]


def _is_better(results: "xarray.Dataset", other: "xarray.Dataset") -> bool:
    """Returns whether the area is smaller, on average and in a paired test."""
    ours, theirs = _areas(results), _areas(other)
    test = statistics.sign_test(ours, theirs)
    return bool(ours.mean() < theirs.mean()) and test["p_value"] <= LEVEL


def _select_smaller(
    datasets: Datasets, features: Features, judging: Datasets | None = None
) -> "xarray.Dataset":
    """Selects GEM-ETD(0) at its steadiest smaller step size that beats ETD(0), or at the next."""
    results = _select(datasets, "gem-etd", features)
    best, trace = (_select_best(datasets, name, features) for name in ("gem-etd", "etd"))
    sizes = results["step_size"].values
    smaller = [results.sel(step_size=size) for size in sizes[sizes < float(best["step_size"])]]
    better = [candidate for candidate in smaller if _is_better(candidate, trace)]
    next_smaller = smaller[0] if smaller else best
    chosen = min(better, key=lambda runs: _distances_to_median(runs).mean(), default=next_smaller)
    others = results if judging is None else _select(judging, "gem-etd", features)
    return others.sel(step_size=chosen["step_size"])


def _cases(choosing: Datasets, judging: Datasets) -> dict[str, list[Summary]]:
    """Tests every statement, on runs that may be others than those that choose step sizes."""
    cases: dict[str, list[Summary]] = {name: [] for name in STATEMENTS}
    for features in FEATURES:
        case = {"features": features, "solid": SOLID}
        gem_etd, trace, *baselines = (
            _select_best(choosing, name, features, judging)
            for name in ("gem-etd", "etd", "td", "etd-exact")
        )
        smaller = _select_smaller(choosing, features, judging)
        ours, theirs = _areas(gem_etd), _areas(trace)
        cases["wins"].append(case | compare(ours, theirs, ("gem-etd", "etd")))
        sizes = {"etd": float(trace["step_size"]), "gem-etd": float(gem_etd["step_size"])}
        exponents = [_best_exponents(_select(judging, name, features)) for name in sizes]
        hundredth = exponents[1] - np.log2(100)
        order = {"step_sizes": sizes, "condition": sizes["etd"] <= sizes["gem-etd"] / 100}
        test = compare(exponents[0], hundredth, ("etd", "gem-etd, a hundredth"))
        cases["orders"].append(case | order | test)
        distances = [_distances_to_median(results) for results in (trace, gem_etd, smaller)]
        cases["calmer"].append(case | compare(distances[0], distances[1], ("etd", "gem-etd")))
        reduced = {
            "step_size": float(smaller["step_size"]),
            "condition": _is_better(smaller, trace),
            "auc_below_etd": statistics.sign_test(_areas(smaller), theirs),
        }
        test = compare(distances[2], distances[1], ("smaller step size", "best step size"))
        cases["reduced"].append(case | reduced | test)
        for name, baseline in zip(("td", "etd-exact"), baselines, strict=True):
            test = compare(_areas(baseline), np.minimum(ours, theirs), (name, BETTER))
            cases[name].append(case | test)
    return cases


def summarise(datasets: Datasets) -> Summary:
    """Computes the rows of the figure, the statements about it, and the exact levels."""
    parts = halves(datasets)
    return {
        "rows": error_rows(NAME, datasets, MEASURE, statistics.area),
        "claims": assess_all(STATEMENTS, _cases(datasets, datasets), parts and _cases(*parts)),
        "exact": [
            {"features": f, "solid": SOLID, "algorithm": a, "fixed_point_error": exact_error(f, a)}
            for f in FEATURES
            for a in LABELS
        ],
    }


def draw(datasets: Datasets, authors: bool = False) -> "Drawing":
    """Draws the paper's curves with baselines (or the authors' RMSVE); below, all step sizes."""
    scale = AUTHORS_SCALE if authors else 1.0
    palette = style.VERMILION, style.BLUE, style.GREEN, style.ORANGE
    colors = dict(zip(LABELS, palette, strict=True))
    with style.context():
        drawing, axes = style.panels(2, 4, (11.4, 6.2), height_ratios=(1.4, 1), sharey="row")
        for column, features in enumerate(FEATURES):
            _draw_curves(axes[0, column], datasets, features, colors, scale)
            _draw_step_sizes(axes[1, column], datasets, features, colors, scale)
        axes[0, 0].set_ylabel(f"{'sqrt(7) x ' if authors else ''}RMSVE, mean of 1000 steps")
        axes[1, 0].set_ylabel("area under the curve, median\n(x: runs that diverged)")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside upper center", ncols=4)
    return drawing


def _draw_curves(
    axes: "Axes", datasets: Datasets, features: Features, colors: Mapping[str, str], scale: float
) -> None:
    time, powers = datasets[0]["time"].values, {}
    for name, color in colors.items():
        best = _select_best(datasets, name, features)
        powers[name] = round(float(np.log2(best["step_size"] / SCALE)))
        style.draw_band(axes, time, scale * _curves(best), color, label=LABELS[name])
        axes.axhline(scale * exact_error(features, name), color=color, ls="--", lw=0.9)
    label, color = "GEM-ETD(0), smaller step size", colors["gem-etd"]
    curves = scale * _curves(_select_smaller(datasets, features))
    style.draw_band(axes, time, curves, color, ls=":", label=label)
    axes.plot([], [], "--", color=style.GREY, label="exact error at the fixed point")
    sizes = rf"$0.1\times$ ($2^{{{powers['gem-etd']}}}$, $2^{{{powers['etd']}}}$)"
    axes.set_title(f"{features}, {sizes}")
    axes.set(xlabel="steps", xlim=(0, time[-1]), ylim=(0, 300))
    axes.ticklabel_format(axis="x", scilimits=(3, 3))


def _draw_step_sizes(
    axes: "Axes", datasets: Datasets, features: Features, colors: Mapping[str, str], scale: float
) -> None:
    for row, (name, color) in enumerate(colors.items()):
        results = _select(datasets, name, features)
        areas = scale * statistics.area(results, MEASURE).transpose("step_size", "run").values
        powers = style.set_power_axis(axes, results["step_size"].values)
        rates = statistics.diverged(results).mean("run").values
        style.draw_divergence(axes, powers, rates, row, color)
        medians = np.median(areas, axis=1)
        finite = np.isfinite(medians)
        axes.plot(powers[finite], medians[finite], "o-", color=color, ms=2.5, lw=1.2)
    axes.set(yscale="log", ylim=(0.5, 500))


FIGURE = Figure(
    name=NAME,
    title="Figure 3: policy evaluation with a learned emphasis and with the trace, and honest "
    "baselines",
    caption="the chosen step sizes, without a ridge",
    parts=parts_from(NAME, EXPERIMENTS, AUTHORS),
    summarise=summarise,
    table=table,
    row=Row,
    draw=draw,
    problems=partial(problems_from, EXPERIMENTS),
)
"""Policy evaluation with a learned emphasis, with the trace, and with baselines."""
