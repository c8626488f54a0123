"""Where an interrupted training goes on: one file of arrays, with a definition in its header."""

import json
import os
from typing import Any

import jax
import numpy as np
from safetensors import safe_open, SafetensorError
from safetensors.numpy import save as serialized

from .._files import replacing

FORMAT = "emphatic checkpoint 1"


def save(path: str | os.PathLike, definition: dict[str, Any], tree: Any) -> None:
    """Writes a pytree of arrays, whole or not at all.

    **Arguments:**

    - `path`: The file.
    - `definition`: What the arrays belong to, as JSON can hold it.
    - `tree`: The arrays.
    """
    arrays = {name: np.ascontiguousarray(leaf) for name, leaf in named(tree).items()}
    header = {"format": FORMAT, "definition": json.dumps(definition, sort_keys=True)}
    with replacing(path) as file:
        file.write(serialized(arrays, header))


def load(path: str | os.PathLike, definition: dict[str, Any]) -> dict[str, np.ndarray]:
    """Reads the arrays that [save] wrote, by name; a `ValueError` if they belong to something else.

    **Arguments:**

    - `path`: The file.
    - `definition`: What the arrays must belong to.
    """
    try:
        with safe_open(path, "numpy") as file:
            header = file.metadata() or {}
            names = file.keys()
            arrays = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"checkpoint: {path} cannot be read: {error}") from None
    if header.get("format") != FORMAT:
        raise ValueError(f"checkpoint: {path} is not one: its header has no {FORMAT!r}")
    found, wanted = json.loads(header["definition"]), json.loads(json.dumps(definition))
    for key in sorted(found.keys() | wanted.keys()):
        if found.get(key) != wanted.get(key):
            raise ValueError(
                f"checkpoint: {path} belongs to another experiment: {key} is {found.get(key)!r} "
                f"there and {wanted.get(key)!r} here; remove it or choose another file"
            )
    return arrays


def named(tree: Any) -> dict[str, Any]:
    """The leaves of a pytree, by their places in it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(place, simple=True, separator="."): leaf for place, leaf in leaves}
