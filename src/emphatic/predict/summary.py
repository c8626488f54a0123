"""All exact predictions about one learner at once, and a picture of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _checks as checks
from . import learners, oracle
from ._names import unknown
from ._types import Learner
from .engine import Measure, run
from .mdp import Problem
from .predict.affine import family, Initial
from .predict.best import best_of, By
from .predict.curve import log_spaced, root, root_mean_squares, settled, weights
from .predict.curve import Measure as Error
from .predict.stability import exponent, stable_up_to

NUM_WINDOWS, NUM_DOTS = 1000, 40  # of simulated runs: that are measured, and that are drawn
COMPONENT_STEP_SIZE = 0.025  # of GEM inside of another learner, as in the paper's Figure 3
SQUARE = Measure(
    lambda m, own, learner, state, y: (learner.predict(state, y) - m[y.state]) ** 2,
    oracle.emphasis,
)

Made = Callable[[Any], Learner]
Build = Callable[[Problem, np.ndarray, float], Made]
LEARNERS: dict[str, tuple[Build, Error]] = {
    "gem": (lambda p, pi, ridge: lambda size: learners.gem(size, ridge), "emphasis"),
    "reverse-td": (lambda p, pi, ridge: learners.reverse_td, "emphasis"),
    "lms": (lambda p, pi, ridge: lambda size: learners.lms(learners.followon(), size), "emphasis"),
    "gq2": (lambda p, pi, ridge: lambda size: learners.gq2(size, ridge), "value"),
    "gtd2": (lambda p, pi, ridge: learners.gtd2, "value"),
    "tdc": (lambda p, pi, ridge: learners.tdc, "value"),
    "td": (lambda p, pi, ridge: learners.td, "value"),
    "etd-exact": (
        lambda p, pi, ridge: (
            lambda size: learners.etd(learners.exact(oracle.emphasis(p, pi)), size)
        ),
        "value",
    ),
    "etd": (lambda p, pi, ridge: lambda size: learners.etd(learners.followon(), size), "value"),
    "gem-etd": (
        lambda p, pi, ridge: (
            lambda size: learners.etd(learners.gem(COMPONENT_STEP_SIZE, ridge), size)
        ),
        "value",
    ),
}
"""Learners by name, and what their error is about; the last two are not affine, and refused."""
WITH_RIDGE = ("gem", "gq2", "gem-etd")


def maker(
    problem: Problem, target: ArrayLike | None, name: str, ridge: float
) -> tuple[Made, Error]:
    """What makes a named learner from a step size, and what its error is about."""
    if name.replace("_", "-") not in LEARNERS:
        raise unknown("learner", name, LEARNERS)
    name = name.replace("_", "-")
    checks.ridge(ridge)
    if ridge and name not in WITH_RIDGE:
        raise ValueError(f"ridge: {name} has none; only {', '.join(WITH_RIDGE)} have")
    build, measure = LEARNERS[name]
    return build(problem, problem.require_target(target), ridge), measure


def prediction(
    problem: Problem,
    make: Made,
    step_size: float,
    num_steps: int,
    *,
    measure: Error = "emphasis",
    target: ArrayLike | None = None,
    initial: Initial = None,
    best: By | None = None,
) -> dict[str, Any]:
    """The error at log-spaced times, its limit, the thresholds and the Lyapunov exponent.

    **Arguments:**

    - `problem`, `target`, `measure`, `initial`: As for [learning_curve].
    - `make`, `step_size`: Makes the learner of a step size, and its own one.
    - `num_steps`: The last of the times.
    - `best`: Whether to look for the best step size as well, and by what.

    **Returns:**

    Keyed as `emphatic predict --json` prints it.
    """
    checks.count("steps", num_steps)
    maps, times = family(problem, make, (step_size,), target, initial), log_spaced(num_steps)
    seen = maps(step_size).seen()
    squares = weights(problem, target, seen, measure)
    stable = stable_up_to(maps)
    found = None
    if best is not None:
        found = best_of(maps, lambda each: weights(problem, target, each, measure), num_steps, best)
    return {
        "steps": times,
        f"{measure}_rmse": root_mean_squares(seen, squares, times),
        "limit": settled(seen, squares).rmse,
        "mean_threshold": stable.mean,
        "mean_square_threshold": stable.mean_square,
        "lyapunov": exponent(seen),
        "best_step_size": None if found is None else found.step_size,
    }


def simulated(
    problem: Problem,
    learner: Learner,
    num_steps: int,
    num_runs: int,
    measure: Error,
    target: ArrayLike | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Times, and the root-mean-square error over runs of the engine that start as the learner does.

    The emphasis error is averaged over windows, whose middles the times are.
    """
    window = -(-num_steps // NUM_WINDOWS)
    asked = {"num_steps": num_steps, "seeds": num_runs, "record_every": window, "target": target}
    if measure == "emphasis":
        dataset = run(problem, {"one": learner}, measures={"square": SQUARE}, **asked)
        ends, square = dataset["time"].values, dataset["square"].sel(learner="one").values
        return ends - (np.diff(ends, prepend=0) + 1) / 2, root(square.mean(0))
    dataset = run(problem, {"one": learner}, measures=["weights"], **asked)
    d = dataset["one_weights"].values.astype(np.float64)
    x = np.concatenate([np.ones((*d.shape[:2], 1)), d], axis=-1)
    from .predict import affine

    G = weights(problem, target, affine(problem, learner, target), measure)[0]
    return dataset["time"].values, root(np.einsum("rti,ij,rtj->rt", x, G, x).mean(0))


def draw(
    path: Path,
    title: str,
    found: dict[str, Any],
    dots: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """A picture of the exact curve and its limit, with simulated errors as dots."""
    from .figures import style

    name = next(key for key in found if key.endswith("_rmse"))
    with style.context():
        figure, ((axes,),) = style.panels(1, 1, figsize=(6.4, 4.2))
        curve = np.where(np.isfinite(found[name]), found[name], np.nan)
        axes.plot(found["steps"], curve, color=style.BLACK, lw=1.3, label="exact")
        if np.isfinite(found["limit"]):
            axes.axhline(found["limit"], color=style.VERMILION, ls="--", lw=1, label="exact limit")
        if dots is not None:
            times, errors = dots
            shown = np.unique(np.geomspace(1, len(times), NUM_DOTS).astype(int)) - 1
            label = "simulated: root mean square over runs"
            axes.plot(times[shown], errors[shown], "o", color=style.BLUE, mfc="none", label=label)
        axes.set_xscale("symlog", linthresh=1.0)
        axes.set_xlim(0, found["steps"][-1])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("steps")
        axes.set_ylabel(f"{name.removesuffix('_rmse')} error, root mean square")
        axes.set_title(title)
        axes.legend()
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:
            raise ValueError(f"plot: {path} cannot be written: {error.strerror}") from None
