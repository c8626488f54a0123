"""Finished units on disk: kept under what defines them, whole or not at all, never rewritten."""

import itertools
import json
import os
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from .._files import atomic_write, PARTIAL, StrPath
from .._schema import read_json
from ..mdp import Problem
from ..problems import load as load_problem, save as save_problem
from ..problems.file import require_digest
from . import claims, plan
from .dataset import assemble
from .experiment import Experiment, Selection, Unit
from .locks import make_own_folder, OnMessage, open_lock, require_no_link, wait_for_lock
from .plan import ASIDE, Plan, PROBLEMS, RUNNING, UNITS
from .provenance import Provenance, provenance
from .shards import write
from .units import describe, Description, find_unit, put_aside, read_unit, Shard, SUFFIX

if TYPE_CHECKING:
    import xarray


class Reason(TypedDict):
    """Why a unit is set aside, as a file in `aside` says it."""

    unit: str
    reason: str


@dataclass(frozen=True)
class Cells:
    """The cells of a learner in a case: what defines them, their grid and their runs."""

    address: str
    grid: Mapping[str, Sequence[float]]
    runs: Sequence[int]


@dataclass(frozen=True)
class Store:
    """The finished units of an experiment in a folder, by address; `plan` says what it is."""

    folder: Path
    plan: Plan
    shards: dict[str, list[Shard]]

    @property
    def selection(self) -> Selection | None:
        """How hyper-parameters are chosen."""
        choice = self.plan["about"].get("selection")
        return choice and Selection(choice["measure"], choice["by"], choice["runs"])

    @property
    def measures(self) -> list[str]:
        """The measures that a file asked for; none where the experiment was not read from one."""
        return list(self.plan["about"].get("measures", []))

    @property
    def text(self) -> str:
        """The file that the experiment was read from, if it was."""
        return self.plan["about"].get("text", "")

    @property
    def options(self) -> str:
        """The options of the command line that changed what the file says."""
        return self.plan["about"].get("options", "")

    @property
    def problems(self) -> list[Path]:
        """The files of the problems, one for each case."""
        return [self.folder / PROBLEMS / f"{digest}.npz" for digest in self.plan["problems"]]

    def load_problems(self) -> list[Problem]:
        """Loads the problems, one for each case; a `ValueError` names a file that is damaged."""
        try:
            for path in self.problems:
                require_digest(path, path.stem)
            return [load_problem(path) for path in self.problems]
        except ValueError as error:
            raise ValueError(f"{error}; run the same again to repair it") from None

    def covered_cells(self, cells: Cells | Unit) -> np.ndarray:
        """Returns which cells are there, by the axes of the grid and the runs."""
        grid, runs = cells.grid, cells.runs
        mask = np.zeros((*map(len, grid.values()), len(runs)), bool)
        for shard in self.shards.get(cells.address, []):
            if shard.grid.keys() == grid.keys():
                common = [np.isin(grid[axis], shard.grid[axis]) for axis in grid]
                mask[np.ix_(*common, np.isin(runs, shard.runs))] = True
        return mask

    def planned_cells(self) -> Iterator[Cells]:
        """Yields the cells of the experiment, for each case and learner."""
        layout = self.plan["layout"]
        for addresses in self.plan["addresses"]:
            for learner, axes in layout["learners"].items():
                grid = {axis: layout["grid"][axis] for axis in axes}
                yield Cells(addresses[learner], grid, range(layout["num_runs"]))

    def num_diverged(self, cells: Cells) -> int:
        """Returns how many of these cells diverged."""
        shards = self.shards.get(cells.address, [])
        num_covered = self.covered_cells(cells).sum()
        if sum(shard.num_cells for shard in shards) == num_covered:  # no other cell, and none twice
            return sum(shard.diverged for shard in shards)
        labels = {**cells.grid, "run": cells.runs}
        mask = np.zeros([*map(len, labels.values())], bool)
        for shard in (shard for shard in shards if shard.diverged):
            present = {**shard.grid, "run": shard.runs}
            common = {a: [v for v in values if v in present[a]] for a, values in labels.items()}
            if all(common.values()):
                diverged = read_unit(shard.path)[0]["diverged"]
                diverged = diverged.any([axis for axis in diverged.dims if axis not in labels])
                rows = np.ix_(*(np.isin(values, common[a]) for a, values in labels.items()))
                mask[rows] |= diverged.sel(common).transpose(*labels).values
        return int(mask.sum())

    def missing_part(self, unit: Unit) -> Unit | None:
        """Returns the smallest grid and runs with all that is missing of a unit, or None."""
        gaps = ~self.covered_cells(unit)
        if not gaps.any():
            return None
        if gaps.all():
            return unit
        needed = [gaps.any(axis=tuple(set(range(gaps.ndim)) - {n})) for n in range(gaps.ndim)]
        grid = {
            axis: tuple(np.array(values)[rows].tolist())
            for (axis, values), rows in zip(unit.grid.items(), needed, strict=False)
        }
        return replace(unit, grid=grid, runs=tuple(np.array(unit.runs)[needed[-1]].tolist()))

    def path(self, unit: Unit) -> Path:
        """Returns the path of the file of a unit."""
        return self.folder / UNITS / f"{unit.file_name}.safetensors"

    def claim(self, unit: Unit) -> AbstractContextManager[Callable[[int], None] | None]:
        """Claims a unit for this process; see [claim]."""
        return claims.claim(self.folder / RUNNING / unit.file_name, unit.num_updates)

    def describe_claim(self, unit: Unit) -> str:
        """Describes a unit, and the process that has claimed it."""
        owner = claims.describe_claim(self.folder / RUNNING / unit.file_name)
        return f"{unit.title}, which is computed by {owner}"

    def save(self, unit: Unit, dataset: "xarray.Dataset") -> None:
        """Writes a finished unit, unless it is there.

        Its attribute `provenance` says what computed it, if that was not this process.
        """
        attributes = dict(dataset.attrs)
        origin = attributes.pop("provenance", None) or provenance(attributes["engine"])
        description = describe(unit, dataset, origin)
        path = self.path(unit)
        if not path.exists():
            require_no_link(path)
            try:
                write(path, dataset.drop_attrs(deep=False).assign_attrs(attributes), description)
            except ValueError as error:
                raise ValueError(f"{error}; what is finished is kept") from None
        self._add(path, description)

    def add_if_finished(self, unit: Unit) -> bool:
        """Adds a unit if another process has finished it; returns whether it has."""
        path = self.path(unit)
        if not path.exists():
            return False
        self._add(path, find_unit(path))
        return True

    def set_aside(self, unit: Unit, reason: str) -> None:
        """Records that a unit cannot be computed, and why; the next run tries it again."""
        path = make_own_folder(self.folder / ASIDE) / f"{unit.file_name}.json"
        require_no_link(path)
        reasons: Reason = {"unit": unit.title, "reason": reason}
        with atomic_write(path) as file:
            file.write(json.dumps(reasons).encode())

    def _add(self, path: Path, description: Description) -> None:
        grid = {axis: tuple(values) for axis, values in description["grid"].items()}
        shard = Shard(path, grid, tuple(description["runs"]), description["diverged"])
        self.shards.setdefault(description["address"], []).append(shard)

    def index(self, on_message: OnMessage | None = None) -> "Store":
        """Finds the finished units.

        With `on_message` every byte is checked, and a damaged file is named and put aside;
        otherwise only headers are read, and a damaged one is a `ValueError`.
        """
        for path in sorted((self.folder / UNITS).glob(f"*{SUFFIX}")):
            try:
                self._add(path, find_unit(path, check=on_message is not None))
            except ValueError as error:
                if on_message is None:
                    raise ValueError(f"{error}; run it again to repair it") from None
                put_aside(path)
                on_message(f"{error}; it is computed again")
        return self


def begin(experiment: Experiment, folder: Path, on_message: OnMessage | None = None) -> Store:
    """Opens the store of an experiment in a folder, which is made if there is none.

    The experiment, whose learners must have definitions, is checked first: what is wrong with it
    changes nothing on the disk. A damaged file is named (by default in a warning), put aside as
    `.damaged`, and so will be computed again. What killed processes left behind is removed.
    """
    store = Store(folder, plan.make_plan(experiment), {})
    plan.require_folder(folder, experiment.name)
    tell = on_message or warnings.warn
    with _lock(folder, tell) as locked:
        plan.require_folder(folder, experiment.name)  # another process may have been faster
        if locked:
            _remove_leftovers(folder)
        elif on_message is not None:
            message = "is on a filesystem without locks: let one process at a time write there"
            on_message(f"{folder} {message}")
        problems = {whole.case: whole.problem for whole in experiment.wholes}
        for case, path in enumerate(store.problems):
            _keep_problem(problems[case], path, tell)
        plan.write_plan(store.plan, folder)
        return store.index(tell)


@contextmanager
def _lock(folder: Path, on_message: OnMessage) -> Generator[bool | None, None, None]:
    """Makes the folders of a store, and locks it while it begins; None where there are no locks."""
    for name in (UNITS, PROBLEMS, RUNNING):
        make_own_folder(folder / name)
    with open_lock(folder / plan.LOCK) as file:
        yield wait_for_lock(file, folder, on_message)


def _keep_problem(problem: Problem, path: Path, on_message: OnMessage) -> None:
    """Writes a problem to its file, unless it is there, undamaged."""
    if os.path.lexists(path):
        try:
            require_digest(path, path.stem)
            return
        except ValueError as error:
            put_aside(path)
            on_message(f"{error}; it is written again")
    save_problem(problem, path)


def _remove_leftovers(folder: Path) -> None:
    """Removes partial files and claims, where no process works on them."""
    begun = f"{plan.EXPERIMENT}*{PARTIAL}", f"{PROBLEMS}/*.npz*{PARTIAL}"
    for path in itertools.chain(*map(folder.glob, begun)):  # they are written under the lock
        if not path.is_symlink():
            path.unlink(missing_ok=True)
    for path in (folder / UNITS).glob(f"*{PARTIAL}"):
        claims.remove_if_unclaimed(path, folder / RUNNING / path.name.partition(".")[0])
    claims.remove_stale(folder / RUNNING)


def missing_cells(experiment: Experiment, folder: Path) -> list[int]:
    """Counts the cells that a folder lacks of each of an experiment's `wholes`: all of them, if it
    cannot be read as it is."""
    try:
        store = open_store(folder)
    except ValueError:
        return [whole.num_cells for whole in experiment.wholes]
    missing: list[int] = []
    for whole in experiment.wholes:
        shards = store.shards.get(whole.address, [])
        runs = sorted({run for shard in shards for run in shard.runs if run in whole.runs})
        covered = store.covered_cells(Cells(whole.address, whole.grid, runs))
        missing.append(whole.num_cells - int(covered.sum()))
    return missing


def open_store(folder: StrPath) -> Store:
    """Opens the store in a folder, as it is; a `ValueError` if there is none."""
    path = Path(folder)
    return Store(path, plan.read_plan(path), {}).index()


def load_dataset(store: Store) -> "xarray.Dataset":
    """Loads what a store has of its experiment; see [load]."""
    if not store.shards:
        raise ValueError(f"store: {store.folder} has no finished unit yet")
    origins: dict[str, Provenance] = {}

    def results(case: int, learner: str) -> Iterator["xarray.Dataset"]:
        for shard in store.shards.get(store.plan["addresses"][case][learner], []):
            dataset, description = read_unit(shard.path)
            origin = description["provenance"]
            origins[json.dumps(origin, sort_keys=True)] = origin
            yield dataset

    complete = all(store.covered_cells(cells).all() for cells in store.planned_cells())
    dataset = assemble(store.plan["layout"], results, complete, f"store: {store.folder}")
    return dataset.assign_attrs(provenance=json.dumps(list(origins.values())))


def load(folder: StrPath) -> "xarray.Dataset":
    """Loads what the store in a folder has of its experiment, as one labelled dataset.

    Its attribute `provenance` says, in JSON, what computed the units.
    """
    return load_dataset(open_store(folder))


@dataclass(frozen=True)
class Status:
    """The progress of an experiment, as its folder was last asked for it.

    `cells` are its curves, of which `done` are there, in `units` files; `diverged` counts those of
    them with a number that is not finite.
    """

    name: str
    cells: int
    done: int
    left: int
    diverged: int
    units: int
    running: list[tuple[str, int, int]]  # with the updates done, and all updates
    aside: list[Reason]


def status(folder: StrPath) -> Status:
    """Reads the progress of the experiment of a store."""
    store = open_store(folder)
    planned = list(store.planned_cells())
    coverage = list(map(store.covered_cells, planned))
    cells, done = sum(map(np.size, coverage)), int(sum(map(np.sum, coverage)))
    paths = {
        shard.path
        for part in planned
        for shard in store.shards.get(part.address, [])
        if all(np.isin(shard.grid[axis], part.grid[axis]).any() for axis in part.grid)
        and np.isin(shard.runs, part.runs).any()
    }
    return Status(
        name=store.plan["name"],
        cells=cells,
        done=done,
        left=cells - done,
        diverged=sum(map(store.num_diverged, planned)),
        units=len(paths),
        running=claims.list_claims(store.folder / RUNNING),
        aside=list(_read_reasons(store.folder / ASIDE)),
    )


def _read_reasons(folder: Path) -> Iterator[Reason]:
    for path in sorted(folder.glob("*.json")):
        try:
            yield read_json(path, Reason, "store")
        except ValueError:
            if os.path.lexists(path):  # else it is tried again just now
                raise
