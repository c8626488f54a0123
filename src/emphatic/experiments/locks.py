"""Files that processes lock, each its own: none is followed to another place, and all say whose."""

import getpass
import json
import os
import stat
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from platform import node
from typing import IO, TypedDict

from .._files import lock
from .._schema import parse_json

OnMessage = Callable[[str], None]
"""A callback: it is called with a sentence for the user."""

PATIENCE, POLL_EVERY = 5.0, 0.05  # seconds that are waited without a word, and between two looks
ROOM = 42  # bytes at the beginning of a locked file, for how far its process is


class Owner(TypedDict):
    """The process that has a lock, as it says itself in the file."""

    process: int
    user: str
    host: str
    since: str


def open_lock(path: Path) -> IO[str]:
    """Opens a file to lock it, and makes it if it is not there; a `ValueError` if it cannot.

    A link is not followed, and what is no file of its own, such as a pipe, is refused.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        reason = "it is a link" if path.is_symlink() else f"{error.strerror}{_owned_by(path)}"
        raise ValueError(f"path: {path} cannot be written: {reason}") from None
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
        return os.fdopen(handle, "r+", errors="replace")
    os.close(handle)
    raise ValueError(f"path: {path} cannot be written: it is not a file of its own")


def _owned_by(path: Path) -> str:
    """Says whose a file is, if it is another user's."""
    try:
        is_foreign = path.lstat().st_uid != os.geteuid()
        return f"; it belongs to {path.owner()}" if is_foreign else ""
    except (OSError, KeyError):  # it is gone, or nobody's
        return ""


def sign(file: IO[str]) -> None:
    """Writes into a file that this process has locked, whose it is."""
    owner = Owner(
        process=os.getpid(), user=_user(), host=node(), since=time.strftime("%Y-%m-%d %H:%M:%S")
    )
    text = f"{'':{ROOM}}{json.dumps(owner)}\n".encode()
    try:
        os.pwrite(file.fileno(), text, 0)
        os.ftruncate(file.fileno(), len(text))
    except OSError:  # a full disk is reported when results are saved
        pass


@cache
def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        return str(os.getuid())


def describe_owner(file: IO[str] | IO[bytes]) -> str:
    """Describes the process that has locked a file, as far as the file says it."""
    try:
        text = os.pread(file.fileno(), 1000, ROOM)
        owner = parse_json(text.partition(b"\n")[0], Owner, "")
    except (OSError, ValueError):  # of an earlier version, or not signed yet
        return "another process"
    words = f"process {owner['process']} of {owner['user']} on {owner['host']}"
    return "".join(filter(str.isprintable, f"{words} since {owner['since']}"))


def wait_for_lock(file: IO[str], folder: Path, on_message: OnMessage) -> bool | None:
    """Locks the file of a folder for this process, after whoever has it; see [lock]."""
    start = time.monotonic()
    while (locked := lock(file)) is False:
        if time.monotonic() - start > PATIENCE:
            start = float("inf")  # it is said once
            on_message(f"{folder} is used by {describe_owner(file)}; waiting for it")
        time.sleep(POLL_EVERY)
    if locked:
        sign(file)
    return locked
