"""The folders of a store: made, locked and tidied before anything is written, and never links."""

import itertools
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .._files import make_folder, PARTIAL
from ..mdp import Problem
from ..problems import save as save_problem
from ..problems.file import require_digest
from . import claims
from .locks import OnMessage, open_lock, wait_for_lock
from .plan import EXPERIMENT, LOCK, PROBLEMS, RUNNING, UNITS
from .units import put_aside


def make_own_folder(folder: Path) -> Path:
    """Makes a folder in a store; a `ValueError` if it leads elsewhere or cannot be written."""
    require_no_link(folder)
    return make_folder(folder)


def require_no_link(path: Path) -> None:
    """Raises a `ValueError` for a link, behind which another's file may be."""
    if path.is_symlink():
        raise ValueError(f"out: {path} is a link; nothing is written there")


@contextmanager
def lock_folders(folder: Path, on_message: OnMessage) -> Generator[bool | None, None, None]:
    """Makes the folders of a store, and locks it while it begins; None where there are no locks."""
    for name in (UNITS, PROBLEMS, RUNNING):
        make_own_folder(folder / name)
    with open_lock(folder / LOCK) as file:
        yield wait_for_lock(file, folder, on_message)


def keep_problem(problem: Problem, path: Path, on_message: OnMessage) -> None:
    """Writes a problem to its file, unless it is there, undamaged."""
    if os.path.lexists(path):
        try:
            require_digest(path, path.stem)
            return
        except ValueError as error:
            put_aside(path)
            on_message(f"{error}; it is written again")
    save_problem(problem, path)


def remove_leftovers(folder: Path) -> None:
    """Removes partial files and claims, where no process works on them."""
    begun = f"{EXPERIMENT}*{PARTIAL}", f"{PROBLEMS}/*.npz*{PARTIAL}"
    for path in itertools.chain(*map(folder.glob, begun)):  # they are written under the lock
        if not path.is_symlink():
            path.unlink(missing_ok=True)
    for path in (folder / UNITS).glob(f"*{PARTIAL}"):
        claims.remove_if_unclaimed(path, folder / RUNNING / path.name.partition(".")[0])
    claims.remove_stale(folder / RUNNING)
