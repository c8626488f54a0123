"""The fused engine on a GPU, beside CUDA C by hand and the CPU.

It needs a GPU of NVIDIA, the extra `cuda`, and `nvidia-cuda-nvrtc` for the CUDA C. Updates per
second; the best of three rounds counts. Kernels alone: rows are drawn before, results copied.
"""

import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from emphatic import learners, problems, schedules
from emphatic.agents import actor_critic, over_states
from emphatic.engine import DeviceName, MEASURES, run
from emphatic.engine.batch import Batch, sample_view, transition_view
from emphatic.engine.experience import Chunks
from emphatic.engine.fused import cuda, gpu
from emphatic.engine.fused.kernels import learning_kernel
from emphatic.engine.stream import Stream
from emphatic.problems import ACTOR_FEATURES

LANES, SEEDS, STEPS, CHUNK, ROUNDS = 16_384, 64, 20_000, 1000, 3
BLOCKS = 64, 128, 256, 512

BY_HAND = r"""
// GEM with 8 features and the error of the emphasis, as one would write it: a thread is a lane.
#ifndef MEASURED
#define MEASURED 1
#endif
extern "C" __global__ void gem(
    const unsigned* rows, const float4* table, int num_rows, const float* alphas, const float* etas,
    float* states, double* sums, int lanes, int steps, int chunk)
{
    extern __shared__ float4 shared[];
    for (int i = threadIdx.x; i < 7 * num_rows; i += blockDim.x) shared[i] = table[i];
    __syncthreads();
    int lane = blockIdx.x * blockDim.x + threadIdx.x, seed = blockIdx.y, cells = lanes * gridDim.y;
    if (lane >= lanes) return;
    float alpha = alphas[lane], eta = etas[lane], kappa[8], w[8];
    int cell = seed * lanes + lane;
    for (int j = 0; j < 8; j++) {
        kappa[j] = states[j * cells + cell];
        w[j] = states[(8 + j) * cells + cell];
    }
    rows += seed * steps;
    for (int first = 0; first < steps; first += chunk) {
        float total = 0.0f;
        for (int t = first; t < first + chunk; t++) {
            const float* y = (const float*)(shared + 7 * rows[t]);  // x, x', x' - gamma rho x, rest
            float here = 0.0f, ahead = 0.0f, kept = 0.0f;
            for (int j = 0; j < 8; j++) {
                here += y[j] * w[j];
                ahead += y[8 + j] * w[j];
                kept += y[8 + j] * kappa[j];
            }
            if (MEASURED) total += fabsf(here - y[25]);
            float gain = alpha * (y[24] + y[26] * here - ahead - kept);
            for (int j = 0; j < 8; j++) {
                kappa[j] += gain * y[8 + j];
                w[j] += alpha * (y[16 + j] * kept - eta * w[j]);
            }
        }
        sums[(first / chunk) * cells + cell] += total;
    }
    for (int j = 0; j < 8; j++) {
        states[j * cells + cell] = kappa[j];
        states[(8 + j) * cells + cell] = w[j];
    }
}
"""


def compile_by_hand(is_measured: bool, architecture: str) -> bytes:
    """Machine code of the CUDA C, by NVRTC."""
    from cuda.bindings import nvrtc  # pyright: ignore[reportMissingImports]

    def checked(results: tuple[Any, ...]) -> Any:
        error, *values = results
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(nvrtc.nvrtcGetErrorString(error)[1])
        return values[0] if values else None

    program = checked(nvrtc.nvrtcCreateProgram(BY_HAND.encode(), b"gem.cu", 0, [], []))
    options = [f"-arch={architecture}".encode(), f"-DMEASURED={int(is_measured)}".encode()]
    checked(nvrtc.nvrtcCompileProgram(program, len(options), options))
    code = b"\0" * checked(nvrtc.nvrtcGetCUBINSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, code))
    return code


def gem_batch(num_features: int, dtype: str, lanes: int = LANES) -> tuple[Batch, Stream]:
    """GEM with the error of the emphasis, on a Garnet; on Baird's problem with 8 features."""
    problem = problems.garnet(7, 2, 4, num_features=num_features)
    if num_features == 8:
        problem = problems.baird("original", solid=0.1)
    return _batch(problem, learners.gem, "emphasis_error", dtype, lanes)


def _batch(problem: Any, make: Any, measure: str, dtype: str, lanes: int) -> tuple[Batch, Stream]:
    values = {"step_size": np.geomspace(1e-5, 1e-2, lanes), "ridge": np.linspace(0, 1e-3, lanes)}
    view, target = transition_view(problem, problem.target, dtype), problem.target
    measures = {measure: MEASURES[measure]}
    return Batch(make, values, problem, target, view, measures, np.dtype(dtype)), Stream(problem)


def gem_etd_batch() -> tuple[Batch, Stream]:
    """GEM-ETD with the error of the values."""

    def make(step_size: Any, ridge: Any) -> Any:
        return learners.etd(learners.gem(0.025, ridge), step_size)

    return _batch(problems.baird("original", solid=0.1), make, "rmsve", "float32", LANES)


def cof_pac_batch() -> tuple[Batch, Stream]:
    """COF-PAC on the counterexample, with schedules."""
    problem = problems.counterexample(continuing=True)
    alpha = schedules.polynomial(0.1, 0.6, onset=1e4)

    def make(step_size: Any, ridge: Any) -> Any:
        policy, emphasis = over_states(ACTOR_FEATURES, num_actions=2), learners.gem(alpha, ridge)
        beta = schedules.polynomial(step_size, 0.9, onset=1e4)
        return actor_critic(problem, policy, emphasis, learners.gq2(alpha, ridge), beta)

    values = {"step_size": np.geomspace(1e-5, 1e-3, LANES), "ridge": np.linspace(0, 1e-3, LANES)}
    view = sample_view("float32")
    batch = Batch(make, values, problem, problem.behavior, view, {}, np.dtype("float32"))
    return batch, Stream(problem)


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """A table in markdown."""
    print(f"\n## {title}\n\n| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        cells = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
        print("| " + " | ".join(cells) + " |", flush=True)


def best_rate(go: Callable[[], object], updates: float) -> float:
    """Updates per second in the best of some rounds, after one to warm up."""
    seconds = []
    for _ in range(ROUNDS + 1):
        begun = time.perf_counter()
        go()
        seconds.append(time.perf_counter() - begun)
    return updates / min(seconds[1:])


def by_engine(device: cuda.Device, batch: Batch, stream: Stream) -> list[dict[str, Any]]:
    """The kernel alone, of each width and block size."""
    experience = gpu.Experience(stream, device)
    seeds = list(range(SEEDS))
    _, rows = experience.advance(seeds, 0, experience.begin(seeds), STEPS)
    chunks = Chunks(np.full(STEPS // CHUNK, CHUNK), np.zeros(STEPS // CHUNK, int), False)
    sums = np.zeros((1, len(batch.measures), SEEDS, batch.num_lanes))
    found, updates = [], float(STEPS * SEEDS * batch.num_lanes)
    for width in gpu.WIDTHS:
        program = gpu.Program(batch, stream, device, width)
        states = program.begin(seeds)
        shared = device.shared_bytes
        compiled = device.compile(learning_kernel(program.step, width, shared))
        for block in BLOCKS:
            gpu.BLOCK_SIZES = (block,)  # pyright: ignore[reportAttributeAccessIssue]
            if not compiled.num_resident(block):
                continue

            def go(program: gpu.Program = program, states: gpu.States = states) -> None:
                program.advance(rows, 0, chunks, states, sums)

            rate = best_rate(go, updates)
            row = {"width": width, "block": block, "registers": compiled.num_registers}
            found.append({**row, "local": compiled.local_bytes, "updates/s": rate})
    return found


def by_hand(device: cuda.Device, is_measured: bool) -> float:
    """The CUDA C, in its best block size."""
    batch, stream = gem_batch(8, "float32")
    y = batch.observe(stream.sample(np.arange(stream.num_rows), 0))
    back = (y.discount * y.rho)[:, None]
    m = batch.shared["emphasis_error"][y.state]
    rest = np.stack([y.interest_next, m, back[:, 0], 0 * m], 1)
    table = np.concatenate([y.x, y.x_next, y.x_next - back * y.x, rest], 1).astype(np.float32)
    major, minor = device.capability
    module = device.call("cuModuleLoadData", compile_by_hand(is_measured, f"sm_{major}{minor}"))
    function = device.call("cuModuleGetFunction", module, b"gem")
    experience, seeds = gpu.Experience(stream, device), list(range(SEEDS))
    _, rows = experience.advance(seeds, 0, experience.begin(seeds), STEPS)
    firsts = [batch.initial(seed) for seed in seeds]
    cells = [[np.asarray(leaf).T for leaf in (state.kappa, state.w)] for state in firsts]
    states = np.stack([np.concatenate(parts) for parts in cells], 1)
    arrays = [table, *(batch.lanes.arguments[name] for name in ("step_size", "ridge")), states]
    memories = [device.allocate(array.nbytes) for array in arrays]
    for array, memory in zip(arrays, memories, strict=True):
        device.upload(np.ascontiguousarray(array), memory)
    sums = device.allocate(8 * STEPS // CHUNK * SEEDS * LANES)
    long, whole = ctypes.c_int64, ctypes.c_int32
    pointers = [memory.address for memory in memories]
    values = (rows.memory.address, pointers[0], len(table), *pointers[1:], sums.address)
    kinds = (long, long, whole, long, long, long, long, whole, whole, whole)
    arguments = (*values, LANES, STEPS, CHUNK), kinds
    best = 0.0
    for block in BLOCKS:
        shape = -(-LANES // block), SEEDS, 1, block, 1, 1, table.nbytes, device.stream

        def go(shape: Any = shape) -> None:
            device.call("cuLaunchKernel", function, *shape, arguments, 0)
            device.call("cuStreamSynchronize", device.stream)

        best = max(best, best_rate(go, float(STEPS) * SEEDS * LANES))
    return best


def end_to_end(device: DeviceName, lanes: int, seeds: int, steps: int) -> float:
    """Updates per second of a whole run, with all that goes before and after it."""
    problem = problems.baird("original", solid=0.1)
    grid = {"step_size": np.geomspace(1e-5, 1e-2, lanes)}
    arguments: Any = {"num_steps": steps, "seeds": seeds, "record_every": steps // 10}
    begun = time.perf_counter()
    run(problem, ["gem"], grid, device=device, **arguments)
    return lanes * seeds * steps / (time.perf_counter() - begun)


def main() -> int:
    device = cuda.find_device()
    print(f"# {device}\n")
    by_lanes: dict[str, float] = {}
    settings = {f"GEM, {k} features": gem_batch(k, "float32") for k in (2, 8, 16, 32, 64)}
    settings |= {"GEM, float64": gem_batch(8, "float64")}
    settings |= {"GEM-ETD": gem_etd_batch(), "COF-PAC": cof_pac_batch()}
    for name, (batch, stream) in settings.items():
        found = by_engine(device, batch, stream)
        by_lanes[name] = max(row["updates/s"] for row in found)
        show(f"{name}: lanes of a thread, threads of a block", found)
    hand = {f"by hand{', no measure' * (not m)}": by_hand(device, m) for m in (True, False)}
    rates = {**by_lanes, **hand}
    show("The best of each", [{"learner": name, "updates/s": rate} for name, rate in rates.items()])
    growth = []
    for lanes, seeds in ((1, 1), (64, 1), (1024, 8), (1, 10_000), (16_384, 64), (2**17, 80)):
        row: dict[str, Any] = {"lanes": lanes, "seeds": seeds, "cpu": "-"}
        if lanes * seeds <= 2**20:
            row["cpu"] = end_to_end("cpu", lanes, seeds, 20_000)
        growth.append({**row, "gpu": end_to_end("gpu", lanes, seeds, 100_000)})
    show("Whole runs", growth)
    limits = {
        "GEM is as fast as by hand": by_lanes["GEM, 8 features"] >= hand["by hand"],
        "COF-PAC makes 7e10 updates/s": by_lanes["COF-PAC"] >= 7e10,
    }
    print("\n## Limits\n")
    for name, met in limits.items():
        print(f"- {'met' if met else 'MISSED'}: {name}")
    return 0 if all(limits.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
