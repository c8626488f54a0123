"""All exact predictions about one learner at once, and simulated errors to compare them with."""

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from .. import _validation as checks, oracle
from ..engine import Measure, run
from ..mdp import Problem
from ..types import Critic
from .affine import affine_map, affine_maps, Factory, Initial
from .best import Criterion, minimize_error
from .curve import error_form, error_measure, root_mean_squares, square_root, stationary_limit
from .exponent import estimate_lyapunov
from .stability import find_thresholds

NUM_WINDOWS = 1000  # of a simulated run
TIMES_PER_DECADE = 20
SQUARED_ERROR = Measure(
    lambda m, lane, learner, state, y: (learner.predict(state, y) - m[y.state]) ** 2,
    oracle.emphasis,
)


def summarize(
    problem: Problem,
    factory: Factory,
    step_size: float,
    num_steps: int,
    *,
    target: ArrayLike | None = None,
    initial: Initial = None,
    best_by: Criterion | None = None,
) -> dict[str, object]:
    """Computes the error at log-spaced times, its limit, the thresholds and the exponent.

    **Arguments:**

    - `problem`, `target`, `initial`: As for [learning_curve].
    - `factory`: A function from a step size to a learner, such as [gem]; the error is that of what
      the learner says it estimates.
    - `step_size`: The step size.
    - `num_steps`: The last of the times.
    - `best_by`: What to choose the best step size by; None does not look for it.

    **Returns:**

    Keyed as `emphatic predict --json` prints it.
    """
    checks.count("steps", num_steps)
    measure = error_measure(factory(step_size))
    maps, times = affine_maps(problem, factory, step_size, target, initial), log_spaced(num_steps)
    affine = maps(step_size).observable()
    form = error_form(problem, target, affine, measure)
    thresholds = find_thresholds(maps)
    best = best_by and minimize_error(
        maps, lambda affine: error_form(problem, target, affine, measure), num_steps, best_by
    )
    return {
        "steps": times,
        f"{measure}_rmse": root_mean_squares(affine, form, times),
        "limit": stationary_limit(affine, form).rmse,
        "mean_threshold": thresholds.mean,
        "mean_square_threshold": thresholds.mean_square,
        "lyapunov": estimate_lyapunov(affine),
        "best_step_size": best and best.step_size,
    }


def log_spaced(num_steps: int) -> Int[np.ndarray, " t"]:
    """Returns the times 0 and `num_steps`, and between them about 20 for every factor of ten."""
    powers = 10.0 ** np.arange(0.0, np.log10(max(num_steps, 1)), 1.0 / TIMES_PER_DECADE)
    return np.unique(np.append(np.rint(powers), [0, num_steps])).astype(np.int64)


def simulate(
    problem: Problem,
    learner: Critic,
    num_steps: int,
    num_runs: int,
    *,
    target: ArrayLike | None = None,
) -> tuple[Float[np.ndarray, " t"] | Int[np.ndarray, " t"], Float[np.ndarray, " t"]]:
    """Runs a learner from its own start; returns times and root-mean-square errors over runs.

    The emphasis error is averaged over windows, and the times are their midpoints.
    """
    measure, window = error_measure(learner), -(-num_steps // NUM_WINDOWS)
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
