"""The fused engine on a GPU, beside CUDA C by hand, JAX on the same GPU, and two cores of a CPU.

It needs a GPU of NVIDIA, the extra `cuda`, `nvidia-cuda-nvrtc` for the CUDA C, and JAX with CUDA
for the scan. It takes about eight minutes, writes tables in markdown, and fails if a limit is
missed.

    python benchmarks/gpu.py --out gpu.md    all of it
    python benchmarks/gpu.py --small         of tiny sizes, to see whether it runs

Kernels alone are timed with rows drawn before, and results copied; the best of some rounds counts.
An update is one step of one learner, with its measure.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from emphatic import learners, problems, schedules
from emphatic.agents import actor_critic, over_states
from emphatic.engine import MEASURES, run
from emphatic.engine.batch import Batch, sample_view, transition_view
from emphatic.engine.experience import Chunks
from emphatic.engine.fused import cuda, gpu
from emphatic.engine.fused.estimate import num_instructions
from emphatic.engine.fused.program import StepProgram
from emphatic.engine.stream import Stream
from emphatic.problems import ACTOR_FEATURES

BLOCKS, ROUNDS, CHUNK = (64, 128, 256), 3, 1000
FEATURES = 2, 4, 8, 16, 32, 64
GROWTH = (1, 1), (1, 100), (10, 100), (100, 100), (1000, 100), (1000, 1000), (10_000, 1000)


class Size(NamedTuple):
    """How much is timed."""

    lanes: int = 16_384
    seeds: int = 64
    steps: int = 20_000
    cpu_updates: float = 5e9
    gpu_updates: float = 1e11
    runs: int = 1000
    sweep_steps: int = 1_000_000


SMALL = Size(lanes=40, seeds=3, steps=2000, cpu_updates=2e5, gpu_updates=2e5, runs=2)
SMALL = SMALL._replace(sweep_steps=2000)

BY_HAND = r"""
// GEM with 8 features and the error of the emphasis, as one would write it: W lanes in a thread,
// their state in registers, the table of rows in shared memory, four numbers of it in a load.
extern "C" __global__ void gem(
    const unsigned* rows, const float4* table, int num_rows, const float* alphas, const float* etas,
    float* states, double* sums, int lanes, int steps, int chunk)
{
    extern __shared__ float4 shared[];
    for (int i = threadIdx.x; i < 7 * num_rows; i += blockDim.x) shared[i] = table[i];
    __syncthreads();
    int lane = (blockIdx.x * blockDim.x + threadIdx.x) * W, seed = blockIdx.y;
    if (lane >= lanes) return;
    int cells = lanes * gridDim.y, cell = seed * lanes + lane;
    float alpha[W], eta[W], kappa[W][8], w[W][8];
    for (int n = 0; n < W; n++) {
        alpha[n] = alphas[lane + n];
        eta[n] = etas[lane + n];
        for (int j = 0; j < 8; j++) {
            kappa[n][j] = states[j * cells + cell + n];
            w[n][j] = states[(8 + j) * cells + cell + n];
        }
    }
    rows += (long long)seed * steps;
    for (int first = 0; first < steps; first += chunk) {
        float total[W] = {};
        for (int t = first; t < first + chunk; t++) {
            float y[28];  // x, x', x' - gamma rho x, i', m, gamma rho
            for (int i = 0; i < 7; i++) ((float4*)y)[i] = shared[7 * rows[t] + i];
            for (int n = 0; n < W; n++) {
                float here = 0.0f, ahead = 0.0f, kept = 0.0f;
                for (int j = 0; j < 8; j++) {
                    here += y[j] * w[n][j];
                    ahead += y[8 + j] * w[n][j];
                    kept += y[8 + j] * kappa[n][j];
                }
                if (MEASURED) total[n] += fabsf(here - y[25]);
                float gain = alpha[n] * (y[24] + y[26] * here - ahead - kept);
                for (int j = 0; j < 8; j++) {
                    kappa[n][j] += gain * y[8 + j];
                    w[n][j] += alpha[n] * (y[16 + j] * kept - eta[n] * w[n][j]);
                }
            }
        }
        for (int n = 0; n < W; n++) sums[cell + n] += total[n];
    }
    for (int n = 0; n < W; n++)
        for (int j = 0; j < 8; j++) {
            states[j * cells + cell + n] = kappa[n][j];
            states[(8 + j) * cells + cell + n] = w[n][j];
        }
}
"""

PRINTED: list[str] = []


def say(line: str = "") -> None:
    """Prints a line, and keeps it for the file."""
    PRINTED.append(line)
    print(line, flush=True)


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """A table in markdown."""
    say(f"\n## {title}\n\n| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        cells = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
        say("| " + " | ".join(cells) + " |")


def best_rate(go: Callable[[], object], updates: float) -> float:
    """Updates per second in the best of some rounds, after one to warm up."""
    seconds = []
    for _ in range(ROUNDS + 1):
        begun = time.perf_counter()
        go()
        seconds.append(time.perf_counter() - begun)
    return updates / min(seconds[1:])


# What is timed


def make_batch(
    problem: Any, make: Any, measure: str, lanes: int, dtype: str = "float32"
) -> tuple[Batch, Stream]:
    """A critic with a step size and a ridge for each lane."""
    values = {"step_size": np.geomspace(1e-5, 1e-2, lanes), "ridge": np.linspace(0, 1e-3, lanes)}
    view, target = transition_view(problem, problem.target, dtype), problem.target
    measures = {measure: MEASURES[measure]}
    return Batch(make, values, problem, target, view, measures, np.dtype(dtype)), Stream(problem)


def baird() -> Any:
    return problems.baird("original", solid=0.1)


def gem(num_features: int, lanes: int, dtype: str = "float32") -> tuple[Batch, Stream]:
    """GEM with the error of the emphasis, on a Garnet; with 8 features on Baird's problem."""
    problem = baird()
    if num_features != 8:
        problem = problems.garnet(7, 2, 4, num_features=num_features)
    return make_batch(problem, learners.gem, "emphasis_error", lanes, dtype)


def gem_etd(lanes: int) -> tuple[Batch, Stream]:
    """GEM-ETD with the error of the values."""

    def make(step_size: Any, ridge: Any) -> Any:
        return learners.etd(learners.gem(0.025, ridge), step_size)

    return make_batch(baird(), make, "rmsve", lanes)


def cof_pac(lanes: int) -> tuple[Batch, Stream]:
    """COF-PAC on the counterexample, with schedules."""
    problem = problems.counterexample(continuing=True)
    alpha = schedules.polynomial(0.1, 0.6, onset=1e4)

    def make(step_size: Any, ridge: Any) -> Any:
        policy, emphasis = over_states(ACTOR_FEATURES, num_actions=2), learners.gem(alpha, ridge)
        beta = schedules.polynomial(step_size, 0.9, onset=1e4)
        return actor_critic(problem, policy, emphasis, learners.gq2(alpha, ridge), beta)

    values = {"step_size": np.geomspace(1e-5, 1e-3, lanes), "ridge": np.linspace(0, 1e-3, lanes)}
    view = sample_view("float32")
    batch = Batch(make, values, problem, problem.behavior, view, {}, np.dtype("float32"))
    return batch, Stream(problem)


# Kernels alone


class Setting(NamedTuple):
    """A batch on a GPU, with the rows that it learns from."""

    device: cuda.Device
    batch: Batch
    stream: Stream
    rows: gpu.Rows
    chunks: Chunks

    @property
    def updates(self) -> float:
        """How many a launch makes."""
        return float(self.rows.num_steps * self.rows.num_seeds * self.batch.num_lanes)


def prepare(device: cuda.Device, batch: Batch, stream: Stream, seeds: int, steps: int) -> Setting:
    experience, numbers = gpu.Experience(stream, device), list(range(seeds))
    _, rows = experience.advance(numbers, 0, experience.begin(numbers), steps)
    lengths = np.full(steps // CHUNK, CHUNK)
    return Setting(device, batch, stream, rows, Chunks(lengths, 0 * lengths, False))


def learn(setting: Setting, program: gpu.Program, states: gpu.States) -> tuple[Any, ...]:
    """Learns from all rows."""
    batch, num_seeds = setting.batch, setting.rows.num_seeds
    sums = np.zeros((1, len(batch.measures), num_seeds, batch.num_lanes))
    return program.advance(setting.rows, 0, setting.chunks, states, sums)


def time_kernel(setting: Setting, width: int | None = None) -> tuple[int, float]:
    """The width and the rate of a kernel, of the engine's own width and block size by default."""
    program = gpu.Program(setting.batch, setting.stream, setting.device, width)
    states = program.begin(range(setting.rows.num_seeds))
    return states.width, best_rate(lambda: learn(setting, program, states), setting.updates)


def time_all(setting: Setting) -> tuple[list[dict[str, Any]], float]:
    """All widths and block sizes, and the rate of those that the engine chooses."""
    table: list[dict[str, Any]] = []
    chosen, rate = time_kernel(setting)
    sizes = gpu.BLOCK_SIZES
    for width in gpu.WIDTHS:
        program = gpu.Program(setting.batch, setting.stream, setting.device, width)
        kernel = program._kernel(width)  # pyright: ignore[reportPrivateUsage]
        row: dict[str, Any] = {"lanes of a thread": f"{width}{' (chosen)' * (width == chosen)}"}
        row |= {"registers": kernel.num_registers, "local bytes": kernel.local_bytes}
        for block in BLOCKS:
            gpu.BLOCK_SIZES = (block,)  # pyright: ignore[reportAttributeAccessIssue]
            fits = kernel.num_resident(block) > 0
            row[f"blocks of {block}"] = time_kernel(setting, width)[1] if fits else "-"
        table.append(row)
        gpu.BLOCK_SIZES = sizes
    return table, rate


def fastest(table: list[dict[str, Any]]) -> float:
    return max(v for row in table for v in row.values() if isinstance(v, float))


def limit_of(setting: Setting) -> dict[str, float]:
    """What the chip could do: its instructions per second over those of an update."""
    device, count = setting.device, num_instructions(StepProgram(setting.batch, setting.stream))
    ratio = device.double_ratio if setting.batch.dtype == np.float64 else 1
    rate = device.num_cores * device.cycles / ratio
    return {"instructions": float(count), "limit": rate / count}


# By hand


def compile_by_hand(width: int, is_measured: bool, architecture: str) -> bytes:
    """Machine code of the CUDA C, by NVRTC."""
    from cuda.bindings import nvrtc  # pyright: ignore[reportMissingImports]

    def checked(results: tuple[Any, ...]) -> Any:
        error, *values = results
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(nvrtc.nvrtcGetErrorString(error)[1])
        return values[0] if values else None

    program = checked(nvrtc.nvrtcCreateProgram(BY_HAND.encode(), b"gem.cu", 0, [], []))
    defined = [f"-arch={architecture}", f"-DMEASURED={int(is_measured)}", f"-DW={width}"]
    checked(nvrtc.nvrtcCompileProgram(program, len(defined), [o.encode() for o in defined]))
    code = b"\0" * checked(nvrtc.nvrtcGetCUBINSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, code))
    return code


def by_hand(setting: Setting, is_measured: bool) -> float:
    """The CUDA C in its best width and block size; its results are compared with the engine's."""
    device, batch, stream = setting.device, setting.batch, setting.stream
    seeds, steps, lanes = setting.rows.num_seeds, setting.rows.num_steps, batch.num_lanes
    y = batch.observe(stream.sample(np.arange(stream.num_rows), 0))
    back = (y.discount * y.rho)[:, None]
    m = batch.shared["emphasis_error"][y.state]
    rest = np.stack([y.interest_next, m, back[:, 0], 0 * m], 1)
    table = np.concatenate([y.x, y.x_next, y.x_next - back * y.x, rest], 1).astype(np.float32)
    firsts = [batch.initial(seed) for seed in range(seeds)]
    cells = [[np.asarray(leaf).T for leaf in (state.kappa, state.w)] for state in firsts]
    states = np.stack([np.concatenate(parts) for parts in cells], 1)
    arrays = [table, *(batch.lanes.arguments[name] for name in ("step_size", "ridge")), states]
    arrays.append(np.zeros((seeds, lanes)))
    memories = [device.allocate(array.nbytes) for array in arrays]
    pointers = [memory.address for memory in memories]
    long, whole = ctypes.c_int64, ctypes.c_int32
    values = (setting.rows.memory.address, pointers[0], len(table), *pointers[1:])
    kinds = (long, long, whole, long, long, long, long, whole, whole, whole)
    arguments = (*values, lanes, steps, CHUNK), kinds
    major, minor = device.capability
    best = 0.0
    for width in gpu.WIDTHS:
        code = compile_by_hand(width, is_measured, f"sm_{major}{minor}")
        module = device.call("cuModuleLoadData", code)
        function = device.call("cuModuleGetFunction", module, b"gem")
        for block in BLOCKS:
            shape = -(-lanes // (block * width)), seeds, 1, block, 1, 1, table.nbytes, device.stream

            def go(function: Any = function, shape: Any = shape) -> None:
                device.call("cuLaunchKernel", function, *shape, arguments, 0)
                device.call("cuStreamSynchronize", device.stream)

            for array, memory in zip(arrays, memories, strict=True):
                device.upload(np.ascontiguousarray(array), memory)
            go()
            compare(setting, memories[-2:], is_measured)
            best = max(best, best_rate(go, setting.updates))
    return best


def compare(setting: Setting, memories: list[Any], is_measured: bool) -> None:
    """An error unless states and sums by hand are the engine's, to what rounding does."""
    device, shape = setting.device, (setting.rows.num_seeds, setting.batch.num_lanes)
    program = gpu.Program(setting.batch, setting.stream, device, 1)
    states, sums, _, _ = learn(setting, program, program.begin(range(shape[0])))
    num_state = setting.batch.num_state
    expected, found = (np.empty((num_state, *shape), np.float32) for _ in range(2))
    device.download(states.memory, expected)
    device.download(memories[0], found)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2 * np.abs(expected).max())
    totals = np.empty(shape)
    device.download(memories[1], totals)
    if is_measured:
        np.testing.assert_allclose(totals, sums[0, 0], rtol=1e-2)


# Other engines

CAPTURED: Any = {"capture_output": True, "text": True, "check": False}


def time_scan(size: Size) -> dict[str, Any]:
    """GEM by `vmap` of `lax.scan`, in a process of its own, where JAX takes its GPU."""
    code = f"from gpu import scan, Size; scan(Size(*{tuple(size)}))"
    settings = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONPATH": os.pathsep.join(sys.path)}
    folder, settings = Path(__file__).parent, {**os.environ, **settings}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=settings, **CAPTURED)
    with suppress(ValueError, IndexError):
        return json.loads(done.stdout.splitlines()[-1])
    return {"platform": f"failed: {done.stderr.strip()[-200:]}", "rate": 0.0}


def scan(size: Size) -> None:
    """Prints the rate of the scan, and on what JAX ran it."""
    import jax

    steps = CHUNK * max(2, size.steps // (10 * CHUNK))
    rate = time_run(size.lanes, size.seeds, steps, engine="scan")[0]
    print(json.dumps({"platform": jax.devices()[0].platform, "rate": rate}))


def time_run(lanes: int, seeds: int, steps: int, **settings: Any) -> tuple[float, float, str]:
    """Rate, seconds and device of a whole run; the second one counts."""
    grid = {"step_size": np.geomspace(1e-5, 1e-2, lanes)}
    arguments: Any = {"num_steps": steps, "seeds": seeds, "record_every": steps}
    seconds, name = 0.0, ""
    for _ in range(2):
        begun = time.perf_counter()
        dataset = run(baird(), ["gem"], grid, **arguments, **settings)
        seconds, name = time.perf_counter() - begun, dataset.attrs["device"]
    return lanes * seeds * steps / seconds, seconds, name


def grow(size: Size) -> list[dict[str, Any]]:
    """Whole runs from one learner to ten million, on GPU and CPU, and what `auto` takes."""
    table: list[dict[str, Any]] = []
    for lanes, seeds in GROWTH:
        learners_ = lanes * seeds
        if learners_ > size.gpu_updates / 100:
            break
        steps = int(min(200_000, max(2000, size.gpu_updates / learners_)))
        on_gpu, gpu_seconds, _ = time_run(lanes, seeds, steps, device="gpu")
        few = int(min(steps, max(1000, size.cpu_updates / learners_)))
        on_cpu, _, _ = time_run(lanes, seeds, few, device="cpu", num_threads=2)
        row: dict[str, Any] = {"lanes": lanes, "seeds": seeds, "steps": steps, "GPU": on_gpu}
        cpu_seconds = learners_ * steps / on_cpu
        row |= {"two cores": on_cpu, "GPU / CPU": on_gpu / on_cpu}
        row |= {"GPU, s": gpu_seconds, "CPU, s (computed)": cpu_seconds}
        auto = time_run(lanes, seeds, min(few, 2000), device="auto", num_threads=2)[2]
        table.append({**row, "auto, 2000 steps": "CPU" if auto == "CPU" else "GPU"})
    return table


SWEEP = """
name = "many"
steps = {size.sweep_steps}
records = 100
runs = {size.runs}
measures = ["emphasis_error"]
[problem]
name = "baird"
features = ["original", "one-hot", "zero-hot", "aliased"]
solid = [0.05, 0.1, 0.3]
[learners]
gem = "gem(step_size, ridge)"
[grid]
step_size = "0.1 * 2^[1:-6]"
ridge = [0, 1e-6, 1e-5, 1e-4, 1e-3]
"""
SWEEP_LANES, SWEEP_CASES = 40, 12


def end_to_end(size: Size) -> tuple[float, float]:
    """Seconds and updates of a sweep of Figure 2's grid, from the shell to the written store."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.toml"
        path.write_text(SWEEP.format(size=size))
        command = [sys.executable, "-m", "emphatic", "sweep", str(path), "--device", "gpu"]
        begun = time.perf_counter()
        done = subprocess.run([*command, "--out", f"{folder}/store"], **CAPTURED)
        seconds = time.perf_counter() - begun
        if done.returncode:
            raise RuntimeError(done.stderr)
    return seconds, float(SWEEP_CASES * SWEEP_LANES * size.runs * size.sweep_steps)


def time_kernels(device: cuda.Device, size: Size) -> dict[str, float]:
    """Prints what kernels do alone, and returns the rates of those that the engine chooses."""
    lanes = size.lanes
    made = {f"GEM, {k} features": gem(k, lanes) for k in FEATURES}
    made |= {"GEM, 8 features, float64": gem(8, lanes, "float64")}
    made |= {"GEM-ETD": gem_etd(lanes), "COF-PAC": cof_pac(lanes)}
    rates: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for name, pair in made.items():
        setting = prepare(device, *pair, size.seeds, size.steps)
        table, rates[name] = time_all(setting)
        show(f"{name}: updates per second", table)
        physical = limit_of(setting)
        row = {"learner": name, "chosen": rates[name], "fastest": fastest(table)}
        rows.append({**row, **physical, "share": rates[name] / physical["limit"]})
    show("What is chosen, and what the chip could do", rows)
    say(EXPLANATION)
    return rates


EXPLANATION = """
`instructions` are those of an update in the working type, a division or a root as ten; `limit` is
the chip's rate at its highest clock over them. What is lost: loads of the row, 16 bytes each,
addresses and the loop, which all lanes of a thread share; waiting that too few threads hide; and a
clock that falls under load."""


def time_peers(device: cuda.Device, size: Size, ours: float) -> dict[str, float]:
    """Prints what others do with GEM and 8 features, and returns their rates."""
    setting = prepare(device, *gem(8, size.lanes), size.seeds, size.steps)
    steps = CHUNK * max(1, int(size.cpu_updates / (size.lanes * size.seeds * CHUNK)))
    on_cpu = time_run(size.lanes, size.seeds, steps, device="cpu", num_threads=2)[0]
    scanned, rates = time_scan(size), {"emphatic": ours}
    for name, is_measured in (("by hand", True), ("by hand, without the measure", False)):
        try:
            rates[name] = by_hand(setting, is_measured)
        except (ImportError, RuntimeError) as error:  # NVRTC is not there
            rates[name] = 0.0
            say(f"\n{name}: {str(error).partition(chr(10))[0]}")
    rates |= {"scan": scanned["rate"], "two cores": on_cpu}
    rows = [
        {"GEM, 8 features": name, "updates/s": rate, "emphatic is": ours / max(rate, 1.0)}
        for name, rate in rates.items()
    ]
    show("Side by side", rows)
    say(f"\n`by hand` is CUDA C, `scan` is `vmap` of `lax.scan`, JAX on: {scanned['platform']}.")
    return rates


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="tiny sizes: does it run?")
    parser.add_argument("--out", type=Path, help="where the tables are written, in markdown")
    options = parser.parse_args()
    size = SMALL if options.small else Size()
    device, begun = cuda.find_device(), time.perf_counter()
    say(f"# {device}")
    rates = time_kernels(device, size)
    peers = time_peers(device, size, rates["GEM, 8 features"])
    growth = grow(size)
    show("Whole runs: updates per second", growth)
    paying = [row for row in growth if row["GPU, s"] < row["CPU, s (computed)"]]
    if paying:
        first = paying[0]
        say(f"\nA GPU pays from {first['lanes']} lanes of {first['seeds']} seeds on.")
    batch = make_batch(baird(), learners.gem, "emphasis_error", SWEEP_LANES)
    _, kernel_rate = time_kernel(prepare(device, *batch, size.runs, size.steps))
    seconds, updates = end_to_end(size)
    rate = updates / seconds
    row = {"updates": updates, "seconds": seconds, "updates/s": rate, "kernel alone": kernel_rate}
    show("A sweep of Figure 2's grid, from the shell to the written store", [row])
    ours = peers["emphatic"]
    limits = {
        "GEM is as fast as CUDA C by hand": 0 < peers["by hand"] <= ours,
        "GEM is 20 times as fast as the scan": 0 < 20 * peers["scan"] <= ours,
        "GEM is 100 times as fast as two cores": ours >= 100 * peers["two cores"],
        "COF-PAC makes 7e10 updates/s": rates["COF-PAC"] >= 7e10,
        "a sweep is half as fast as its kernel": rate >= kernel_rate / 2,
    }
    say(f"\n## Limits\n\nAll of this took {time.perf_counter() - begun:.0f} seconds.\n")
    for name, met in limits.items():
        say(f"- {'met' if met else 'MISSED'}: {name}")
    if options.out is not None:
        options.out.write_text("\n".join(PRINTED) + "\n")
    return 0 if options.small or all(limits.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
