"""A section from the folder that `emphatic reproduce` leaves."""

import json
import os
from pathlib import Path
from typing import Any, TYPE_CHECKING

import numpy as np

from ..certify import Certificate
from ..figures import FIGURES
from ..mdp import Problem
from .markup import number
from .section import Picture, Section

if TYPE_CHECKING:
    import xarray

LARGEST = 4_000_000  # bytes of a drawing in vectors, above which its picture is taken


def from_folder(folder: str | os.PathLike) -> Section:
    """A section from a figure's folder alone: its `summary.json`, its drawing and its data.

    The folder's name is the figure's, from `FIGURES`, as `emphatic reproduce` writes it: what was
    asked and the problems follow from it. Another name is a figure of which only the files are
    known.

    **Arguments:**

    - `folder`: The folder that has the `summary.json`.
    """
    folder = Path(folder)
    path = folder / "summary.json"
    try:
        summary = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"folder: {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"folder: {path} is not JSON: {error}") from None
    if not isinstance(summary, dict) or not isinstance(summary.get("rows"), list):
        raise ValueError(f"folder: {path} has no list 'rows'; a summary of a figure is required")
    name = folder.resolve().name
    module, attributes = FIGURES.get(name), _attributes(folder)
    asked = (module.__doc__ or "").strip() if module else ""
    title = asked.partition("\n")[0].rstrip(".") or name
    asked_of = _problems(module)
    return Section(
        title=title[0].upper() + title[1:],
        asked=_asked(module),
        problems={label: problem for label, (problem, _) in asked_of.items()},
        certificates={label: each for label, (_, each) in asked_of.items() if each is not None},
        claims=summary.get("claims", ()),
        tables=_tables(module, summary),
        pictures=_pictures(folder, title),
        settings=_settings(attributes),
        provenance=_provenance(attributes, summary),
        command=_command(name, attributes) if module else "",
    )


def _asked(module: Any) -> str:
    if module is None:
        return ""
    words = "Do the statements about this figure hold, on runs made anew?"
    if hasattr(module, "certified"):
        words += "\n\nExact quantities are those of the policies from which actors start."
    return words


def _attributes(folder: Path) -> dict[str, dict[str, Any]]:
    """By experiment, what its dataset says about itself."""
    import xarray

    found = {}
    for path in sorted((folder / "data").glob("*.nc")):
        with xarray.open_dataset(path, engine="scipy") as dataset:
            found[path.stem] = {**dataset.attrs, "axes": _axes(dataset)}
    return found


def _axes(dataset: "xarray.Dataset") -> dict[str, Any]:
    """The dimensions of the results in words, and how many runs and windows there are."""
    found: dict[str, Any] = {}
    for name in dataset["diverged"].dims if "diverged" in dataset else dataset.dims:
        values = dataset[name].values if name in dataset.coords else np.arange(dataset.sizes[name])
        if name in ("run", "time"):
            found[f"{name}s" if name == "run" else "windows"] = len(values)
        else:
            words = [number(v) if values.dtype.kind == "f" else str(v) for v in values.tolist()]
            found[str(name)] = _listed(words)
    return found


def _listed(words: list[str]) -> str:
    if len(words) <= 8:
        return ", ".join(words)
    return f"{words[0]}, {words[1]}, …, {words[-1]} ({len(words)} values)"


def _problems(module: Any) -> dict[str, tuple[Problem, Certificate | None]]:
    """The problems of a figure, each once, with certificates where the figure has its own."""
    if hasattr(module, "certified"):
        return module.certified()
    found: dict[str, tuple[Problem, Certificate | None]] = {}
    for each in getattr(module, "EXPERIMENTS", ()):
        for point in each.points():
            words = ", ".join(f"{name} {value}" for name, value in point.items())
            found.setdefault(words or each.name, (each.build(**point), None))
    return found


def _tables(module: Any, summary: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    rows = [_numbers(row) for row in summary["rows"]]
    found: dict[str, tuple[Any, Any]] = {}
    if module is not None and rows:
        columns, lines = module.table(rows)
        lines = [[words.replace("+-", "±") for words in line] for line in lines]
        found[_capital(module.TITLE)] = columns, lines
    elif rows:
        found["Results"] = _columns(rows)
    for name in ("exact", "warnings"):
        if summary.get(name):
            found[_capital(name)] = _columns([_numbers(row) for row in summary[name]])
    return found


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its infinities as numbers, which JSON has as words."""
    words = {"inf": np.inf, "-inf": -np.inf}
    return {
        key: words.get(value, value) if isinstance(value, str) else value
        for key, value in row.items()
    }


def _columns(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [name.replace("_", " ") for name in names], [
        [row.get(name) for name in names] for row in rows
    ]


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _pictures(folder: Path, title: str) -> list[Picture]:
    """The drawing, as vectors unless these are very many, and the film if there is one."""
    found = []
    vector, raster, film = (folder / name for name in ("figure.svg", "figure.png", "film.gif"))
    if vector.is_file() and vector.stat().st_size <= LARGEST:
        found.append(Picture(vector.read_bytes(), "svg", title, f"The figure: {title}"))
    elif raster.is_file():
        found.append(Picture(raster.read_bytes(), "png", title, f"The figure: {title}"))
    if film.is_file():
        words = "An episode at the end of training"
        found.append(Picture(film.read_bytes(), "gif", words, words))
    return found


def _settings(attributes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found = {}
    for name, each in attributes.items():
        words = [f"{axis.replace('_', ' ')} {value}" for axis, value in each["axes"].items()]
        words += [
            f"{key.replace('_', ' ')} {each[key]}"
            for key in ("num_steps", "record_every", "dtype", "variant")
            if key in each
        ]
        found[name] = "; ".join(words)
    return found


def _provenance(attributes: dict[str, dict[str, Any]], summary: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("versions", "seed", "commit", "device"):
        values = {str(each[name]) for each in attributes.values() if name in each}
        if values:
            found[name] = ", ".join(sorted(values))
    if summary.get("engines"):
        found["engines"] = {name: "/".join(each) for name, each in summary["engines"].items()}
    return found


def _command(name: str, attributes: dict[str, dict[str, Any]]) -> str:
    """The command as far as the data tell it."""
    words = [f"emphatic reproduce {name}"]
    each = next(iter(attributes.values()), {})
    if "runs" in each.get("axes", {}):
        words.append(f"--runs {max(a['axes'].get('runs', 1) for a in attributes.values())}")
    if "seed" in each:
        words.append(f"--seed {each['seed']}")
    steps = {int(a["num_steps"]) for a in attributes.values() if "num_steps" in a}
    if len(steps) == 1:
        words.append(f"--steps {steps.pop()}")
    if each.get("variant") == "authors":
        words.append("--authors")
    return " ".join(words)
