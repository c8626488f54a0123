"""Where learners run changes no bit: a GPU that is the host, one that is not there, and both."""

from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from emphatic import Learner, learners, problems
from emphatic.engine import Experience, run
from emphatic.engine.fused import cuda, estimate
from emphatic.engine.tasks import plan, Task

from .fused import host

SETTING: Any = {"num_steps": 150, "record_every": 60, "seeds": [3, 4, 9]}


@cache
def problem() -> Any:
    return problems.baird("original", solid=0.3)


@pytest.fixture
def gpu(monkeypatch) -> host.Device:
    """A GPU that is the host."""
    device = host.Device()
    monkeypatch.setattr(cuda, "find_device", lambda number=0: device)
    return device


@pytest.fixture
def no_gpu(monkeypatch) -> None:
    def fail(number: int = 0) -> Any:
        raise cuda.DeviceError("device: no driver of NVIDIA is installed; device='cpu' needs none")

    monkeypatch.setattr(cuda, "find_device", fail)


def critics(device: Any, **settings: Any) -> Any:
    named = {"gem": learners.gem, "reverse_td": learners.reverse_td}
    grid = {"step_size": np.geomspace(1e-3, 50.0, 11)}
    measures = ["emphasis_error", "weights"]
    return run(problem(), named, grid, measures=measures, device=device, **SETTING | settings)


def test_a_run_on_a_gpu_is_that_on_the_cpu_to_the_bit(gpu):
    found, expected = critics("gpu"), critics("cpu")
    assert found.attrs.pop("device") == "a GPU that is the host"
    assert expected.attrs.pop("device") == "CPU"
    assert found.identical(expected)
    assert set(found.engine.values) == {"fused"}
    assert found.diverged.any()
    names = [kernel.name for kernel, _ in gpu.kernels]
    assert names.count("words") == names.count("walk") == 1
    assert names.count("learn") >= 2


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_what_is_not_a_number_has_one_form(gpu, device):
    """Processors differ in the bits of it, so that equal files would not be equal."""
    found = critics(device)
    for name in ("emphasis_error", "gem_weights"):
        values = found[name].values
        words = {4: np.uint32, 8: np.uint64}[values.itemsize]
        numbers = values[np.isnan(values)]
        assert numbers.size
        assert (numbers.view(words) == np.array(np.nan, values.dtype).view(words)).all()


def test_short_slices_on_a_gpu_give_the_same_bits(gpu, monkeypatch):
    monkeypatch.setattr("emphatic.engine.tasks.SLICE_STEPS", 1)
    found = critics("gpu", record_every=3000, num_steps=3000).drop_attrs()
    assert len(gpu.kernels[-1][1].launches) > 2
    assert found.identical(critics("cpu", record_every=3000, num_steps=3000).drop_attrs())


def test_several_targets_run_on_a_gpu(gpu):
    targets = {solid: np.tile([solid, 1.0 - solid], (7, 1)) for solid in (0.05, 0.3)}
    arguments: Any = {"target": targets, "seeds": 2, "num_steps": 50, "record_every": 50}
    found, expected = (
        run(problem(), ["gem"], {"step_size": [0.01, 0.1]}, device=device, **arguments)
        for device in ("gpu", "cpu")
    )
    assert found.drop_attrs().identical(expected.drop_attrs())


@pytest.fixture
def fast(gpu, monkeypatch) -> host.Device:
    """A GPU for which nothing is too little work."""
    for name in ("COMPILATION", "PER_INSTRUCTION"):
        monkeypatch.setattr(estimate, name, 0.0)
    monkeypatch.setattr(estimate, "BUS", 1e15)
    gpu.num_cores, gpu.cycles = 10**6, 1e15
    return gpu


def test_auto_gives_a_gpu_what_it_does_faster_in_all(gpu, monkeypatch):
    """Compilation and transfers count."""
    assert critics("auto").attrs["device"] == "CPU"
    gpu.num_cores, gpu.cycles = 10**6, 1e15
    assert critics("auto", num_steps=60).attrs["device"] == "CPU"


def test_auto_takes_a_gpu_that_costs_nothing(fast):
    assert critics("auto").attrs["device"] == "a GPU that is the host"


def test_parts_of_tasks_fit_and_share_what_is_left(monkeypatch):
    """Those that have the memory of the process come first."""
    monkeypatch.setattr(Task, "num_bytes", 40)
    methods = dict.fromkeys(("begin", "advance", "seeds_per_task"), len)
    gpu, cpu = (
        cast(Experience, SimpleNamespace(memory_bytes=n, step_bytes=4, **methods))
        for n in (100, None)
    )
    tasks = [Task(gpu if n < 5 else cpu, [], n, [n]) for n in range(7)]
    parts = plan(tasks)
    assert [[task.first for task in part] for part in parts] == [[5, 6, 0, 1], [2, 3], [4]]
    assert [task.slice_bytes for task in tasks[:5]] == [10, 10, 10, 10, 60]


def test_what_does_not_fit_a_gpu_runs_in_parts(gpu):
    """Never is more memory in use than half of what was free; every seed has the bits of alone."""
    arguments: Any = {"seeds": 30, "num_steps": 1500, "record_every": 400}
    whole = critics("gpu", **arguments)
    needed, gpu.free_bytes = gpu.most_used, 150_000
    gpu.most_used = gpu.used
    in_parts = critics("gpu", **arguments)
    assert gpu.most_used < 150_000 < needed
    assert in_parts.identical(whole)


def test_lanes_that_do_not_fit_a_gpu_run_in_parts(gpu):
    grid = {"step_size": np.geomspace(1e-3, 1.0, 400)}
    arguments: Any = {"num_steps": 20, "record_every": 10}
    whole = run(problem(), ["reverse_td"], grid, device="gpu", **arguments)
    gpu.free_bytes = 160_000
    in_parts = run(problem(), ["reverse_td"], grid, device="gpu", **arguments)
    assert in_parts.identical(whole)
    num_lanes = [
        n for k, loaded in gpu.kernels[-4:] if k.name == "learn" for n, _ in loaded.launches
    ]
    assert max(num_lanes) < 400


def test_memory_that_others_have_is_an_error_that_says_so(gpu):
    gpu.free_bytes = 12_000
    with pytest.raises(
        ValueError, match=r"device: this takes .* GPU's memory at least, of which .* free"
    ):
        critics("gpu")


def test_auto_does_without_a_gpu_whose_memory_others_have(fast):
    fast.free_bytes = 12_000
    found = critics("auto")
    assert found.attrs["device"] == "CPU"
    assert "; no GPU (this takes" in str(found.reason.values[0])


def test_auto_does_without_a_gpu_that_refuses_a_kernel(fast, monkeypatch):
    def refuse(kernel: Any) -> Any:
        raise cuda.DeviceError("device: the driver refuses a kernel: too new; device='cpu' ...")

    monkeypatch.setattr(fast, "compile", refuse)
    found = critics("auto")
    assert found.attrs["device"] == "CPU"
    reasons = [str(reason) for reason in found.reason.values]
    assert all("no GPU (the driver refuses a kernel: too new)" in reason for reason in reasons)


def test_a_single_seed_of_many_lanes_makes_two_tasks(gpu, monkeypatch):
    """One is drawn and copied while the other one learns."""
    monkeypatch.setattr("emphatic.engine.fused.gpu.MIN_LANES", 4)
    found = critics("gpu", seeds=[3])
    launches = [loaded.launches for kernel, loaded in gpu.kernels if kernel.name == "walk"]
    assert sum(map(len, launches)) > 1
    assert found.drop_attrs().identical(critics("cpu", seeds=[3]).drop_attrs())


def test_auto_without_a_gpu_runs_on_the_cpu_and_says_why(no_gpu):
    found = critics("auto")
    assert found.attrs["device"] == "CPU"
    reason = str(found.reason.values[0])
    assert reason.endswith("; no GPU (no driver of NVIDIA is installed)")


def test_a_gpu_that_is_asked_for_and_is_not_there_is_an_error(no_gpu):
    with pytest.raises(ValueError, match="device: no driver of NVIDIA is installed"):
        critics("gpu")


def test_what_does_not_fuse_does_not_run_on_a_gpu(gpu):
    gem = learners.gem(0.1)

    def step(state: Any, y: Any) -> Any:
        return jax.tree.map(jnp.tanh, gem.step(state, y))

    bounded = {"bounded": Learner(gem.init, step, gem.predict)}
    arguments: Any = {"num_steps": 10, "measures": ["weights"]}
    with pytest.raises(ValueError, match=r"device: 'bounded' cannot be fused for a GPU: .*'tanh'"):
        run(problem(), bounded, device="gpu", **arguments)
    found = run(problem(), bounded, device="auto", **arguments)
    assert (found.engine.item(), found.attrs["device"]) == ("scan", "JAX")


def test_a_gpu_for_scans_is_refused():
    with pytest.raises(ValueError, match="device: 'gpu' runs the fused engine; engine is 'scan'"):
        run(problem(), ["gem"], {"step_size": [0.1]}, num_steps=9, device="gpu", engine="scan")
