"""Updates per second of COF-PAC on the three-state counterexample: fused beside scan.

    python benchmarks/agents.py [--quick]

An update is one iteration of Algorithm 1: two critics, the actor, and the policy at two states.
Lanes are ridges and step sizes of the actor. Scan runs at several batch sizes (lanes of several
seeds together) and the best counts; rounds alternate, as in `engine.py`. The exit status is 1 if
the limit is missed.
"""

import sys
from functools import partial
from typing import Any

import numpy as np
from engine import by_engine, QUICK, rates, show, THREADS, WINDOW

from emphatic.agents import actor_critic
from emphatic.engine import scan
from emphatic.engine.batch import Batch, sample_view
from emphatic.engine.stream import Stream
from emphatic.figures.convergence.agents import EPISODIC
from emphatic.learners import gem, gq2
from emphatic.schedules import polynomial

LANES = (16, 512) if QUICK else (16, 64, 512, 4096)
BATCHES = (512,) if QUICK else (256, 512, 1024, 4096)
LIMIT = 8.0


def cof_pac(problem: Any, ridge: Any, actor: Any) -> Any:
    """The agent of the figure, with its ridge and its actor's first step size as lanes."""
    return actor_critic(
        problem,
        EPISODIC.policy,
        gem(EPISODIC.critics, ridge),
        gq2(EPISODIC.critics, ridge),
        polynomial(actor, 0.9, 1e4),
        theta=EPISODIC.start,
    )


def setting(num_lanes: int, dtype: str) -> tuple[Batch, Stream]:
    problem = EPISODIC.build()
    lanes = {
        "ridge": np.linspace(1e-5, 1e-3, num_lanes),
        "actor": np.geomspace(1e-4, 1e-2, num_lanes),
    }
    make, real = partial(cof_pac, problem), np.dtype(dtype)
    batch = Batch(make, lanes, problem, problem.behavior, sample_view(real), {}, real)
    return batch, Stream(problem)


def batched(batch: int, num_lanes: int, dtype: str) -> Any:
    """Scan with this many learners in each call, and two calls at a time."""
    num_seeds = max(THREADS, THREADS * batch // num_lanes)
    peer = by_engine("scan", *setting(num_lanes, dtype), num_seeds)

    def go(num_windows: int) -> Any:
        scan.BATCH = batch
        return peer(num_windows)

    return go, float(WINDOW * num_lanes * num_seeds)


def lanes(dtype: str) -> list[dict[str, Any]]:
    """Both engines, by the number of lanes."""
    found = []
    for count in LANES:
        peers = {f"scan {batch}": batched(batch, count, dtype) for batch in BATCHES}
        fused = by_engine("fused", *setting(count, dtype), 8)
        rate = rates({"fused": (fused, 8.0 * WINDOW * count), **peers})
        best = max(BATCHES, key=lambda batch: rate[f"scan {batch}"])
        row = {"lanes": count, "fused": rate["fused"], "scan": rate[f"scan {best}"]}
        found.append({**row, "its batch": best, "fused / scan": row["fused"] / row["scan"]})
    return found


def main() -> int:
    single = lanes("float32")
    show("COF-PAC in float32: updates per second", single)
    show("COF-PAC in float64: updates per second", lanes("float64"))
    met = min(row["fused / scan"] for row in single) >= LIMIT
    print(f"\n- {'met' if met else 'MISSED'}: fused is {LIMIT:g} times scan with 16 lanes and more")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
