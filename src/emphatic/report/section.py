"""What a report tells about one question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TYPE_CHECKING

from .._names import unknown
from ..certify import Certificate
from ..mdp import Problem

if TYPE_CHECKING:
    import xarray

KINDS = ("svg", "png", "gif")
STATISTICS = ("mean", "median", "iqm")
RULES = ("final", "area")


@dataclass(frozen=True)
class Picture:
    """A drawing that exists already.

    **Arguments:**

    - `data`: The file's bytes.
    - `kind`: `svg`, `png` or `gif`.
    - `caption`: What stands below it.
    - `alt`: What it shows, for those who do not see it.
    """

    data: bytes
    kind: str
    caption: str
    alt: str

    def __post_init__(self):
        _one_of("kind", self.kind, KINDS)


@dataclass(frozen=True)
class Section:
    """One question and its answer; whatever is not given is left out.

    **Arguments:**

    - `title`: What it is called.
    - `asked`: What was asked, in words; an empty line begins a paragraph.
    - `definition`: The same as data, such as the text of a TOML file.
    - `problems`: The problems by label. Their exact quantities and certificates are shown.
    - `certificates`: Certificates by the same labels, where the settings of learners make them
      sharper than `certify(problem)`.
    - `datasets`: Results in the schema of [run]: the cases, learner, the axes of the grid,
      run and time as dimensions, the measures and `diverged` as variables. Several datasets may
      have different learners, grids and cases.
    - `cases`: Which dimensions are cases; those that remain are the grid to choose from.
    - `measures`: Which variables to show; by default all.
    - `statistic`: What stands for many runs: `mean`, `median` or `iqm`.
    - `rule`: What hyper-parameters are chosen by: `final` or `area`.
    - `share`: How many of the runs choose, the first ones; the others are reported.
    - `thresholds`: For measures, the error at which time stops; by default half of the error in the
      first window.
    - `claims`: Statements as in `summary.json`: `claim`, `holds`, and `evidence` with `test`,
      `held` and `cases`.
    - `tables`: By caption, the columns and the rows of a table.
    - `pictures`: Drawings.
    - `settings`: How it was run, by name.
    - `provenance`: Where it comes from, by name: versions, commit, engine, device, seed.
    - `command`: What to type to run it again.
    """

    title: str
    asked: str = ""
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
    claims: Sequence[Mapping[str, Any]] = ()
    tables: Mapping[str, tuple[Sequence[Any], Sequence[Sequence[Any]]]] = field(
        default_factory=dict
    )
    pictures: Sequence[Picture] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""

    def __post_init__(self):
        if not self.title.strip():
            raise ValueError("title: got nothing; a section needs a title")
        _one_of("statistic", self.statistic, STATISTICS)
        _one_of("rule", self.rule, RULES)
        for label in self.certificates:
            if label not in self.problems:
                raise unknown("certificates", label, self.problems)
        for dataset in self.datasets:
            self._check(dataset)

    def _check(self, dataset: "xarray.Dataset") -> None:
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
        known = measures_of(dataset)
        if not known:
            raise ValueError("datasets: no measure over learner, run and time; one is required")
        for name in (*self.measures, *self.thresholds):
            if all(name not in measures_of(each) for each in self.datasets):
                raise unknown("measures", name, known)


def measures_of(dataset: "xarray.Dataset") -> list[str]:
    """The variables that are measures: numbers for every learner, run and time."""
    dimensions = set(dataset["diverged"].dims)
    return [
        str(name)
        for name, each in dataset.data_vars.items()
        if each.dtype.kind == "f" and {"learner", "run", "time"} <= set(each.dims) <= dimensions
    ]


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise unknown(name, value, known)
