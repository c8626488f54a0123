"""With a GPU, `make test-gpu`: it has the bits of the CPU, killed or not, beside others or not."""

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

from .fused import test_gpu as kernels

pytestmark = pytest.mark.gpu
WIDTHS = (1, 2, 4)


@cache
def device() -> cuda.Device:
    return cuda.find_device()


@pytest.mark.parametrize("dtype", kernels.DTYPES)
@pytest.mark.parametrize("name", [*kernels.NAMES, "noisy", "wide"])
def test_every_kernel_has_the_bits_of_the_cpu(name, dtype):
    learner = kernels.batch(name, dtype, 100)
    expected = kernels.on_cpu(learner, kernels.SEEDS)
    for width in WIDTHS:
        kernels.assert_same(kernels.on_gpu(learner, kernels.SEEDS, device(), width), expected)


@pytest.mark.parametrize("name", kernels.NAMES)
def test_kernels_of_one_lane_in_a_thread_keep_small_states_in_registers(name):
    program = kernels.StepProgram(
        kernels.batch(name, "float32"), kernels.problem_and_stream("float32")[2]
    )
    kernel = kernels.learning_kernel(program, 1, device().shared_bytes)
    assert device().compile(kernel).local_bytes == 0


def test_the_stream_has_the_bits_of_the_cpu():
    stream = kernels.problem_and_stream("float32")[2]
    seeds = [0, 2**32, 2**64 - 1, *range(5, 3000)]
    on_gpu, on_cpu = kernels.gpu.Experience(stream, device()), kernels.cpu.Experience(stream)
    _, rows = on_gpu.advance(seeds, 0, on_gpu.begin(seeds), 3000)
    _, expected = on_cpu.advance(seeds, 0, on_cpu.begin(seeds), 3000)
    found = np.empty_like(expected)
    device().download(rows.memory, found)
    np.testing.assert_array_equal(found, expected)


def long_run(where: Any, **settings: Any) -> Any:
    named = {
        "gem": learners.gem,
        "gem-etd": lambda step_size, ridge: learners.etd(learners.gem(0.01, ridge), step_size),
    }
    grid = {"step_size": np.geomspace(1e-5, 1.0, 40), "ridge": np.geomspace(1e-6, 1e-2, 25)}
    problem = problems.baird("original", solid=0.1)
    arguments: Any = {"num_steps": 100_000, "seeds": 8, "measures": ["weights"]}
    arguments |= {"record_every": 10_000, "device": where} | settings
    return run(problem, named, grid, **arguments).drop_attrs()


@pytest.mark.parametrize("dtype", kernels.DTYPES)
def test_a_hundred_thousand_steps_have_the_bits_of_the_cpu(dtype):
    assert long_run("gpu", dtype=dtype).identical(long_run("cpu", dtype=dtype))


SCRIPT = """
import numpy as np
from tests.engine.test_hardware import long_run
long_run("gpu").gem_weights.values.tofile({path!r})
"""


def begin(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SCRIPT.format(path=str(path))])


def test_two_processes_share_a_gpu_and_one_that_is_killed_harms_nobody(tmp_path):
    first, second, third = (begin(tmp_path / name) for name in "abc")
    time.sleep(3.0)
    os.kill(third.pid, signal.SIGKILL)
    third.wait()
    assert first.wait() == second.wait() == 0
    found = [np.fromfile(tmp_path / name, np.uint32) for name in "ab"]
    np.testing.assert_array_equal(found[0], found[1])
    expected = long_run("gpu").gem_weights.values
    np.testing.assert_array_equal(found[0], expected.ravel().view(np.uint32))
