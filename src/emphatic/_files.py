"""Files that are there whole or not at all, and folders for them."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` once all of it is on the disk.

    Where writing fails, nothing is left behind, and what was there before still is.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"path: {path} is a directory; a file is required")
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    except OSError as error:
        raise ValueError(f"path: {path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def writable(folder: Path) -> Path:
    """The folder, made if it is not there; a `ValueError` if nothing can be written in it."""
    probe = folder / ".probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"out: {folder} cannot be written: {error.strerror}") from None
    return folder
