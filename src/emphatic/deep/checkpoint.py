"""Files with a checksum: checkpoints, from which a training continues, and what else is learned."""

import json
from collections.abc import Mapping
from typing import Annotated, TypeAlias, TypedDict

import numpy as np

from .._files import checksum, Json, read_arrays, StrPath, write_arrays
from .._schema import conform, Count, parse_json, Rule, Seed, show

FORMAT, CHECKSUM = "emphatic checkpoint 1", "checksum"
FINITE = "curves.finite"  # the curve of which every checkpoint has one

Definition: TypeAlias = dict[str, object]
"""All that the bits of a training depend on, as JSON can hold it."""
Seeds = Annotated[
    list[Seed], Rule("a list of different seeds", lambda seeds: 0 < len(set(seeds)) == len(seeds))
]
"""The seeds of runs."""


class Extent(TypedDict):
    """What the definition of a training says of its size."""

    seeds: Seeds
    num_iterations: Count
    num_workers: Count
    evaluate_every: Count


def write_signed(
    path: StrPath, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Writes arrays and text with the SHA-256 of both."""
    write_arrays(path, arrays, {**metadata, CHECKSUM: checksum(metadata, arrays)})


def read_signed(
    path: StrPath, keys: tuple[str, ...], name: str
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Reads arrays, and the text under these keys, as [write_signed] wrote them.

    What an earlier version wrote has no checksum, and exactly these keys. A `ValueError` says that
    a file is something else, or damaged; `name` is what it calls the argument.
    """
    arrays, metadata = read_arrays(path, name)
    expected = metadata.pop(CHECKSUM, None)
    if expected is None and metadata.keys() != set(keys):
        raise ValueError(f"{name}: {path} is not one: its header has not just {', '.join(keys)}")
    if expected not in (None, checksum(metadata, arrays)) or not metadata.keys() >= set(keys):
        raise ValueError(f"{name}: {path} is damaged: its content has another checksum")
    return arrays, metadata


def save_checkpoint(path: StrPath, definition: Json, arrays: dict[str, np.ndarray]) -> None:
    """Writes arrays by name, and the definition of the training that they belong to."""
    header = {"format": FORMAT, "definition": json.dumps(definition, sort_keys=True)}
    write_signed(path, arrays, header)


def load_checkpoint(path: StrPath) -> tuple[Definition, dict[str, np.ndarray]]:
    """Reads the definition and the arrays that [save_checkpoint] wrote."""
    arrays, header = read_signed(path, ("format", "definition"), "checkpoint")
    if header["format"] != FORMAT:
        raise ValueError(f"checkpoint: {path} is not one: its header has no {FORMAT!r}")
    origin = f"checkpoint: {path}, its definition"
    return parse_json(header["definition"], dict, origin), arrays


def find_extent(path: StrPath, definition: Definition, arrays: Mapping[str, np.ndarray]) -> Extent:
    """Returns what the definition of a checkpoint says of its size; its curves must fit it."""
    extent = conform(definition, Extent, f"checkpoint: {path}, its definition")
    most = extent["num_iterations"] // extent["evaluate_every"] + 1
    shape = arrays[FINITE].shape if FINITE in arrays else ()
    curves = {name: a for name, a in arrays.items() if name.startswith("curves.")}
    if len(shape) != 2 or shape[0] != len(extent["seeds"]) or not 1 <= shape[1] <= most:
        raise ValueError(
            f"checkpoint: {path} has {FINITE!r} of shape {shape}; ({len(extent['seeds'])}, 1 to "
            f"{most}) is required"
        )
    for name, curve in curves.items():
        if curve.shape != shape or curve.dtype != np.float64:
            raise ValueError(
                f"checkpoint: {path} has {show(name)} of shape {curve.shape} and type "
                f"{curve.dtype}; {shape} and float64 are required"
            )
    return extent


def require_definition(path: StrPath, saved: Definition, required: Definition) -> None:
    """Raises a `ValueError` if a checkpoint belongs to another training."""
    required = json.loads(json.dumps(required))
    for key in sorted(saved.keys() | required.keys()):
        if saved.get(key) != required.get(key):
            raise ValueError(
                f"checkpoint: {path} belongs to another experiment: {key} is "
                f"{show(saved.get(key))} there and {show(required.get(key))} here; remove it or "
                "choose another file"
            )
