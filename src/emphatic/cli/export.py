"""The command that writes files for others: problems and results."""

import dataclasses
from pathlib import Path

from .._files import output_file
from .output import printable
from .parsing import argument_positions, load_target, parse_path, parse_problem
from .theory import TargetOptions


@dataclasses.dataclass
class ExportOptions(TargetOptions):
    """Write a problem to an .npz file, or the results in a folder as csv, parquet or netCDF.

    For results see emphatic export FOLDER --help."""

    out: Path = Path("problem.npz")
    """The file to write."""


@dataclasses.dataclass
class ExportResultsOptions:
    """Write the results of a sweep, a figure or a training to files for other programs.

    A table has a row for each point of each curve: its coordinates, then what was measured.

    A folder with several experiments gives a file for each of them."""

    csv: bool = False
    """Write a table as text; this is the default."""
    parquet: bool = False
    """Write a table as parquet, which needs pyarrow."""
    netcdf: bool = False
    """Write everything, with its attributes."""
    out: Path | None = None
    """The file to write; else the name of the folder, with .csv, .parquet or .nc."""


def export_command(arguments: list[str]) -> None:
    """Writes a problem or results to files."""
    from ..problems import NAMED

    sources = ExportOptions, ExportResultsOptions, *NAMED.values()
    names = [arguments[position] for position in argument_positions(sources, arguments)[:1]]
    if names and names[0] not in NAMED and Path(names[0]).is_dir():
        _export_results(arguments)
    else:
        _export_problem(arguments)


def _export_problem(arguments: list[str]) -> None:
    problem, options, title = parse_problem("export", ExportOptions, arguments)
    from ..problems import save

    path = output_file(options.out)
    if options.target is not None:
        problem = dataclasses.replace(problem, target=load_target(problem, options.target))
    save(problem, path)
    print(printable(f"{title}: written to {options.out}"))


def _export_results(arguments: list[str]) -> None:
    required = "the folder of a sweep, a figure or a training"
    name, options = parse_path("export", ExportResultsOptions, arguments, "folder", required)
    from ..experiments.export import FORMATS, read_results, write_results

    formats = [file_format for file_format in FORMATS if getattr(options, file_format)] or ["csv"]
    results = read_results(Path(name))
    for file_format in formats:
        suffix = ".nc" if file_format == "netcdf" else f".{file_format}"
        path = options.out or Path(f"{Path(name).resolve().name}{suffix}")
        for experiment, dataset in results.items():
            file = path.with_stem(f"{path.stem}-{experiment}") if experiment else path
            file = file if len(formats) == 1 else file.with_suffix(suffix)
            write_results(dataset, output_file(file), file_format)
            print(printable(f"{name}: written to {file}"))
