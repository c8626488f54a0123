"""Reads a section from the folder that `emphatic reproduce` or `emphatic sweep` wrote."""

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..experiments.dataset import Layout
from ..experiments.plan import EXPERIMENT
from ..experiments.shards import read
from ..experiments.store import load_dataset, open_store
from ..figures import Figure, FIGURES
from ..problems import load
from .markup import number, to_columns
from .section import Json, Picture, Section, Tables

QUESTION = "Do the claims about this figure hold on new runs?"
LARGEST = 4_000_000  # bytes of an SVG, above which the PNG is shown instead


def from_folder(folder: str | os.PathLike) -> Section:
    """Reads a section from the folder of a figure or of a sweep.

    Question and problems of a figure follow from the folder's name, if that is one of `FIGURES`; a
    sweep is read from its store, with every case, measure and learner.
    """
    folder = Path(folder)
    if (folder / EXPERIMENT).exists():
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
    figure, attributes = FIGURES.get(name), _attributes(folder)
    title = figure.title if figure else _capitalise(name)
    problems = figure.problems() if figure else {}
    return Section(
        title=title,
        question=f"{QUESTION}\n\n{figure.remark}".strip() if figure else "",
        problems={label: problem for label, (problem, _) in problems.items()},
        certificates={label: each for label, (_, each) in problems.items() if each is not None},
        claims=summary.get("claims", ()),
        tables=_tables(figure, summary),
        pictures=_pictures(folder, title),
        settings=_settings(attributes, summary),
        provenance=describe_provenance(summary.get("provenance", [])),
        command=_command(name, summary.get("settings", {})) if figure else "",
    )


def _attributes(folder: Path) -> dict[str, Json]:
    """The attributes of the results of each experiment, and a description of their axes."""
    found = {}
    for path in sorted((folder / "data").glob("*")):
        if path.suffix == ".safetensors":
            dataset, _ = read(path)
            axes = {"algorithm": dataset.attrs["algorithm"], "runs": dataset.sizes["run"]}
            steps = {"num_steps": int(dataset["steps"][-1]), "variant": dataset.attrs["variant"]}
            found[path.stem] = {**steps, "axes": axes}
        elif (path / EXPERIMENT).exists():
            layout = open_store(path).plan["layout"]
            found[path.name] = {**layout["attributes"], "axes": describe_axes(layout)}
    return found


def describe_axes(layout: Layout) -> dict[str, object]:
    """The cases, learners and values of the grid of an experiment, and how many runs there are."""
    axes = {**layout["cases"], "learner": list(layout["learners"]), **layout["grid"]}
    return {**{name: _abbreviate(axes[name]) for name in axes}, "runs": layout["num_runs"]}


def _abbreviate(values: Sequence[object]) -> str:
    texts = [number(v) if isinstance(v, float) else str(v) for v in values]
    if len(texts) <= 8:
        return ", ".join(texts)
    return f"{texts[0]}, {texts[1]}, …, {texts[-1]} ({len(texts)} values)"


def from_store(folder: Path) -> Section:
    """Reads a section from the store of a sweep, finished or not."""
    store = open_store(folder)
    dataset, plan, selection = load_dataset(store), store.plan, store.selection
    layout, text, measures = plan["layout"], store.text, store.measures
    if "objective" in measures and "objective" in dataset:  # what is chosen by is an error
        others = [axis for axis in dataset["objective"].dims if axis not in layout["cases"]]
        dataset["below_best"] = dataset["objective"].max(others) - dataset["objective"]
        measures[measures.index("objective")] = "below_best"
    points = [
        dict(zip(layout["cases"], values, strict=True))
        for values in itertools.product(*layout["cases"].values())
    ]
    labels = [", ".join(f"{name} {value}" for name, value in point.items()) for point in points]
    comments = itertools.takewhile(lambda line: line[:1] == "#", text.splitlines())
    return Section(
        title=plan["name"],
        question="\n".join(line.lstrip("# ") for line in comments),
        definition=text or json.dumps(plan["definitions"], indent=1),
        problems={label: load(file) for label, file in zip(labels, store.problems, strict=True)},
        datasets=[dataset],
        cases=list(layout["cases"]),
        measures=[name for name in measures if name in dataset],
        rule=selection.by if selection else "area",
        share=selection.runs / layout["num_runs"] if selection and selection.runs else 0.5,
        settings={**describe_axes(layout), **layout["attributes"]},
        provenance=describe_provenance(json.loads(dataset.attrs["provenance"])),
        command=f"emphatic sweep {plan['name']}.toml --out {folder}",
    )


def _tables(figure: Figure | None, summary: Json) -> Tables:
    rows = [_numbers(row) for row in summary["rows"]]
    found = {}
    if figure is not None and rows:
        columns, lines = figure.table(rows)
        lines = [[words.replace("+-", "±") for words in line] for line in lines]
        found[_capitalise(figure.caption)] = columns, lines
    elif rows:
        found["Results"] = to_columns(rows)
    for name in ("exact", "warnings"):
        if summary.get(name):
            found[_capitalise(name)] = to_columns([_numbers(row) for row in summary[name]])
    return found


def _numbers(row: Json) -> dict[str, Any]:
    """A row with infinities as numbers, which are strings in JSON."""
    return {key: float(v) if v in ("inf", "-inf") else v for key, v in row.items()}


def _capitalise(words: str) -> str:
    return words[:1].upper() + words[1:]


def _pictures(folder: Path, title: str) -> list[Picture]:
    """The drawing, as vectors unless these are very many, and the film if there is one."""
    vector, raster, film = (folder / name for name in ("figure.svg", "figure.png", "film.gif"))
    figure = vector if vector.is_file() and vector.stat().st_size <= LARGEST else raster
    words = "An episode at the end of training"
    return [
        Picture(path.read_bytes(), path.suffix[1:], caption, alt)
        for path, caption, alt in ((figure, title, f"The figure: {title}"), (film, words, words))
        if path.is_file()
    ]


def _settings(attributes: Mapping[str, Json], summary: Json) -> dict[str, str]:
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


def describe_provenance(records: Sequence[Json]) -> dict[str, str]:
    """What computed the results, by name; several values where they differ."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        versions = " ".join(f"{name} {value}" for name, value in record["versions"].items())
        for name, value in {**record, "versions": versions}.items():
            found.setdefault(name, {})[str(value or "not known")] = None
    return {name: ", ".join(values) for name, values in found.items()}


def _command(name: str, settings: Json) -> str:
    """The command with the options that differ from their defaults."""
    words = [f"emphatic reproduce {name}"]
    for key, value in settings.items():
        if value is True:
            words.append(f"--{key}")
        elif value is not False and (key, value) not in (("runs", 30), ("seed", 0)):
            listed = value if isinstance(value, list) else [value]
            words += [f"--{key}", *map(str, listed)] if value not in ("auto", "reacher") else []
    return " ".join(words)
