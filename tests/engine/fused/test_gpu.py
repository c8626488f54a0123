"""Kernels for a GPU: as text, and run on the host, where they have the bits of the CPU engine."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import Learner, learners, oracle, schedules
from emphatic.agents import actor_critic, over_states
from emphatic.engine.batch import Batch, sample_view, transition_view
from emphatic.engine.experience import Chunks, Load
from emphatic.engine.fused import cpu, gpu
from emphatic.engine.fused.device import DeviceError
from emphatic.engine.fused.kernels import learning_kernel, to_ptx
from emphatic.engine.fused.program import StepProgram
from emphatic.engine.fused.schedule import Node
from emphatic.engine.measures import MEASURES
from emphatic.engine.stream import Stream

from ...learners.test_learners import CONTRACT
from ...strategies import build
from ...transcriptions import DECAY, GAMMA, ZETA
from . import host

DTYPES = "float32", "float64"
EMPHASIS = ("emphasis_error", "emphasis_projected_error")
VALUES, ACTION_VALUES = (
    ("rmsve", "value_projected_error"),
    ("rmsqe", "action_value_projected_error"),
)
RATIO, FIXED = "ratio_error", "fixed_point_distance"
SLOWED = schedules.polynomial(1.0, 0.6)


class Case(NamedTuple):
    """A learner or an agent, from its step size, and what is measured of it."""

    make: Any
    measures: tuple[str, ...] = ()


def scheduled(step_size: Any) -> Any:
    return learners.gem(lambda t: step_size * SLOWED(t), 0.1)


LEARNERS = {
    "gem": Case(lambda m: lambda step_size: learners.gem(step_size, 0.1), (*EMPHASIS, FIXED)),
    "gq2": Case(lambda m: lambda step_size: learners.gq2(step_size, 0.1), (*ACTION_VALUES, FIXED)),
    "gtd2": Case(lambda m: learners.gtd2, (*VALUES, FIXED)),
    "tdc": Case(lambda m: learners.tdc, (*VALUES, FIXED)),
    "tdrc": Case(lambda m: learners.tdrc, (*VALUES, FIXED)),
    "pgtd2": Case(lambda m: learners.pgtd2, VALUES),
    "td-trace": Case(lambda m: lambda step_size: learners.td(step_size, DECAY), VALUES),
    "gtd2-trace": Case(
        lambda m: lambda step_size: learners.gtd2(step_size, trace_decay=DECAY), VALUES
    ),
    "tdc-trace": Case(
        lambda m: lambda step_size: learners.tdc(step_size, trace_decay=DECAY), VALUES
    ),
    "htd": Case(lambda m: lambda step_size: learners.htd(step_size, trace_decay=DECAY), VALUES),
    "etd-trace": Case(
        lambda m: lambda step_size: learners.etd(learners.followon(), step_size, DECAY), VALUES
    ),
    "vtrace": Case(lambda m: lambda step_size: learners.vtrace(step_size, DECAY, 0.8, 1.2), VALUES),
    "tree_backup": Case(lambda m: lambda step_size: learners.tree_backup(step_size, DECAY), VALUES),
    "abtd": Case(lambda m: lambda step_size: learners.abtd(step_size, ZETA), VALUES),
    "true_online_etd": Case(
        lambda m: lambda step_size: learners.true_online_etd(learners.followon(), step_size, DECAY),
        VALUES,
    ),
    "lstd": Case(lambda m: lambda step_size: learners.lstd(DECAY, step_size), VALUES),
    "elstd": Case(
        lambda m: lambda step_size: learners.elstd(learners.followon(), DECAY, step_size), VALUES
    ),
    "reverse_td": Case(lambda m: learners.reverse_td, (*EMPHASIS, FIXED)),
    "gem-decay": Case(lambda m: lambda step_size: learners.gem(0.1, 0.1, step_size), EMPHASIS),
    "tdec": Case(lambda m: learners.tdec, (*EMPHASIS, FIXED)),
    "tderc": Case(lambda m: learners.tderc, (*EMPHASIS, FIXED)),
    "expected_trace": Case(
        lambda m: lambda step_size: learners.expected_trace(step_size, 3), EMPHASIS
    ),
    "lsgem": Case(lambda m: lambda step_size: learners.lsgem(step_size), EMPHASIS),
    "cop_td": Case(lambda m: lambda step_size: learners.cop_td(step_size, GAMMA), (RATIO, FIXED)),
    "gradient_cop_td": Case(
        lambda m: lambda step_size: learners.gradient_cop_td(step_size, GAMMA, 0.1), (RATIO, FIXED)
    ),
    "gradient_dice": Case(
        lambda m: lambda step_size: learners.gradient_dice(step_size, GAMMA, 0.1), (RATIO, FIXED)
    ),
    "td": Case(lambda m: learners.td, (*VALUES, FIXED)),
    "etd-exact": Case(
        lambda m: lambda step_size: learners.etd(learners.exact(m), step_size), (*VALUES, FIXED)
    ),
    "followon": Case(lambda m: lambda step_size: learners.followon(decay=step_size), EMPHASIS[:1]),
    "truncated": Case(lambda m: lambda step_size: learners.followon(length=3), EMPHASIS[:1]),
    "interest": Case(lambda m: lambda step_size: learners.followon(length=0), EMPHASIS[:1]),
    "restarting": Case(lambda m: lambda step_size: learners.restarting(2, 1), EMPHASIS[:1]),
    "periodic_etd": Case(
        lambda m: lambda step_size: learners.periodic_etd(step_size, 2, 1), VALUES
    ),
    "etd": Case(lambda m: lambda step_size: learners.etd(learners.followon(), step_size), VALUES),
    "gem-etd": Case(
        lambda m: lambda step_size: learners.etd(learners.gem(0.1, 0.1), step_size), VALUES
    ),
    "lms": Case(lambda m: lambda step_size: learners.lms(learners.followon(), step_size), EMPHASIS),
    "etq": Case(
        lambda m: lambda step_size: learners.etq(learners.followon(), step_size), ACTION_VALUES
    ),
    "constant": Case(lambda m: lambda step_size: learners.constant(100.0), EMPHASIS[:1]),
    "exact": Case(lambda m: lambda step_size: learners.exact(m), EMPHASIS[:1]),
}


def noisy(step_size: Any) -> Learner:
    """A learner whose noise depends on time and on what happens."""

    def step(state: Any, y: Any) -> Any:
        noise = jnp.sin(y.time.astype(y.x.dtype) * (y.reward + 2.0))
        return state + step_size * (noise * y.x - 0.1 * state)

    return Learner(lambda key, y: jnp.zeros_like(y.x), step, lambda state, y: y.x @ state)


def wide(step_size: Any) -> Learner:
    """A learner of as many numbers as a state may have."""

    def step(state: Any, y: Any) -> Any:
        return state + step_size * (y.reward - 0.1 * (state @ state)) * jnp.flip(state)

    def init(key: Any, y: Any) -> Any:
        return jnp.linspace(-1.0, 1.0, 160, dtype=y.x.dtype)

    return Learner(init, step, lambda state, y: jnp.sum(state))


OTHERS = {
    "light": Case(lambda m: lambda step_size: learners.gem(step_size, 0.1), EMPHASIS[:1]),
    "scheduled": Case(lambda m: scheduled, EMPHASIS),
    "noisy": Case(lambda m: noisy),
    "wide": Case(lambda m: wide),
}


def agent(emphasis: Any) -> Any:
    """From the problem to agents by their actor's step size."""

    def make(problem: Any) -> Any:
        policy = over_states(
            np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.5, 0.5]]), 3
        )
        return lambda step_size: actor_critic(
            problem,
            policy,
            emphasis(),
            learners.gq2(schedules.polynomial(0.1, 0.6), 0.01),
            lambda t: step_size * schedules.polynomial(0.5, 0.9)(t),
        )

    return make


AGENTS = {
    "cof-pac": agent(lambda: learners.gem(schedules.polynomial(0.1, 0.6), 0.01)),
    "ace": agent(learners.followon),
    "off-pac": agent(lambda: learners.followon(0)),
}
NAMES = [*LEARNERS, "scheduled", *AGENTS]
FEW = [("gem", "float64"), ("gq2", "float32"), ("gem-etd", "float32"), ("truncated", "float64")]
FEW += [("scheduled", "float64"), ("cof-pac", "float32"), ("constant", "float32")]
ALL = [
    pytest.param(name, dtype, marks=() if (name, dtype) in FEW else pytest.mark.slow)
    for name in NAMES
    for dtype in DTYPES
]


def test_every_learner_of_the_contract_table_is_here():
    assert set(LEARNERS) == set(CONTRACT)


@cache
def problem_and_stream(precision: str) -> Any:
    """Five states, three actions, a discount that varies, a target that is not the behaviour.

    JAX remembers the type that an array had first, so that each precision has a problem.
    """
    problem, target = build((5, 3, 5, 4), 7, varying=True)
    return problem, target, Stream(problem)


@cache
def batch(name: str, dtype: str, num_lanes: int = 9) -> Batch:
    """A case with step sizes of which some diverge."""
    problem, target, _ = problem_and_stream(f"{dtype} of agents" if name in AGENTS else dtype)
    lanes = {"step_size": np.geomspace(1e-4, 1e9, num_lanes)}
    if name in AGENTS:
        view, make, measures = sample_view(dtype), AGENTS[name](problem), ()
        target = problem.behavior
    else:
        make, measures = {**LEARNERS, **OTHERS}[name]
        m = oracle.emphasis(problem, target).astype(dtype)
        view, make = transition_view(problem, target, dtype), make(m)
    parsed = {measure: MEASURES[measure] for measure in measures}
    return Batch(make, lanes, problem, target, view, parsed, np.dtype(dtype))


# The text of kernels

ROUNDED = re.compile(r"^\s*(?:add|sub|mul|fma|div|sqrt|mad)\.(?!rn\.)\S*f(?:32|64)\b", re.MULTILINE)
APPROXIMATE = re.compile(r"\.(?:approx|ftz|full)\b|\.(?:local)\b|\bcall\b")
COLUMNS = {"float32": "v4.b32", "float64": "v2.b64"}


def uniform_columns(step: StepProgram, table: str) -> set[Any]:
    """The columns of a table that a step reads."""
    nodes, columns = list(step.outputs), set[Any]()
    visited = set(nodes)
    while nodes:
        node = nodes.pop()
        if node.method == "uniform" and node.arguments[0] == table:
            columns.add(node.arguments)
        below = [a for a in node.arguments if isinstance(a, Node) and a not in visited]
        visited.update(below)
        nodes += below
    return columns


def require_registers(ptx: str, folder: Path) -> None:
    """Fails unless NVIDIA's assembler, where there is one, needs nothing but registers."""
    if (assembler := shutil.which("ptxas")) is not None:
        (folder / "kernel.ptx").write_text(ptx)
        command = [assembler, "-arch=sm_90", "-v", "kernel.ptx", "-o", "kernel.cubin"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        assert "0 bytes stack frame, 0 bytes spill stores" in done.stderr


@pytest.mark.parametrize(("name", "dtype"), ALL)
def test_a_kernel_rounds_as_written_and_needs_no_memory_for_its_state(name, dtype, tmp_path):
    step = StepProgram(batch(name, dtype), problem_and_stream(dtype)[2])
    columns = gpu.num_columns(np.dtype(dtype))
    for width in (1, 2, 4):
        ptx = to_ptx(learning_kernel(step, width, 2**20))
        assert not ROUNDED.search(ptx), ROUNDED.search(ptx)
        assert not APPROXIMATE.search(ptx), APPROXIMATE.search(ptx)
        assert ".entry learn(" in ptx
        if width == 1:
            require_registers(ptx, tmp_path)
        loads = re.findall(r"ld\.shared\.(\S+)", ptx)
        blocks = {column // columns for _, column in uniform_columns(step, "row")}
        assert len(blocks) <= len(loads) <= len(blocks) + 1  # one may be read as two halves


# Kernels on the host

SEEDS = [5, 2**40 + 3, 7]
Slices: TypeAlias = list[tuple[np.ndarray, np.ndarray]]
"""For each slice its chunks' lengths, and their windows."""
SLICES: Slices = [(np.array([37]), np.array([0])), (np.array([40, 1]), np.array([0, 1]))]


def bits(numbers: np.ndarray) -> np.ndarray:
    """Numbers as words, with one word for all that are not numbers."""
    kind = {4: np.uint32, 8: np.uint64}[numbers.itemsize]
    return np.where(np.isnan(numbers), np.nan, numbers).astype(numbers.dtype).view(kind)


def on_cpu(
    of: Batch, seeds: list[int], keeps_states: bool = True, slices: Slices = SLICES
) -> list[list[np.ndarray]]:
    """Sums, divergence and weights of slices, the first of which may end within a window."""
    stream = problem_and_stream(of.dtype.name)[2]
    experience, program = cpu.Experience(stream), cpu.Program(of, stream)
    parts = [_advance(of, experience, program, [seed], keeps_states, slices) for seed in seeds]
    return [
        [np.concatenate(arrays, axis=2) for arrays in zip(*slices, strict=True)]
        for slices in zip(*parts, strict=True)
    ]


def on_gpu(
    of: Batch,
    seeds: list[int],
    device: Any,
    width: int | None,
    keeps_states: bool = True,
    slices: Slices = SLICES,
) -> list[list[np.ndarray]]:
    experience, program = _engines(of, device)
    program.width = width
    return _advance(of, experience, program, seeds, keeps_states, slices)


@cache
def _engines(of: Batch, device: Any) -> tuple[gpu.Experience, gpu.Program]:
    stream = problem_and_stream(of.dtype.name)[2]
    return gpu.Experience(stream, device), gpu.Program(of, stream, device)


def _advance(
    of: Batch, experience: Any, program: Any, seeds: list[int], keeps_states: bool, slices: Slices
) -> list[list[np.ndarray]]:
    position, states, time = experience.begin(seeds), program.begin(seeds), 0
    sums, results = np.zeros((0, len(of.measures), len(seeds), of.num_lanes)), []
    for lengths, windows in slices:
        chunks = Chunks(lengths, windows, keeps_states)
        sums = np.pad(sums, [(0, chunks.num_windows - len(sums)), (0, 0), (0, 0), (0, 0)])
        position, rows = experience.advance(seeds, time, position, int(lengths.sum()))
        states, sums, diverged, history = program.advance(rows, time, chunks, states, sums)
        results.append([sums, diverged[:, None].astype(float), history])
        time += int(lengths.sum())
        sums = sums[-1:]  # in which the next slice goes on
    return results


def assert_same(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        for name, a, b in zip(("sums", "diverged", "weights"), one, other, strict=True):
            np.testing.assert_array_equal(bits(a), bits(b), name)


@pytest.mark.parametrize(("name", "dtype"), ALL)
def test_a_kernel_has_the_bits_of_the_cpu_engine(name, dtype):
    """Diverging lanes too, in slices that end within a window, and a last chunk of one step."""
    learner, device = batch(name, dtype), host.Device()
    expected = on_cpu(learner, SEEDS)
    for width in (1, 2, 4):
        assert_same(on_gpu(learner, SEEDS, device, width), expected)


@pytest.mark.parametrize(
    ("num_lanes", "keeps_states"), [(1, True), (33, True), (33, False), (65, False)]
)
def test_any_number_of_lanes_and_seeds_fills_threads_and_blocks(num_lanes, keeps_states):
    """Blocks of one seed and of several, and of threads that have none."""
    learner, seeds = batch("td", "float32", num_lanes), list(range(7))
    expected = on_cpu(learner, seeds, keeps_states)
    assert_same(on_gpu(learner, seeds, host.Device(), 1, keeps_states), expected)


def test_a_table_beyond_the_memory_of_a_block_is_read_from_that_of_all():
    learner = batch("td", "float64")
    device = host.Device(shared_bytes=64)
    assert_same(on_gpu(learner, SEEDS, device, 2), on_cpu(learner, SEEDS))
    kernel, _ = device.kernels[-1]
    assert kernel.shared_bytes == 0
    assert "ld.shared" not in device.ptx()
    assert re.search(r"ld\.global\.v2\.b64", device.ptx())
    assert "bar.sync" not in device.ptx()


def test_values_of_each_step_and_sample_are_those_of_every_seed():
    """Noise that depends on time and state alike cannot be tabulated."""
    learner = batch("noisy", "float32")
    step = StepProgram(learner, problem_and_stream("float32")[2])
    assert step.tables["step"].needs_sample
    assert_same(on_gpu(learner, SEEDS, host.Device(), 2), on_cpu(learner, SEEDS))


def test_a_state_beyond_the_registers_has_the_same_bits():
    learner = batch("wide", "float32")
    assert learner.num_state == 160
    assert_same(on_gpu(learner, SEEDS[:1], host.Device(), 1), on_cpu(learner, SEEDS[:1]))


def test_not_a_number_and_infinity_stay_in_their_lane():
    learner = batch("td", "float32")
    found = on_gpu(learner, SEEDS, host.Device(), 4)
    diverged = found[-1][1][-1, 0].astype(bool)
    assert diverged[:, -1].all()
    assert not diverged[:, 0].any()
    np.testing.assert_array_equal(diverged, ~np.isfinite(found[-1][2][-1]).all(axis=0))


# The stream


def test_the_drawing_kernel_makes_the_rows_of_the_cpu_engine():
    stream = problem_and_stream("float32")[2]
    device, seeds = host.Device(), [0, 1, 2**32, 2**64 - 1, *range(9, 40)]
    experience, reference = gpu.Experience(stream, device), cpu.Experience(stream)
    position, expected = experience.begin(seeds), reference.begin(seeds)
    time = 0
    for num_steps in (1, 50, 7):
        position, rows = experience.advance(seeds, time, position, num_steps)
        expected, numbers = reference.advance(seeds, time, expected, num_steps)
        found = np.empty_like(numbers)
        device.download(rows.memory, found)
        np.testing.assert_array_equal(found, numbers)
        time += num_steps
    assert ".local" not in device.ptx()


# Memory and time


@pytest.mark.parametrize(
    ("num_seeds", "load", "expected"),
    [
        (1000, Load(8, 100, 0, 1e-9), 500),  # two tasks
        (1000, Load(8, 10**6, 0, 1e-9), 16),  # each of a quarter of the memory
        (1000, Load(8, 100, 0, 1e-2), 10),  # whose chunks take a tenth of a second
        (1000, Load(2**30, 100, 0, 1e-9), 2),  # and that one launch can have
    ],
)
def test_seeds_are_cut_into_tasks_that_fit_and_take_turns(num_seeds, load, expected):
    stream = problem_and_stream("float32")[2]
    device = host.Device(free_bytes=2**26 + 2**20)
    experience = gpu.Experience(stream, device)
    device.free_bytes = 2**26
    assert experience.seeds_per_task(num_seeds, load) == expected


def test_lanes_that_no_memory_has_room_for_are_an_error_with_sizes():
    stream = problem_and_stream("float32")[2]
    experience = gpu.Experience(stream, host.Device())
    message = (
        r"device: this takes 954 MiB of the GPU's memory at least, of which 25[56] MiB are free"
    )
    with pytest.raises(DeviceError, match=message):
        experience.seeds_per_task(2, Load(5, 10**9, 0, 1e-9))


# Widths and blocks


def width(device: host.Device, num_seeds: int) -> int:
    """The width that is chosen for 64 lanes, where loads of rows take most of the time."""
    stream = problem_and_stream("float32")[2]
    return gpu.Program(batch("light", "float32", 64), stream, device).choose_width(num_seeds)


@pytest.mark.parametrize(
    ("device", "num_seeds", "expected"),
    [
        ({}, 32, 2),
        ({}, 8, 1),
        ({"registers": {2: 4000}}, 32, 4),
        ({"local_bytes": {2: 8}}, 32, 4),
        ({"local_bytes": {2: 8, 4: 8}}, 32, 1),
        ({"local_bytes": {1: 8, 2: 8, 4: 8}}, 32, 1),
    ],
)
def test_a_thread_has_more_lanes_where_that_is_faster(device, num_seeds, expected):
    """Not where cores would be idle, too few threads run at a time, or states leave registers."""
    assert width(host.Device(**device), num_seeds) == expected


def test_numbers_that_never_change_are_no_loads():
    """They are part of the instructions: in registers they would take most of them."""
    step = StepProgram(batch("td", "float32"), problem_and_stream("float32")[2])
    assert step.fixed_table.size > 50
    ptx = to_ptx(learning_kernel(step, 1, 2**20))
    of_lanes = step.num_lane_values + step.batch.num_state + len(step.batch.measures)
    of_rows, of_chunks, of_steps, of_copy = step.table_width("row", 4) // 4 + 1, 2, 1, 1
    num_loads = len(re.findall(r"\bld\.(?!param)", ptx))
    assert num_loads <= of_lanes + of_rows + of_chunks + of_steps + of_copy
