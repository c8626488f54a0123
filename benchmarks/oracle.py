"""Exact answers for a million states: time, memory, residuals, and dense LAPACK beside it.

    python benchmarks/oracle.py [--quick]

Each size runs in a process of its own, so that its peak memory is its own. Figures are ratios
measured side by side in one run; seconds depend on the machine.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from emphatic import oracle, problems
from emphatic.mdp import policy_matrix, Problem

DENSE_SIDES = (16, 32, 48, 64)
SPARSE_SIDES = (100, 200, 400, 700, 1000)
GARNET_SIZES = (10_000, 100_000)


def peak_gigabytes() -> float:
    """The largest resident size of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def exact(make: Callable[[], Problem]) -> dict[str, float]:
    """Times of the three quantities, their relative residuals and the two identities."""
    seconds: dict[str, float] = {}

    def timed(name, fn):
        start = time.perf_counter()
        result = fn()
        seconds[name] = time.perf_counter() - start
        return result

    problem = timed("make", make)
    problem.__dict__.pop("stationary", None)  # the law that is the default start, if it was needed
    d = timed("stationary", lambda: oracle.stationary(problem))
    v = timed("values", lambda: oracle.values(problem))
    m = timed("emphasis", lambda: oracle.emphasis(problem))
    total, peak = sum(seconds.values()), peak_gigabytes()  # what follows only checks

    mdp, i = problem.mdp, problem.interest
    average = policy_matrix(problem.target)
    gP = average @ mdp.discounted()
    P_mu = mdp.chain(problem.behavior)
    r = average @ mdp.mean_reward.ravel()
    weighted = d * m
    return {
        "states": mdp.num_states,
        **seconds,
        "total": total,
        "gigabytes": peak,
        "residual_stationary": np.abs(d @ P_mu - d).sum() / d.sum(),
        "residual_values": np.abs(r + gP @ v - v).max() / np.abs(v).max(),
        "residual_emphasis": np.abs(d * i + gP.T @ weighted - weighted).sum() / weighted.sum(),
        "identity_objective": abs(d @ (i * v) / (weighted @ r) - 1.0),
        "identity_sum": abs(weighted @ (1.0 - gP.sum(1)) / (d @ i) - 1.0),
        "smallest_d": d.min(),
    }


def closed_form(side: int) -> dict[str, float]:
    """Without a goal the walk's law is uniform."""
    problem = problems.grid(side, side, goal=False)
    start = time.perf_counter()
    d = oracle.stationary(problem)
    seconds = time.perf_counter() - start
    return {
        "states": side**2,
        "stationary": seconds,
        "error": float(np.abs(d * side**2 - 1.0).max()),
    }


def dense(side: int) -> dict[str, float]:
    """The same three quantities by dense LAPACK solves (numpy.linalg.solve), as the peer."""
    problem = problems.grid(side, side)
    mdp, states = problem.mdp, problem.mdp.num_states
    average = policy_matrix(problem.target)
    gP = (average @ mdp.discounted()).toarray()
    P_mu = mdp.chain(problem.behavior).toarray()
    r = average @ mdp.mean_reward.ravel()
    start = time.perf_counter()
    pinned = P_mu.T - np.eye(states)
    pinned[-1] = 1.0
    d = np.linalg.solve(pinned, np.eye(states)[-1])
    v = np.linalg.solve(np.eye(states) - gP, r)
    m = np.linalg.solve(np.eye(states) - gP.T, d * problem.interest) / d
    seconds = time.perf_counter() - start
    ours = exact(lambda: problem)
    difference = max(
        np.abs(oracle.values(problem) / v - 1.0).max(),
        np.abs(oracle.emphasis(problem) / m - 1.0).max(),
        np.abs(oracle.stationary(problem) / d - 1.0).max(),
    )
    return {
        "states": states,
        "dense": seconds,
        "emphatic": ours["total"],
        "ratio": seconds / ours["total"],
        "difference": float(difference),
    }


TASKS = {
    "grid": lambda side: exact(lambda: problems.grid(side, side)),
    "closed_form": closed_form,
    "dense": dense,
    "garnet": lambda states: exact(lambda: problems.garnet(states, 3, 4, num_features=8)),
}


def measured(task: str, size: int) -> dict[str, float]:
    """One task in a fresh process."""
    line = [sys.executable, __file__, task, str(size)]
    return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)


def table(title: str, rows: list[dict[str, float]]) -> None:
    """Prints measurements as a Markdown table."""
    print(f"\n{title}\n")
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows:
        cells = [f"{v:d}" if isinstance(v, int) else f"{v:.3g}" for v in row.values()]
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """All tables, or with --quick the small sizes only."""
    quick = "--quick" in sys.argv
    dense_sides, sparse_sides = (
        DENSE_SIDES[: 2 if quick else None],
        SPARSE_SIDES[: 1 if quick else None],
    )
    garnets = GARNET_SIZES[: 1 if quick else None]
    table(
        "Dense LAPACK beside the sparse route (grid)", [measured("dense", s) for s in dense_sides]
    )
    grids = [measured("grid", side) for side in sparse_sides]
    table("Growth with the number of states (grid)", grids)
    if len(grids) > 1:
        first, last = grids[-3], grids[-1]
        growth = np.log(last["total"] / first["total"]) / np.log(last["states"] / first["states"])
        print(f"\ntime grows like states^{growth:.2f} over the last three sizes")
    table("Closed form: d_mu on a grid without a goal", [measured("closed_form", sparse_sides[-1])])
    table(
        "A graph without small separators (garnet, GMRES)", [measured("garnet", n) for n in garnets]
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(TASKS[sys.argv[1]](int(sys.argv[2])), default=float))
    else:
        main()
