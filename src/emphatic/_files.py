"""Files that are there whole or not at all, and folders for them."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, IO

import numpy as np


def checksum(description: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """The SHA-256 of what JSON can hold and of arrays by name: their types, shapes and bytes."""
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


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
