"""The contents of a report: sections, each with one question and its answer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TYPE_CHECKING

from .._validation import unknown
from ..certify.certificate import Certificate
from ..experiments.dataset import measure_names
from ..mdp import Problem

if TYPE_CHECKING:
    import xarray

Json = Mapping[str, Any]
"""A claim or its evidence, as `summary.json` holds it."""

Tables = Mapping[str, tuple[Sequence[str], Sequence[Sequence[object]]]]
"""The columns and rows of tables, by caption."""


@dataclass(frozen=True)
class Picture:
    """A picture: the bytes of a file, its kind (`svg`, `png` or `gif`), caption and alt text."""

    data: bytes
    kind: str
    caption: str
    alt: str

    def __post_init__(self):
        _check_choice("kind", self.kind, ("svg", "png", "gif"))


@dataclass(frozen=True)
class Section:
    """One question and its answer; whatever is empty is left out.

    **Arguments:**

    - `question`: The question in words; an empty line begins a paragraph.
    - `definition`: The same as data, such as the text of a TOML file.
    - `problems`: The problems by label. Their exact quantities and certificates are shown.
    - `certificates`: Certificates by the same labels, where the settings of learners make them
      sharper than `certify(problem)`.
    - `datasets`: Results in the schema of [run]: the cases, learner, the axes of the grid,
      run and time as dimensions, the measures and `diverged` as variables. Several datasets may
      have different learners, grids and cases.
    - `cases`: Which dimensions are cases; those that remain are the grid to choose from.
    - `measures`: Which variables to show; by default all.
    - `statistic`: The statistic over runs: `mean`, `median` or `iqm`.
    - `rule`: The error by which hyper-parameters are chosen: `final` or `area`.
    - `share`: The share of the runs, from the first, on which to choose; the others are reported.
    - `thresholds`: For measures, the error to reach, whose time is reported; by default half of the
      median error in the first window.
    - `claims`: Statements as in `summary.json`: `claim`, `holds`, and `evidence` with `test`,
      `held` and `cases`.
    - `tables`: By caption, the columns and the rows of a table.
    - `settings`, `provenance`: By name, the settings of the runs, and what computed them.
    - `command`: The command that repeats the runs.
    """

    title: str
    question: str = ""
    definition: str = ""
    problems: Mapping[str, Problem] = field(default_factory=dict)
    certificates: Mapping[str, Certificate] = field(default_factory=dict)
    datasets: Sequence["xarray.Dataset"] = ()
    cases: Sequence[str] = ()
    measures: Sequence[str] = ()
    statistic: str = "mean"
    rule: str = "final"
    share: float = 0.5
    thresholds: Mapping[str, float] = field(default_factory=dict)
    claims: Sequence[Json] = ()
    tables: Tables = field(default_factory=dict)
    pictures: Sequence[Picture] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    command: str = ""

    def __post_init__(self):
        if not self.title.strip():
            raise ValueError("title: got nothing; a section needs a title")
        _check_choice("statistic", self.statistic, ("mean", "median", "iqm"))
        _check_choice("rule", self.rule, ("final", "area"))
        for label in self.certificates:
            _check_choice("certificates", label, self.problems)
        for dataset in self.datasets:
            self._check_dataset(dataset)

    def _check_dataset(self, dataset: "xarray.Dataset") -> None:
        if "diverged" not in dataset:
            raise ValueError(
                f"datasets: no variable 'diverged' among {', '.join(map(str, dataset))}; results "
                "of experiment.run are required"
            )
        dimensions = [str(name) for name in dataset["diverged"].dims]
        for name in ("learner", "run", "time", *self.cases):
            if name not in dimensions:
                raise ValueError(
                    f"datasets: 'diverged' has the dimensions {', '.join(dimensions)}; {name} is "
                    "required"
                )
        measures = measure_names(dataset)
        if not measures:
            raise ValueError("datasets: no measure over learner, run and time; one is required")
        for name in (*self.measures, *self.thresholds):
            if all(name not in measure_names(results) for results in self.datasets):
                raise unknown("measures", name, measures)


def _check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        raise unknown(name, value, choices)
