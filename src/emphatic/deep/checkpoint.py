"""Checkpoints, from which an interrupted training resumes: arrays, and their definition."""

import json

import numpy as np

from .._files import Json, read_arrays, StrPath, write_arrays

FORMAT = "emphatic checkpoint 1"


def save_checkpoint(path: StrPath, definition: Json, arrays: dict[str, np.ndarray]) -> None:
    """Writes arrays by name, and the definition of the training that they belong to."""
    header = {"format": FORMAT, "definition": json.dumps(definition, sort_keys=True)}
    write_arrays(path, arrays, header)


def load_checkpoint(path: StrPath, definition: Json) -> dict[str, np.ndarray]:
    """Reads the arrays that [save_checkpoint] wrote; a `ValueError` if they belong elsewhere."""
    try:
        arrays, header = read_arrays(path)
    except ValueError as error:
        raise ValueError(f"checkpoint: {path} cannot be read: {error}") from None
    if header.get("format") != FORMAT:
        raise ValueError(f"checkpoint: {path} is not one: its header has no {FORMAT!r}")
    saved, required = json.loads(header["definition"]), json.loads(json.dumps(definition))
    for key in sorted(saved.keys() | required.keys()):
        if saved.get(key) != required.get(key):
            raise ValueError(
                f"checkpoint: {path} belongs to another experiment: {key} is {saved.get(key)!r} "
                f"there and {required.get(key)!r} here; remove it or choose another file"
            )
    return arrays
