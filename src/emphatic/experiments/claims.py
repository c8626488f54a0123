"""Claims of processes on units: locked files, which end with their process however that ends."""

import os
import re
import resource
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .._files import lock, open_file
from .locks import describe_owner, open_lock, ROOM, sign

POLL_EVERY = 0.2  # seconds, while another process computes
SPARE_FILES = 128  # that may be open besides those of claims
NAME = re.compile(r"[0-9a-f]{24}-[0-9a-f]{16}")  # of a unit
COUNTS = re.compile(rb" *(\d{1,20}) +(\d{1,20})")


@contextmanager
def claim(path: Path, num_updates: int) -> Generator[Callable[[int], None] | None, None, None]:
    """Claims what a file stands for; yields None while another process has it.

    Otherwise yields a function that records the number of updates done, which the status shows.
    The file is removed at the end.
    """
    try:
        file = open_lock(path)
    except ValueError as error:
        raise ValueError(f"{error}; what is finished is kept") from None
    with file:
        if lock(file) is False or not _is_same_file(file, path):
            yield None
            return
        last_write = -POLL_EVERY

        def record(updates: int) -> None:
            nonlocal last_write
            if time.monotonic() - last_write > POLL_EVERY:
                last_write = time.monotonic()
                with suppress(OSError):  # a full disk is reported when a unit is saved
                    os.pwrite(file.fileno(), f"{updates:20d} {num_updates:20d}".encode(), 0)

        try:
            sign(file)
            record(0)
            yield record
        finally:
            path.unlink(missing_ok=True)


def _is_same_file(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.lstat(path))
    except FileNotFoundError:
        return False


def max_claims() -> int:
    """Returns how many claims a process can have at the same time: each is an open file."""
    return max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_FILES)


def list_claims(folder: Path) -> list[tuple[str, int, int]]:
    """Lists the claims in a folder: their names, updates done, and all updates."""
    claims: list[tuple[str, int, int]] = []
    for path in _claim_paths(folder):
        with suppress(ValueError), open_file(path, "path") as file:  # it may have ended just now
            if lock(file, shared=True) is False:
                counts = COUNTS.match(os.pread(file.fileno(), ROOM, 0))
                done, total = map(int, counts.groups()) if counts else (0, 0)
                claims.append((path.name, done, total))
    return claims


def describe_claim(path: Path) -> str:
    """Describes the process that has a claim, as far as it is known."""
    with suppress(ValueError), open_file(path, "path") as file:
        return describe_owner(file)
    return "another process"


def _claim_paths(folder: Path) -> list[Path]:
    """The files in a folder that have the names of claims, and are no links to others."""
    paths = (path for path in sorted(folder.glob("*")) if NAME.fullmatch(path.name))
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def remove_stale(folder: Path) -> None:
    """Removes the claims of processes that have ended."""
    for path in _claim_paths(folder):
        remove_if_unclaimed(path, path)


def remove_if_unclaimed(path: Path, claim: Path) -> None:
    """Removes a file, unless a process holds the claim; the claim itself may be that file."""
    if path.is_symlink() or not path.is_file():
        return
    with open_lock(claim) as file:
        if lock(file):
            path.unlink(missing_ok=True)
