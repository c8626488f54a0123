"""Files that are written whole or not at all: arrays, JSON, folders and locks."""

import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, IO, TypeAlias

import numpy as np
from safetensors import safe_open, SafetensorError
from safetensors.numpy import save as to_safetensors

PARTIAL = ".part"  # the end of the name of a file that is not whole yet
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)

Json: TypeAlias = Mapping[str, object]
"""An object of JSON: values by name, as `json.dumps` takes them."""
StrPath: TypeAlias = str | os.PathLike[str]
"""The path of a file."""


def checksum(description: object, arrays: Mapping[str, np.ndarray]) -> str:
    """The SHA-256 of what JSON can hold and of arrays by name: their types, shapes and bytes.

    Equal arrays have one checksum, whatever their order in memory and the order of their bytes.
    """
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {_native(array).dtype} {array.shape}".encode())
        digest.update(_native(array).tobytes())
    return digest.hexdigest()


def _native(array: np.ndarray) -> np.ndarray:
    """The array in C order, with the bytes of a number as this machine orders them."""
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


@contextmanager
def atomic_write(path: StrPath) -> Generator[IO[bytes], None, None]:
    """Opens a file to write to, which takes the place of `path` once all of it is on the disk.

    Where writing fails, nothing is left behind, what was there before still is, and a `ValueError`
    says why. A process that is killed may leave a file `path*.part`.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"path: {path} is a directory; a file is required")
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=PARTIAL)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
        _sync(path.parent)
    except OSError as error:
        raise ValueError(f"path: {path} cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def write_arrays(
    path: StrPath, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Writes arrays, of any memory and byte order, and text to a safetensors file, or nothing."""
    try:
        data = to_safetensors({name: _native(a) for name, a in arrays.items()}, dict(metadata))
    except SafetensorError as error:  # of a type that the format does not have
        raise ValueError(f"path: {path} cannot be written: {error}") from None
    with atomic_write(path) as file:
        file.write(data)


def read_arrays(path: StrPath) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Reads the arrays and the text that [write_arrays] wrote; a `ValueError` if it cannot."""
    with _open(path) as file:
        names = file.keys()
        return {name: file.get_tensor(name) for name in names}, file.metadata() or {}


def read_metadata(path: StrPath) -> dict[str, str]:
    """Reads the text alone, which is fast however large the arrays are."""
    with _open(path) as file:
        return file.metadata() or {}


@contextmanager
def _open(path: StrPath) -> Generator[Any, None, None]:
    try:
        reader: Any = safe_open(os.fspath(path), "np")
        with reader as file:
            yield file
    except FileNotFoundError:
        raise ValueError(f"{os.fspath(path)} does not exist") from None
    except (OSError, SafetensorError) as error:
        raise ValueError(str(error)) from None


def _sync(folder: Path) -> None:
    """Puts the names of a folder on the disk, where the filesystem can."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def lock(file: IO[str], *, shared: bool = False, wait: bool = False) -> bool | None:
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


def make_folder(folder: Path) -> Path:
    """Makes a folder if it is not there; a `ValueError` if nothing can be written in it."""
    probe = folder / ".probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink(missing_ok=True)  # another process may probe as well
    except OSError as error:
        raise ValueError(f"out: {folder} cannot be written: {error.strerror}") from None
    return folder


def to_jsonable(value: object) -> Any:
    """Converts a value to what JSON can hold: infinities are strings, NaN is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = (field.name for field in dataclasses.fields(value) if field.repr)
        return {name: to_jsonable(getattr(value, name)) for name in shown}
    if isinstance(value, dict):
        entries = cast(dict[object, object], value)
        return {key: to_jsonable(entry) for key, entry in entries.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_jsonable(cast(object, value.tolist()))
    if isinstance(value, list | tuple):
        return [to_jsonable(entry) for entry in cast(list[object], value)]
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value


def as_json(value: object) -> str:
    """JSON of a record or a dictionary without NaN or Infinity, one key on a line."""
    entries = to_jsonable(value).items()
    lines = [f"  {json.dumps(key)}: {json.dumps(entry, allow_nan=False)}" for key, entry in entries]
    return "{\n" + ",\n".join(lines) + "\n}"
