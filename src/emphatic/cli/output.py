"""What commands print: data as they are, errors in one line, commands that a shell can run."""

import os
import shlex
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def printable(text: object) -> str:
    """Returns a text in one line, with escapes for what would control a terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(text)
    )


def styled(*parts: str | tuple[str, str]) -> "Text":
    """Joins texts and (text, style) pairs, without markup."""
    from rich.text import Text

    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((printable(text), style) for text, style in pairs))


def console(stderr: bool = False) -> "Console":
    """Returns a console that prints texts as they are: no markup, no emoji, no control characters.

    It does not fold tables when the output is a file.
    """
    from rich.console import Console

    out = Console(markup=False, emoji=False, highlight=False, stderr=stderr)
    if not out.is_terminal and not stderr:
        out.width = 160
    render = out.render_str
    out.render_str = lambda text, **options: render(printable(text), **options)
    out.on_broken_pipe = _raise_broken_pipe  # Rich would exit with 1, which has a meaning here
    return out


def _raise_broken_pipe() -> None:
    raise BrokenPipeError


def shell_command(*words: object) -> str:
    """Returns a command as a shell reads it, whatever characters its words have."""
    return " ".join(_quote(str(word)) for word in words)


def _quote(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    data = os.fsencode(word).decode("latin-1")
    escaped = (c if c.isascii() and c.isprintable() else f"\\x{ord(c):02x}" for c in data)
    return "$'" + "".join("\\" + c if c in "\\'" else c for c in escaped) + "'"


def report_error(message: object) -> None:
    """Prints one line on standard error, if anybody reads it."""
    with suppress(OSError, ValueError):  # it may be closed, or full
        print(f"emphatic: {printable(' '.join(str(message).split()))}", file=sys.stderr, flush=True)


def discard_streams() -> None:
    """Discards what is still buffered of the output and cannot be written."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None if it was closed
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
