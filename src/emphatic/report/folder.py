"""A section from the folder that `emphatic reproduce` or `emphatic sweep` leaves."""

import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from .. import store
from ..certify import Certificate
from ..figures import FIGURES
from ..mdp import Problem
from ..problems import load
from .markup import number
from .section import Picture, Section

LARGEST = 4_000_000  # bytes of a drawing in vectors, above which its picture is taken


def from_folder(folder: str | os.PathLike) -> Section:
    """A section from a folder alone: of a figure, or of a sweep.

    A figure has its `summary.json`, its drawing and its data.

    The folder's name is the figure's, from `FIGURES`, as `emphatic reproduce` writes it: what was
    asked and the problems follow from it. Another name is a figure of which only the files are
    known. A sweep is told from its store: every case, measure and learner.

    **Arguments:**

    - `folder`: The folder of a figure or of a sweep.
    """
    folder = Path(folder)
    if (folder / store.EXPERIMENT).exists():
        return from_store(folder)
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
        settings=_settings(attributes, summary),
        provenance=origins(summary.get("provenance", [])),
        command=_command(name, summary.get("settings", {})) if module else "",
    )


def _asked(module: Any) -> str:
    if module is None:
        return ""
    words = "Do the statements about this figure hold, on runs made anew?"
    if hasattr(module, "certified"):
        words += "\n\nExact quantities are those of the policies from which actors start."
    return words


def _attributes(folder: Path) -> dict[str, dict[str, Any]]:
    """By experiment, what its results say about themselves, and their axes in words."""
    found = {}
    for path in sorted((folder / "data").glob("*")):
        if path.suffix == ".safetensors":
            dataset, _ = store.read(path)
            axes = {"algorithm": dataset.attrs["algorithm"], "runs": dataset.sizes["run"]}
            steps = {"num_steps": int(dataset["steps"][-1]), "variant": dataset.attrs["variant"]}
            found[path.stem] = {**steps, "axes": axes}
        elif (path / store.EXPERIMENT).exists():
            layout = store.opened(path).plan["layout"]
            found[path.name] = {**layout["attributes"], "axes": axes_in_words(layout)}
    return found


def axes_in_words(layout: dict[str, Any]) -> dict[str, Any]:
    """The cases, learners and values of the grid of an experiment, and how many runs there are."""
    found: dict[str, Any] = {}
    for name, values in {
        **layout["cases"],
        "learner": layout["learners"],
        **layout["grid"],
    }.items():
        found[name] = _listed([number(v) if isinstance(v, float) else str(v) for v in values])
    return {**found, "runs": layout["num_runs"]}


def _listed(words: list[str]) -> str:
    if len(words) <= 8:
        return ", ".join(words)
    return f"{words[0]}, {words[1]}, …, {words[-1]} ({len(words)} values)"


def from_store(folder: Path) -> Section:
    """A section from the store of a sweep, finished or not."""
    opened, dataset = store.opened(folder), store.load(folder)
    plan, about = opened.plan, opened.plan["about"]
    layout, choice = plan["layout"], about.get("selection", {})
    measures = list(about.get("measures", ()))
    if "objective" in measures and "objective" in dataset:  # what is chosen by is an error
        others = [axis for axis in dataset["objective"].dims if axis not in layout["cases"]]
        dataset["below_best"] = dataset["objective"].max(others) - dataset["objective"]
        measures[measures.index("objective")] = "below_best"
    points = [
        dict(zip(layout["cases"], values, strict=True))
        for values in itertools.product(*layout["cases"].values())
    ]
    labels = [", ".join(f"{name} {value}" for name, value in point.items()) for point in points]
    files = [folder / store.PROBLEMS / f"{each}.npz" for each in plan["problems"]]
    comments = itertools.takewhile(lambda line: line[:1] == "#", about.get("text", "").splitlines())
    return Section(
        title=plan["name"],
        asked="\n".join(line.lstrip("# ") for line in comments),
        definition=about.get("text", "") or json.dumps(plan["definitions"], indent=1),
        problems={label: load(file) for label, file in zip(labels, files, strict=True)},
        datasets=[dataset],
        cases=list(layout["cases"]),
        measures=[name for name in measures if name in dataset],
        rule=choice.get("by", "area"),
        share=choice["runs"] / layout["num_runs"] if choice.get("runs") else 0.5,
        settings={**axes_in_words(layout), **layout["attributes"]},
        provenance=origins(json.loads(dataset.attrs["provenance"])),
        command=f"emphatic sweep {plan['name']}.toml --out {folder}",
    )


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


def _settings(attributes: dict[str, dict[str, Any]], summary: dict[str, Any]) -> dict[str, Any]:
    found = {name: str(value) for name, value in summary.get("settings", {}).items()}
    for name, each in attributes.items():
        words = [f"{axis.replace('_', ' ')} {value}" for axis, value in each["axes"].items()]
        words += [
            f"{key.replace('_', ' ')} {each[key]}"
            for key in ("num_steps", "record_every", "dtype", "variant")
            if key in each
        ]
        found[name] = "; ".join(words)
    return found


def origins(every: list[dict[str, Any]]) -> dict[str, str]:
    """What computed the results, by name; several values where they differ."""
    found: dict[str, dict[str, None]] = {}
    for each in every:
        versions = " ".join(f"{name} {value}" for name, value in each["versions"].items())
        for name, value in {**each, "versions": versions}.items():
            found.setdefault(name, {})[str(value or "not known")] = None
    return {name: ", ".join(values) for name, values in found.items()}


def _command(name: str, settings: dict[str, Any]) -> str:
    """The command with the options that differ from their defaults."""
    words = [f"emphatic reproduce {name}"]
    for key, value in settings.items():
        if value is True:
            words.append(f"--{key}")
        elif value is not False and (key, value) not in (("runs", 30), ("seed", 0)):
            listed = value if isinstance(value, list) else [value]
            words += [f"--{key}", *map(str, listed)] if value not in ("auto", "reacher") else []
    return " ".join(words)
