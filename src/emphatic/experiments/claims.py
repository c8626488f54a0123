"""Claims of processes on units: locked files, which end with their process however that ends."""

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .._files import lock

PATIENCE = 0.2  # seconds between looks at what another process computes


@contextmanager
def claim(path: Path, num_updates: int) -> Generator[Callable[[int], None] | None, None, None]:
    """Claims what a file stands for; None while another process has it.

    Otherwise gives a function that takes the number of updates done, for whoever asks for the
    status. The file is removed at the end.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        message = f"cannot be written: {error.strerror}; what is finished is kept"
        raise ValueError(f"path: {path} {message}") from None
    with open(handle, "r+") as file:
        if lock(file) is False or not _is_at(file, path):
            yield None
            return
        written = -PATIENCE

        def record(updates: int) -> None:
            nonlocal written
            if time.monotonic() - written > PATIENCE:
                written = time.monotonic()
                with suppress(OSError):  # a full disk is found when there is something to keep
                    os.pwrite(handle, f"{updates:20d} {num_updates:20d}".encode(), 0)

        try:
            record(0)
            yield record
        finally:
            path.unlink(missing_ok=True)


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether an open file is still the one with this name."""
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
