"""Figure 2: how well GEM and the followon trace estimate the emphasis on Baird's counterexample."""

import itertools
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Integer

from .. import oracle, statistics
from ..learners import gem
from ..predict.affine import affine_maps, AffineMap
from ..predict.curve import error_form, root_mean_squares
from ..predict.stability import EXAMPLE, find_thresholds, Thresholds
from ..problems.baird import baird, Features
from . import style
from .authors import authors_gem, with_authors_gem
from .figure import Datasets, Figure, parts_from, problems_from, read_shipped, Runs, Summary
from .summary import error_rows, FEATURES, halves, Row, SCALE, select, select_best, table
from .verdicts import assess_all, compare, compare_signs, Statement

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

NAME, MEASURE = "emphasis", "emphasis_error"
RIDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)
NUM_STEPS = {0.1: 1_000_000, 0.3: 2_000_000}  # by pi(solid)
NUM_POINTS = 200  # of an exact curve
POINTS = tuple(itertools.product(FEATURES, NUM_STEPS))
EXPERIMENTS = tuple(
    read_shipped(f"{name}-{solid}") for solid in NUM_STEPS for name in ("gem", "references")
)
AUTHORS = tuple(map(with_authors_gem, EXPERIMENTS))
Colors = Mapping[Features, str]
STATEMENTS = {
    "lower": Statement(
        "GEM has a lower approximation error than the followon trace under all four sets of "
        "features (final window)"
    ),
    "steadier": Statement(
        "GEM enjoys lower variance than the followon trace (standard deviation of a run's windows "
        "over its second half)"
    ),
    "bounded": Statement(
        "With the original features C is singular, and yet GEM does not diverge (at the chosen "
        "step size)"
    ),
    "beyond": Statement(
        "GEM has a lower error than the constant guess 1 / (1 - gamma), which needs no data",
        "beyond",
    ),
}


def exact_error(features: Features, solid: float, ridge: float) -> float:
    r"""The error at GEM's fixed point, $\sum_s d_\mu(s)|x(s)^\top w^*(\eta) - m_\pi(s)|$."""
    problem = baird(features, solid)
    w = oracle.gem_system(problem, ridge=ridge).least_norm_solution()[-problem.x.shape[1] :]
    return float(problem.stationary @ np.abs(problem.x @ w - oracle.emphasis(problem)))


@cache
def _gem_maps(features: Features, solid: float, authors: bool) -> Callable[[float], AffineMap]:
    """Returns the function from a step size to GEM, without a ridge, as an affine map."""
    learner = authors_gem if authors else gem
    return affine_maps(baird(features, solid), lambda step_size: learner(step_size, 0.0), EXAMPLE)


@cache
def thresholds(features: Features, solid: float) -> Thresholds:
    """Computes the exact step sizes up to which GEM is stable."""
    return find_thresholds(_gem_maps(features, solid, False))


def exact_curve(
    features: Features,
    solid: float,
    step_size: float,
    times: Integer[np.ndarray, " t"],
    authors: bool = False,
) -> Float[np.ndarray, " t"]:
    """Computes the exact root-mean-square error of GEM at times."""
    affine = _gem_maps(features, solid, authors)(step_size).observable()
    form = error_form(baird(features, solid), None, affine, "emphasis")
    return root_mean_squares(affine, form, times)


def followon_deviation(solid: float) -> float:
    r"""Computes the trace's standard deviation, $(\sum_sd_\mu(s)\mathrm{var}(M|s))^{1/2}$."""
    problem = baird(solid=solid)
    return float(np.sqrt(problem.stationary @ oracle.followon_variance(problem)))


def _select_best_gem(
    datasets: Datasets, features: Features, solid: float, judging: Datasets | None = None
) -> "xarray.Dataset":
    """Selects GEM at its best step size, without a ridge; perhaps the runs of other datasets."""
    point = {"features": features, "solid": solid, "ridge": 0.0}
    others = None if judging is None else select(judging, "gem", **point)
    return select_best(select(datasets, "gem", **point), MEASURE, statistics.final, others)


def _late_deviation(results: "xarray.Dataset") -> Runs:
    """Computes the standard deviation of each run's curve over the last half of its windows."""
    curves = results[MEASURE].transpose("run", "time").values.astype(np.float64)
    late = curves[:, curves.shape[1] // 2 :]
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        return np.nan_to_num(late.std(axis=1), nan=np.inf)


def _cases(choosing: Datasets, judging: Datasets) -> dict[str, list[Summary]]:
    """Tests every statement, on runs that may be others than those that choose step sizes."""
    cases: dict[str, list[Summary]] = {name: [] for name in STATEMENTS}
    for features, solid in POINTS:
        case = {"features": features, "solid": solid}
        best = _select_best_gem(choosing, features, solid, judging)
        trace, guess = (select(judging, name, **case) for name in ("followon", "constant"))
        errors = [statistics.final(results, MEASURE).values for results in (best, trace, guess)]
        deviations = _late_deviation(best), _late_deviation(trace)
        cases["lower"].append(case | compare(errors[0], errors[1], ("gem", "followon")))
        cases["steadier"].append(case | compare(*deviations, ("gem", "followon")))
        cases["beyond"].append(case | compare(errors[0], errors[2], ("gem", "constant")))
        if features == "original":
            diverged = statistics.diverged(best).values.astype(float)
            count = {"diverged_runs": int(diverged.sum()), "condition": not diverged.any()}
            test = compare_signs(diverged, 1.0 - diverged)
            cases["bounded"].append(case | count | {"refuted": bool(diverged.any())} | test)
    return cases


def summarise(datasets: Datasets) -> Summary:
    """Computes the rows of the figure, the statements about it, and the exact levels."""
    parts = halves(datasets)
    return {
        "rows": error_rows(NAME, datasets, MEASURE, statistics.final),
        "claims": assess_all(STATEMENTS, _cases(datasets, datasets), parts and _cases(*parts)),
        "exact": [
            {
                "features": features,
                "solid": solid,
                "ridge": ridge,
                "fixed_point_error": exact_error(features, solid, ridge),
                "followon_standard_deviation": followon_deviation(solid),
            }
            for features, solid in POINTS
            for ridge in RIDGES
        ],
        "thresholds": [
            {"features": features, "solid": solid, "mean": x.mean, "mean_square": x.mean_square}
            for features, solid in POINTS
            for x in [thresholds(features, solid)]
        ],
    }


def draw(datasets: Datasets, authors: bool = False) -> "Drawing":
    """Draws the paper's curves with exact ones; below, all step sizes and the cost of a ridge."""
    colors = dict(zip(FEATURES, (style.BLUE, style.GREEN, style.PURPLE, style.ORANGE), strict=True))
    with style.context():
        drawing, axes = style.panels(3, 2, figsize=(8.4, 9.6), height_ratios=(1.4, 1, 1))
        for column, solid in enumerate(NUM_STEPS):
            _draw_curves(axes[0, column], datasets, solid, colors, authors)
            _draw_step_sizes(axes[1, column], datasets, solid, colors)
            _draw_ridges(axes[2, column], datasets, solid, colors)
            for row in range(3):
                axes[row, column].set_ylim(0, 140)
        axes[0, 0].set_ylabel("emphasis error, mean of 1000 steps")
        axes[1, 0].set_ylabel("final error (x: runs that diverged)")
        axes[2, 0].set_ylabel("final error (dashed: at the fixed point)")
        legends = [axes[row, 0].get_legend_handles_labels() for row in range(3)]
        handles, labels = (list(itertools.chain(*lists)) for lists in zip(*legends, strict=True))
        drawing.legend(handles, labels, loc="outside upper center", ncols=4)
    return drawing


def _draw_curves(
    axes: "Axes", datasets: Datasets, solid: float, colors: Colors, authors: bool
) -> None:
    trace = select(datasets, "followon", features=FEATURES[0], solid=solid)
    time, curves = trace["time"].values, trace[MEASURE].transpose("run", "time").values
    style.draw_band(axes, time, curves, style.VERMILION, lw=0.5, label="followon trace")
    sizes, times = [], np.unique(np.linspace(0, time[-1], NUM_POINTS).astype(int))
    for features, color in colors.items():
        best = _select_best_gem(datasets, features, solid)
        curves = best[MEASURE].transpose("run", "time").values
        style.draw_band(axes, time, curves, color, label=f"GEM, {features}")
        sizes.append(f"$2^{{{round(float(np.log2(best['step_size'] / SCALE)))}}}$")
        axes.axhline(exact_error(features, solid, 0.0), color=color, ls="--", lw=1)
        exact = exact_curve(features, solid, float(best["step_size"]), times, authors)
        exact = np.where(exact < 1e6, exact, np.nan)  # far off the panel
        axes.plot(times, exact, "-.", color=style.darken(color), lw=1.1)
    axes.plot([], [], "-.", color=style.BLACK, lw=1.1, label="exact root mean square")
    guess = select(datasets, "constant", features=FEATURES[0], solid=solid)
    level = float(guess[MEASURE].mean())
    axes.axhline(level, color=style.BLACK, ls=":", lw=1.3, label="constant 1/(1 - gamma)")
    deviation = f"{followon_deviation(solid):.0f}".replace("inf", r"$\infty$")
    axes.set_title(
        rf"$\pi(\mathrm{{solid}}) = {solid}$, step sizes $0.1\times$ ({', '.join(sizes)})"
        f"\nexact standard deviation of the trace: {deviation}"
    )
    axes.set_xlabel("steps")
    axes.set_xlim(0, time[-1])


def _draw_step_sizes(axes: "Axes", datasets: Datasets, solid: float, colors: Colors) -> None:
    for row, (features, color) in enumerate(colors.items()):
        results = select(datasets, "gem", features=features, solid=solid, ridge=0.0)
        errors = statistics.final(results, MEASURE).transpose("step_size", "run").values
        powers = style.set_power_axis(axes, results["step_size"].values)
        rates = statistics.diverged(results).mean("run").values
        style.draw_divergence(axes, powers, rates, row, color)
        finite = np.isfinite(errors).all(axis=1)
        mean, std = errors[finite].mean(axis=1), statistics.spread(errors[finite])
        bars = {"ms": 3, "lw": 1.3, "elinewidth": 0.6}
        axes.errorbar(powers[finite], mean, std, fmt="o-", color=color, **bars)
        threshold = np.log2(thresholds(features, solid).mean_square / SCALE)
        if powers.min() - 0.7 < threshold < powers.max() + 0.7:
            axes.axvline(threshold, color=color, ls="-.", lw=1)
    axes.plot([], [], "-.", color=style.GREY, lw=1, label="exact threshold in mean square")


def _draw_ridges(axes: "Axes", datasets: Datasets, solid: float, colors: Colors) -> None:
    trace = select(datasets, "followon", features=FEATURES[0], solid=solid)
    axes.axhline(float(statistics.final(trace, MEASURE).mean()), color=style.VERMILION, lw=1.3)
    for features, color in colors.items():
        results = select(datasets, "gem", features=features, solid=solid)
        ridges = results["ridge"].values
        points = (results.sel(ridge=ridge) for ridge in ridges)
        best = (select_best(point, MEASURE, statistics.final) for point in points)
        means = [float(statistics.final(point, MEASURE).mean()) for point in best]
        levels = [exact_error(features, solid, ridge) for ridge in ridges]
        axes.plot(range(len(ridges)), means, "o-", color=color, ms=3, lw=1.3)
        axes.plot(range(len(ridges)), levels, "--", color=color, lw=1)
        axes.set_xticks(range(len(ridges)), [f"{ridge:g}" for ridge in ridges])
    axes.plot([], [], "--", color=style.GREY, label="exact error at the fixed point")
    axes.set_xlabel(r"ridge $\eta$, each at its best step size")


FIGURE = Figure(
    name=NAME,
    title="Figure 2: how well GEM and the followon trace estimate the emphasis, on Baird's "
    "counterexample",
    caption="the chosen step sizes, without a ridge",
    parts=parts_from(NAME, EXPERIMENTS, AUTHORS),
    summarise=summarise,
    table=table,
    row=Row,
    draw=draw,
    problems=partial(problems_from, EXPERIMENTS),
)
"""How well GEM and the followon trace estimate the emphasis."""
