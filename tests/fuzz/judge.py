"""What a command did, and whether it may.

A command may end in two ways: with status 0 (or 1, where the documentation says so), or with status
2 and one line on standard error. Whatever else happens is a failure of the input, described by one
text that is the same for all inputs that fail in one place.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .commands import Files, Input

ONES = ("certify", "check", "status", "sweep")  # whose exit status may be 1
OURS = "/src/emphatic/"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass
class Outcome:
    """What an input did: its failures, if any, and what it took."""

    number: int
    format: str
    command: str
    digest: str = ""  # of the input
    status: int | None = None
    seconds: float = 0.0  # of processor time
    peak: int = 0  # bytes
    warnings: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])
    detail: str = ""


def judge_texts(case: Input, outcome: Outcome, out: str, err: str, error: str) -> Iterator[str]:
    """Says what is wrong with the exit status and with what was printed."""
    lines = err.splitlines()
    outcome.warnings = [line for line in lines if line.startswith("emphatic: warning: ")]
    lines = [line for line in lines if not line.startswith("emphatic: warning: ")]
    command = case.arguments[0] if case.arguments else ""
    if CONTROL.search(out + err):
        yield f"{command[:20]!r} prints what controls a terminal"
    if error:
        yield describe_traceback(error)
    elif "Traceback" in err or "Traceback" in out:
        yield f"prints {describe_traceback(err + out)}"
    elif outcome.status not in (0, 1, 2):
        yield f"exit status {outcome.status}"
    elif outcome.status == 1 and command not in ONES:
        yield f"exit status 1 of {command}"
    elif outcome.status == 2 and len(lines) != 1:
        yield f"{len(lines)} lines on standard error"
    elif outcome.status == 2 and not lines[0].startswith("emphatic: "):
        yield f"not a line of ours: {lines[0][:40]!r}"
    elif outcome.status == 2 and len(lines[0]) > 2000 + 2 * sum(map(len, case.arguments)):
        yield f"a line of {len(lines[0]) // 1000} thousand letters"
    elif outcome.status == 0 and "--json" in case.arguments and command != "help":
        try:
            if not {"--help", "-h"} & set(case.arguments):
                json.loads(out, parse_constant=lambda name: 1 / 0)
        except (ValueError, ZeroDivisionError):
            yield f"what {command} --json prints is not JSON"


def describe_traceback(text: str) -> str:
    """The error of a traceback and the last place of ours in it."""
    lines = [line for line in text.splitlines() if line.strip()]
    places = [line for line in lines if line.strip().startswith('File "')]
    ours = [line for line in places if OURS in line] or places or [""]
    errors = [
        line
        for line in lines
        if re.match(r"[\w.]+(Error|Exception|Interrupt|Exit|Warning)\b", line)
    ]
    return f"{(errors or ['?'])[-1].partition(':')[0]} at {find_place(ours[-1])}"


def find_place(line: str) -> str:
    """The file and the line that a line of a traceback names."""
    match = re.search(r'File "(.*?)", line (\d+)', line)
    return f"{match[1].rpartition(OURS)[2]}:{match[2]}" if match else "?"


def judge_files(case: Input, folder: Path) -> Iterator[str]:
    """Says which files were changed that are only read, and which were left behind."""
    for name, content in case.files.items():
        is_written = any(part in ("*", name.partition("/")[0]) for part in case.written)
        if isinstance(content, bytes) and not is_written:
            path = folder / name
            with contextlib.suppress(OSError):
                if path.is_symlink() or path.read_bytes() != content:
                    yield f"changed {_shape(name)}"
                continue
            if not _is_hidden(name, case.files):
                yield f"removed {_shape(name)}"
    given = {str(folder / name) for name in case.files}
    for path in folder.rglob("*.part"):
        if str(path) not in given and not any(str(p) in given for p in path.parents):
            yield f"left {_shape(path.name)}"


def _is_hidden(name: str, files: Files) -> bool:
    """Whether a file could not be made, as what should be its folder is another file."""
    parts = name.split("/")
    above = ["/".join(parts[:n]) for n in range(1, len(parts))]
    return any(folder in files for folder in above) or any(f.startswith(f"{name}/") for f in files)


def _shape(name: str) -> str:
    return f"*.{name.rpartition('.')[2]}"
