"""Where an experiment runs changes none of its units: on GPUs that are the host, and the CPU."""

import dataclasses
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import xarray
from xarray.testing import assert_identical

from emphatic.engine.fused import cuda
from emphatic.engine.run import Prepared
from emphatic.experiments import (
    cluster,
    compare,
    completion,
    estimate,
    Experiment,
    groups,
    run,
    store,
    toml,
)
from emphatic.experiments.shards import read
from emphatic.mdp import Problem
from emphatic.problems import two_state

from ..engine.fused import host

TEXT = """
name = "small"
steps = 300
record_every = 100
runs = 25
[grid]
step_size = [0.01, 0.02, 5.0]
[learners]
gem = "gem(step_size)"
td = "reverse_td(step_size)"
[problem]
name = "baird"
features = ["one-hot"]
"""
COMPUTE = sys.modules["emphatic.experiments.compute"]  # a function has its name
ON_CPU = toml.parse(TEXT)
ON_GPU = dataclasses.replace(ON_CPU, device="gpu")
NUM_UNITS = 6  # of two learners, each of ten, ten and five runs


class Device(host.Device):
    """A GPU that is the host, with a number, which may fail."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number
        self.fails: Callable[[], bool] = lambda: False

    def __str__(self) -> str:
        return f"GPU {self.number} that is the host"

    def allocate(self, num_bytes: int) -> host.Memory:
        if self.fails():
            raise cuda.DeviceError("device: the GPU's driver failed in cuMemAllocAsync: ECC")
        return super().allocate(num_bytes)


DEVICES = [Device(0), Device(1)]


@pytest.fixture
def plug_in(monkeypatch) -> Callable[[int], list[Device]]:
    """Plugs GPUs in, one or two; what is compiled for them is kept."""

    def plug(count: int) -> list[Device]:
        monkeypatch.setattr(cuda, "find_device", lambda number=0: DEVICES[:count][number])
        monkeypatch.setattr(cuda, "count_devices", lambda: count)
        monkeypatch.setattr(COMPUTE, "MAX_PROGRAMS", 20)
        for device in DEVICES:
            device.fails = lambda: False
        return DEVICES

    return plug


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """The store that the CPU makes."""
    folder = tmp_path_factory.mktemp("device") / "store"
    completion.complete(ON_CPU, folder, num_threads=1)
    return folder


@pytest.fixture
def calls(monkeypatch) -> list[tuple[str, int]]:
    """The devices of all calls of an engine from now on, and how many seeds each has."""
    made: list[tuple[str, int]] = []
    run_seeds = Prepared.run

    def record(self: Prepared, seeds: Any, *arguments: Any) -> Any:
        made.append((str(self.attributes["device"]), len(seeds)))
        return run_seeds(self, seeds, *arguments)

    monkeypatch.setattr(Prepared, "run", record)
    return made


def contents(folder: Path) -> dict[str, tuple[xarray.Dataset, Any]]:
    """What the files of units hold, by their names, and what they say of themselves."""
    return {path.name: read(path) for path in (folder / "units").glob("*.safetensors")}


def devices_of(folder: Path) -> Counter[str]:
    """How many units each device has computed."""
    origins = [description["provenance"] for _, description in contents(folder).values()]
    return Counter(origin["device"].partition(",")[0] for origin in origins)


def assert_same_units(folder: Path, expected: Path) -> None:
    """Asserts that stores have the same plan and the same units, but for what computed them."""
    assert (folder / "experiment.json").read_bytes() == (expected / "experiment.json").read_bytes()
    found, units = contents(folder), contents(expected)
    assert found.keys() == units.keys()
    for name, (dataset, description) in units.items():
        assert_identical(found[name][0], dataset)
        for variable in dataset.data_vars:
            assert found[name][0][variable].values.tobytes() == dataset[variable].values.tobytes()
        differing = {key for key, value in description.items() if found[name][1][key] != value}
        assert differing <= {"provenance"}


def test_a_store_that_a_cpu_began_is_completed_by_a_gpu_to_the_bit(
    plug_in, calls, tmp_path, finished
):
    plug_in(1)
    folder = tmp_path / "store"
    fewer = dataclasses.replace(ON_CPU, num_runs=10)
    completion.complete(fewer, folder, num_threads=1)
    del calls[:]
    progress: list[tuple[int, int]] = []
    completion.complete(
        ON_GPU, folder, num_threads=1, on_progress=lambda *now: progress.append(now)
    )
    assert_same_units(folder, finished)
    assert devices_of(folder) == {"CPU": 2, "GPU 0 that is the host": 4}
    assert calls == [("GPU 0 that is the host", 15)] * 2  # two units at once
    assert progress == sorted(progress)
    assert progress[-1] == (ON_CPU.num_updates(),) * 2
    origins = json.loads(store.load(folder).attrs["provenance"])
    assert {origin["device"].partition(", ")[0] for origin in origins} == {*devices_of(folder)}


def test_no_name_and_no_definition_knows_the_device():
    for one, other in zip(ON_CPU.units, ON_GPU.units, strict=True):
        assert one.definition == other.definition
        assert one.file_name == other.file_name


def test_several_gpus_share_the_units(plug_in, calls, tmp_path, finished):
    plug_in(2)
    folder = tmp_path / "store"
    completion.complete(ON_GPU, folder, num_threads=1)
    assert_same_units(folder, finished)
    assert set(devices_of(folder)) == {f"GPU {number} that is the host" for number in (0, 1)}
    assert Counter(num_seeds for _, num_seeds in calls) == {20: 2, 5: 2}  # half of three units


def test_a_call_has_no_more_units_than_memory_has_room_for(plug_in, calls, tmp_path, monkeypatch):
    plug_in(1)
    monkeypatch.setattr(COMPUTE, "available_memory", lambda: 20_000.0)
    completion.complete(ON_GPU, tmp_path / "store", num_threads=1)
    assert [num_seeds for _, num_seeds in calls] == [10, 10, 5] * 2


@pytest.mark.parametrize("count", [1, 2])
def test_a_gpu_that_fails_loses_what_is_in_flight_and_the_cpu_goes_on(
    plug_in, tmp_path, finished, count
):
    folder = tmp_path / "store"
    plug_in(count)[0].fails = lambda: any((folder / "units").glob("*.safetensors"))
    failure = "driver failed in cuMemAllocAsync: ECC; what is finished is kept"
    with pytest.raises(ValueError, match=failure):
        completion.complete(ON_GPU, folder, num_threads=1)
    before = devices_of(folder)
    assert 0 < before.total() < NUM_UNITS
    assert list((folder / "running").iterdir()) == []
    completion.complete(ON_CPU, folder, num_threads=1)
    assert_same_units(folder, finished)
    assert devices_of(folder) == before + Counter({"CPU": NUM_UNITS - before.total()})


def test_ctrl_c_keeps_the_units_that_are_finished(plug_in, tmp_path, finished):
    plug_in(2)
    folder = tmp_path / "store"

    def interrupt(done: int, total: int) -> None:
        if len(list((folder / "units").glob("*.safetensors"))) >= 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        completion.complete(ON_GPU, folder, num_threads=1, on_progress=interrupt)
    assert 1 <= len(contents(folder)) < NUM_UNITS
    completion.complete(ON_GPU, folder, num_threads=1)
    assert_same_units(folder, finished)


def test_what_is_derived_of_a_unit_does_not_depend_on_its_neighbours(plug_in, tmp_path):
    def sum_runs(problem: Problem, dataset: xarray.Dataset) -> xarray.Dataset:
        return dataset.assign(total=dataset["emphasis_error"].sum("run") + 0.0 * dataset["run"])

    plug_in(1)
    for device in ("cpu", "gpu"):
        whole = dataclasses.replace(ON_CPU, derive=sum_runs, device=device)
        completion.complete(whole, tmp_path / device, num_threads=1)
    assert_same_units(tmp_path / "gpu", tmp_path / "cpu")


def test_a_whole_experiment_in_memory_is_that_of_the_cpu(plug_in, finished):
    plug_in(1)
    found, expected = run(ON_GPU, num_threads=1), store.load(finished)
    assert "GPU 0" in found.attrs.pop("provenance")
    del expected.attrs["provenance"]
    assert_identical(found, expected)


def test_learners_are_compared_on_a_gpu(plug_in):
    plug_in(1)
    arguments: Any = {"num_steps": 200, "num_runs": 12}
    found, expected = (
        compare(two_state(), ["gem(0.1)", "followon()"], device=device, **arguments)
        for device in ("gpu", "cpu")
    )
    assert found == expected


def test_what_is_estimated_runs_where_the_experiment_will_run(plug_in, calls):
    plug_in(1)
    found, expected = estimate(ON_GPU), estimate(ON_CPU)
    assert calls[:4] == [("GPU 0 that is the host", 25)] * 4  # as many as in a call, twice
    assert found.num_updates == expected.num_updates
    assert found.num_bytes == pytest.approx(expected.num_bytes, rel=0.1)
    assert found.devices[0].startswith("GPU 0 that is the host")
    assert expected.devices[0].startswith("CPU")


# Groups, without an engine


def report(updates: int, num_updates: int) -> None:
    """Nobody looks at the progress."""


def test_units_in_a_row_that_differ_in_their_runs_alone_are_a_group():
    cases = toml.parse(TEXT.replace('["one-hot"]', '["one-hot", "original"]')).units
    whole, fewer = cases[:3], dataclasses.replace(cases[1], grid={"step_size": (0.01,)})
    for units, limit, sizes in (
        (whole, 9, [3]),
        (whole, 2, [2, 1]),
        (whole, 1, [1, 1, 1]),
        ((*whole, *cases[3:6]), 9, [3, 3]),  # another learner
        ((*whole, *cases[6:9]), 9, [3, 3]),  # another case
        ((whole[0], fewer, whole[2]), 9, [1, 1, 1]),  # another grid
        ((whole[0], None, whole[1], whole[2]), 9, [1, 2]),  # none is free for a while
        ((None, whole[0]), 1, [0, 1]),
    ):
        claims = (unit and (unit, report) for unit in units)
        found = groups.group_claims(claims, lambda _, limit=limit: limit)
        assert [len(group) for group in found] == sizes


def test_where_a_gpu_fails_the_others_finish_what_they_have_begun():
    failed, begun = Event(), list[int]()

    def compute_group(units: Any, on_progress: Any, gpu: int) -> Any:
        begun.append(gpu)
        if gpu == 0:
            failed.set()
            raise ValueError("it is broken")
        assert failed.wait(10)
        on_progress(1, 2)
        return [xarray.Dataset() for _ in units]

    bundles = ([(unit, report)] for unit in ON_CPU.units)
    done = []
    with pytest.raises(ValueError, match="it is broken"):
        done.extend(unit for unit, _ in groups.compute_groups(bundles, 2, compute_group))
    assert done == [ON_CPU.units[1]]
    assert sorted(begun) == [0, 1]  # and no other


def test_ctrl_c_stops_the_calls_that_run():
    stopped = Event()

    def compute_group(units: Any, on_progress: Any, gpu: int) -> Any:
        try:
            for _ in range(1000 * gpu):
                on_progress(0, 1)
                time.sleep(0.01)
        except KeyboardInterrupt:
            stopped.set()
            raise
        return [xarray.Dataset() for _ in units]

    bundles = ([(unit, report)] for unit in ON_CPU.units[:2])
    results = groups.compute_groups(bundles, 2, compute_group)
    assert next(results)[0] is ON_CPU.units[0]
    results.close()
    assert stopped.is_set()


# `auto`, and what cannot run


def test_auto_leaves_little_work_to_the_cpu(plug_in, calls, tmp_path, finished):
    plug_in(1)
    folder = tmp_path / "store"
    completion.complete(dataclasses.replace(ON_CPU, device="auto"), folder, num_threads=1)
    assert_same_units(folder, finished)
    assert devices_of(folder) == {"CPU": NUM_UNITS}
    assert {num_seeds for _, num_seeds in calls} == {10, 5}


def test_auto_without_a_gpu_says_so_once(tmp_path, finished, monkeypatch):
    def fail(number: int = 0) -> Any:
        raise cuda.DeviceError("device: no driver of NVIDIA is installed; device='cpu' needs none")

    monkeypatch.setattr(cuda, "find_device", fail)
    monkeypatch.setattr(COMPUTE, "_programs", {})
    messages: list[str] = []
    folder, auto = tmp_path / "store", dataclasses.replace(ON_CPU, device="auto")
    completion.complete(auto, folder, num_threads=1, on_message=messages.append)
    assert messages == ["device: no driver of NVIDIA is installed; the CPU is used"]
    assert_same_units(folder, finished)
    with pytest.raises(ValueError, match="device: no driver of NVIDIA is installed"):
        completion.complete(ON_GPU, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": "scan"}, "device: 'gpu' runs the fused engine; engine is 'scan'"),
        ({"too_large": True}, "device: 'gem' cannot be fused for a GPU: a state has 400 numbers"),
    ],
)
def test_what_does_not_fuse_is_refused_before_anything_runs(plug_in, tmp_path, changes, message):
    plug_in(1)
    whole: Experiment = ON_GPU
    if changes.pop("too_large", False):
        text = TEXT.replace('name = "baird"', 'name = "garnet"\nnum_states = 200')
        text = text.replace('features = ["one-hot"]', "num_features = [5, 200]")
        whole = dataclasses.replace(toml.parse(text), device="gpu")
    with pytest.raises(ValueError, match=message):
        completion.complete(dataclasses.replace(whole, **changes), tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_file_says_where_it_runs():
    assert toml.parse('device = "auto"\n' + TEXT).device == "auto"
    assert toml.parse(TEXT).device == "cpu"
    with pytest.raises(ValueError, match=r"line 1.*device.*'cpu'"):
        toml.parse('device = "tpu"\n' + TEXT)


# Workers


def test_workers_of_this_machine_take_its_gpus_in_turn(plug_in):
    plug_in(2)
    units = ON_GPU.units[:1]
    assert [cluster._choose_gpu(units, name) for name in range(4)] == [0, 1, 0, 1]
    assert cluster._choose_gpu(units, "tcp://10.0.0.1:8786") == 0  # it has its own
    assert cluster._choose_gpu(ON_CPU.units[:1], 1) == 0


def test_a_task_of_a_cluster_with_gpus_has_several_units():
    many = dataclasses.replace(ON_GPU, num_runs=1000)
    assert cluster._units_per_task(many.wholes[0], 4) == 25
    assert cluster._units_per_task(dataclasses.replace(many, device="cpu").wholes[0], 4) == 1
    long = dataclasses.replace(many, num_steps=10**6, record_every=1)
    assert cluster._units_per_task(long.wholes[0], 4) == 1
