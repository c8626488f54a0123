"""What results depend on besides their definition: versions, source and device."""

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from subprocess import DEVNULL
from typing import NotRequired, TypedDict

PACKAGES = ("emphatic", "jax", "numpy", "llvmlite")
"""The packages that results depend on."""


class Provenance(TypedDict):
    """What a result depends on besides its definition."""

    versions: dict[str, str]
    commit: NotRequired[str | None]
    engine: NotRequired[str]
    device: NotRequired[str]


@cache
def commit() -> str | None:
    """Returns the commit of this source, if it is a checkout."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        subprocess.check_output(
            [*git, "ls-files", "--error-unmatch", "__init__.py"], stderr=DEVNULL
        )
        return subprocess.check_output(
            [*git, "rev-parse", "HEAD"], stderr=DEVNULL, text=True
        ).strip()
    except (OSError, subprocess.CalledProcessError):
        return None


@cache
def versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def provenance(engine: str, device: str | None = None) -> Provenance:
    """Returns what a result of an engine depends on here: versions, source and device.

    By default that is the CPU, and for scans JAX's device.
    """
    if device is None and engine == "scan":
        import jax

        device = jax.devices()[0].device_kind
    place = f"{device or 'CPU'}, {platform.machine()}"
    return {"versions": versions(), "commit": commit(), "engine": engine, "device": place}
