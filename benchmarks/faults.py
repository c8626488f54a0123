"""What a store and a cluster survive, and what they cost.

    python benchmarks/faults.py [--quick]

Sweeps, trainings and reports are killed a hundred times, workers die, disks are full: each time it
is counted whether something finished was lost, rewritten or computed twice, and whether the result
is that of an undisturbed run. Then the store's own work is timed on many small cells. The exit
status is 1 if a limit is missed. Disks that are full or read-only are small mounts, which only root
can make.
"""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import xarray

from emphatic.deep.plan import training_status
from emphatic.experiments import cluster, complete, compute, Experiment, store
from emphatic.experiments.completion import Claims, complete_with
from emphatic.experiments.toml import parse, read

QUICK = "--quick" in sys.argv
KILLS = 4 if QUICK else 60  # of sweeps
OTHER_KILLS = 2 if QUICK else 20  # of trainings, and of reports
CASES = 5 if QUICK else 50

SWEEP = """
name = "sweep"
steps = 2e5
runs = 60
records = 40
measures = ["emphasis_error"]
[problem]
name = "baird"
features = ["one-hot", "zero-hot", "aliased"]
[learners]
gem = "gem(step_size)"
lms = "lms(followon(), step_size)"
[grid]
step_size = "0.1 * 2^[0:-63]"
"""
CELLS = f"""
name = "cells"
steps = 100
runs = 100
records = 10
measures = ["rmsve"]
[problem]
name = "garnet"
seed = {list(range(CASES))}
[learners]
td = "td(step_size)"
gtd2 = "gtd2(step_size)"
[grid]
step_size = "0.1 * 2^[0:-9]"
"""
PROGRAM = """
import sys
from pathlib import Path
from emphatic.experiments import completion
from emphatic.experiments.toml import read

compute = completion.compute


def log_and_compute(unit, *arguments):
    with open(sys.argv[2] + ".computed", "a") as file:
        file.write(unit.file_name + ".safetensors\\n")
    return compute(unit, *arguments)


completion.compute = log_and_compute
completion.complete(read(sys.argv[1]), Path(sys.argv[2]), num_threads=1)
"""

TRAINING = """
import sys
from pathlib import Path
from emphatic.deep import train


def log(steps, values):
    with open(sys.argv[1] + ".computed", "a") as file:
        file.write(f"{steps}\\n")


train(Path(sys.argv[1]), "CartPole-v1", "off-pac", steps=200, evaluate_every=20, on_evaluation=log)
"""


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """A table in markdown."""
    print(f"\n## {title}\n\n| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}")
    for row in rows:
        print(f"| {' | '.join(str(value) for value in row.values())} |", flush=True)


def shards(folder: Path) -> dict[str, tuple[int, int]]:
    """The finished units of a store, each with what changes if it is written again."""
    found = {path.name: path.stat() for path in (folder / "units").glob("*.safetensors")}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in found.items()}


def same(one: xarray.Dataset, other: xarray.Dataset) -> bool:
    """Whether two datasets agree in every bit, label and attribute, except for their origin."""
    first, second = (each.assign_attrs(provenance="") for each in (one, other))
    return first.identical(second)


def computed(folder: Path) -> list[str]:
    """The units that processes began to compute, in order, by the names of their files."""
    log = Path(f"{folder}.computed")
    return log.read_text().split() if log.exists() else []


def started(*arguments: str | Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def sweep(file: Path, folder: Path) -> subprocess.Popen:
    return started("-c", PROGRAM, file, folder)


def kill(process: subprocess.Popen, seconds: float, is_time: Callable[[], bool] = bool) -> bool:
    """Kills a process after so many seconds, or once it is time; returns whether it still ran."""
    moment = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < moment and not is_time():
        time.sleep(0.001)
    process.kill()
    _, errors = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode != 0


def failed(experiment: Experiment, folder: Path) -> str:
    """The error that ends a run."""
    try:
        complete(experiment, folder)
    except ValueError as error:
        return str(error)
    return ""


# Processes and workers that are killed


def killed(folder: Path, file: Path, expected: xarray.Dataset, seconds: float) -> dict[str, Any]:
    """A sweep whose process is killed at random moments, each time begun again."""
    chance, here, kills, rewritten, lost, identical = random.Random(0), folder / "0", 0, 0, 0, True
    known: dict[str, tuple[int, int]] = {}
    stopped_at, rounds, twice = list[int](), 1, 0
    while True:
        before = len(computed(here))
        was_killed = kill(sweep(file, here), chance.uniform(0.0, seconds) if kills < KILLS else 1e9)
        kills += was_killed
        found = shards(here) if here.exists() else {}
        twice += len(set(known) & set(computed(here)[before:]))
        lost += len(set(known) - set(found))
        rewritten += sum(known[name] != found[name] for name in set(known) & set(found))
        known = found
        if was_killed:
            stopped_at.append(len(found))
            continue
        identical &= same(store.load(here), expected)
        if kills == KILLS:
            break
        here, known, rounds = folder / str(rounds), {}, rounds + 1
    return {
        "kills": kills,
        "sweeps": rounds,
        "units kept when killed": " ".join(map(str, stopped_at)),
        "lost": lost,
        "computed again": twice,
        "rewritten": rewritten,
        "identical": identical,
        "met": identical and not lost and not twice and not rewritten,
    }


def killed_training(folder: Path) -> dict[str, Any]:
    """A training whose process is killed at random moments, each time begun again."""

    def results(here: Path) -> list[bytes]:
        return [(here / name).read_bytes() for name in ("policy.safetensors", "curves.nc")]

    def steps_kept() -> int:
        return training_status(here).done if list(here.glob("checkpoint*.safetensors")) else 0

    begun = time.monotonic()
    kill(started("-c", TRAINING, folder / "expected"), 1e9)
    seconds, expected = time.monotonic() - begun, results(folder / "expected")
    chance, here, kills, lost, twice, identical = random.Random(0), folder / "0", 0, 0, 0, True
    kept, stopped_at, rounds = 0, list[int](), 1
    while True:
        before, seen = len(computed(here)), kept
        duration = chance.uniform(0.0, 1.1 * seconds) if kills < OTHER_KILLS else 1e9
        was_killed = kill(started("-c", TRAINING, here), duration)
        kills += was_killed
        kept = steps_kept() if here.exists() else 0
        twice += sum(0 < int(steps) <= seen for steps in computed(here)[before:])
        lost += kept < seen
        if was_killed:
            stopped_at.append(kept)
            continue
        identical &= results(here) == expected
        if kills == OTHER_KILLS:
            break
        here, kept, rounds = folder / str(rounds), 0, rounds + 1
    return {
        "kills": kills,
        "trainings": rounds,
        "steps kept when killed": " ".join(map(str, stopped_at)),
        "lost": lost,
        "computed again": twice,
        "identical": identical,
        "met": identical and not lost and not twice,
    }


def killed_report(folder: Path, results: Path) -> dict[str, Any]:
    """A report that is killed at random moments, and every other time as soon as it is written."""
    page, expected, before = folder / "page.html", folder / "expected.html", shards(results)

    def report(out: Path) -> subprocess.Popen:
        return started("-m", "emphatic", "report", results, "--out", out)

    def is_written() -> bool:
        return any(folder.glob("*.part"))

    begun = time.monotonic()
    kill(report(expected), 1e9)
    seconds, chance, kills, torn, whole = time.monotonic() - begun, random.Random(0), 0, 0, 0
    while kills < OTHER_KILLS:
        page.unlink(missing_ok=True)
        for path in folder.glob("*.part"):
            path.unlink()
        waits = kills % 2 == 0
        duration = 1e9 if waits else chance.uniform(0.0, seconds)
        kills += kill(report(page), duration, is_written if waits else bool)
        is_whole = page.exists() and page.read_bytes() == expected.read_bytes()
        whole, torn = whole + is_whole, torn + (page.exists() and not is_whole)
    kill(report(page), 1e9)
    identical = page.read_bytes() == expected.read_bytes() and shards(results) == before
    return {
        "kills": kills,
        "pages absent when killed": kills - whole,
        "torn": torn,
        "identical": identical,
        "met": identical and not torn,
    }


def together(folder: Path, file: Path, expected: xarray.Dataset) -> dict[str, Any]:
    """Two processes that begin at once on one store: what each computed is in its files."""
    seen: dict[str, tuple[int, int]] = {}
    rewritten, processes = 0, [sweep(file, folder) for _ in range(2)]
    while any(process.poll() is None for process in processes):
        for name, stat in shards(folder).items() if folder.exists() else ():
            rewritten += seen.setdefault(name, stat) != stat
        time.sleep(0.01)
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    identical = same(store.load(folder), expected)
    return {
        "processes": 2,
        "units": len(shards(folder)),
        "computed": len(computed(folder)),
        "rewritten": rewritten,
        "identical": identical,
        "met": identical and not rewritten and len(computed(folder)) == len(shards(folder)),
    }


def worker_killed(folder: Path, experiment: Experiment, expected: xarray.Dataset) -> dict[str, Any]:
    """Two worker processes, of which one is killed when a third of the sweep is done."""
    victims, seen, rewritten = [], {}, 0

    def on_progress(done: int, total: int) -> None:
        nonlocal rewritten
        for name, stat in shards(folder).items():
            rewritten += seen.setdefault(name, stat) != stat
        if done > total / 3 and not victims:
            victims.append(next(p for p in multiprocessing.active_children() if "Dask" in p.name))
            victims[0].kill()

    begun = time.perf_counter()
    cluster.complete(experiment, folder, "local", num_workers=2, on_progress=on_progress)
    identical = same(store.load(folder), expected)
    return {
        "workers": 2,
        "killed": len(victims),
        "units": len(seen),
        "rewritten": rewritten,
        "seconds": f"{time.perf_counter() - begun:.1f}",
        "identical": identical,
        "met": identical and not rewritten and len(victims) == 1,
    }


def always_kills(folder: Path, expected: xarray.Dataset) -> dict[str, Any]:
    """A learner that ends every worker that makes it, beside one that does not."""
    experiment = parse(SWEEP)
    harmless = experiment.learners

    def learners(problem: Any) -> dict[str, Any]:
        factories: dict[str, Any] = dict(harmless(problem))

        def deadly(step_size: Any) -> Any:
            if multiprocessing.parent_process() is not None:
                os.kill(os.getpid(), signal.SIGKILL)
            return factories["lms"](step_size=step_size)

        return {"gem": factories["gem"], "lms": deadly}

    cases = {"features": ("one-hot",)}
    experiment = replace(experiment, learners=learners, cases=cases, num_runs=10)
    messages: list[str] = []
    cluster.complete(experiment, folder, "local", num_workers=2, on_message=messages.append)
    chosen = expected.sel(features=["one-hot"]).isel(run=slice(10)).sel(learner="gem")
    dataset = store.load(folder).sel(learner="gem")
    rest = dataset["emphasis_error"].identical(chosen["emphasis_error"])
    records = store.status(folder).aside
    return {
        "set aside": "; ".join(record["unit"] for record in records),
        "reason": "; ".join(record["reason"].split(",")[0] for record in records),
        "the rest is identical": rest,
        "met": rest and len(records) == len(messages) == 1,
    }


# Disks


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[str]:
    """A small disk at a folder; why not, if there is none."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
    )
    try:
        yield "" if done.returncode == 0 else f"skipped: {done.stderr.strip() or 'no mount'}"
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def disks(folder: Path, experiment: Experiment, expected: xarray.Dataset) -> list[dict[str, Any]]:
    """A disk that is full in the middle of a sweep, and one that turns read-only."""
    found = []
    for fault in ("full", "read-only"):
        with mounted(folder / fault, "64m") as reason:
            if reason:
                found.append({"disk": fault, "error": reason, "intact": "", "met": True})
                continue
            found.append({"disk": fault, **_fault(fault, folder / fault, experiment, expected)})
    return found


def _fault(
    fault: str, disk: Path, experiment: Experiment, expected: xarray.Dataset
) -> dict[str, Any]:
    filler, here = disk / "filler", disk / "store"
    first = experiment.units[0]
    store.begin(experiment, here).save(first, compute(first))
    if fault == "full":
        room = os.statvfs(disk)
        with open(filler, "wb") as file:  # what is left holds a few units
            file.write(bytes(room.f_bavail * room.f_frsize - 2 * _size(here)))
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    before = shards(here)
    error = failed(experiment, here)
    kept = shards(here)
    intact = before.items() <= kept.items() and not list(here.glob("units/*.part"))
    intact &= store.status(here).left > 0
    if fault == "full":
        filler.unlink()
    else:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    complete(experiment, here)
    identical = same(store.load(here), expected) and kept.items() <= shards(here).items()
    clear = "\n" not in error and "cannot be written" in error
    return {
        "error": error.replace(str(here), "STORE"),
        "units kept": len(kept),
        "intact": intact,
        "identical once there is room": identical,
        "met": clear and intact and identical,
    }


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "units").iterdir())


# What the store costs


def cells(folder: Path) -> tuple[list[dict[str, Any]], dict[str, bool]]:
    """The store's own work on many small cells: the engine's results are there beforehand."""
    experiment = parse(CELLS)
    seconds = {"experiment": time.perf_counter()}
    opened = store.begin(experiment, folder)
    seconds["begin"] = time.perf_counter()
    ready = {name: compute(unit) for name, unit in {u.learner: u for u in experiment.units}.items()}
    seconds["engine"] = time.perf_counter()

    def instantly(claims: Claims) -> Any:
        for claimed in claims:
            if claimed is not None:
                unit, _ = claimed
                yield unit, ready[unit.learner].assign_coords(run=list(unit.runs))

    complete_with(opened, experiment.units, instantly)
    seconds["keep"] = time.perf_counter()
    store.begin(experiment, folder)
    seconds["resume"] = time.perf_counter()
    store.status(folder)
    seconds["status"] = time.perf_counter()
    dataset = store.load(folder)
    seconds["load"] = time.perf_counter()
    times = list(seconds.values())
    took = dict(zip(list(seconds)[1:], (b - a for a, b in pairwise(times)), strict=True))
    number = len(shards(folder))
    overhead = 1e3 * (took["begin"] + took["keep"]) / number
    row = {
        "cells": dataset["rmsve"].isel(time=-1).size,
        "shards": number,
        "begin, s": f"{took['begin']:.2f}",
        "claim, write, index: ms per unit": f"{1e3 * took['keep'] / number:.2f}",
        "all overhead: ms per unit": f"{overhead:.2f}",
        "begin again, every byte checked, s": f"{took['resume']:.2f}",
        "status, s": f"{took['status']:.2f}",
        "open the dataset, s": f"{took['load']:.2f}",
    }
    limits = {"overhead per unit is under 20 ms": overhead < 20.0}
    limits["the dataset opens in under 10 s"] = took["load"] < 10.0
    return [row], limits


def main() -> int:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "sweep.toml"
        file.write_text(SWEEP)
        timed, limits = cells(folder / "cells")
        show("Many small cells", timed)
        experiment = read(file)
        begun = time.perf_counter()
        complete(experiment, folder / "expected", num_threads=1)
        seconds = time.perf_counter() - begun
        expected = store.load(folder / "expected")
        number = len(shards(folder / "expected"))
        print(f"\nThe sweep that is disturbed below has {number} units and takes {seconds:.1f} s.")
        for part in ("killed", "training", "report", "disks"):
            (folder / part).mkdir()
        tables = {
            "SIGKILL of sweeps": [killed(folder / "killed", file, expected, seconds)],
            "SIGKILL of trainings": [killed_training(folder / "training")],
            "SIGKILL of reports": [killed_report(folder / "report", folder / "expected")],
            "Two processes on one store": [together(folder / "together", file, expected)],
            "A worker that is killed": [worker_killed(folder / "worker", experiment, expected)],
            "A unit that always kills its worker": [always_kills(folder / "always", expected)],
            "Disks": disks(folder / "disks", experiment, expected),
        }
    for title, rows in tables.items():
        limits[title] = all(row["met"] for row in rows)
        show(title, [{k: v for k, v in row.items() if k != "met"} for row in rows])
    print("\n## Limits\n")
    for title, met in limits.items():
        print(f"- {'met' if met else 'MISSED'}: {title}")
    return 0 if all(limits.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
