"""The summary of Figure 4: curves of J as numbers, rows, and claims about the algorithms."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from jaxtyping import Float

from ... import statistics
from ..figure import Curves, Datasets, Number, Runs, Summary, Table
from ..summary import format_mean
from ..verdicts import assess, compare_signs, medians, Statement

if TYPE_CHECKING:
    import xarray

TIMES, SOLVED = (10_000, 20_000, 50_000), -6.0
STEPS_TO = f"steps_to_{SOLVED:g}"
OtherRuns = Float[np.ndarray, " other"]
LATE = 0.2  # the share of a run that stands for its end
Row = TypedDict(
    "Row",
    {
        "algorithm": str,
        "variant": str,
        "runs": int,
        "diverged_runs": int,
        "J_10000": Number,
        "J_10000_std": Number,
        "J_20000": Number,
        "J_20000_std": Number,
        "J_50000": Number,
        "J_50000_std": Number,
        "auc": Number,
        "auc_std": Number,
        "steps_to_-6": float | None,
    },
)
"""What [table] needs of a row."""


@cache
def resting_objective() -> float:
    r"""Estimates $J$ of a Reacher that does not move, from many excursions without a torque."""
    import jax
    import jax.numpy as jnp

    from ...deep.environments.reacher import reacher
    from ...deep.evaluation import excursions

    environment = reacher()
    no_torque = jnp.zeros(environment.low.shape, environment.low.dtype)
    evaluate = excursions(environment, lambda *_: no_torque, num_excursions=20_000, num_episodes=1)
    return float(jax.jit(evaluate)(0.0, jax.random.key(0))["J"])


def _J(dataset: "xarray.Dataset") -> Curves:
    """Returns J of each run at each evaluation; minus infinity once a run has diverged."""
    J, diverged = (dataset[name].transpose("run", "steps").values for name in ("J", "diverged"))
    return np.where(np.isfinite(J) & ~diverged.astype(bool), J, -np.inf).astype(np.float64)


def _areas(dataset: "xarray.Dataset") -> Runs:
    """Returns the area under the curve of each run, as its mean over evaluations."""
    return _J(dataset).mean(axis=1)


def _steps_to_solve(dataset: "xarray.Dataset") -> Runs:
    """Returns the steps of each run at its first evaluation above SOLVED, or infinity."""
    above = _J(dataset) > SOLVED
    return np.where(above.any(axis=1), dataset["steps"].values[above.argmax(axis=1)], np.inf)


def _late(dataset: "xarray.Dataset") -> Curves:
    """Returns J over the last fifth of each run."""
    J = _J(dataset)
    return J[:, int((1.0 - LATE) * J.shape[1]) :]


def _spreads(dataset: "xarray.Dataset") -> Runs:
    """Returns the standard deviation of J over the last fifth of each run; infinite if diverged."""
    late = _late(dataset)
    finite = np.isfinite(late)
    return np.where(finite.all(axis=1), np.where(finite, late, 0.0).std(axis=1), np.inf)


def _row(dataset: "xarray.Dataset") -> Summary:
    J, times = _J(dataset), dataset["steps"].values.tolist()
    row = {name: dataset.attrs[name] for name in ("algorithm", "variant")} | {"runs": len(J)}
    for time in TIMES:
        runs = J[:, times.index(time)] if time in times else np.full(len(J), np.nan)
        row[f"J_{time}"] = float(runs.mean())
        row[f"J_{time}_std"] = float(statistics.spread(runs)) if time in times else np.nan
    steps_to_solve = float(np.median(_steps_to_solve(dataset)))
    return {
        **row,
        "auc": float(_areas(dataset).mean()),
        "auc_std": float(statistics.spread(_areas(dataset))),
        STEPS_TO: steps_to_solve if np.isfinite(steps_to_solve) else None,
        "diverged_runs": int(dataset["diverged"].any("steps").sum()),
    }


def _compare(
    measure: str, ours: Runs, theirs: OtherRuns, names: Sequence[str], sign: int = 1
) -> Summary:
    """Tests whether ours are smaller, or larger if the sign is -1, over the runs that both have."""
    num_runs = min(len(ours), len(theirs))
    pair = ours[:num_runs], theirs[:num_runs]
    first, second = (sign * runs for runs in pair)
    return {
        "measure": measure,
        "medians": medians(names, *pair),
        **(test := compare_signs(first, second)),
        "p_value_of_the_opposite": test["p_value_against"],
    }


def _compare_speed(ours: "xarray.Dataset", theirs: "xarray.Dataset") -> list[Summary]:
    names = [dataset.attrs["algorithm"] for dataset in (ours, theirs)]
    cases = [_compare("area under the curve", _areas(ours), _areas(theirs), names, -1)]
    if is_reacher(ours):
        measure = f"steps to J > {SOLVED:g}"
        cases.append(_compare(measure, _steps_to_solve(ours), _steps_to_solve(theirs), names))
    return cases


def by_algorithm(datasets: Datasets) -> dict[str, "xarray.Dataset"]:
    """Returns the datasets of our variants by algorithm."""
    ours = (dataset for dataset in datasets if dataset.attrs["variant"] == "ours")
    return {dataset.attrs["algorithm"]: dataset for dataset in ours}


def is_reacher(dataset: "xarray.Dataset") -> bool:
    return dataset.attrs["environment"].lower().startswith("reacher")


def summarise(datasets: Datasets) -> Summary:
    """Computes the rows of the figure, and the claims about those algorithms that were run."""
    algorithms = by_algorithm(datasets)
    claims, ours = [], algorithms.get("cof-pac")
    if ours is not None and "ace" in algorithms:
        statement = Statement("COF-PAC solves the task faster than ACE")
        claims.append(assess(statement, _compare_speed(ours, algorithms["ace"])))
    if ours is not None and "td3" in algorithms:
        text = "COF-PAC is more stable than TD3 (standard deviation of J over a run's last fifth)"
        pair = _spreads(ours), _spreads(algorithms["td3"])
        case = _compare("spread of J", *pair, ("cof-pac", "td3"))
        claims.append(assess(Statement(text), [case]))
    if ours is not None and "off-pac" in algorithms:
        statement = Statement("COF-PAC solves the task faster than Off-PAC", "beyond")
        claims.append(assess(statement, _compare_speed(ours, algorithms["off-pac"])))
    summary = {"rows": [_row(dataset) for dataset in datasets], "claims": claims}
    if ours is not None and ours.attrs["environment"] == "reacher":
        level, late = resting_objective(), _late(ours).mean(axis=1)
        still = np.full(len(late), level)
        case = _compare("mean J of the last fifth", late, still, ("cof-pac", "still"), -1)
        text = f"COF-PAC ends above an arm that does not move (J = {level:.2f})"
        claims.append(assess(Statement(text, "beyond"), [case]))
        summary["exact"] = [{"policy": "no torque", "J": level}]
    return summary


def table(rows: Sequence[Summary]) -> Table:
    """Returns the table of the figure: a line for each row."""
    columns = ["algorithm", "variant", "runs", *(f"J at {time:g}" for time in TIMES)]
    columns += ["area", f"steps to {SOLVED:g}", "diverged"]
    means = *(f"J_{time}" for time in TIMES), "auc"
    return columns, [
        [
            *(row["algorithm"], row["variant"], str(row["runs"])),
            *(format_mean(row[name], row[f"{name}_std"], digits=2) for name in means),
            "never" if row[STEPS_TO] is None else f"{row[STEPS_TO]:g}",
            f"{row['diverged_runs']} of {row['runs']}",
        ]
        for row in rows
    ]
