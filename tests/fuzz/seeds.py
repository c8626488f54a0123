"""The valid inputs that are mutated: made by the commands themselves, in a few seconds.

A training takes longer, so that a small one, with all weights 0, is in `training.zip`; its policy
and its checkpoint are written again, in the form of today. `figures.json` has the summaries of the
figures, with two rows each.
"""

import contextlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import TypeAlias

from emphatic import cli

from .formats import pack, unpack

Tree: TypeAlias = dict[str, bytes]
"""The contents of files by their paths."""

HERE = Path(__file__).parent
EXPERIMENT = """\
# Does it <hold>?
name = "tiny"
steps = 20
runs = 4
record_every = 10
measures = ["emphasis_error"]
target = ["own", "target.npy"]
[problem]
name = "two_state"
[learners]
gem = "gem(step_size)"
trace = "followon()"
[grid]
step_size = "0.1 * 2^[0:-1]"
[selection]
runs = 2
"""
OWNER = '{"process": 1, "user": "ann", "host": "here", "since": "2026-01-01 00:00:00"}'
CLAIM = f"{5:20d} {40:20d} {OWNER}\n"
"""What a process writes into a file that it has locked."""
ARRAYS = {
    "target.npy": "[[0.3, 0.7], [0.5, 0.5]]",
    "vector.npy": "[0.5, 1.0, 0.0, 0.0]",
    "rows.npy": "[[1.0, 0.0], [0.0, 1.0]]",
}
COMMANDS = (
    "export two_state --out dense.npz",
    "export grid --width 3 --height 2 --out sparse.npz",
    "sweep tiny.toml --out store",
)


def make(folder: Path) -> Tree:
    """Makes the valid inputs in an empty folder, and returns their bytes."""
    import numpy as np

    from emphatic.deep.checkpoint import load_checkpoint, save_checkpoint
    from emphatic.deep.trained_policies import load_policies, save_policies

    (folder / "tiny.toml").write_text(EXPERIMENT)
    for name, text in ARRAYS.items():
        np.save(folder / name, np.array(json.loads(text)))
    with zipfile.ZipFile(HERE / "training.zip") as archive:
        archive.extractall(folder)
    for name, save, load in (
        ("policy", lambda x, path: save_policies(x, path), load_policies),
        ("checkpoint-0", lambda x, path: save_checkpoint(path, *x), load_checkpoint),
    ):
        path = folder / "training" / f"{name}.safetensors"
        save(load(path), path)
    here = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for command in COMMANDS:
                assert cli.main(command.split()) == 0, command
    finally:
        os.chdir(here)
    for name, summary in json.loads((HERE / "figures.json").read_text()).items():
        (folder / name).mkdir()
        (folder / name / "summary.json").write_text(json.dumps(summary))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    tree = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    tree["store/.lock"] = CLAIM.encode()  # where the process and the time would stand
    return {
        name: pack(*unpack(data)) if name.endswith(".safetensors") else data
        for name, data in tree.items()
    }


def below(tree: Tree, folder: str, renamed: str | None = None) -> Tree:
    """The files of a folder of a tree, under another name if one is given."""
    name = folder if renamed is None else renamed
    found = {path: data for path, data in tree.items() if path.startswith(f"{folder}/")}
    return {name + path.removeprefix(folder): data for path, data in found.items()}
