"""The command `emphatic`, which answers Ctrl-C already while the package is imported."""

import os
import signal
import sys
from io import TextIOWrapper


def main() -> int:
    """Runs the command line of `emphatic`; see `emphatic --help`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    _open_streams()
    from emphatic.cli import main as run  # which takes a second or two

    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


def _stop(*_: object) -> None:
    """Ends the process at once: an exception would be swallowed or changed by what is imported."""
    os.write(2, b"emphatic: interrupted\n")
    os._exit(130)


def _open_streams() -> None:
    """Opens the standard streams that are closed, so that no file of ours takes their place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):  # a name may have what its encoding lacks
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
