"""All exact predictions about one learner at once, and simulated errors to compare them with."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .. import _validation as checks, oracle
from ..engine import Measure, run
from ..mdp import Problem
from ..types import Critic
from .affine import affine_map, affine_maps, AffineMap, Factory
from .best import Criterion, minimize_error, scan_exponents
from .cost import OnStart, predict_cost
from .curve import (
    error_form,
    error_measure,
    ErrorMeasure,
    root_mean_squares,
    square_root,
    stationary_limit,
)
from .exponent import estimate_lyapunov
from .initial import Initial
from .learner import as_learner
from .stability import EXAMPLE, find_thresholds, is_stable_in_mean, is_stable_in_mean_square, Maps

NUM_WINDOWS = 1000  # of a simulated run
TIMES_PER_DECADE = 20

OnProgress: TypeAlias = Callable[[str], None]
"""A callback, called with what is computed next."""

SQUARED_ERROR = Measure(
    lambda m, lane, learner, state, y: (learner.predict(state, y) - m[y.state]) ** 2,
    oracle.emphasis,
)


def summarize(
    problem: Problem,
    factory: Factory,
    step_size: float | None,
    num_steps: int,
    *,
    target: ArrayLike | None = None,
    measure: ErrorMeasure | None = None,
    initial: Initial = None,
    best_by: Criterion | None = None,
    stability: bool | None = True,
    on_start: OnStart | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, object]:
    """Computes the error at log-spaced times, its limit, stable step sizes and the exponent.

    **Arguments:**

    - `problem`, `target`, `measure`, `initial`: As for [learning_curve].
    - `factory`: A function from a step size to a learner, such as [gem].
    - `step_size`: The step size; None if the learner has none.
    - `num_steps`: The last of the times.
    - `best_by`: What to choose the best step size by; None does not look for it.
    - `stability`: Whether to decide the stability and to find the stable step sizes; None does so
      for up to 100 000 unknowns.
    - `on_start`: Called with the [Cost] before anything is computed.
    - `on_progress`: Called with what is computed next.

    **Returns:**

    Keyed as `emphatic predict --json` prints it.
    """
    checks.count("steps", num_steps)
    example = EXAMPLE if step_size is None else step_size
    measure = error_measure(factory(example), measure)
    maps, times = affine_maps(problem, factory, example, target, initial), log_spaced(num_steps)
    affine = maps(example).observable()
    num_sizes = len(scan_exponents(maps, num_steps)) if best_by else 0
    cost = predict_cost(affine, num_steps, stability, num_sizes)
    if on_start is not None:
        on_start(cost)

    def report(stage: str) -> None:
        if on_progress is not None:
            on_progress(stage)

    def maps_for(stage: str) -> Maps:
        def reported(size: float) -> AffineMap:
            report(f"{stage}: trying {size:.3g}")
            return maps(size)

        return reported

    report(f"errors at {len(times)} times up to {num_steps:,} steps")
    form = error_form(problem, target, affine, measure)
    curve = root_mean_squares(affine, form, times)
    report("limit")
    summary: dict[str, object] = {
        "steps": times,
        f"{measure}_rmse": curve,
        "limit": stationary_limit(affine, form).rmse,
    }
    if cost.has_stability:
        report("stability of this step size")
        summary["is_stable_in_mean"] = is_stable_in_mean(affine)
        summary["is_stable_in_mean_square"] = is_stable_in_mean_square(affine)
        if step_size is not None:
            thresholds = find_thresholds(maps_for("stable step sizes"))
            summary |= {
                "mean_threshold": thresholds.mean,
                "mean_square_threshold": thresholds.mean_square,
                "stable_in_mean": thresholds.stable_in_mean,
                "stable_in_mean_square": thresholds.stable_in_mean_square,
            }
        report("Lyapunov exponent")
        summary["lyapunov"] = estimate_lyapunov(affine)
    best = best_by and minimize_error(
        maps_for("best step size"),
        lambda affine: error_form(problem, target, affine, measure),
        num_steps,
        best_by,
    )
    return summary | {"best_step_size": best and best.step_size, "best_rmse": best and best.rmse}


def log_spaced(num_steps: int) -> Int[np.ndarray, " t"]:
    """Returns the times 0 and `num_steps`, and between them about 20 for every factor of ten."""
    powers = 10.0 ** np.arange(0.0, np.log10(max(num_steps, 1)), 1.0 / TIMES_PER_DECADE)
    return np.unique(np.append(np.rint(powers), [0, num_steps])).astype(np.int64)


def simulate(
    problem: Problem,
    learner: Critic | str,
    num_steps: int,
    num_runs: int,
    *,
    target: ArrayLike | None = None,
    measure: ErrorMeasure | None = None,
) -> tuple[Float[np.ndarray, " t"] | Int[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    """Runs a learner from its own start; returns times and root-mean-square errors over runs.

    The emphasis error is averaged over windows, and the times are their midpoints.
    """
    learner = as_learner(problem, learner, target)
    measure, window = error_measure(learner, measure), -(-num_steps // NUM_WINDOWS)
    dataset = run(
        problem,
        {"one": learner},
        num_steps=num_steps,
        seeds=num_runs,
        target=target,
        record_every=window,
        measures={"square": SQUARED_ERROR} if measure == "emphasis" else ["weights"],
    )
    if measure == "emphasis":
        ends, square = dataset["time"].values, dataset["square"].sel(learner="one").values
        return ends - (np.diff(ends, prepend=0) + 1) / 2, square_root(square.mean(0))
    d = dataset["one_weights"].values.astype(np.float64)
    x = np.concatenate([np.ones((*d.shape[:2], 1)), d], axis=-1)
    G = error_form(problem, target, affine_map(problem, learner, target), measure)[0]
    return dataset["time"].values, square_root(np.einsum("rti,ij,rtj->rt", x, G, x).mean(0))
