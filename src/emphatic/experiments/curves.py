"""The curves of a training, in a file of the folder of a training or of a figure."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._files import MAX_ARRAY, read_bytes
from . import shards

if TYPE_CHECKING:
    import xarray

CURVES = "curves.nc"  # of a training
AXES = "run", "steps"
ALWAYS = "J", "return", "diverged"  # measured in every training, for each run and step


def read_curves(path: Path) -> "xarray.Dataset":
    """Reads curves with the axes `run` and `steps`, netCDF or a shard; else a `ValueError`."""
    dataset = _read_netcdf(path) if path.suffix == ".nc" else shards.read(path)[0]
    require_curves(dataset, f"folder: {path}")
    return dataset


def require_curves(dataset: "xarray.Dataset", origin: str) -> None:
    """Raises a `ValueError` unless a dataset has the curves of a training."""
    if problem := _find_problem(dataset):
        raise ValueError(f"{origin} has no curves of a training: {problem}")


def _find_problem(dataset: "xarray.Dataset") -> str:
    for name in ("algorithm", "environment"):
        if not isinstance(dataset.attrs.get(name), str):
            return f"its attribute {name!r} is no text"
    steps = dataset["steps"].values if "steps" in dataset.coords else np.zeros(0)
    if not (steps.size and steps.dtype.kind in "iu" and (np.diff(steps) > 0).all()):
        return "its 'steps' do not increase"
    for name in ALWAYS:
        if name not in dataset or dataset[name].dims != AXES:
            return f"it has no {name!r} for each run and step"
    if not dataset.sizes["run"]:
        return "it has no run"
    for name, values in dataset.data_vars.items():
        if "steps" in values.dims and values.dtype.kind not in "biuf":
            return f"its {str(name)!r} has {values.dtype}; numbers are required"
    return ""


def _read_netcdf(path: Path) -> "xarray.Dataset":
    """Reads netCDF from memory, in which no more is allocated than the file holds."""
    import xarray

    data = read_bytes(path, "folder", MAX_ARRAY)
    try:
        with xarray.open_dataset(io.BytesIO(data), engine="scipy", decode_times=False) as dataset:
            return dataset.load()
    except Exception as error:  # of SciPy's reader, which lists none
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"folder: {path} cannot be read as netCDF: {reason}") from None
