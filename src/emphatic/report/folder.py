"""Reads a section from the folder that `emphatic reproduce`, `sweep` or `train` wrote."""

import itertools
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from ..experiments.curves import read_curves
from ..experiments.dataset import Layout
from ..experiments.experiment import Selection
from ..experiments.plan import EXPERIMENT
from ..experiments.store import load_dataset, open_store, Store
from ..figures import Figure, FIGURES, verdicts
from ..figures.reproduction import read_summary
from .markup import format_number, to_columns
from .section import Json, Picture, Section, Tables
from .training import from_training, PLAN, POLICIES

QUESTION = "Do the claims about this figure hold on new runs?"
MAX_SVG_BYTES = 4_000_000  # of a larger drawing the PNG is shown


def from_folder(folder: str | os.PathLike) -> Section:
    """Reads a section from the folder of a figure, of a sweep or of a training.

    The question and problems of a figure are those of the folder's name in `FIGURES`, if it is
    there; a sweep is read from its store, with every case, measure and learner.
    """
    folder = Path(folder)
    if not folder.exists():
        raise ValueError(f"folder: {folder} does not exist")
    if (folder / EXPERIMENT).exists():
        return from_store(folder)
    if any((folder / name).exists() for name in (PLAN, POLICIES)):
        return from_training(folder)
    name = folder.resolve().name
    figure = FIGURES.get(name)
    summary, attributes = read_summary(folder, figure), _attributes(folder)
    title = figure.title if figure else _capitalise(name)
    problems = figure.problems() if figure else {}
    texts = [QUESTION, figure.remark, verdicts.length_note(summary)] if figure else []
    return Section(
        title=title,
        question="\n\n".join(filter(None, texts)),
        problems={label: problem for label, (problem, _) in problems.items()},
        certificates={
            label: certificate
            for label, (_, certificate) in problems.items()
            if certificate is not None
        },
        claims=summary.get("claims", ()),
        tables=_tables(figure, summary),
        pictures=_pictures(folder, title),
        settings=_settings(attributes, summary),
        provenance=describe_provenance(summary.get("provenance", [])),
        command=_command(name, summary.get("settings", {})) if figure else "",
    )


def _attributes(folder: Path) -> dict[str, Json]:
    """Reads the attributes of the results of each experiment, and describes their axes."""
    attributes = {}
    for path in sorted((folder / "data").glob("*")):
        if path.suffix == ".safetensors":
            dataset = read_curves(path)
            axes = {"algorithm": dataset.attrs["algorithm"], "runs": dataset.sizes["run"]}
            settings = {"num_steps": int(dataset["steps"][-1]), "axes": axes}
            attributes[path.stem] = {**settings, "variant": dataset.attrs.get("variant", "ours")}
        elif (path / EXPERIMENT).exists():
            layout = open_store(path).plan["layout"]
            attributes[path.name] = {**layout["attributes"], "axes": describe_axes(layout)}
    return attributes


def describe_axes(layout: Layout) -> dict[str, object]:
    """Describes the cases, learners, grid and number of runs of an experiment."""
    axes = {**layout["cases"], "learner": list(layout["learners"]), **layout["grid"]}
    return {**{name: _abbreviate(axes[name]) for name in axes}, "runs": layout["num_runs"]}


def _abbreviate(values: Sequence[object]) -> str:
    texts = [format_number(v) if isinstance(v, float) else str(v) for v in values]
    if len(texts) <= 8:
        return ", ".join(texts)
    return f"{texts[0]}, {texts[1]}, …, {texts[-1]} ({len(texts)} values)"


def from_store(folder: Path) -> Section:
    """Reads a section from the store of a sweep, finished or not."""
    store = open_store(folder)
    dataset, plan, selection = load_dataset(store), store.plan, store.selection
    layout, text, measures = plan["layout"], store.text, store.measures
    if "objective" in measures and "objective" in dataset:  # choices need an error
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
        problems=dict(zip(labels, store.load_problems(), strict=True)),
        datasets=[dataset],
        cases=list(layout["cases"]),
        measures=[name for name in measures if name in dataset],
        rule=selection.by if selection else "area",
        share=_selection_share(selection, layout["num_runs"]),
        settings={**describe_axes(layout), **layout["attributes"]},
        provenance=describe_provenance(json.loads(dataset.attrs["provenance"])),
        command=str(plan["about"].get("command") or _sweep_command(store, folder)),
    )


def _sweep_command(store: Store, folder: Path) -> str:
    out = str(folder).removesuffix("-quick") if "--quick" in store.options else str(folder)
    file = shlex.join(["emphatic", "sweep", f"{store.plan['name']}.toml"])
    return f"{file}{store.options} {shlex.join(['--out', out])}"


def _selection_share(selection: Selection | None, num_runs: int) -> float:
    """The share of runs to choose on: half if the file has no number, or one that leaves none."""
    num_selecting = selection.runs if selection else 0
    return num_selecting / num_runs if 0 < num_selecting < num_runs else 0.5


def _tables(figure: Figure | None, summary: Json) -> Tables:
    schema = figure.row if figure else None
    rows = [_parse_infinities(row, schema) for row in summary["rows"]]
    tables = {}
    if figure is not None and rows:
        columns, lines = figure.table(rows)
        lines = [[cell.replace("+-", "±") for cell in line] for line in lines]
        tables[_capitalise(figure.caption)] = columns, lines
    elif rows:
        tables["Results"] = to_columns(rows)
    for name in ("exact", "warnings"):
        if summary.get(name):
            tables[_capitalise(name)] = to_columns(list(map(_parse_infinities, summary[name])))
    return tables


def _parse_infinities(row: Json, schema: type | None = None) -> dict[str, Any]:
    """Converts infinities, which are strings in JSON, to numbers, unless a text is required."""
    hints = {} if schema is None else get_type_hints(schema)
    texts = {key for key, hint in hints.items() if hint is str}
    is_number = {key: v in ("inf", "-inf") and key not in texts for key, v in row.items()}
    return {key: float(v) if is_number[key] else v for key, v in row.items()}


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _pictures(folder: Path, title: str) -> list[Picture]:
    """Reads the drawing, as vectors unless they are too large, and the film if there is one."""
    vector, raster, film = (folder / name for name in ("figure.svg", "figure.png", "film.gif"))
    figure = vector if vector.is_file() and vector.stat().st_size <= MAX_SVG_BYTES else raster
    episode = "An episode at the end of training"
    return [
        Picture(path.read_bytes(), path.suffix[1:], caption, alt)
        for path, caption, alt in (
            (figure, title, f"The figure: {title}"),
            (film, episode, episode),
        )
        if path.is_file()
    ]


def _settings(attributes: Mapping[str, Json], summary: Json) -> dict[str, str]:
    settings = {name: str(value) for name, value in summary.get("settings", {}).items()}
    for name, values in attributes.items():
        entries = [f"{axis.replace('_', ' ')} {value}" for axis, value in values["axes"].items()]
        entries += [
            f"{key.replace('_', ' ')} {values[key]}"
            for key in ("num_steps", "record_every", "dtype", "variant")
            if key in values
        ]
        settings[name] = "; ".join(entries)
    return settings


def describe_provenance(records: Sequence[Json]) -> dict[str, str]:
    """Describes what computed the results, by name; several values where they differ."""
    provenance: dict[str, dict[str, None]] = {}
    for record in records:
        versions = " ".join(f"{name} {value}" for name, value in record["versions"].items())
        for name, value in {**record, "versions": versions}.items():
            provenance.setdefault(name, {})[str(value or "not known")] = None
    return {name: ", ".join(values) for name, values in provenance.items()}


def _command(name: str, settings: Json) -> str:
    """The command with the options that differ from their defaults."""
    arguments = ["emphatic", "reproduce", name]
    for key, value in settings.items():
        if value is True:
            arguments.append(f"--{key}")
        elif value is not False and (key, value) not in (("runs", 30), ("seed", 0)):
            values = value if isinstance(value, list) else [value]
            arguments += [f"--{key}", *map(str, values)] if value not in ("auto", "reacher") else []
    return shlex.join(arguments)
