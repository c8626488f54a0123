"""A dataset in a file: tensors, text and a checksum, written whole or not at all."""

import json
from pathlib import Path
from typing import Any, TYPE_CHECKING

import numpy as np

from .._files import checksum, Json, read_arrays, read_metadata, write_arrays

if TYPE_CHECKING:
    import xarray

FORMAT = 1
KEY = "emphatic"  # of the header in the metadata of a file


def write(path: Path, dataset: "xarray.Dataset", description: Json) -> None:
    """Writes a dataset and what describes it to a safetensors file, atomically.

    Variables and coordinates are tensors; text and attributes are in the metadata, in JSON, and so
    is the SHA-256 of everything.
    """
    variables = {str(name): np.asarray(v.values) for name, v in dataset.variables.items()}
    arrays = {name: values for name, values in variables.items() if values.dtype.kind not in "OU"}
    header: dict[str, object] = {
        "format": FORMAT,
        "description": dict(description),
        "attributes": {str(name): value for name, value in dataset.attrs.items()},
        "axes": {str(name): [*map(str, v.dims)] for name, v in dataset.variables.items()},
        "coordinates": [str(name) for name in dataset.coords],
        "words": {name: v.tolist() for name, v in variables.items() if name not in arrays},
    }
    signed = {**header, "checksum": checksum(header, arrays)}
    write_arrays(path, arrays, {KEY: json.dumps(signed, sort_keys=True)})


def read(path: Path) -> tuple["xarray.Dataset", Json]:
    """Reads a dataset that [write] wrote, and its description; a `ValueError` if it is damaged."""
    import xarray

    header, arrays = _read_checked(path)
    axes, texts = header["axes"], header["words"]
    variables = {name: (axes[name], arrays.get(name, texts.get(name))) for name in axes}
    coordinates = {name: variables.pop(name) for name in header["coordinates"]}
    return xarray.Dataset(variables, coordinates, header["attributes"]), header["description"]


def _read_checked(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads a file and compares its checksum."""
    try:
        arrays, metadata = read_arrays(path)
        header = json.loads(metadata[KEY])
        expected = header.pop("checksum")
        if expected != checksum(header, arrays):
            raise ValueError("its content has another checksum")
    except (KeyError, ValueError) as error:
        raise ValueError(f"store: {path} is damaged: {error}") from None
    return header, arrays


def read_if_matching(path: Path, description: Json) -> "xarray.Dataset | None":
    """Reads the dataset of a file, if it exists, is undamaged and has this description."""
    try:
        dataset, stored = read(path)
    except ValueError:
        return None
    return dataset if stored == json.loads(json.dumps(dict(description))) else None


def read_description(path: Path, check: bool = False) -> Json:
    """Reads the description in a file, and on demand checks the whole file; else as [read]."""
    if check:
        return _read_checked(path)[0]["description"]
    try:
        return json.loads(read_metadata(path)[KEY])["description"]
    except (KeyError, ValueError) as error:
        raise ValueError(f"store: {path} is damaged: {error}") from None
