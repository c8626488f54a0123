"""Updates per second of GEM: the fused engine, scan, a kernel by hand in Numba, and NumPy.

    python benchmarks/engine.py [--quick]

Every peer draws the stream, updates all lanes of all seeds and sums the emphasis error, on all
cores but for NumPy. Rounds of the peers alternate, and the best round of each counts: figures are
ratios of one run. Compilation is timed apart. The exit status is 1 if a limit is missed.
"""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

from emphatic import learners, problems
from emphatic.engine import MEASURES
from emphatic.engine.batch import Batch, transition_view
from emphatic.engine.choice import BLOCK, Compiler
from emphatic.engine.run import bundle_tasks
from emphatic.engine.scan import Experience
from emphatic.engine.stream import PARITY, ROTATIONS, Stream
from emphatic.engine.tasks import Results, run_tasks, Windows

QUICK = "--quick" in sys.argv
THREADS = 2
WINDOW = 1000
LANES, SEEDS = 4096, 4
FEATURES = (2, 8) if QUICK else (2, 4, 8, 16, 32, 64)
ROUNDS, SECONDS = (2, 0.2) if QUICK else (7, 0.5)
Peer = Callable[[int], np.ndarray]  # from a number of windows to the mean of the last one


def setting(num_features: int, num_lanes: int, dtype: str, make: Any = learners.gem):
    """A small problem with dense features, and lanes of step sizes at which GEM is stable."""
    problem = problems.garnet(7, 2, 4, num_features=num_features)
    lanes = {"step_size": np.geomspace(1e-5, 1e-3, num_lanes)}
    if make is learners.gem:
        lanes["ridge"] = np.linspace(0.0, 1e-3, num_lanes)
    error = {"emphasis_error": MEASURES["emphasis_error"]}
    view = transition_view(problem, problem.target, dtype)
    batch = Batch(make, lanes, problem, problem.target, view, error, np.dtype(dtype))
    return batch, Stream(problem)


def by_engine(
    engine: Any, batch: Batch, stream: Stream, num_seeds: int = SEEDS, threads: int = THREADS
) -> Peer:
    """An engine of ours, as `emphatic.engine.run` drives it."""
    job = Compiler(stream, engine).compile("gem", 0, batch)

    def go(num_windows: int) -> np.ndarray:
        windows = Windows(num_windows * WINDOW, WINDOW)
        job.results = Results(job, windows, num_seeds, record_weights=False)
        tasks = bundle_tasks([job], list(range(num_seeds)), BLOCK)
        run_tasks(tasks, windows, threads, None)
        return job.results.sums[-1, :, 0].sum(0) / WINDOW

    return go


# The hand-written peer


@numba.njit(nogil=True)
def threefry(low, high, time):
    """The two words of a counter (time, 0)."""
    keys = (low, high, np.uint32(low ^ high ^ np.uint32(PARITY)))
    a, b = np.uint32(time + keys[0]), np.uint32(keys[1])
    for block in range(5):
        for n in range(4):
            r = np.uint32(ROTATIONS[block % 2][n])
            a = np.uint32(a + b)
            b = np.uint32(a ^ np.uint32((b << r) | (b >> np.uint32(np.uint32(32) - r))))
        a = np.uint32(a + keys[(block + 1) % 3])
        b = np.uint32(b + keys[(block + 2) % 3] + np.uint32(block + 1))
    return a, b


@numba.njit(nogil=True)
def advance(rows, pair, seed, time, outcome, first, state_next, action, num_actions):
    """The rows of the next steps, and the pair after them."""
    for n in range(len(rows)):
        one, two = threefry(np.uint32(seed), np.uint32(0), np.uint32(time + n + 1))
        e = first[pair]
        while e < first[pair + 1] - 1 and outcome[e] <= one:
            e += 1
        start = state_next[e] * num_actions
        a = 0
        while a < num_actions - 1 and action[start + a] <= two:
            a += 1
        pair, rows[n] = start + a, e * num_actions + a
    return pair


def lane_by_lane(k: int, tile: int, real: Any):
    """GEM for a tile of lanes over a window, the features innermost: best for few of them."""

    @numba.njit(nogil=True, fastmath={"contract"}, error_model="numpy")
    def learn(rows, table, alpha, eta, state, total):
        sums = np.zeros(tile, real)
        for n in range(len(rows)):
            x, x_next, change, rest = table[rows[n]]
            interest, m, back = rest[0], rest[1], rest[2]
            for lane in range(tile):
                here, ahead, kept = real(0), real(0), real(0)
                for j in range(k):
                    w = state[k + j, lane]
                    here += x[j] * w
                    ahead += x_next[j] * w
                    kept += x_next[j] * state[j, lane]
                sums[lane] += abs(here - m)
                gain = alpha[lane] * (interest + back * here - ahead - kept)
                for j in range(k):
                    w = state[k + j, lane]
                    state[j, lane] += gain * x_next[j]
                    state[k + j, lane] = w + alpha[lane] * (change[j] * kept - eta[lane] * w)
        for lane in range(tile):
            total[lane] = sums[lane]

    return learn


def feature_by_feature(k: int, tile: int, real: Any):
    """The same with the lanes innermost: best for many features."""

    @numba.njit(nogil=True, fastmath={"contract"}, error_model="numpy")
    def learn(rows, table, alpha, eta, state, total):
        sums = np.zeros(tile, real)
        here, ahead = np.empty(tile, real), np.empty(tile, real)
        kept, gain = np.empty(tile, real), np.empty(tile, real)
        for n in range(len(rows)):
            x, x_next, change, rest = table[rows[n]]
            interest, m, back = rest[0], rest[1], rest[2]
            for lane in range(tile):
                here[lane] = ahead[lane] = kept[lane] = real(0)
            for j in range(k):
                for lane in range(tile):
                    w = state[k + j, lane]
                    here[lane] += x[j] * w
                    ahead[lane] += x_next[j] * w
                    kept[lane] += x_next[j] * state[j, lane]
            for lane in range(tile):
                sums[lane] += abs(here[lane] - m)
                gain[lane] = alpha[lane] * (interest + back * here[lane] - ahead[lane] - kept[lane])
            for j in range(k):
                for lane in range(tile):
                    w = state[k + j, lane]
                    state[j, lane] += gain[lane] * x_next[j]
                    state[k + j, lane] = w + alpha[lane] * (change[j] * kept[lane] - eta[lane] * w)
        for lane in range(tile):
            total[lane] = sums[lane]

    return learn


def by_hand(kernel: Any, tile: int, batch: Batch, stream: Stream, num_seeds: int = SEEDS) -> Peer:
    """A kernel by hand, threads over seeds."""
    y = batch.observe(stream.sample(np.arange(stream.num_rows), 0))
    k, real = y.x.shape[1], batch.dtype.type
    back = (y.discount * y.rho)[:, None]
    rest = np.zeros_like(y.x) if k >= 3 else np.zeros((len(y.x), 3), batch.dtype)
    rest[:, :3] = np.stack(
        [y.interest_next, batch.shared["emphasis_error"][y.state], back[:, 0]], 1
    )
    width = rest.shape[1]
    parts = [y.x, y.x_next, y.x_next - back * y.x, rest]
    table = np.stack([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts], 1)
    tables = stream.tables
    first, state_next = (a.astype(np.int64) for a in (tables.first, tables.state_next))
    law = tables.outcome, first, state_next, tables.action, stream.num_actions
    pairs = np.asarray(Experience(stream).begin(range(num_seeds))).tolist()
    alpha, eta = batch.lanes.arguments["step_size"], batch.lanes.arguments["ridge"]
    learn = kernel(k, tile, real)
    tiles = [slice(first, first + tile) for first in range(0, len(alpha), tile)]
    starts = []
    for seed in range(num_seeds):
        state = batch.initial(seed)
        whole = np.concatenate([np.asarray(state.kappa).T, np.asarray(state.w).T])
        starts.append([np.ascontiguousarray(whole[:, part]) for part in tiles])

    def go(num_windows: int) -> np.ndarray:
        totals = np.empty((num_seeds, len(alpha)))

        def run(seed: int) -> None:
            states, pair = [part.copy() for part in starts[seed]], pairs[seed]
            rows = np.empty(WINDOW, np.int64)
            for window in range(num_windows):
                time_now = window * WINDOW
                pair = advance(rows, pair, seed, time_now, *law)
                for part, state in zip(tiles, states, strict=True):
                    learn(rows, table, alpha[part], eta[part], state, totals[seed, part])

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(run, range(num_seeds)))
        return totals[0] / WINDOW

    return go


BY_HAND = [(kernel, tile) for kernel in (lane_by_lane, feature_by_feature) for tile in (64, 256)]


def by_numpy(batch: Batch, stream: Stream, lanes: int) -> Peer:
    """A loop over steps in Python, one seed, vectorised over lanes (one lane: as the authors)."""
    experience = Experience(stream)
    table = batch.observe(stream.sample(np.arange(stream.num_rows), 0))
    m = batch.shared["emphasis_error"]
    alpha, eta = (batch.lanes.arguments[name][:lanes, None] for name in ("step_size", "ridge"))

    def go(num_windows: int) -> np.ndarray:
        steps = num_windows * 20
        rows = np.asarray(experience.advance([0], 0, experience.begin([0]), steps)[1])[0]
        state = batch.initial(0)
        kappa, w = (np.array(part)[:lanes] for part in (state.kappa, state.w))
        total = np.zeros(lanes)
        for row in rows:
            x, x_next = table.x[row], table.x_next[row]
            back = table.discount[row] * table.rho[row]
            here, ahead, kept = w @ x, w @ x_next, kappa @ x_next
            total += np.abs(here - m[table.state[row]])
            delta = table.interest_next[row] + back * here - ahead
            kappa += alpha * (delta - kept)[:, None] * x_next
            w += alpha * (kept[:, None] * (x_next - back * x) - eta * w)
        return total / steps

    return go


def rates(peers: dict[str, tuple[Peer, float]]) -> dict[str, float]:
    """Updates per second; each peer comes with the updates that one window makes."""
    windows, best = {}, dict.fromkeys(peers, 0.0)
    for name, (go, _) in peers.items():
        go(1)  # compiles
        begun, count = time.perf_counter(), 1
        go(1)
        count = max(1, int(SECONDS / (time.perf_counter() - begun)))
        windows[name] = count
    for _ in range(ROUNDS):
        for name, (go, updates) in peers.items():
            begun = time.perf_counter()
            go(windows[name])
            rate = windows[name] * updates / (time.perf_counter() - begun)
            best[name] = max(best[name], rate)
    return best


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """A table in markdown."""
    print(f"\n## {title}\n\n| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        cells = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
        print("| " + " | ".join(cells) + " |", flush=True)


def features(dtype: str, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """All peers, by the number of features."""
    found = []
    for k in sizes:
        batch, stream = setting(k, LANES, dtype)
        all_lanes = float(WINDOW * LANES * SEEDS)
        peers = {
            "fused": (by_engine("fused", batch, stream), all_lanes),
            "scan": (by_engine("scan", batch, stream), all_lanes),
            **{
                f"Numba {number}": (by_hand(kernel, tile, batch, stream), all_lanes)
                for number, (kernel, tile) in enumerate(BY_HAND)
            },
            "NumPy, 4096 lanes": (by_numpy(batch, stream, LANES), 20.0 * LANES),
            "NumPy, one learner": (by_numpy(batch, stream, 1), 20.0),
        }
        final = [go(2) for name, (go, _) in peers.items() if "NumPy" not in name]
        for other in final[1:]:  # they compute the same
            np.testing.assert_allclose(other, final[0], rtol=1e-3 if dtype == "float32" else 1e-9)
        rate = rates(peers)
        by_number = [rate.pop(f"Numba {number}") for number in range(len(BY_HAND))]
        rate["Numba by hand"] = max(by_number)
        ratios = {
            "fused / scan": rate["fused"] / rate["scan"],
            "fused / Numba": rate["fused"] / rate["Numba by hand"],
        }
        found.append({"features": k, **rate, **ratios})
    return found


def scaling() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The fused engine by the number of lanes and of threads, with 8 features."""
    by_lanes, by_threads = [], []
    for lanes in (1, 8, 64, 512, 4096):
        peers = {
            name: (by_engine(name, *setting(8, lanes, "float32"), 8), 8.0 * WINDOW * lanes)
            for name in ("fused", "scan")
        }
        by_lanes.append({"lanes": lanes, **rates(peers)})
    batch, stream = setting(8, LANES, "float32")
    for threads in range(1, THREADS + 1):
        peer = by_engine("fused", batch, stream, SEEDS, threads)
        rate = rates({"fused": (peer, float(WINDOW * LANES * SEEDS))})
        by_threads.append({"threads": threads, **rate})
    return by_lanes, by_threads


def compilation() -> list[dict[str, Any]]:
    """Seconds from a function to native code and its tables, 8 features, JAX itself warm."""
    makes = {
        "gem": learners.gem,
        "gq2": learners.gq2,
        "gtd2": learners.gtd2,
        "tdc": learners.tdc,
        "td": learners.td,
        "reverse_td": learners.reverse_td,
        "followon": lambda step_size: learners.followon(decay=step_size),
        "etd(followon)": lambda step_size: learners.etd(learners.followon(), step_size),
        "etd(gem)": lambda step_size: learners.etd(learners.gem(0.01), step_size),
    }
    setting(8, 64, "float32")
    found = []
    for name, make in makes.items():
        begun = time.perf_counter()
        batch, stream = setting(8, 64, "float32", make)
        Compiler(stream, "fused").compile(name, 0, batch)
        found.append({"learner": name, "seconds": time.perf_counter() - begun})
    return found


def main() -> int:
    single = features("float32", FEATURES)
    show("GEM in float32: updates per second", single)
    if not QUICK:
        show("GEM in float64: updates per second", features("float64", (8,)))
        by_lanes, by_threads = scaling()
        show("The number of lanes (8 seeds, 8 features)", by_lanes)
        show("The number of threads (4096 lanes, 4 seeds, 8 features)", by_threads)
    compiled = compilation()
    show("Compilation", compiled)
    by = {row["features"]: row for row in single}
    limits = {
        "fused is 3.5 times scan with 8 features": by[8]["fused / scan"] >= 3.5,
        "fused is 8 times scan with 2 features": by[2]["fused / scan"] >= 8.0,
        "fused is never slower than scan": min(r["fused / scan"] for r in single) >= 1.0,
        "fused is never slower than Numba": min(r["fused / Numba"] for r in single) >= 1.0,
        "scan makes 1e8 updates/s with 8 features": by[8]["scan"] >= 1e8,
        "every learner compiles in half a second": max(r["seconds"] for r in compiled) < 0.5,
    }
    print("\n## Limits\n")
    for name, met in limits.items():
        print(f"- {'met' if met else 'MISSED'}: {name}")
    return 0 if all(limits.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
