"""Figure 2: how well GEM and the followon trace know the emphasis, on Baird's counterexample."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TYPE_CHECKING

import jax
import numpy as np

from .. import expressions, oracle, statistics
from .._types import Learner, Transition
from ..experiment import Experiment
from ..learners import gem, GEMState
from ..predict import Affine, Thresholds
from ..predict.affine import family
from ..predict.curve import root_mean_squares, weights
from ..predict.stability import EXAMPLE, stable_up_to
from ..problems.baird import baird, Features
from .part import shipped
from .summary import chosen, claim, rows, SCALE, select
from .summary import table as table

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, MEASURE = "emphasis", "emphasis_error"
TITLE = "the chosen step sizes, without a ridge"
FEATURES: tuple[Features, ...] = ("original", "one-hot", "zero-hot", "aliased")
RIDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3)
NUM_STEPS = {0.1: 1_000_000, 0.3: 2_000_000}  # by pi(solid)
NUM_POINTS = 200  # of an exact curve


def gem_of_the_code(step_size: Any, ridge: Any) -> Learner[GEMState, Transition]:
    """GEM as in the authors' code: a normal kappa_0, and an error measured after the update."""
    learner = gem(step_size, ridge)

    def init(key: Any, y: Transition) -> GEMState:
        other = learner.init(jax.random.fold_in(key, 1), y)
        return dataclasses.replace(learner.init(key, y), kappa=other.w)

    def predict(state: GEMState, y: Transition) -> Any:
        return learner.predict(learner.step(state, y), y)

    return Learner(init, learner.step, predict)


def of_the_code(experiment: Experiment) -> Experiment:
    """The experiment with GEM as in the authors' code, which has no ridge."""
    if "ridge" not in experiment.grid:
        return experiment
    (name, words), *_ = experiment.definitions.items()
    words = words.replace("gem(", "gem_of_the_code(")
    make = expressions.learner(words, experiment.grid, {"gem_of_the_code": gem_of_the_code})
    return dataclasses.replace(
        experiment,
        learners=lambda problem: {name: make(problem)},
        definitions={name: words},
        grid={**experiment.grid, "ridge": (0.0,)},
    )


EXPERIMENTS = tuple(
    shipped(f"{name}-{solid}") for solid in NUM_STEPS for name in ("gem", "references")
)
AUTHORS = tuple(map(of_the_code, EXPERIMENTS))


def exact_error(features: Features, solid: float, ridge: float) -> float:
    r"""The error at GEM's fixed point, $\sum_s d_\mu(s)|x(s)^\top w^*(\eta) - m_\pi(s)|$."""
    problem = baird(features, solid)
    w = oracle.gem_system(problem, ridge=ridge).least_norm_solution()[-problem.x.shape[1] :]
    return float(problem.stationary @ np.abs(problem.x @ w - oracle.emphasis(problem)))


@cache
def _maps(features: Features, solid: float, authors: bool) -> Callable[[float], Affine]:
    """GEM of a step size, without a ridge, as an affine map."""
    learner = gem_of_the_code if authors else gem
    return family(baird(features, solid), lambda size: learner(size, 0.0), (EXAMPLE,))


@cache
def thresholds(features: Features, solid: float) -> Thresholds:
    """The exact step sizes up to which GEM is stable."""
    return stable_up_to(_maps(features, solid, False))


def exact_curve(
    features: Features, solid: float, step_size: float, times: np.ndarray, authors: bool = False
) -> np.ndarray:
    """The exact root-mean-square error of GEM at times."""
    seen = _maps(features, solid, authors)(step_size).seen()
    square = weights(baird(features, solid), None, seen, "emphasis")
    return root_mean_squares(seen, square, times)


def trace_deviation(solid: float) -> float:
    r"""The exact standard deviation of the trace, $(\sum_sd_\mu(s)\mathrm{var}(M|s))^{1/2}$."""
    problem = baird(solid=solid)
    return float(np.sqrt(problem.stationary @ oracle.followon_variance(problem)))


def _pairs(datasets: Sequence["xarray.Dataset"]):
    """Each case with GEM at its chosen step size without a ridge, and the trace."""
    for features, solid in itertools.product(FEATURES, NUM_STEPS):
        learned = select(datasets, "gem", features=features, solid=solid, ridge=0.0)
        best = chosen(learned, MEASURE, statistics.final)
        trace = select(datasets, "followon", features=features, solid=solid)
        yield {"features": features, "solid": solid}, best, trace


def _wobble(part: "xarray.Dataset") -> np.ndarray:
    """The standard deviation of each run's curve over the last half of its windows."""
    curve = part[MEASURE].transpose("run", "time").values.astype(np.float64)
    late = curve[:, curve.shape[1] // 2 :]
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        return np.nan_to_num(late.std(axis=1), nan=np.inf)


def summarise(datasets: Sequence["xarray.Dataset"]) -> dict[str, Any]:
    """The rows of the figure, the paper's statements about it, and the exact levels."""
    lower, steadier, bounded, beyond = [], [], [], []
    for case, best, trace in _pairs(datasets):
        errors = [statistics.final(part, MEASURE).values for part in (best, trace)]
        medians = {"gem": float(np.median(errors[0])), "followon": float(np.median(errors[1]))}
        lower.append({**case, "medians": medians, **statistics.sign_test(*errors)})
        wobbles = [_wobble(part) for part in (best, trace)]
        medians = {"gem": float(np.median(wobbles[0])), "followon": float(np.median(wobbles[1]))}
        steadier.append({**case, "medians": medians, **statistics.sign_test(*wobbles)})
        guess = select(datasets, "constant", **case)
        guessed = statistics.final(guess, MEASURE).values
        beyond.append(
            {
                **case,
                "medians": {
                    "gem": float(np.median(errors[0])),
                    "constant": float(np.median(guessed)),
                },
                **statistics.sign_test(errors[0], guessed),
            }
        )
        if case["features"] == "original":
            bad = statistics.diverged(best).values.astype(float)
            test = statistics.sign_test(bad, 1.0 - bad)
            bounded.append({**case, "diverged_runs": int(bad.sum()), "also": not bad.any(), **test})
    return {
        "rows": rows(NAME, datasets, MEASURE, statistics.final),
        "claims": [
            claim(
                "GEM has a lower approximation error than the followon trace under all four sets "
                "of features (final window)",
                lower,
            ),
            claim(
                "GEM enjoys lower variance than the followon trace (standard deviation of a run's "
                "windows over its second half)",
                steadier,
            ),
            claim(
                "With the original features C is singular, and yet GEM does not diverge (at the "
                "chosen step size)",
                bounded,
            ),
            claim(
                "Beyond the paper: GEM has a lower error than the constant guess 1 / (1 - gamma), "
                "which needs no data",
                beyond,
            ),
        ],
        "exact": [
            {
                "features": features,
                "solid": solid,
                "ridge": ridge,
                "fixed_point_error": exact_error(features, solid, ridge),
                "followon_standard_deviation": trace_deviation(solid),
            }
            for features in FEATURES
            for solid in NUM_STEPS
            for ridge in RIDGES
        ],
        "thresholds": [
            {"features": features, "solid": solid, **vars(thresholds(features, solid))}
            for features in FEATURES
            for solid in NUM_STEPS
        ],
    }


def plot(datasets: Sequence["xarray.Dataset"], authors: bool = False) -> "Figure":
    """Curves as in the paper under exact ones; below, every step size, and what a ridge costs."""
    from . import style

    colors = dict(zip(FEATURES, (style.BLUE, style.GREEN, style.PURPLE, style.ORANGE), strict=True))
    with style.context():
        figure, axes = style.panels(3, 2, figsize=(8.4, 9.6), height_ratios=(1.4, 1, 1))
        for column, solid in enumerate(NUM_STEPS):
            _curves(axes[0, column], datasets, solid, colors, authors)
            _step_sizes(axes[1, column], datasets, solid, colors)
            _ridges(axes[2, column], datasets, solid, colors)
            for row in range(3):
                axes[row, column].set_ylim(0, 140)
        axes[0, 0].set_ylabel("emphasis error, mean of 1000 steps")
        axes[1, 0].set_ylabel("final error (x: runs that diverged)")
        axes[2, 0].set_ylabel("final error (dashed: at the fixed point)")
        lines = [axes[row, 0].get_legend_handles_labels() for row in range(3)]
        handles, labels = (list(itertools.chain(*each)) for each in zip(*lines, strict=True))
        figure.legend(handles, labels, loc="outside upper center", ncols=4)
    return figure


def _curves(
    axes: "Axes",
    datasets: Sequence["xarray.Dataset"],
    solid: float,
    colors: Mapping[Any, str],
    authors: bool,
) -> None:
    from . import style

    trace = select(datasets, "followon", features=FEATURES[0], solid=solid)
    time, curves = trace["time"].values, trace[MEASURE].transpose("run", "time").values
    style.band(axes, time, curves, style.VERMILION, lw=0.5, label="followon trace")
    sizes, shown = [], np.unique(np.linspace(0, time[-1], NUM_POINTS).astype(int))
    for features, color in colors.items():
        learned = select(datasets, "gem", features=features, solid=solid, ridge=0.0)
        best = chosen(learned, MEASURE, statistics.final)
        curves = best[MEASURE].transpose("run", "time").values
        style.band(axes, time, curves, color, label=f"GEM, {features}")
        sizes.append(f"$2^{{{round(float(np.log2(best['step_size'] / SCALE)))}}}$")
        axes.axhline(exact_error(features, solid, 0.0), color=color, ls="--", lw=1)
        exact = exact_curve(features, solid, float(best["step_size"]), shown, authors)
        exact = np.where(exact < 1e6, exact, np.nan)  # what would be off the panel by far
        axes.plot(shown, exact, "-.", color=style.dark(color), lw=1.1)
    axes.plot([], [], "-.", color=style.BLACK, lw=1.1, label="exact root mean square")
    guess = select(datasets, "constant", features=FEATURES[0], solid=solid)
    level = float(guess[MEASURE].mean())
    axes.axhline(level, color=style.BLACK, ls=":", lw=1.3, label="constant 1/(1 - gamma)")
    deviation = f"{trace_deviation(solid):.0f}".replace("inf", r"$\infty$")
    axes.set_title(
        rf"$\pi(\mathrm{{solid}}) = {solid}$, step sizes $0.1\times$ ({', '.join(sizes)})"
        f"\nexact standard deviation of the trace: {deviation}"
    )
    axes.set_xlabel("steps")
    axes.set_xlim(0, time[-1])


def _step_sizes(
    axes: "Axes", datasets: Sequence["xarray.Dataset"], solid: float, colors: Mapping[Any, str]
) -> None:
    from . import style

    for row, (features, color) in enumerate(colors.items()):
        part = select(datasets, "gem", features=features, solid=solid, ridge=0.0)
        errors = statistics.final(part, MEASURE).transpose("step_size", "run").values
        places = style.powers(axes, part["step_size"].values)
        rate = statistics.diverged(part).mean("run").values
        style.rates(axes, places, rate, row, color)
        kept = np.isfinite(errors).all(axis=1)
        mean, std = errors[kept].mean(axis=1), statistics.spread(errors[kept])
        axes.errorbar(places[kept], mean, std, fmt="o-", color=color, ms=3, lw=1.3, elinewidth=0.6)
        edge = np.log2(thresholds(features, solid).mean_square / SCALE)
        if places.min() - 0.7 < edge < places.max() + 0.7:
            axes.axvline(edge, color=color, ls="-.", lw=1)
    axes.plot([], [], "-.", color=style.GREY, lw=1, label="exact threshold in mean square")


def _ridges(
    axes: "Axes", datasets: Sequence["xarray.Dataset"], solid: float, colors: Mapping[Any, str]
) -> None:
    from . import style

    trace = select(datasets, "followon", features=FEATURES[0], solid=solid)
    axes.axhline(float(statistics.final(trace, MEASURE).mean()), color=style.VERMILION, lw=1.3)
    for features, color in colors.items():
        part = select(datasets, "gem", features=features, solid=solid)
        ridges = part["ridge"].values
        found = [chosen(part.sel(ridge=ridge), MEASURE, statistics.final) for ridge in ridges]
        means = [float(statistics.final(each, MEASURE).mean()) for each in found]
        levels = [exact_error(features, solid, ridge) for ridge in ridges]
        axes.plot(range(len(ridges)), means, "o-", color=color, ms=3, lw=1.3)
        axes.plot(range(len(ridges)), levels, "--", color=color, lw=1)
        axes.set_xticks(range(len(ridges)), [f"{ridge:g}" for ridge in ridges])
    axes.plot([], [], "--", color=style.GREY, label="exact error at the fixed point")
    axes.set_xlabel(r"ridge $\eta$, each at its best step size")
