"""A dataset in a file: tensors, text and a checksum, written whole or not at all."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TYPE_CHECKING, TypedDict

import numpy as np

from .._files import checksum, Json, read_arrays, read_metadata, write_arrays
from .._schema import parse_json, Rule, Schema, show

if TYPE_CHECKING:
    import xarray

FORMAT = 1
KEY = "emphatic"  # of the header in the metadata of a file

Words = Annotated[object, Rule("text, or lists of text", lambda value: _is_text(value))]
Scalar = str | bool | int | float


class Header(TypedDict):
    """What the metadata of a file say of it; `axes` are those of each variable."""

    format: Annotated[int, Rule("1, or a newer version,", lambda n: n == FORMAT)]
    description: dict[str, object]
    attributes: dict[str, Scalar]
    axes: dict[str, list[str]]
    coordinates: list[str]
    words: dict[str, Words]
    checksum: str


class _Described(TypedDict):
    description: dict[str, object]


def _is_text(value: object) -> bool:
    """Whether a value is text, or lists of text in each other."""
    return all(map(_is_text, value)) if isinstance(value, list) else isinstance(value, str)


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
    header, variables = read_checked(path)
    return to_dataset(header, variables), header["description"]


def to_dataset(header: Header, variables: dict[str, np.ndarray]) -> "xarray.Dataset":
    """Makes the dataset of a file from its header and its variables."""
    import xarray

    labelled = {name: (header["axes"][name], values) for name, values in variables.items()}
    coordinates = {name: labelled.pop(name) for name in header["coordinates"]}
    return xarray.Dataset(labelled, coordinates, header["attributes"])


def read_checked(path: Path) -> tuple[Header, dict[str, np.ndarray]]:
    """Reads the header and the variables of a file; a `ValueError` if it has another checksum, or
    if its header says of the variables what is not true of them."""
    arrays, metadata = read_arrays(path, "store")
    header = _parse(path, metadata, Header)
    content = {name: value for name, value in header.items() if name != "checksum"}
    if header["checksum"] != checksum(content, arrays):
        raise ValueError(f"store: {path} is damaged: its content has another checksum")
    try:
        variables = {name: np.array(text) for name, text in header["words"].items()} | arrays
        if problem := _find_contradiction(header, variables):
            raise ValueError(problem)
    except ValueError as error:  # also of lists with different lengths
        reason = " ".join(str(error).split())
        raise ValueError(f"store: {path} is damaged: {reason}") from None
    return header, variables


def _find_contradiction(header: Header, variables: dict[str, np.ndarray]) -> str:
    """Says what a header says of variables that is not true of them; nothing if all is."""
    axes, sizes = header["axes"], dict[str, int]()
    names, coordinates = axes.keys() | variables.keys(), header["coordinates"]
    if unknown := sorted(names - (axes.keys() & variables.keys())) or set(coordinates) - names:
        return f"{show(next(iter(unknown)))} has axes and no values, or values and no axes"
    if len(set(coordinates)) < len(coordinates):
        return "a coordinate is there twice"
    for name, values in variables.items():
        if len(set(axes[name])) != values.ndim or values.ndim != len(axes[name]):
            return f"{show(name)} has {values.ndim} axes, not {show(axes[name])}"
        if name in axes[name] and values.ndim > 1:
            return f"{show(name)} is an axis of its own, beside others"
        for axis, size in zip(axes[name], values.shape, strict=True):
            if sizes.setdefault(axis, size) != size:
                return f"{show(axis)} has {sizes[axis]} entries and, for {show(name)}, {size}"
    return ""


def _parse(path: Path, metadata: dict[str, str], schema: type[Schema]) -> Schema:
    if KEY not in metadata:
        raise ValueError(f"store: {path} is damaged: it has no header")
    return parse_json(metadata[KEY], schema, f"store: {path} is damaged: its header")


def read_if_matching(
    path: Path, description: Json, require: Callable[["xarray.Dataset", str], None]
) -> "xarray.Dataset | None":
    """Reads the dataset of a file, if it exists, is undamaged, has this description, and is what
    is required, of which a `ValueError` says that it is not."""
    try:
        dataset, stored = read(path)
        require(dataset, str(path))
    except ValueError:
        return None
    return dataset if stored == json.loads(json.dumps(dict(description))) else None


def read_description(path: Path) -> Json:
    """Reads the description in a file alone, which is fast however large the rest is."""
    return _parse(path, read_metadata(path, "store"), _Described)["description"]
