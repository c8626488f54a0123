"""What results depend on besides their definition: versions, source and device."""

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .gathering import VERSIONED


@cache
def commit() -> str | None:
    """The commit of this source, if it is a checkout."""
    here = Path(__file__).parent
    try:
        for words in (["ls-files", "--error-unmatch", "__init__.py"], ["rev-parse", "HEAD"]):
            found = subprocess.run(
                ["git", *words], cwd=here, capture_output=True, text=True, check=True
            )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


@cache
def versions() -> dict[str, str]:
    """The versions of Python and of those packages that results depend on."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in VERSIONED},
    }


def provenance(engine: str) -> dict[str, Any]:
    """What a result depends on besides its definition: versions, source and device.

    **Arguments:**

    - `engine`: What computed it.
    """
    device = f"CPU, {platform.machine()}"
    if engine == "scan":
        import jax

        device = f"{jax.devices()[0].device_kind}, {platform.machine()}"
    return {
        "versions": versions(),
        "commit": commit(),
        "engine": engine,
        "device": device,
    }
