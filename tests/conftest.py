"""Float64, strict broadcasting, and checked types and shapes, before `emphatic` is imported."""

import os
import subprocess
import sys

import jax
import pytest
from hypothesis import Phase, settings
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
install_import_hook("emphatic", "beartype.beartype")

settings.register_profile(
    "emphatic",
    deadline=None,
    derandomize=True,
    max_examples=20,
    phases=(Phase.reuse, Phase.generate),
)
settings.load_profile("emphatic")


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items):
    """Tests of a file run in one process, and so do all that look at the reproduced figures."""
    seen = {item.path for item in items if "reproduced" in item.fixturenames}
    for item in items:
        group = "figures" if item.path in seen else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory):
    """For each figure the folder, status and output of `emphatic reproduce`, in a small size.

    As a user would run it: with JAX as it comes, and types not checked.
    """
    script = "import sys; from emphatic.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "reproduce"]
    out = tmp_path_factory.mktemp("results")
    started = {
        name: subprocess.Popen(
            [*command, name, "--runs", "2", "--steps", "2e3", "--out", str(out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "PYTHONUTF8": "1"},
        )
        for name in ("emphasis", "evaluation", "convergence")
    }
    found = {}
    for name, process in started.items():
        printed, errors = process.communicate()
        found[name] = out / name, process.returncode, printed, errors
    return found
