"""Results as files for other programs: a long table, or netCDF."""

from pathlib import Path
from typing import TYPE_CHECKING

from .._files import atomic_write
from .curves import CURVES, read_curves
from .plan import EXPERIMENT
from .store import load

if TYPE_CHECKING:
    import pandas
    import xarray

FORMATS = ("csv", "parquet", "netcdf")


def read_results(folder: Path) -> dict[str, "xarray.Dataset"]:
    """Reads the results in the folder of a sweep, a figure or a training: of each experiment."""
    if (folder / EXPERIMENT).exists():
        return {"": load(folder)}
    if (folder / CURVES).exists():
        return {"": read_curves(folder / CURVES)}
    results: dict[str, xarray.Dataset] = {}
    for path in sorted((folder / "data").glob("*")):
        if path.suffix == ".safetensors":
            results[path.stem] = read_curves(path)
        elif (path / EXPERIMENT).exists():
            results[path.name] = load(path)
    if not results:
        raise ValueError(
            f"folder: {folder} has no results; that of a sweep, a figure or a training is required"
        )
    return results


def to_table(dataset: "xarray.Dataset") -> "pandas.DataFrame":
    """Makes a long table of results: a row for each point, with its coordinates and measures.

    What has axes besides those of all curves, such as recorded weights, is left out.
    """
    if "diverged" not in dataset:
        raise ValueError("folder: its results do not say which runs diverged, so have no table")
    axes = dataset["diverged"].dims
    names = [
        name
        for name, values in dataset.data_vars.items()
        if "run" in values.dims and set(values.dims) <= set(axes)
    ]
    frame = dataset[names].to_dataframe(dim_order=[*axes])
    return frame.reset_index().loc[:, [*map(str, (*axes, *names))]]


def write_results(dataset: "xarray.Dataset", path: Path, file_format: str) -> None:
    """Writes results in one of [FORMATS], whole or not at all; netCDF keeps all of them."""
    if file_format == "netcdf":
        data = bytes(dataset.to_netcdf(engine="scipy"))
    elif file_format == "csv":
        data = to_table(dataset).to_csv(index=False).encode()
    else:
        try:
            data = to_table(dataset).to_parquet(index=False)
        except ImportError:
            raise ValueError(
                "parquet: pyarrow is not installed; run pip install pyarrow, or choose csv"
            ) from None
    with atomic_write(path) as file:
        file.write(data)
