"""Finished units on disk: kept under what defines them, whole or not at all, never rewritten."""

import json
import os
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, IO, TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError

from ._files import checksum, lock, PART, replacing, writable
from .engine.tasks import Progress
from .experiment import compute, Experiment, layout, Unit, units
from .gathering import gather
from .problems import digest
from .problems import save as save_problem
from .provenance import provenance as provenance
from .provenance import versions as versions
from .shards import checked, description_of
from .shards import kept as kept
from .shards import read as read
from .shards import write as write

if TYPE_CHECKING:
    import xarray

FORMAT = 1
EXPERIMENT, UNITS, PROBLEMS, RUNNING, ASIDE, LOCK = (
    "experiment.json",
    "units",
    "problems",
    "running",
    "aside",
    ".lock",
)
PATIENCE = 0.2  # seconds between looks at what another process computes

Tell = Callable[[str], None]
"""Takes a sentence for the person who is there."""

Claims = Iterator[tuple[Unit, Progress] | None]
"""Units that nobody else computes, each with what takes its updates; None: there is none now."""

Compute = Callable[[Claims], Generator[tuple[Unit, "xarray.Dataset | None"], None, None]]
"""Computes units in any order, and takes the next when it has room; None for one that it cannot."""


@dataclass(frozen=True)
class Shard:
    """A finished unit on disk: the grid and the runs that it has, and how many cells diverged."""

    path: Path
    grid: Mapping[str, tuple[float, ...]]
    runs: tuple[int, ...]
    diverged: int


@dataclass(frozen=True)
class Store:
    """A folder with the finished units of an experiment, by address.

    **Arguments:**

    - `folder`: The folder.
    - `plan`: What the experiment is, as `experiment.json` says it.
    - `shards`: The finished units.
    """

    folder: Path
    plan: Mapping[str, Any]
    shards: dict[str, list[Shard]]

    def covered(
        self, address: str, grid: Mapping[str, Sequence[float]], runs: Sequence[int]
    ) -> np.ndarray:
        """Which cells are there, an array of truths over the axes of the grid and the runs."""
        found = np.zeros((*map(len, grid.values()), len(runs)), bool)
        for shard in self.shards.get(address, []):
            if shard.grid.keys() == grid.keys():
                both = [np.isin(grid[axis], shard.grid[axis]) for axis in grid]
                found[np.ix_(*both, np.isin(runs, shard.runs))] = True
        return found

    def missing(self, unit: Unit) -> Unit | None:
        """The smallest grid and the runs that hold all that is missing of a unit, or None."""
        gaps = ~self.covered(unit.address, unit.grid, unit.runs)
        if not gaps.any():
            return None
        if gaps.all():
            return unit
        axes = [np.array(each) for each in (*unit.grid.values(), unit.runs)]
        kept = [
            tuple(each[gaps.any(axis=tuple(set(range(gaps.ndim)) - {n}))].tolist())
            for n, each in enumerate(axes)
        ]
        return replace(unit, grid=dict(zip(unit.grid, kept, strict=False)), runs=kept[-1])

    def path(self, unit: Unit) -> Path:
        """Where a unit is kept."""
        rest = checksum([dict(unit.grid), list(unit.runs)], {})[:16]
        return self.folder / UNITS / f"{unit.address}-{rest}.safetensors"

    def keep(self, unit: Unit, dataset: "xarray.Dataset") -> None:
        """Writes a finished unit, unless it is there.

        Its attribute `provenance` says what computed it, if that was not this process.
        """
        attributes = dict(dataset.attrs)
        origin = attributes.pop("provenance", None) or provenance(attributes["engine"])
        diverged = dataset["diverged"].any("time") if "diverged" in dataset else np.zeros(1)
        description = {
            "address": unit.address,
            "definition": unit.definition,
            "grid": dict(unit.grid),
            "runs": list(unit.runs),
            "diverged": int(diverged.sum()),
            "provenance": origin,
        }
        path = self.path(unit)
        if not path.exists():
            try:
                write(path, dataset.drop_attrs(deep=False).assign_attrs(attributes), description)
            except ValueError as error:
                raise ValueError(f"{error}; what is finished is kept") from None
        self.shards.setdefault(unit.address, []).append(_shard(path, description))

    def find(self, unit: Unit) -> bool:
        """Whether another process has finished a unit in the meantime."""
        path = self.path(unit)
        if not path.exists():
            return False
        self.shards.setdefault(unit.address, []).append(_shard(path, description_of(path)))
        return True

    def set_aside(self, unit: Unit, reason: str) -> None:
        """Writes down that a unit cannot be computed, and why; the next run tries it again."""
        path = writable(self.folder / ASIDE) / f"{self.path(unit).stem}.json"
        with replacing(path) as file:
            file.write(json.dumps({"unit": unit.title, "reason": reason}).encode())

    def parts(self, case: int, learner: str) -> Iterator["xarray.Dataset"]:
        """What there is of a learner in a case."""
        for shard in self.shards.get(self.plan["addresses"][case][learner], []):
            dataset, description = read(shard.path)
            yield dataset.assign_attrs(provenance=description["provenance"])


def _shard(path: Path, description: Mapping[str, Any]) -> Shard:
    grid = {axis: tuple(values) for axis, values in description["grid"].items()}
    return Shard(path, grid, tuple(description["runs"]), description["diverged"])


def begin(
    experiment: Experiment, folder: Path, tell: Tell | None = None
) -> tuple[Store, list[Unit]]:
    """The store of an experiment, made if there is none, and the experiment's units.

    The experiment is checked first: what is wrong with it changes nothing on the disk. A damaged
    file is named, put aside as `.damaged`, and so will be computed again. What killed processes
    left behind is removed.

    **Arguments:**

    - `experiment`: The experiment, whose learners must have definitions.
    - `folder`: The folder, which must be empty, new, or of an experiment of the same name.
    - `tell`: Is told which files are damaged; by default a warning is.
    """
    asked = units(experiment)
    addresses: list[dict[str, str]] = [{} for _ in experiment.points()]
    for unit in asked:
        addresses[unit.case][unit.learner] = unit.address
    kinds = {unit.case: unit.problem for unit in asked}
    problems = [digest(kinds[case]) for case in range(len(addresses))]
    plan = {
        "format": FORMAT,
        "name": experiment.name,
        "layout": layout(experiment, asked),
        "addresses": addresses,
        "problems": problems,
        "definitions": dict(experiment.definitions),
        "about": dict(experiment.about),
    }
    require(folder, experiment.name)
    with _alone(folder) as locked:
        require(folder, experiment.name)  # another process may have been faster
        if locked:
            _tidy(folder)
        elif tell is not None:
            tell(
                f"{folder} is on a filesystem without locks: let one process at a time write there"
            )
        for case, problem in kinds.items():
            path = folder / PROBLEMS / f"{problems[case]}.npz"
            if not path.exists():
                save_problem(problem, path)
        text = json.dumps(plan, indent=1)
        if not (folder / EXPERIMENT).exists() or (folder / EXPERIMENT).read_text() != text:
            with replacing(folder / EXPERIMENT) as file:
                file.write(text.encode())
        return Store(folder, plan, _shards(folder, tell or warnings.warn)), asked


@contextmanager
def _alone(folder: Path) -> Iterator[bool | None]:
    """Folders for a store, and no other process that begins; None where there are no locks."""
    for each in (UNITS, PROBLEMS, RUNNING):
        writable(folder / each)
    with open(folder / LOCK, "a") as file:
        yield lock(file, wait=True)


def _tidy(folder: Path) -> None:
    """Removes files that are not whole and claims, where no process works on them."""
    for path in (*folder.glob(f"*{PART}"), *(folder / PROBLEMS).glob(f"*{PART}")):
        path.unlink(missing_ok=True)  # they are written by whoever is alone
    for path in (folder / UNITS).glob(f"*{PART}"):
        with open(folder / RUNNING / path.name.partition(".")[0], "a") as file:
            if lock(file):
                path.unlink(missing_ok=True)
    for path in (folder / RUNNING).iterdir():
        with open(path, "a") as file:
            if lock(file):
                path.unlink(missing_ok=True)


def _plan(folder: Path) -> dict[str, Any]:
    try:
        plan = json.loads((folder / EXPERIMENT).read_text())
        written = plan["format"]
    except FileNotFoundError:
        raise ValueError(f"store: {folder} has no {EXPERIMENT}; it is not a store") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"store: {folder / EXPERIMENT} cannot be read: {error}") from None
    if written > FORMAT:
        raise ValueError(
            f"store: {folder} has the format {written}, of a newer version; this one knows {FORMAT}"
        )
    return plan


def require(folder: Path, name: str) -> None:
    """A `ValueError` if a folder has other files, or another experiment.

    **Arguments:**

    - `folder`: The folder.
    - `name`: The name of the experiment.
    """
    if not folder.is_dir():
        return
    if not (folder / EXPERIMENT).exists():
        # The plan itself may come between the two looks, from a process that is faster.
        ours = {UNITS, PROBLEMS, RUNNING, ASIDE, LOCK, EXPERIMENT, ".probe"}
        others = {path.name for path in folder.iterdir()} - ours
        if any(not (each.startswith(EXPERIMENT) and each.endswith(PART)) for each in others):
            raise ValueError(
                f"out: {folder} holds other files; an empty folder or a store is required"
            )
        return  # it is empty, or somebody began
    plan = _plan(folder)
    if plan["name"] != name:
        raise ValueError(
            f"out: {folder} holds the experiment {plan['name']!r}, not {name!r}; choose another "
            "folder"
        )


def _shards(folder: Path, tell: Tell | None = None) -> dict[str, list[Shard]]:
    """The finished units by address; with `tell` every byte is checked, else the headers only."""
    found: dict[str, list[Shard]] = {}
    for path in sorted((folder / UNITS).glob("*.safetensors")):
        try:
            description = description_of(path) if tell is None else checked(path)[0]["description"]
        except (ValueError, SafetensorError, KeyError, OSError) as error:
            if tell is None:
                raise ValueError(f"store: {path} is damaged; run it again") from None
            os.replace(path, path.with_suffix(".damaged"))
            tell(f"{error}; it is computed again")
            continue
        found.setdefault(description["address"], []).append(_shard(path, description))
    return found


@contextmanager
def claim(store: Store, unit: Unit) -> Iterator[Callable[[int], None] | None]:
    """The right to compute a unit, or None while another process has it.

    It is a lock that ends with the process, however that ends. What is given takes the number of
    updates done, for whoever asks for the status.
    """
    path = store.folder / RUNNING / store.path(unit).stem
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ValueError(
            f"path: {path} cannot be written: {error.strerror}; what is finished is kept"
        ) from None
    with open(handle, "r+") as file:
        if lock(file) is False or not _is_at(file, path):
            yield None
            return
        told = -PATIENCE

        def move(updates: int) -> None:
            nonlocal told
            if time.monotonic() - told > PATIENCE:
                told = time.monotonic()
                with suppress(OSError):  # a full disk is found when there is something to keep
                    os.pwrite(handle, f"{updates:20d} {unit.num_updates:20d}".encode(), 0)

        try:
            move(0)
            yield move
        finally:
            path.unlink(missing_ok=True)


def _is_at(file: IO, path: Path) -> bool:
    """Whether an open file is still the one with this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def running(folder: Path) -> list[tuple[str, int, int]]:
    """The units that are being computed: their names, updates done, and updates of all."""
    found = []
    for path in sorted((folder / RUNNING).glob("*")):
        with suppress(FileNotFoundError), open(path) as file:  # it may have ended just now
            if lock(file, shared=True) is False:
                done, total = (int(word) for word in file.read().split() or ("0", "0"))
                found.append((path.name, done, total))
    return found


def complete(
    store: Store, asked: Sequence[Unit], compute: Compute, progress: Progress | None = None
) -> None:
    """Computes what is missing of units, by whatever means, and keeps each once it is finished.

    What another process computes is waited for, and computed here if that ends without it.

    **Arguments:**

    - `store`: The store; see [begin].
    - `asked`: The units.
    - `compute`: Computes those that are claimed.
    - `progress`: Called with the updates done, also those of earlier times, and all updates.
    """
    for path in (store.folder / ASIDE).glob("*.json"):  # they are tried again
        path.unlink(missing_ok=True)
    total = sum(unit.num_updates for unit in asked)
    pending = [gap for unit in asked if (gap := store.missing(unit)) is not None]
    done = total - sum(unit.num_updates for unit in pending)
    held: dict[Unit, ExitStack] = {}

    def report(updates: int = 0) -> None:
        if progress is not None:
            progress(done + updates, total)

    def move(note: Callable[[int], None], updates: int, _: int) -> None:
        note(updates)
        report(updates)

    def claimed() -> Claims:
        nonlocal done, pending
        while pending:
            waiting = []
            for unit in pending:
                with ExitStack() as stack:
                    note = stack.enter_context(claim(store, unit))
                    if note is not None and not store.find(unit):
                        held[unit] = stack.pop_all()
                        yield unit, partial(move, note)
                    elif note is not None:
                        done += unit.num_updates
                        report()
                    else:
                        waiting.append(unit)
            if len(waiting) == len(pending) and not held:
                time.sleep(PATIENCE)
            elif waiting:
                yield None
            pending = waiting

    report()
    try:
        with closing(compute(claimed())) as results:
            for unit, dataset in results:
                if dataset is not None:
                    store.keep(unit, dataset)
                    done += unit.num_updates
                held.pop(unit).close()
                report()
    finally:
        for stack in held.values():
            stack.close()


def computed(
    unit: Unit, num_threads: int | None = None, progress: Progress | None = None
) -> "xarray.Dataset":
    """The curves of a unit, and in the attribute `provenance` what computed them; see [compute]."""
    dataset = compute(unit, num_threads, progress)
    return dataset.assign_attrs(provenance=provenance(dataset.attrs["engine"]))


def run(
    experiment: Experiment,
    folder: Path,
    *,
    num_threads: int | None = None,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> "xarray.Dataset":
    """Computes what is missing of an experiment, keeps it, and returns the whole dataset.

    A unit that is finished is never computed again, whatever ended the process that did it. Several
    processes may do this with one folder: each unit is computed by one of them.

    **Arguments:**

    - `experiment`: The experiment, whose learners must have definitions.
    - `folder`: Where results are kept.
    - `num_threads`: By default as many as there are cores. No bit depends on it.
    - `progress`: Called with the updates done, also those of earlier times, and all updates.
    - `tell`: Is told which files are damaged; by default a warning is.
    """

    def in_turn(claims: Claims) -> Generator[tuple[Unit, "xarray.Dataset"], None, None]:
        for each in claims:
            if each is not None:
                unit, move = each
                yield unit, computed(unit, num_threads, move)

    store, asked = begin(experiment, folder, tell)
    complete(store, asked, in_turn, progress)
    return gathered(store)


def gathered(store: Store) -> "xarray.Dataset":
    """What a store has, in one dataset; see [load]."""
    if not store.shards:
        raise ValueError(f"store: {store.folder} has no finished unit yet")
    origins: dict[str, Any] = {}

    def parts(case: int, learner: str) -> Iterator["xarray.Dataset"]:
        for part in store.parts(case, learner):
            origin = part.attrs["provenance"]
            origins[json.dumps(origin, sort_keys=True)] = origin
            yield part

    complete = all(covered.all() for _, _, covered in _coverage(store))
    found = gather(store.plan["layout"], parts, complete)
    return found.assign_attrs(provenance=json.dumps(list(origins.values())))


def _coverage(store: Store) -> Iterator[tuple[int, str, np.ndarray]]:
    """For each case and learner which cells are there."""
    shape = store.plan["layout"]
    for case, addresses in enumerate(store.plan["addresses"]):
        for learner, own in shape["learners"].items():
            grid = {axis: shape["grid"][axis] for axis in own}
            yield case, learner, store.covered(addresses[learner], grid, range(shape["num_runs"]))


def load(folder: str | os.PathLike) -> "xarray.Dataset":
    """What a store has of its experiment, in one dataset; see [gather].

    Its attribute `provenance` says, in JSON, what computed the units.

    **Arguments:**

    - `folder`: The folder of a store.
    """
    return gathered(opened(folder))


def opened(folder: str | os.PathLike) -> Store:
    """The store in a folder, as it is; a `ValueError` if there is none.

    **Arguments:**

    - `folder`: The folder of a store.
    """
    path = Path(folder)
    return Store(path, _plan(path), _shards(path))


def status(folder: str | os.PathLike) -> dict[str, Any]:
    """How far an experiment is.

    **Arguments:**

    - `folder`: The folder of a store.

    **Returns:**

    The name, the numbers of cells (curves) that there are to be, that are done, running, diverged
    and left, the units that are `running` with their updates, and those that were set `aside` with
    the reason.
    """
    store = opened(folder)
    counts = [covered for _, _, covered in _coverage(store)]
    cells, done = (int(sum(of(each) for each in counts)) for of in (np.size, np.sum))
    addresses = {each for of in store.plan["addresses"] for each in of.values()}
    shards = [shard for address in addresses for shard in store.shards.get(address, [])]
    return {
        "name": store.plan["name"],
        "cells": cells,
        "done": done,
        "left": cells - done,
        "diverged": sum(shard.diverged for shard in shards),
        "units": len(shards),
        "running": running(store.folder),
        "aside": list(_records(store.folder / ASIDE)),
    }


def _records(folder: Path) -> Iterator[dict[str, str]]:
    for path in sorted(folder.glob("*.json")):
        with suppress(FileNotFoundError):  # it may be tried again just now
            yield json.loads(path.read_text())
