"""The results of a section: curves, choices, comparisons, and sensitivity over the grid."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from ..statistics import Interval
from . import chart, scale
from .analysis import analyse, Case, FACTOR, learner_names, LearnerResults, pool_cases
from .markup import count, details, Html, join, number, records, table, tag
from .section import Section

MOST_PAIRS = 10  # that are not folded
NAMES = {"mean": "mean", "median": "median", "iqm": "interquartile mean"}
RULES = {"final": "error of the last window", "area": "area under the curve"}


def show(key: str, section: Section) -> Html:
    """Returns every case of every measure with its charts and tables."""
    cases = analyse(section)
    learners = learner_names(cases)
    parts = [_notes(section, cases)]
    for row, (measure, group) in enumerate(itertools.groupby(cases, lambda case: case.measure)):
        group = list(group)
        if len(group) > 1:
            parts.append(_pooled_table(measure, group))
        for index, case in enumerate(group):
            parts.append(_case(f"{key}-m{row}-{index}", section, case, learners))
    return join(parts)


def _notes(section: Section, cases: Sequence[Case]) -> Html:
    """How to read the numbers: which runs chose, and what an infinite error is."""
    each = next((each for case in cases for each in case.learners), None)
    words = []
    if each is not None:
        runs = f"{each.num_runs} runs"
        if each.num_selecting:
            words.append(
                f"Hyper-parameters were chosen for each learner and case by the mean "
                f"{RULES[section.rule]} of {each.num_selecting} runs; everything shown is from "
                f"{runs} that had no part in the choice."
            )
        elif any(each.point for case in cases for each in case.learners):
            words.append("Hyper-parameters were chosen and judged on the same single run.")
        else:
            words.append(f"There were no hyper-parameters to choose; shown are all {runs}.")
        words.append(
            f"Lines and errors are the {NAMES[section.statistic]} over runs, bands and brackets "
            "95 % bootstrap intervals. A run that diverged has an infinite error and is never left "
            "out: a line ends with a cross where it becomes infinite."
        )
        kept = len(scale.thin(each.num_windows))
        if kept < each.num_windows:
            words.append(f"Of {each.num_windows} windows, curves show {kept}.")
    if any(dataset.attrs.get("interrupted") for dataset in section.datasets):
        words.append("The run was interrupted: what was not computed is not shown.")
    return tag("p", " ".join(words), class_="note")


def _words(measure: str) -> str:
    return measure.replace("_", " ") if "_" in measure else measure.upper()


def _case(key: str, section: Section, case: Case, learners: Sequence[str]) -> Html:
    """A card: legend and switches, charts, choices, comparisons."""
    numbers = {name: place for place, name in enumerate(learners)}
    charts = [_curves(section, case, numbers), *_panels(section, case, numbers)]
    title = f"{case.label}: {_words(case.measure)}" if case.place else _words(case.measure)
    drawn = [
        tag("figure", chart.draw(each, f"{key}-c{place}"), tag("figcaption", each.title))
        for place, each in enumerate(charts)
    ]
    parts = [
        tag("h4", title),
        _controls(key, case, numbers, charts),
        _in_short(section, case),
        chart.side_by_side(drawn),
        _choices(section, case),
    ]
    if case.comparisons:
        parts.append(_comparisons(section, case))
    if case.not_run:
        parts.append(tag("p", f"Not run: {', '.join(case.not_run)}.", class_="note"))
    return tag("article", *parts, class_="card", id=key)


def _in_short(section: Section, case: Case) -> Html | None:
    """Who is best, and against whom that is decided."""
    if len(case.learners) < 2:
        return None
    ends = {each.name: getattr(each, section.rule) for each in case.learners}
    best = min(ends, key=lambda name: float(ends[name].value))
    if np.isinf(ends[best].value):
        return tag("p", "No learner has a finite error: runs of all diverged.", class_="short")
    value, low, high = (number(float(v)) for v in vars(ends[best]).values())
    beaten = [each.second for each in case.comparisons if each.first == best and each.decided]
    rest = [name for name in ends if name not in (best, *beaten)]
    words = [f" has the smallest {RULES[section.rule]}, {value} [{low}, {high}]"]
    if beaten:
        words.append(f"; decided against {', '.join(beaten)}")
    if rest:
        words.append(f"; not decided against {', '.join(rest)}")
    return tag("p", tag("b", best), *words, ".", class_="short")


def _controls(key: str, case: Case, numbers: dict[str, int], charts: Sequence[scale.Chart]) -> Html:
    """The legend, whose boxes show and hide learners, and the switch of scales."""
    boxes, radios = [], []
    for each in case.learners:
        index, share = numbers[each.name], f"{each.diverged} of {each.num_runs} diverged"
        names = {"class_": f"t{index}", "data_learner": each.name}
        box = tag("input", type="checkbox", checked=True, **names)
        lost = tag("span", share, class_="lost") if each.diverged else None
        boxes.append(tag("label", box, chart.swatch(index), tag("span", each.name), lost))
    parts = [tag("div", *boxes, class_="legend", role="group", aria_label="Learners")]
    if any(map(scale.can_be_log, charts)):
        first = "log" if scale.prefers_log(charts[0]) else "lin"
        for value, words in (("lin", "linear"), ("log", "log")):
            state = {"checked": value == first, "class_": f"scale-{value}"}
            radio = tag("input", type="radio", name=f"{key}-scale", value=value, **state)
            radios.append(tag("label", radio, tag("span", words)))
        parts.append(tag("div", *radios, class_="switch", role="group", aria_label="Scale"))
    return tag("div", *parts, class_="controls")


# Figures


def _curves(section: Section, case: Case, numbers: dict[str, int]) -> scale.Chart:
    times = np.unique(np.concatenate([each.times for each in case.learners] or [np.zeros(1)]))
    series = []
    for each in case.learners:
        spread = (_align(times, each.times, values) for values in vars(each.curve).values())
        series.append(scale.Series(each.name, numbers[each.name], Interval(*spread)))
    title = f"Learning curves: {_words(case.measure)}, {NAMES[section.statistic]} over runs"
    return scale.Chart(title, times, "steps", _words(case.measure), "linear", series)


def _align(values: np.ndarray, own: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Numbers at a learner's own places among those of all."""
    found = np.full(len(values), np.nan)
    found[np.searchsorted(values, own)] = numbers
    return found


def _panels(section: Section, case: Case, numbers: dict[str, int]) -> list[scale.Chart]:
    axes = dict.fromkeys(axis for each in case.learners for axis in each.panels)
    found = []
    for axis in axes:
        known = [each.panels[axis].values for each in case.learners if axis in each.panels]
        x = np.unique(np.concatenate(known))
        if len(x) < 2:
            continue
        series = [_over(axis, x, each, numbers[each.name]) for each in case.learners]
        kind = "ordinal"
        if x.dtype.kind in "iuf" and x.min() > 0:
            kind = "log" if x.max() >= 8 * x.min() else "linear"
        words = axis.replace("_", " ")
        others = "" if len(axes) == 1 else ", the rest at its best"
        rule = "final error" if section.rule == "final" else "area"
        title = f"Sensitivity: {rule} for every {words}{others}"
        label = f"{_words(case.measure)}, {section.rule}"
        found.append(scale.Chart(title, x, words, label, kind, series, marks=True))
    return found


def _over(axis: str, x: np.ndarray, each: LearnerResults, place: int) -> scale.Series:
    """A learner's errors along an axis; level where it does not have the axis."""
    if axis not in each.panels:
        flat = Interval(*(np.full(len(x), float(v)) for v in vars(each.final).values()))
        lost = f"{each.diverged} of {each.num_runs} runs diverged"
        rates = np.full(len(x), each.diverged / each.num_runs)
        return scale.Series(each.name, place, flat, [lost] * len(x), rates)
    panel = each.panels[axis]
    ends = vars(panel.errors).values()
    errors = Interval(*(_align(x, panel.values, values) for values in ends))
    bad = _align(x, panel.values, panel.diverged)
    notes = [
        "not in its grid" if np.isnan(k) else f"{k:.0f} of {panel.num_runs} runs diverged"
        for k in bad
    ]
    return scale.Series(each.name, place, errors, notes, bad / panel.num_runs)


# Tables


def bracket(interval: Interval, write: Callable[[float], str] = number) -> Html:
    """A number, and below it its interval."""
    value, low, high = (write(float(v)) for v in vars(interval).values())
    words = f"[{low}, {high}]"
    if np.isneginf(interval.low) and np.isposinf(interval.high):
        words = "not bounded"
    elif low == value == high:
        words = "in all resamples" if write is number else ""
    return join((value, tag("small", words) if words else None))


def _choices(section: Section, case: Case) -> Html:
    columns = [
        "learner",
        "chosen",
        f"final {NAMES[section.statistic]}",
        "area",
        f"median steps to {number(case.threshold, 3)}",
        "diverged",
        f"grid within {FACTOR:g}×",
        "selection bias",
    ]
    rows = []
    for each in case.learners:
        chosen = [
            f"{axis.replace('_', ' ')} {number(v) if isinstance(v, float) else v}"
            + (" (edge)" if axis in each.at_edge else "")
            for axis, v in each.point.items()
        ]
        share, bias = "–", "–"
        if each.sensitivity is not None:
            share = join((f"{100 * each.sensitivity:.0f} %", tag("small", f"of {each.num_points}")))
        both_infinite = np.isinf(each.selecting).any() and np.isinf(each.errors).any()
        if each.selection_bias is not None and not both_infinite:
            bias = number(each.selection_bias, 3)
        rates = tag("small", f"[{100 * each.rate.low:.0f}, {100 * each.rate.high:.0f}] %")
        rows.append(
            [
                each.name,
                join(tag("div", each) for each in chosen) or "nothing to choose",
                bracket(each.final),
                bracket(each.area),
                bracket(each.time, count),
                join((f"{each.diverged} of {each.num_runs}", rates)),
                share,
                bias,
            ]
        )
    return table(columns, rows, "What was chosen, and what the independent runs say of it", left=2)


def _comparisons(section: Section, case: Case) -> Html:
    rows = [
        {
            "smaller": each.first,
            "than": each.second,
            f"difference of {NAMES[section.statistic]}s": bracket(each.difference),
            "runs won": f"{each.wins} of {each.runs}",
            "sign test p": number(each.p_value, 2),
            "decided": tag("b", "yes") if each.decided else "no",
        }
        for each in case.comparisons
    ]
    words = (
        "Pairs of learners, run by run on the same experience. Decided: the interval excludes 0 "
        "and the two-sided sign test is at most 0.05 (not corrected for the number of pairs)."
    )
    shown = records(rows, words, left=2)
    return details(f"{len(rows)} comparisons", shown) if len(rows) > MOST_PAIRS else shown


def _pooled_table(measure: str, cases: Sequence[Case]) -> Html:
    rows = [
        [name, bracket(interval), f"{bad} of {runs}"]
        for name, interval, bad, runs in sorted(pool_cases(cases), key=lambda row: row[1].value)
    ]
    columns = ("learner", "interquartile mean", "infinite runs")
    words = (
        f"{_words(measure)} over all {len(cases)} cases, in units of the best learner of each case "
        "(runs drawn anew within each case)"
    )
    return table(columns, rows, words)
