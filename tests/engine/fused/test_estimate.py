"""What learning is estimated to take, beside what was measured on an H200."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from emphatic import learners, problems
from emphatic.engine.batch import Batch, transition_view
from emphatic.engine.choice import Work
from emphatic.engine.fused.estimate import (
    chain_length,
    cpu_seconds,
    gpu_cycles,
    gpu_seconds,
    gpu_throughput,
    LATENCY,
    LOAD,
    num_instructions,
)
from emphatic.engine.fused.program import StepProgram
from emphatic.engine.measures import MEASURES
from emphatic.engine.stream import Stream

from . import host

LANES, MANY = 16_384, 2**20


class H200(host.Device):
    """As much of it as counts."""

    def __init__(self, double_ratio: int = 2):
        super().__init__()
        self.num_cores, self.double_ratio, self.cycles = 132 * 128, double_ratio, 1.98e9

    def resident(self, registers: int) -> int:
        """How many threads with so many registers run at a time."""
        return 132 * 65_536 // registers


def gem_etd(step_size: Any, ridge: Any) -> Any:
    return learners.etd(learners.gem(0.025, ridge), step_size)


@cache
def program(name: str, dtype: str = "float32") -> tuple[StepProgram, Stream]:
    make, measure = {
        "gem": (learners.gem, "emphasis_error"),
        "gem-etd": (gem_etd, "rmsve"),
        "constant": (lambda step_size, ridge: learners.constant(1.0), "emphasis_error"),
    }[name]
    problem = problems.baird("original", solid=0.1)
    lanes = {"step_size": np.geomspace(1e-5, 1e-2, LANES), "ridge": np.zeros(LANES)}
    view, measures = transition_view(problem, problem.target, dtype), {measure: MEASURES[measure]}
    batch = Batch(make, lanes, problem, problem.target, view, measures, np.dtype(dtype))
    stream = Stream(problem)
    return StepProgram(batch, stream), stream


@pytest.mark.parametrize(
    ("name", "dtype", "width", "registers", "measured"),
    [
        ("gem", "float32", 2, 72, 3.5e11),
        ("gem", "float64", 2, 128, 1.8e11),
        ("gem-etd", "float32", 1, 72, 1.2e11),
    ],
)
def test_kernels_are_as_fast_as_a_prototype_was_on_an_h200(name, dtype, width, registers, measured):
    """Within a quarter: neither a clock that falls nor a wait for memory is estimated."""
    device, (step, _) = H200(), program(name, dtype)
    cycles = gpu_cycles(device, step, width, MANY // width, device.resident(registers))
    assert measured < MANY * device.cycles / cycles < 1.35 * measured


def test_few_threads_take_the_time_of_their_longest_chain():
    device, (step, _) = H200(), program("gem")
    latency = LATENCY * chain_length(step) + 2 * LOAD
    assert gpu_cycles(device, step, 1, 1, 10**5) == latency
    assert gpu_cycles(device, step, 1, 64, 10**5) == latency
    assert gpu_cycles(device, step, 1, 64, 16) == 4 * latency  # they take turns
    assert 3 + 3 < chain_length(step) < num_instructions(step)  # two sums of 8 products


def test_many_threads_share_the_cores_and_lanes_of_a_thread_share_its_row():
    device, (step, _) = H200(), program("gem")
    one, two = (gpu_throughput(device, step, width, MANY // width) for width in (1, 2))
    assert gpu_throughput(device, step, 1, 2 * MANY) == 2 * one
    assert two < 0.8 * one
    device.num_cores *= 2
    assert gpu_throughput(device, step, 1, MANY) == one / 2


def test_double_precision_takes_as_many_times_more_as_the_gpu_says():
    (single, _), (double, _) = program("gem-etd"), program("gem-etd", "float64")
    device = H200(double_ratio=64)
    times = [gpu_throughput(device, step, 1, MANY) for step in (single, double)]
    assert 55 < times[1] / times[0] < 64


def test_compilation_transfers_and_the_walk_of_the_stream_take_time_too():
    device, (step, stream) = H200(), program("constant")
    little = gpu_seconds(device, step, stream, Work())
    assert 0.2 < little < 1.0
    copied = gpu_seconds(device, step, stream, Work(num_seeds=100, num_windows=1000))
    assert copied - little == pytest.approx(100 * 1000 * LANES * 9 / 5e9, rel=0.1)
    walked = gpu_seconds(device, step, stream, Work(num_steps=10**8))
    assert walked > 10**8 * 4 * LOAD / device.cycles


def test_a_cpu_takes_longer_for_more_lanes_seeds_and_steps_and_less_on_more_threads():
    (step, _), base = program("gem"), Work(num_seeds=4, num_steps=1000)
    seconds = cpu_seconds(step, base)
    assert cpu_seconds(step, base._replace(num_steps=2000)) == 2 * seconds
    assert cpu_seconds(step, base._replace(num_seeds=8)) == 2 * seconds
    assert cpu_seconds(step, base._replace(num_threads=4)) == seconds / 4
    assert cpu_seconds(step, base._replace(num_threads=9)) == seconds / 4
