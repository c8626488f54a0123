"""A dataset in a file: tensors, words and a checksum, written whole or not at all."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TYPE_CHECKING

import numpy as np
from safetensors import safe_open, SafetensorError
from safetensors.numpy import save as serialized

from ._files import checksum, replacing

if TYPE_CHECKING:
    import xarray

FORMAT = 1


def write(path: Path, dataset: "xarray.Dataset", description: Mapping[str, Any]) -> None:
    """Writes a dataset and what describes it to a safetensors file, atomically.

    Variables and coordinates are tensors; words are in the metadata, in JSON, and so is the SHA-256
    of everything.

    **Arguments:**

    - `path`: The file.
    - `dataset`: The dataset; its attributes must be such that JSON can hold them.
    - `description`: What it is, as JSON can hold it.
    """
    every = {str(name): np.asarray(each.values) for name, each in dataset.variables.items()}
    arrays = {name: each for name, each in every.items() if each.dtype.kind in "biuf"}
    header = {
        "format": FORMAT,
        "description": dict(description),
        "attributes": dict(dataset.attrs),
        "axes": {str(name): list(each.dims) for name, each in dataset.variables.items()},
        "coordinates": [str(name) for name in dataset.coords],
        "words": {name: each.tolist() for name, each in every.items() if name not in arrays},
    }
    header["checksum"] = checksum(header, arrays)
    data = serialized(
        {name: np.ascontiguousarray(each) for name, each in arrays.items()},
        {"emphatic": json.dumps(header, sort_keys=True)},
    )
    with replacing(path) as file:
        file.write(data)


def read(path: Path) -> tuple["xarray.Dataset", dict[str, Any]]:
    """The dataset that [write] wrote, and its description; a `ValueError` if it is damaged.

    **Arguments:**

    - `path`: The file.
    """
    import xarray

    header, arrays = checked(path)
    axes, words = header["axes"], header["words"]
    every = {name: (axes[name], arrays.get(name, words.get(name))) for name in axes}
    coordinates = {name: every.pop(name) for name in header["coordinates"]}
    return xarray.Dataset(every, coordinates, header["attributes"]), header["description"]


def checked(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What is written in a file: words and arrays; a `ValueError` if they are damaged."""
    try:
        with safe_open(os.fspath(path), "np") as file:
            names, header = file.keys(), json.loads((file.metadata() or {})["emphatic"])
            arrays = {name: file.get_tensor(name) for name in names}
        expected = header.pop("checksum")
        if expected != checksum(header, arrays):
            raise ValueError("its content has another checksum")
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"store: {path} is damaged: {error}") from None
    return header, arrays


def kept(path: Path, description: Mapping[str, Any]) -> "xarray.Dataset | None":
    """The dataset of a file, if it is there, undamaged, and what is described.

    **Arguments:**

    - `path`: The file.
    - `description`: What it must be.
    """
    try:
        dataset, found = read(path)
    except ValueError:
        return None
    return dataset if found == json.loads(json.dumps(dict(description))) else None


def description_of(path: Path) -> dict[str, Any]:
    """What a file says that it is, without a look at the rest."""
    with safe_open(os.fspath(path), "np") as file:
        return json.loads((file.metadata() or {})["emphatic"])["description"]
