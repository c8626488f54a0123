"""Files that are checked as they are read, and written whole or not at all; folders and locks."""

import dataclasses
import errno
import fcntl
import hashlib
import json
import math
import os
import secrets
import stat
import warnings
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Any, cast, IO, TypeAlias

import numpy as np
from safetensors import safe_open, SafetensorError
from safetensors.numpy import save as to_safetensors

PARTIAL = ".part"  # the end of the name of a file that is not whole yet
MAX_TEXT, MAX_ARRAY, MAX_FILE = 10**8, 2**32, 2**38  # bytes of what is read
REAL, WHOLE, TEXT = "biuf", "iu", "U"  # kinds of types of arrays
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
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


def output_file(path: StrPath, name: str = "out") -> Path:
    """Returns the regular file that a person names to write to, which need not exist yet.

    A link of their own or of root to such a file stands for the file, and stays. What a file must
    not replace is a `ValueError`: a folder, a device, a pipe, where standard output goes.
    """
    path = target = Path(path)
    try:
        if path.is_symlink():
            if path.lstat().st_uid not in (0, os.geteuid()):
                raise ValueError(f"{name}: {path} is a link of another user; give the file itself")
            target = path.resolve()
            if not target.exists():
                raise ValueError(f"{name}: {path} is a link to {target}, which does not exist")
        status = _file_status(target, name, path)
        if not target.parent.is_dir():
            raise ValueError(f"{name}: the directory {target.parent} does not exist")
    except (OSError, RuntimeError) as error:  # the latter of links in a circle
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{name}: {path} cannot be written: {reason}") from None
    for stream in (1, 2):
        with suppress(OSError):  # which may be closed
            if status is not None and os.path.samestat(status, os.fstat(stream)):
                raise ValueError(f"{name}: {path} is where this command prints; give another file")
    return target


def _file_status(path: Path, name: str, given: Path) -> os.stat_result | None:
    """Returns the status of a file or a link, None if there is none; else a `ValueError`."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    except ValueError:  # a zero byte
        raise ValueError(f"{name}: {str(given)!r} is not the name of a file") from None
    if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
        return status
    kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a device, a pipe or a socket"
    raise ValueError(f"{name}: {given} is {kind}; a file is required")


@contextmanager
def atomic_write(path: StrPath) -> Generator[IO[bytes], None, None]:
    """Opens a file to write to, which takes the place of `path` once all of it is on the disk.

    It has the mode of the file that was there, or the one that the umask gives new files. A link
    there is replaced, never followed; see [output_file]. Where writing fails, nothing is left
    behind, what was there before still is, and a `ValueError` says why. A process that is killed
    may leave a file `path*.part`.
    """
    path = Path(path)
    temporary = path.with_name(f"{path.name}{secrets.token_hex(6)}{PARTIAL}")
    is_ours = False
    try:
        before = _file_status(path, "path", path)
        mode = None
        if before is not None and stat.S_ISREG(before.st_mode):
            mode = before.st_mode & 0o777
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(temporary, flags, 0o666 if mode is None else mode | stat.S_IWUSR)
        is_ours = True
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if mode is not None:
                os.fchmod(handle, mode)
            os.fsync(handle)
        os.replace(temporary, path)
        is_ours = False
        _sync(path.parent)
    except OSError as error:
        raise ValueError(f"path: {path} cannot be written: {error.strerror or error}") from None
    finally:
        if is_ours:
            temporary.unlink(missing_ok=True)


def write_arrays(
    path: StrPath, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Writes arrays, of any memory and byte order, and text to a safetensors file, or nothing.

    Equal arrays and texts give equal bytes.
    """
    try:
        data = to_safetensors({name: _native(a) for name, a in arrays.items()}, dict(metadata))
    except SafetensorError as error:  # of a type that the format does not have
        raise ValueError(f"path: {path} cannot be written: {error}") from None
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])  # in which texts have another order each time
    if metadata:
        header["__metadata__"] = dict(sorted(metadata.items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with atomic_write(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.write(memoryview(data)[end:])


def open_file(path: StrPath, name: str, max_bytes: int = MAX_FILE) -> BufferedReader:
    """Opens a regular file of at most so many bytes; a `ValueError` for anything else.

    A FIFO or a device is never waited for. `name` is what the error calls the argument.
    """
    path = os.fspath(path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise ValueError(f"{name}: {path} does not exist") from None
    except (OSError, ValueError) as error:  # such as a name with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{name}: {path!r} cannot be read: {reason}") from None
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_size <= max_bytes:
        return os.fdopen(handle, "rb")
    os.close(handle)
    reason = f"it has {status.st_size} bytes; at most {max_bytes} are read"
    if not stat.S_ISREG(status.st_mode):
        is_folder = stat.S_ISDIR(status.st_mode)
        reason = f"it is {'a directory' if is_folder else 'a device or a pipe'}, not a file"
    raise ValueError(f"{name}: {path} cannot be read: {reason}")


def read_bytes(path: StrPath, name: str, max_bytes: int = MAX_TEXT) -> bytes:
    """Reads a regular file of at most so many bytes; see [open_file]."""
    with open_file(path, name, max_bytes) as file:
        return file.read(max_bytes)


def read_text(path: StrPath, name: str, max_bytes: int = MAX_TEXT) -> str:
    """Reads a text in UTF-8; see [open_file]."""
    try:
        return read_bytes(path, name, max_bytes).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: {path} cannot be read: it is not UTF-8: {error}") from None


def read_npy(path: StrPath, name: str) -> np.ndarray:
    """Reads the real numbers of a `.npy` file; a `ValueError` for anything else.

    No more than the file holds is allocated, and nothing in it is executed.
    """
    with open_file(path, name, MAX_ARRAY) as file:
        size = os.fstat(file.fileno()).st_size
        return _parse_npy(file, size, REAL, f"{name}: {path}")


def read_npz(path: StrPath, name: str, kinds: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Reads arrays of a `.npz` file: those by these names that it has, of these kinds of types.

    Nothing else in it is unpacked, and no more than an array holds is allocated.
    """
    arrays: dict[str, np.ndarray] = {}
    with open_file(path, name, MAX_ARRAY) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
                for key in (key for key in kinds if key in members):
                    if (size := members[key].file_size) > MAX_ARRAY:
                        raise ValueError(f"{key!r} has {size} bytes; at most {MAX_ARRAY} are read")
                    with archive.open(members[key]) as member:
                        data = cast(BufferedIOBase, member)
                        arrays[key] = _parse_npy(data, size, kinds[key], f"its array {key!r}")
                        if member.read(1):  # at the end the archive's checksum is compared
                            raise ValueError(f"its array {key!r} is longer than it says")
        except Exception as error:  # of zipfile and what it unpacks with, which list none
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise ValueError(f"{name}: {path} cannot be read as a .npz file: {reason}") from None
    return arrays


def _parse_npy(file: BufferedIOBase, size: int, kinds: str, origin: str) -> np.ndarray:
    """Reads an array of the given kinds of types from a file of the given size."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of Python's parser
            read_header = HEADERS[np.lib.format.read_magic(file)]
            shape, is_fortran, dtype = read_header(file)
    except Exception as error:  # of Python's parser, which reads the header
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise ValueError(f"{origin} cannot be read as .npy: its header: {reason}") from None
    if dtype.kind not in kinds or not dtype.itemsize or (dtype.kind != "U" and dtype.itemsize > 8):
        required = {REAL: "real numbers", WHOLE: "whole numbers"}.get(kinds, "text")
        raise ValueError(f"{origin} holds {str(dtype)[:60]}; {required} required")
    num_bytes = math.prod(shape) * dtype.itemsize
    if min(shape, default=1) < 0 or len(shape) > 32 or max(shape, default=0) > MAX_ARRAY:
        raise ValueError(f"{origin} has the shape {str(shape)[:60]}, which no array has")
    data = file.read(num_bytes) if num_bytes <= size else b""
    if len(data) < num_bytes:
        raise ValueError(f"{origin} is cut off: it needs {num_bytes} bytes, and has {size}")
    array = np.frombuffer(data, dtype)
    return array.reshape(shape[::-1]).T if is_fortran else array.reshape(shape)


def read_arrays(path: StrPath, name: str = "path") -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Reads the arrays and the text that [write_arrays] wrote; a `ValueError` if it cannot."""
    with _open_arrays(path, name) as file:
        names = file.keys()
        return {name: file.get_tensor(name) for name in names}, file.metadata() or {}


def read_metadata(path: StrPath, name: str = "path") -> dict[str, str]:
    """Reads the text alone, which is fast however large the arrays are."""
    with _open_arrays(path, name) as file:
        return file.metadata() or {}


@contextmanager
def _open_arrays(path: StrPath, name: str) -> Generator[Any, None, None]:
    open_file(path, name).close()
    try:
        reader: Any = safe_open(os.fspath(path), "np")
        with reader as file:
            yield file
    except (OSError, ValueError, SafetensorError) as error:
        raise ValueError(f"{name}: {path} cannot be read: {str(error)[:200]}") from None
    except (AttributeError, TypeError) as error:  # such as of bfloat16
        raise ValueError(f"{name}: {path} has an array that NumPy cannot hold: {error}") from None


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


def lock(file: IO[str] | IO[bytes], *, shared: bool = False, wait: bool = False) -> bool | None:
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
        with suppress(FileExistsError):  # another process may probe as well
            probe.touch(exist_ok=False)
        probe.unlink(missing_ok=True)
    except FileExistsError:
        raise ValueError(f"out: {folder} is not a folder, which is required") from None
    except (OSError, ValueError) as error:  # the latter of a zero byte
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"out: {folder} cannot be written: {reason}") from None
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
