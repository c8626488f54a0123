"""With a GPU, `make test-gpu`: it has the bits of the CPU, killed or not, beside others or not.

With `STAND_IN=1` in the environment the GPU is the host, and everything is small: so these tests
are tested.
"""

import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emphatic import learners, problems
from emphatic.engine import run
from emphatic.engine.fused import cuda
from emphatic.experiments.store import load

from .fused import host, test_gpu as kernels

pytestmark = pytest.mark.gpu
WIDTHS = (1, 2, 4)
IS_STAND_IN = "STAND_IN" in os.environ
STEPS, SEEDS, LANES = (2000, 20, 20) if IS_STAND_IN else (100_000, 3000, 1000)
if IS_STAND_IN:
    STAND_IN = host.Device()
    for name, stand_in in {
        "find_device": lambda number=0: STAND_IN,
        "count_devices": lambda: 1,
    }.items():
        setattr(cuda, name, stand_in)


@cache
def device() -> Any:
    return cuda.find_device()


@pytest.mark.parametrize("dtype", kernels.DTYPES)
@pytest.mark.parametrize("name", [*kernels.NAMES, "noisy", "wide"])
def test_every_kernel_has_the_bits_of_the_cpu(name, dtype):
    """Of every width; lanes that diverge, and a last chunk of one step."""
    learner = kernels.batch(name, dtype, 100)
    expected = kernels.on_cpu(learner, kernels.SEEDS)
    for width in WIDTHS:
        kernels.assert_same(kernels.on_gpu(learner, kernels.SEEDS, device(), width), expected)


@pytest.mark.parametrize("dtype", kernels.DTYPES)
@pytest.mark.parametrize("name", kernels.NAMES)
def test_a_hundred_thousand_steps_have_the_bits_of_the_cpu(name, dtype):
    """Every learner of the contract table, and every agent of the figures."""
    learner, length = kernels.batch(name, dtype, LANES // 10), STEPS // 100
    chunks = np.full(50, length), np.arange(50) // 10
    slices = [chunks, chunks]
    found = kernels.on_gpu(learner, kernels.SEEDS, device(), None, slices=slices)
    kernels.assert_same(found, kernels.on_cpu(learner, kernels.SEEDS, slices=slices))


@pytest.mark.parametrize("name", kernels.NAMES)
def test_kernels_of_one_lane_in_a_thread_keep_small_states_in_registers(name):
    program = kernels.StepProgram(
        kernels.batch(name, "float32"), kernels.problem_and_stream("float32")[2]
    )
    kernel = kernels.learning_kernel(program, 1, device().shared_bytes)
    assert device().compile(kernel).local_bytes == 0


def test_the_stream_has_the_bits_of_the_cpu():
    stream = kernels.problem_and_stream("float32")[2]
    seeds = [0, 2**32, 2**64 - 1, *range(5, SEEDS)]
    on_gpu, on_cpu = kernels.gpu.Experience(stream, device()), kernels.cpu.Experience(stream)
    _, rows = on_gpu.advance(seeds, 0, on_gpu.begin(seeds), 3000)
    _, expected = on_cpu.advance(seeds, 0, on_cpu.begin(seeds), 3000)
    found = np.empty_like(expected)
    device().download(rows.memory, found)
    np.testing.assert_array_equal(found, expected)


def long_run(where: Any, **settings: Any) -> Any:
    """Two learners with a thousand settings each."""
    named = {
        "gem": learners.gem,
        "gem-etd": lambda step_size, ridge: learners.etd(learners.gem(0.01, ridge), step_size),
    }
    ridges = np.geomspace(1e-6, 1e-2, LANES // 20)
    grid = {"step_size": np.geomspace(1e-5, 1.0, 20), "ridge": ridges}
    problem = problems.baird("original", solid=0.1)
    arguments: Any = {"num_steps": STEPS, "seeds": 8, "measures": ["weights"]}
    arguments |= {"record_every": STEPS // 10, "device": where} | settings
    return run(problem, named, grid, **arguments).drop_attrs()


@pytest.mark.parametrize("dtype", kernels.DTYPES)
def test_whole_runs_have_the_bits_of_the_cpu(dtype):
    assert long_run("gpu", dtype=dtype).identical(long_run("cpu", dtype=dtype))


def begin(code: str) -> subprocess.Popen[bytes]:
    """Another process, which has the same GPU."""
    code = f"from tests.engine import test_hardware\n{code}"
    return subprocess.Popen([sys.executable, "-c", code])


def test_two_processes_share_a_gpu_and_one_that_is_killed_harms_nobody(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    first, second, third = (
        begin(f"test_hardware.long_run('gpu').gem_weights.values.tofile({str(path)!r})")
        for path in paths
    )
    time.sleep(3.0)
    third.send_signal(signal.SIGKILL)
    third.wait()
    assert first.wait() == second.wait() == 0
    expected = long_run("cpu").gem_weights.values.ravel().view(np.uint32)
    for path in paths[:2]:
        np.testing.assert_array_equal(np.fromfile(path, np.uint32), expected)


SWEEP = """
name = "small"
steps = {steps}
record_every = {every}
runs = 60
measures = ["emphasis_error"]
[problem]
name = "baird"
features = ["original", "one-hot", "zero-hot", "aliased"]
[learners]
gem = "gem(step_size, ridge)"
td = "reverse_td(step_size)"
[grid]
step_size = [0.01, 0.02, 5.0]
ridge = [0, 1e-6, 1e-3]
"""


def sweep(path: Path, folder: Path, where: str) -> subprocess.Popen[bytes]:
    arguments = ["sweep", str(path), "--out", str(folder), "--device", where]
    return begin(f"import sys; from emphatic.cli import main; sys.exit(main({arguments!r}))")


def test_a_sweep_that_is_killed_ends_as_if_it_had_not_been(tmp_path):
    path, folder = tmp_path / "small.toml", tmp_path / "killed"
    path.write_text(SWEEP.format(steps=STEPS, every=STEPS // 20))
    killed = sweep(path, folder, "gpu")
    while killed.poll() is None and not list(folder.glob("units/*.safetensors")):
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert sweep(path, folder, "gpu").wait() == 0
    assert sweep(path, tmp_path / "cpu", "cpu").wait() == 0
    found, expected = (load(place).drop_attrs() for place in (folder, tmp_path / "cpu"))
    assert found.identical(expected)
