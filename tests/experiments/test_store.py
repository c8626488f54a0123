"""Finished units survive whatever happens to processes, files and disks."""

import errno
import fcntl
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import xarray
from xarray.testing import assert_identical

from emphatic import _files
from emphatic.experiments import claims, completion, Experiment, store, Unit, units
from emphatic.experiments.toml import parse

TEXT = """
name = "small"
steps = 2e3
runs = 40
measures = ["emphasis_error"]
[problem]
name = "baird"
features = ["one-hot"]
[learners]
gem = "gem(step_size)"
td = "reverse_td(step_size)"
[grid]
step_size = [0.01, 0.02]
"""
EXPERIMENT, NUM_UNITS = parse(TEXT), 8
# Waits a little before each unit, so that there is a middle to be killed in.
PROGRAM = f"""
import sys, time
from pathlib import Path
from emphatic.experiments import completion
from emphatic.experiments.toml import parse
compute = completion.compute
def slowly(*arguments):
    time.sleep(0.1)
    return compute(*arguments)
completion.compute = slowly
completion.complete(parse('''{TEXT}'''), Path(sys.argv[1]), num_threads=1)
"""


def run(experiment: Experiment, folder: Path, **options) -> xarray.Dataset:
    """Computes what is missing, and loads everything."""
    return store.load_dataset(completion.complete(experiment, folder, **options))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, xarray.Dataset]:
    """The store and the dataset of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("finished") / "store"
    return folder, run(EXPERIMENT, folder)


@pytest.fixture(scope="module")
def parts(finished) -> dict[str, xarray.Dataset]:
    """What is computed for each unit, by the name of its file."""
    opened = store.open_store(finished[0])
    paths = [shard.path for shards in opened.shards.values() for shard in shards]
    return {path.stem: units.read_unit(path)[0] for path in paths}


@pytest.fixture
def computing(parts, monkeypatch) -> list[str]:
    """The titles of units that are computed from now on; the results are known beforehand."""
    titles: list[str] = []

    def look_up(unit: Unit, *_) -> xarray.Dataset:
        titles.append(unit.title)
        return parts[unit.file_name]

    monkeypatch.setattr(completion, "compute", look_up)
    return titles


def start_process(folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)], stderr=subprocess.PIPE, text=True
    )


def shards(folder: Path) -> dict[str, tuple[int, int]]:
    stats = {path.name: path.stat() for path in (folder / "units").glob("*.safetensors")}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}


# Processes that are killed, and several at once


def test_a_killed_process_loses_no_finished_unit_and_none_is_computed_twice(
    tmp_path, finished, computing
):
    folder, rng, shards_before = tmp_path / "store", random.Random(1), {}
    for _ in range(2):
        with start_process(folder) as process:
            while len(shards(folder)) == len(shards_before):
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 0.3))
            process.kill()
        now = shards(folder)
        assert shards_before.items() <= now.items()
        shards_before = now
    assert 2 <= len(shards_before) < NUM_UNITS
    (folder / "units" / f"{next(iter(shards_before))}abc.part").write_bytes(b"half")
    dataset = run(EXPERIMENT, folder)
    assert_identical(dataset, finished[1])
    assert len(computing) == NUM_UNITS - len(shards_before)
    assert shards_before.items() <= shards(folder).items()
    assert list((folder / "running").iterdir()) == list(folder.glob("*/*.part")) == []


def test_two_processes_share_the_units_of_one_store(tmp_path, finished):
    folder = tmp_path / "store"
    with start_process(folder) as one, start_process(folder) as other:
        errors = [process.communicate()[1] for process in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), errors
    assert len(shards(folder)) == NUM_UNITS
    assert_identical(store.load(folder), finished[1])
    assert list((folder / "running").iterdir()) == []


def test_every_unit_is_computed_by_one_of_many_that_begin_at_once(tmp_path, finished, computing):
    """Also what begins before the first one has written what the experiment is."""
    folder, datasets, barrier = tmp_path / "store", [], threading.Barrier(4)

    def begin() -> None:
        barrier.wait()
        datasets.append(run(EXPERIMENT, folder))

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(computing) == NUM_UNITS
    assert len(set(computing)) == NUM_UNITS
    assert len(datasets) == 4
    for dataset in datasets:
        assert_identical(dataset, finished[1])


@pytest.mark.parametrize("left", [[], ["units"], ["units", "problems", "running", ".lock"]])
def test_what_was_killed_while_it_began_continues(tmp_path, finished, computing, left):
    folder = tmp_path / "store"
    for name in left:
        (folder / name).touch() if name == ".lock" else (folder / name).mkdir(parents=True)
    if left:
        (folder / "experiment.jsonab1c.part").write_text("{")
    assert_identical(run(EXPERIMENT, folder), finished[1])
    assert list(folder.glob("*.part")) == []


def test_a_folder_with_other_files_is_refused_and_not_touched(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(ValueError, match="holds other files"):
        run(EXPERIMENT, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


# Claims


@pytest.fixture
def begun(tmp_path) -> store.Store:
    return store.begin(EXPERIMENT, tmp_path / "store")


UNIT = EXPERIMENT.units[0]


def test_a_claim_is_one_processes_and_says_how_far_it_is(begun, monkeypatch):
    opened, unit = begun, UNIT
    monkeypatch.setattr(claims, "POLL_EVERY", -1.0)  # every note is written
    with opened.claim(unit) as record, opened.claim(unit) as other:
        assert record is not None
        assert other is None
        name = opened.path(unit).stem
        assert claims.list_claims(opened.folder / "running") == [(name, 0, unit.num_updates)]
        for updates in (10, 200, 30):
            record(updates)
        assert claims.list_claims(opened.folder / "running") == [(name, 30, unit.num_updates)]
        assert store.status(opened.folder).running == [(name, 30, unit.num_updates)]
    assert claims.list_claims(opened.folder / "running") == []
    with opened.claim(unit) as again:
        assert again is not None


def test_a_claim_on_a_file_that_was_removed_in_between_is_none(begun, monkeypatch):
    """Else two processes would have a unit: one by the old file, one by the new."""
    opened, unit = begun, UNIT
    lock = claims.lock

    def remove_and_lock(file, **options):
        (opened.folder / "running" / opened.path(unit).stem).unlink()
        return lock(file, **options)

    monkeypatch.setattr(claims, "lock", remove_and_lock)
    with opened.claim(unit) as record:
        assert record is None


def test_what_a_living_process_writes_is_not_tidied_away(begun):
    opened, unit = begun, UNIT
    part = opened.path(unit).with_name(f"{opened.path(unit).name}abc.part")
    part.write_bytes(b"half")
    with opened.claim(unit):
        store.begin(EXPERIMENT, opened.folder)
        assert part.exists()
        assert len(claims.list_claims(opened.folder / "running")) == 1
    store.begin(EXPERIMENT, opened.folder)
    assert not part.exists()


def test_a_unit_whose_process_died_is_taken_over(begun, finished, computing):
    """The lock of a process ends with it, however that ends."""
    opened, unit = begun, UNIT
    path = opened.folder / "running" / opened.path(unit).stem
    script = (
        "import fcntl, sys, time\n"
        "file = open(sys.argv[1], 'a')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "time.sleep(1000)"
    )
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"

        def on_progress(done: int, total: int) -> None:
            if done == total - unit.num_updates:
                assert store.status(opened.folder).running[0][0] == path.name
                process.kill()

        dataset = run(EXPERIMENT, opened.folder, on_progress=on_progress)
    assert_identical(dataset, finished[1])
    assert computing[-1] == unit.title


def test_without_locks_a_store_works_for_one_process_and_says_so(
    tmp_path, finished, computing, monkeypatch
):
    def refuse_lock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse_lock)
    messages: list[str] = []
    assert_identical(run(EXPERIMENT, tmp_path / "store", on_message=messages.append), finished[1])
    assert len(messages) == 1
    assert "without locks" in messages[0]
    assert claims.list_claims(tmp_path / "store" / "running") == []


# Files and disks


def copy_store(finished, tmp_path, computing) -> Path:
    """Returns a whole store of its own."""
    run(EXPERIMENT, tmp_path / "store")
    computing.clear()
    return tmp_path / "store"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, flip, empty])
def test_a_damaged_file_is_named_and_computed_again(tmp_path, finished, computing, parts, damage):
    folder, messages = copy_store(finished, tmp_path, computing), []
    path = sorted((folder / "units").iterdir())[3]
    damage(path)
    dataset = run(EXPERIMENT, folder, on_message=messages.append)
    assert_identical(dataset, finished[1])
    assert len(computing) == len(messages) == 1
    assert str(path) in messages[0]
    assert "is computed again" in messages[0]
    assert path.with_suffix(".damaged").exists()
    assert run(EXPERIMENT, folder, on_message=messages.append).equals(dataset)
    assert len(messages) == 1


def test_a_disk_that_is_full_is_one_clear_error_and_the_store_continues(
    tmp_path, finished, computing, monkeypatch
):
    folder, fsync, count = tmp_path / "store", os.fsync, 0

    def sync_until_full(handle: int) -> None:
        nonlocal count
        count += 1
        if count > 15:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", sync_until_full)
        with pytest.raises(ValueError, match=r"cannot be written: No space.*is kept$") as raised:
            run(EXPERIMENT, folder)
    assert "\n" not in str(raised.value)
    shards_before = shards(folder)
    assert 0 < len(shards_before) < NUM_UNITS
    assert list(folder.glob("*/*.part")) == list((folder / "running").iterdir()) == []
    assert store.status(folder).done > 0
    computing.clear()
    assert_identical(run(EXPERIMENT, folder), finished[1])
    assert shards_before.items() <= shards(folder).items()
    assert len(computing) == NUM_UNITS - len(shards_before)


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    """As on a disk that is read-only: permissions do not bind everybody."""

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    store.begin(EXPERIMENT, tmp_path / "store")
    before = sorted(tmp_path.rglob("*"))
    for name in ("mkdir", "touch"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, refuse)
            with pytest.raises(ValueError, match=r"^out: .* cannot be written: Read-only file"):
                run(EXPERIMENT, tmp_path / "store")
    opened = store.open_store(tmp_path / "store")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with (
            pytest.raises(ValueError, match=r"cannot be written: Read-only.*is kept"),
            opened.claim(UNIT),
        ):
            pass
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_is_on_the_disk_before_its_name_and_its_folder_after(tmp_path, monkeypatch):
    steps, fsync, os_replace = [], os.fsync, os.replace

    def sync(handle: int) -> None:
        steps.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        fsync(handle)

    def replace(*paths) -> None:
        steps.append("name")
        os_replace(*paths)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    with _files.atomic_write(tmp_path / "a") as file:
        file.write(b"b")
    assert steps == ["file", "name", "folder"]


def test_a_store_without_any_unit_says_so(tmp_path):
    store.begin(EXPERIMENT, tmp_path / "store")
    with pytest.raises(ValueError, match="has no finished unit yet"):
        store.load(tmp_path / "store")
    assert store.status(tmp_path / "store").done == 0


# Set aside


def test_what_is_set_aside_is_named_left_out_and_tried_again(tmp_path, computing, finished):
    opened, odd = store.begin(EXPERIMENT, tmp_path / "store"), EXPERIMENT.units[2]

    def all_but_one(claims):
        for unit, _ in claims:
            if unit.title == odd.title:
                opened.set_aside(unit, "it is odd")
                yield unit, None
            else:
                yield unit, completion.compute(unit)

    calls: list[tuple[int, int]] = []
    completion.complete_with(
        opened, EXPERIMENT.units, all_but_one, lambda *call: calls.append(call)
    )
    assert calls[-1][1] - calls[-1][0] == odd.num_updates
    assert store.status(opened.folder).aside == [{"unit": odd.title, "reason": "it is odd"}]
    partial = store.load_dataset(opened)
    assert partial.attrs["interrupted"] == 1
    assert int(partial["emphasis_error"].isnull().any("time").sum()) == odd.num_cells
    computing.clear()
    assert_identical(run(EXPERIMENT, opened.folder), finished[1])
    assert computing == [odd.title]
    assert store.status(opened.folder).aside == []
