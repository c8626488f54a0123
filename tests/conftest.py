"""Float64, strict broadcasting, and checked types and shapes, before `emphatic` is imported."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

# A thread for each process of a test, which share the cores: idle threads of BLAS would spin. It is
# read by the processes that are started from here on, among them the workers of `pytest -n`.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import pytest
from hypothesis import Phase, settings
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
install_import_hook("emphatic", "beartype.beartype")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` and nohup ignore Ctrl-C

settings.register_profile(
    "emphatic",
    deadline=None,
    derandomize=True,
    max_examples=20,
    phases=(Phase.reuse, Phase.generate),
)
settings.load_profile("emphatic")


@pytest.fixture(scope="session")
def reproduced(tmp_path_factory):
    """For each figure the folder, status and output of `emphatic reproduce`, in a small size.

    As a user would run it: with JAX as it comes, and types not checked; with two Garnets in place
    of twenty. Made once for all processes that test: the first one that needs it makes it, and the
    others wait.
    """
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "reproduced"
    out.mkdir(exist_ok=True)
    with open(out / "printed.json", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (text := file.read()):
            text = json.dumps(_reproduce(out))
            file.write(text)
    return {name: (out / name, *words) for name, words in json.loads(text).items()}


def _reproduce(out):
    """The status, output and errors of each figure's command."""
    command = [sys.executable, "-m", "tests.figures.few_garnets", "reproduce"]
    started = {
        name: subprocess.Popen(
            [*command, name, "--runs", "2", "--steps", "2e3", "--out", str(out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            cwd=Path(__file__).parents[1],
            env={**os.environ, "PYTHONUTF8": "1"},
        )
        for name in ("emphasis", "evaluation", "convergence")
    }
    found = {}
    for name, process in started.items():
        printed, errors = process.communicate()
        found[name] = process.returncode, printed, errors
    return found
