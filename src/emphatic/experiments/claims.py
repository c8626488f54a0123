"""Claims of processes on units: locked files, which end with their process however that ends."""

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .._files import lock

POLL_EVERY = 0.2  # seconds, while another process computes


@contextmanager
def claim(path: Path, num_updates: int) -> Generator[Callable[[int], None] | None, None, None]:
    """Claims what a file stands for; yields None while another process has it.

    Otherwise yields a function that records the number of updates done, which the status shows.
    The file is removed at the end.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        message = f"cannot be written: {error.strerror}; what is finished is kept"
        raise ValueError(f"path: {path} {message}") from None
    with open(handle, "r+") as file:
        if lock(file) is False or not _is_same_file(file, path):
            yield None
            return
        last_write = -POLL_EVERY

        def record(updates: int) -> None:
            nonlocal last_write
            if time.monotonic() - last_write > POLL_EVERY:
                last_write = time.monotonic()
                with suppress(OSError):  # a full disk is reported when a unit is saved
                    os.pwrite(handle, f"{updates:20d} {num_updates:20d}".encode(), 0)

        try:
            record(0)
            yield record
        finally:
            path.unlink(missing_ok=True)


def _is_same_file(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def list_claims(folder: Path) -> list[tuple[str, int, int]]:
    """Lists the claims in a folder: their names, updates done, and all updates."""
    claims: list[tuple[str, int, int]] = []
    for path in sorted(folder.glob("*")):
        with suppress(FileNotFoundError), open(path) as file:  # it may have ended just now
            if lock(file, shared=True) is False:
                done, total = (int(word) for word in file.read().split() or ("0", "0"))
                claims.append((path.name, done, total))
    return claims


def remove_if_unclaimed(path: Path, claim: Path) -> None:
    """Removes a file, unless a process holds the claim; the claim itself may be that file."""
    with open(claim, "a") as file:
        if lock(file):
            path.unlink(missing_ok=True)
