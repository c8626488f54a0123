"""Files that are there whole or not at all, folders for them, and locks."""

import errno
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, IO

import numpy as np

PART = ".part"  # how the name of a file ends that is not whole yet
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


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

    Where writing fails, nothing is left behind, what was there before still is, and a `ValueError`
    says why. A process that is killed may leave a file `path*.part`.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"path: {path} is a directory; a file is required")
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=PART)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
        _settle(path.parent)
    except OSError as error:
        raise ValueError(f"path: {path} cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _settle(folder: Path) -> None:
    """Puts the names of a folder on the disk, where the filesystem can."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def lock(file: IO, *, shared: bool = False, wait: bool = False) -> bool | None:
    """Whether a file is locked by us from now on, until it is closed; False if it is by another.

    A lock ends with its process, however that ends. None if the filesystem has no locks.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return None
    return True


def writable(folder: Path) -> Path:
    """The folder, made if it is not there; a `ValueError` if nothing can be written in it."""
    probe = folder / ".probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink(missing_ok=True)  # another process may probe as well
    except OSError as error:
        raise ValueError(f"out: {folder} cannot be written: {error.strerror}") from None
    return folder
