"""The results of a section: curves, choices, comparisons, and sensitivity over the grid."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from ..statistics import Interval
from . import chart, scale
from .analysis import analyse, BLOW_UP, Case, FACTOR, learner_names, LearnerResults
from .markup import details, format_count, format_number, Html, join, records, table, tag
from .overall import pool_cases
from .section import Section

MOST_PAIRS = 10  # that are not folded
MOST_RANKS = 8  # that are shown one by one
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
            parts.append(_pooled_table(section, measure, group))
        for index, case in enumerate(group):
            parts.append(_case(f"{key}-m{row}-{index}", section, case, learners))
    return join(parts)


def _notes(section: Section, cases: Sequence[Case]) -> Html:
    """Says how to read the numbers: which runs were chosen on, and what an infinite error is."""
    learners = [learner for case in cases for learner in case.learners]
    sentences = []
    if learners:
        runs, num_windows = _describe_runs(learners[0].num_runs), learners[0].num_windows
        if learners[0].num_selecting:
            selecting = _describe_runs(learners[0].num_selecting)
            sentences.append(
                f"Hyper-parameters were chosen for each learner and case by the mean "
                f"{RULES[section.rule]} of {selecting}; everything shown is "
                f"from {runs} that had no part in the choice."
            )
        elif any(learner.point for learner in learners):
            sentences.append("Hyper-parameters were chosen and judged on the same single run.")
        else:
            sentences.append(f"There were no hyper-parameters to choose; shown are all {runs}.")
        sentences.append(
            f"Lines and errors are the {NAMES[section.statistic]} over runs, bands and brackets "
            "their 95 % intervals. A run that diverged has an infinite error and is never left "
            "out: a line ends with a cross where it becomes infinite."
        )
        if any(learner.num_blown_up for learner in learners):
            sentences.append(
                f"A run blew up if it stayed finite but was at some time {BLOW_UP:g} times above "
                "the median error of all first windows."
            )
        num_shown = len(scale.thin(num_windows))
        if num_shown < num_windows:
            sentences.append(f"Of {num_windows} windows, curves show {num_shown}.")
    if any(dataset.attrs.get("interrupted") for dataset in section.datasets):
        sentences.append("The run was interrupted: what was not computed is not shown.")
    return tag("p", " ".join(sentences), class_="note")


def _describe_runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"


def _measure_label(measure: str) -> str:
    return measure.replace("_", " ") if "_" in measure else measure.upper()


def _case(key: str, section: Section, case: Case, learners: Sequence[str]) -> Html:
    """A card: legend and switches, charts, choices, comparisons."""
    indices = {name: index for index, name in enumerate(learners)}
    charts = [_curve_chart(section, case, indices), *_sensitivity_charts(section, case, indices)]
    label = _measure_label(case.measure)
    figures = [
        tag("figure", chart.draw(panel, f"{key}-c{index}"), tag("figcaption", panel.title))
        for index, panel in enumerate(charts)
    ]
    parts = [
        tag("h4", f"{case.label}: {label}" if case.coordinates else label),
        _controls(key, case, indices, charts),
        _summary(section, case),
        chart.side_by_side(figures),
        _choice_table(section, case),
    ]
    if case.comparisons:
        parts.append(_comparison_table(section, case))
    if case.not_run:
        parts.append(tag("p", f"Not run: {', '.join(case.not_run)}.", class_="note"))
    return tag("article", *parts, class_="card", id=key)


def _summary(section: Section, case: Case) -> Html | None:
    """A sentence on which learner is best, and against which others that is decided."""
    if len(case.learners) < 2:
        return None
    errors = {learner.name: getattr(learner, section.rule) for learner in case.learners}
    best = min(errors, key=lambda name: float(errors[name].value))
    if np.isinf(errors[best].value):
        return tag("p", "No learner has a finite error: runs of all diverged.", class_="short")
    value, ends = _describe(errors[best], format_number)
    beaten = [pair.second for pair in case.comparisons if pair.first == best and pair.is_decided]
    others = [name for name in errors if name not in (best, *beaten)]
    ends = ends if ends.startswith("[") else f"({ends})" if ends else ""
    clauses = [f" has the smallest {RULES[section.rule]}, {value} {ends}".rstrip() + "."]
    if beaten:
        clauses.append(f" It is better than {', '.join(beaten)}.")
    if others:
        clauses.append(f" Whether it is better than {', '.join(others)} is not decided.")
    return tag("p", tag("b", best), *clauses, class_="short")


def _describe_lost(num_diverged: int, num_blown_up: int, num_runs: int) -> str:
    """Says how many runs diverged, and how many did not but blew up."""
    blown_up = f", {num_blown_up} blew up" if num_blown_up else ""
    return f"{num_diverged} of {num_runs} diverged{blown_up}"


def _controls(key: str, case: Case, indices: dict[str, int], charts: Sequence[scale.Chart]) -> Html:
    """The legend, whose boxes show and hide learners, and the switch of scales."""
    boxes, radios = [], []
    for learner in case.learners:
        index = indices[learner.name]
        names = {"class_": f"t{index}", "data_learner": learner.name}
        box = tag("input", type="checkbox", checked=True, **names)
        count = _describe_lost(learner.num_diverged, learner.num_blown_up, learner.num_runs)
        is_lost = learner.num_diverged or learner.num_blown_up
        note = tag("span", count, class_="lost") if is_lost else None
        boxes.append(tag("label", box, chart.swatch(index), tag("span", learner.name), note))
    parts = [tag("div", *boxes, class_="legend", role="group", aria_label="Learners")]
    if any(map(scale.can_be_log, charts)):
        initial = "log" if scale.prefers_log(charts[0]) else "lin"
        for value, label in (("lin", "linear"), ("log", "log")):
            state = {"checked": value == initial, "class_": f"scale-{value}"}
            radio = tag("input", type="radio", name=f"{key}-scale", value=value, **state)
            radios.append(tag("label", radio, tag("span", label)))
        parts.append(tag("div", *radios, class_="switch", role="group", aria_label="Scale"))
    return tag("div", *parts, class_="controls")


# Figures


def _curve_chart(section: Section, case: Case, indices: dict[str, int]) -> scale.Chart:
    times = np.unique(np.concatenate([part.times for part in case.learners] or [np.zeros(1)]))
    series = []
    for learner in case.learners:
        ends = vars(learner.curve).values()
        curve = Interval(*(_align(times, learner.times, values) for values in ends))
        series.append(scale.Series(learner.name, indices[learner.name], curve))
    title = f"Learning curves: {_measure_label(case.measure)}, {NAMES[section.statistic]} over runs"
    return scale.Chart(title, times, "steps", _measure_label(case.measure), "linear", series)


def _align(x: np.ndarray, points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Moves values at some points of an axis to all of its points; NaN at the others."""
    aligned = np.full(len(x), np.nan)
    aligned[np.searchsorted(x, points)] = values
    return aligned


def _sensitivity_charts(section: Section, case: Case, indices: dict[str, int]) -> list[scale.Chart]:
    learners = case.learners
    axes = dict.fromkeys(axis for learner in learners for axis in learner.panels)
    charts = []
    for axis in axes:
        panels = [learner.panels[axis] for learner in learners if axis in learner.panels]
        x = np.unique(np.concatenate([panel.values for panel in panels]))
        if len(x) < 2:
            continue
        series = [_sensitivity(axis, x, learner, indices[learner.name]) for learner in learners]
        kind = "ordinal"
        if x.dtype.kind in "iuf" and x.min() > 0:
            kind = "log" if x.max() >= 8 * x.min() else "linear"
        name = axis.replace("_", " ")
        others = "" if len(axes) == 1 else ", the rest at its best"
        rule = "final error" if section.rule == "final" else "area"
        title = f"Sensitivity: {rule} for every {name}{others}"
        label = f"{_measure_label(case.measure)}, {section.rule}"
        charts.append(scale.Chart(title, x, name, label, kind, series, marks=True))
    return charts


def _sensitivity(axis: str, x: np.ndarray, learner: LearnerResults, index: int) -> scale.Series:
    """The errors of a learner along an axis; constant if the learner does not have the axis."""
    if axis not in learner.panels:
        constant = Interval(*(np.full(len(x), float(v)) for v in vars(learner.final).values()))
        note = f"{learner.num_diverged} of {learner.num_runs} runs diverged"
        rates = np.full(len(x), learner.num_diverged / learner.num_runs)
        return scale.Series(learner.name, index, constant, [note] * len(x), rates)
    panel = learner.panels[axis]
    ends = vars(panel.errors).values()
    errors = Interval(*(_align(x, panel.values, values) for values in ends))
    num_diverged = _align(x, panel.values, panel.num_diverged)
    notes = [
        "not in its grid" if np.isnan(count) else f"{count:.0f} of {panel.num_runs} runs diverged"
        for count in num_diverged
    ]
    return scale.Series(learner.name, index, errors, notes, num_diverged / panel.num_runs)


# Tables


def _interval_cell(interval: Interval, convert: Callable[[float], str] = format_number) -> Html:
    """A number, and below it its interval."""
    value, ends = _describe(interval, convert)
    return join((value, tag("small", ends) if ends else None))


def _describe(interval: Interval, convert: Callable[[float], str]) -> tuple[str, str]:
    """Returns a number and its interval as text."""
    value, low, high = (convert(float(v)) for v in vars(interval).values())
    if np.isneginf(interval.low) and np.isposinf(interval.high):
        return value, "not bounded"
    if low == value == high:
        return value, "in all resamples" if convert is format_number else ""
    return value, f"[{low}, {high}]"


def _choice_table(section: Section, case: Case) -> Html:
    columns = [
        "learner",
        "chosen",
        f"final {NAMES[section.statistic]}",
        "area",
        f"median steps to {format_number(case.threshold, 3)}",
        "diverged",
        f"grid within {FACTOR:g}×",
        "selection bias",
    ]
    rows = []
    for learner in case.learners:
        values = [
            f"{axis.replace('_', ' ')} {format_number(v) if isinstance(v, float) else v}"
            + (" (edge)" if axis in learner.edge_axes else "")
            for axis, v in learner.point.items()
        ]
        share, bias = "–", "–"
        if learner.sensitivity is not None:
            size = tag("small", f"of {learner.num_points}")
            share = join((f"{100 * learner.sensitivity:.0f} %", size))
        errors = learner.selection_errors, learner.errors
        if learner.selection_bias is not None and not all(np.isinf(part).any() for part in errors):
            bias = format_number(learner.selection_bias, 3)
        rate = learner.divergence_rate
        blown_up = tag("small", f"{n} blew up") if (n := learner.num_blown_up) else None
        percent = tag("small", f"[{100 * rate.low:.0f}, {100 * rate.high:.0f}] %")
        rows.append(
            [
                learner.name,
                join(tag("div", value) for value in values) or "nothing to choose",
                _interval_cell(learner.final),
                _interval_cell(learner.area),
                _interval_cell(learner.time_to_threshold, format_count),
                join((f"{learner.num_diverged} of {learner.num_runs}", percent, blown_up)),
                share,
                bias,
            ]
        )
    return table(columns, rows, "What was chosen, and what the independent runs say of it", left=2)


def _comparison_table(section: Section, case: Case) -> Html:
    rows = [
        {
            "smaller": pair.first,
            "than": pair.second,
            f"difference of {NAMES[section.statistic]}s": _interval_cell(pair.difference),
            "runs won": f"{pair.wins} of {pair.num_runs}",
            "sign test p": format_number(pair.p_value, 2),
            "decided": tag("b", "yes") if pair.is_decided else "no",
        }
        for pair in case.comparisons
    ]
    caption = (
        "Pairs of learners, run by run on the same experience. Decided: the interval excludes 0 "
        "and the two-sided sign test is at most 0.05 (not corrected for the number of pairs)."
    )
    content = records(rows, caption, left=2)
    return details(f"{len(rows)} comparisons", content) if len(rows) > MOST_PAIRS else content


def _pooled_table(section: Section, measure: str, cases: Sequence[Case]) -> Html:
    """A table of learners over all cases by rank: their scales differ, and so means say little."""
    rows = []
    for learner in pool_cases(section, cases):
        ranks = ", ".join(f"{rank:g}" for rank in learner.ranks) if len(cases) <= MOST_RANKS else ""
        rows.append(
            [
                learner.name,
                join((f"{learner.mean_rank:.2f}", tag("small", ranks) if ranks else None)),
                _interval_cell(learner.scaled),
                format_number(learner.worst),
                _describe_lost(learner.num_diverged, learner.num_blown_up, learner.num_runs),
            ]
        )
    columns = ("learner", "mean rank", "times the best", "worst case", "lost runs")
    caption = (
        f"{_measure_label(measure)} over all {len(cases)} cases. Ranks by the "
        f"{NAMES[section.statistic]} within each case, 1 is the best. Times the best: the "
        "interquartile mean of errors in units of the best learner of each case (runs drawn anew "
        f"within each case); worst case: the largest {NAMES[section.statistic]} in these units."
    )
    return table(columns, rows, caption)
