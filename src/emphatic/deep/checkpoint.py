"""Checkpoints, from which a training continues: arrays, and their definition."""

import json
from typing import TypeAlias

import numpy as np

from .._files import Json, read_arrays, StrPath, write_arrays

FORMAT = "emphatic checkpoint 1"

Definition: TypeAlias = dict[str, object]
"""All that the bits of a training depend on, as JSON can hold it."""


def save_checkpoint(path: StrPath, definition: Json, arrays: dict[str, np.ndarray]) -> None:
    """Writes arrays by name, and the definition of the training that they belong to."""
    header = {"format": FORMAT, "definition": json.dumps(definition, sort_keys=True)}
    write_arrays(path, arrays, header)


def load_checkpoint(path: StrPath) -> tuple[Definition, dict[str, np.ndarray]]:
    """Reads the definition and the arrays that [save_checkpoint] wrote."""
    try:
        arrays, header = read_arrays(path)
    except ValueError as error:
        raise ValueError(f"checkpoint: {path} cannot be read: {error}") from None
    if header.get("format") != FORMAT:
        raise ValueError(f"checkpoint: {path} is not one: its header has no {FORMAT!r}")
    return json.loads(header["definition"]), arrays


def require_definition(path: StrPath, saved: Definition, required: Definition) -> None:
    """Raises a `ValueError` if a checkpoint belongs to another training."""
    required = json.loads(json.dumps(required))
    for key in sorted(saved.keys() | required.keys()):
        if saved.get(key) != required.get(key):
            raise ValueError(
                f"checkpoint: {path} belongs to another experiment: {key} is {saved.get(key)!r} "
                f"there and {required.get(key)!r} here; remove it or choose another file"
            )
