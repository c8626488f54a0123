"""The page: whole without network and without scripts, safe, and with the numbers of the data."""

import dataclasses
import itertools
import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray

from emphatic import oracle, problems, report, schedules, statistics
from emphatic.certify import certify
from emphatic.report.analysis import analyse
from emphatic.report.chart import COLORS, dash
from emphatic.report.markup import format_number, Html, tag
from emphatic.report.overall import pool_cases
from emphatic.report.scale import Chart, decades, prefers_log, round_numbers, Series, thin

HOSTILE = '</script><script>alert(1)</script> & "x" <b>'
LEARNERS = ("gem", "td", HOSTILE)
SIZES, RIDGES, RUNS = np.array([0.5, 0.1, 0.02, 0.004]), np.array([0.0, 1.0]), 8


def results(num_windows: int = 12) -> xarray.Dataset:
    """Two cases of three learners; one ignores the ridge, one ignores everything.

    The largest step size diverges for `gem`, in one run of the first case only by accident.
    """
    rng = np.random.default_rng(0)
    axes = ("problem", "learner", "step_size", "ridge", "run", "time")
    shape = (2, 3, 4, 2, RUNS, num_windows)
    decay = np.linspace(1.0, 0.1, num_windows)
    level = 1.0 + np.abs(np.log(SIZES / 0.1))[:, None, None, None] + RIDGES[:, None, None]
    noise = rng.lognormal(0.0, 0.1, shape)
    errors = decay * level * noise
    errors[:, 1] = errors[:, 1, :, :1]  # td has no ridge
    errors[:, 2] = errors[:, 2, :1, :1]
    errors[1] *= 100.0
    bad = np.zeros(shape, bool)
    bad[:, 0, 0, :, :, 5:] = True
    bad[0, 0, 1, 0, 6, 7:] = True  # an independent run, at the best point
    errors = np.where(bad, np.nan, errors)
    coordinates = {
        "problem": ["small", "large"],
        "learner": list(LEARNERS),
        "step_size": SIZES,
        "ridge": RIDGES,
        "run": np.arange(RUNS),
        "time": 100 * np.arange(1, num_windows + 1),
    }
    return xarray.Dataset(
        {
            "rmsve": (axes, errors.astype(np.float32)),
            "diverged": (axes, bad),
            "engine": (("problem", "learner"), np.full((2, 3), "fused")),
        },
        coordinates,
        {"interrupted": 0},
    )


CLAIM = {
    "claim": f"the first is better {HOSTILE}",
    "holds": True,
    "evidence": {
        "test": "paired sign test, one-sided",
        "held": 1,
        "cases": [{"features": HOSTILE, "medians": {"a": "inf", "b": 2.0}, "p_value": 0.03125}],
    },
}
PNG = b"\x89PNG\r\n\x1a\n"


def section(**changes) -> report.Section:
    given = {
        "title": f"A comparison {HOSTILE}",
        "question": f"Which is better?\n\nAnd by how much? {HOSTILE}",
        "definition": f'name = "x"  # {HOSTILE}',
        "problems": {"small": problems.two_state(), HOSTILE: problems.baird()},
        "datasets": [results()],
        "cases": ["problem"],
        "claims": [CLAIM, {**CLAIM, "holds": False}],
        "tables": {"Numbers": (["name", "value"], [[HOSTILE, np.inf]])},
        "pictures": [report.Picture(PNG, "png", HOSTILE, HOSTILE)],
        "settings": {"num_steps": 1200, HOSTILE: [1, 2.5]},
        "provenance": {"versions": HOSTILE},
        "command": f"emphatic sweep {HOSTILE}",
    }
    return report.Section(**{**given, **changes})


@pytest.fixture(scope="module")
def html() -> str:
    return report.page([section(), section(title="Second", datasets=[])], f"All {HOSTILE}")


class Parsed(HTMLParser):
    """The elements of a page, which must close in the order in which they open."""

    VOID = ("meta", "link", "input", "img", "br", "hr")

    def __init__(self, text: str):
        super().__init__()
        self.open, self.found, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs), tuple(self.open)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag.lower()

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, name: str) -> list[dict]:
        return [attributes for tag, attributes, _ in self.found if tag == name]


def charts(html: str) -> list[dict]:
    parts = re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)
    return [json.loads(part) for part in parts]


# The page


def test_the_page_is_sound_html(html):
    parsed = Parsed(html)
    assert html.startswith("<!DOCTYPE html>")
    ids = [attributes["id"] for _, attributes, _ in parsed.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z0-9_-]+", each) for each in ids)
    links = [attributes["href"] for attributes in parsed.all("a")]
    assert len(links) > 10
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    assert all(attributes["alt"] for attributes in parsed.all("img"))
    assert all(attributes["aria-label"] for attributes in parsed.all("svg") if "role" in attributes)
    assert parsed.all("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _, _ in parsed.found if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_the_page_loads_nothing_from_anywhere(html):
    parsed = Parsed(html)
    for _, attributes, _ in parsed.found:
        for name in ("src", "href", "srcset", "action", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert parsed.all("link") == [{"rel": "icon", "href": "data:,"}]
    policy = [each for each in parsed.all("meta") if "http-equiv" in each]
    assert policy[0]["content"].startswith("default-src 'none'")
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html
    assert set(re.findall(r"url\((.)", html)) == {"#"}


def test_every_part_of_every_section_is_there(html):
    headings = [text for tag, text in Parsed(html).texts if tag == "h3"]
    first = ["Question", "Problems", "Results", "Figures", "Claims", "In numbers"]
    assert headings[:9] == [*first, "Settings", "Provenance", "Run it again"]
    assert headings[9:11] == ["Question", "Problems"]
    assert "Results" not in headings[9:]


def test_strange_names_are_text_and_nothing_else(html):
    parsed = Parsed(html)
    assert sum(tag == "script" for tag, _, _ in parsed.found) == len(charts(html)) + 1
    assert not [tag for tag, _, inside in parsed.found if tag == "script" and "h2" in inside]
    assert "alert(1)</script>" not in html
    shown = "".join(text for tag, text in parsed.texts if tag != "script")
    assert shown.count(HOSTILE) > 20
    boxes = [each["data-learner"] for each in parsed.all("input") if "data-learner" in each]
    assert boxes == [*LEARNERS, *LEARNERS]


def test_the_same_sections_are_the_same_page(html):
    again = report.page([section(), section(title="Second", datasets=[])], f"All {HOSTILE}")
    assert again == html


def test_what_is_not_given_is_left_out():
    html = report.page([report.Section("Only a title")])
    parsed = Parsed(html)
    assert not parsed.all("h3")
    assert "claims were shown" not in html


def test_exact_quantities_and_verdicts_of_the_problems_are_there():
    problem = problems.baird(features="one-hot", solid=0.3)
    certificate = certify(problem, ridge=1e-6, step_size=schedules.polynomial(0.5, 0.7))
    bare = report.page([report.Section("Bare", problems={"Baird": problem})])
    assert "open: depends on step sizes and ridge" in bare
    given = {"problems": {"Baird": problem}, "certificates": {"Baird": certificate}}
    html = report.page([report.Section("Sharper", **given)])
    assert "Theorem 1, Theorem 2" in html
    assert f"{oracle.emphasis(problem)[0]:.5g}" in html
    assert f"{oracle.followon_radius(problem):.5g}" in html
    shown = [text for _, text in Parsed(html).texts]
    for row in certificate.rows:
        assert row.statement in shown
        assert f" {row.verdict}" in shown


def test_a_claim_shows_its_verdict_and_its_evidence(html):
    text = " ".join(text for _, text in Parsed(html).texts)
    assert "The paper's claims: 2 hold, 2 are not decided." in text
    assert "holds in 1 of 1 cases; paired sign test, one-sided" in text
    assert "a ∞, b 2" in text


def decided(source: str, verdict: str, text: str) -> dict:
    """A statement in the form of the figures of this version."""
    cases = [{"p_value": p, "holds": p < 0.05} for p in (0.01, 0.02, 0.03, 0.57)]
    evidence = {"test": "signs", "held": 3, "against": 0, "needed": 3, "cases": cases}
    evidence["independent"] = {**evidence, "verdict": "not decided", "held": 2, "runs": 15}
    holds = verdict == "holds"
    claim = {"claim": text, "source": source, "verdict": verdict}
    return {**claim, "holds": holds, "evidence": evidence}


def test_the_papers_claims_come_first_each_with_its_verdict():
    """And what we found is neither counted with them nor mixed with its opposite."""
    first = [decided("beyond", "holds", "ours A"), decided("paper", "does not hold", "theirs A")]
    second = [decided("paper", "holds", "theirs B"), decided("paper", "not decided", "theirs C")]
    sections = [report.Section("One: x", claims=first), report.Section("Two", claims=second)]
    parsed = Parsed(report.page(sections))
    texts = [text for _, text in parsed.texts]
    assert "The paper's claims: 1 holds, 1 does not hold, 1 is not decided." in texts
    assert "What we found beyond the paper: 1 holds." in texts
    table = " ".join(texts[: texts.index("ours A") + 12])
    for row in (
        "theirs A One ✗ does not hold",
        "theirs B Two ✓ holds not decided (2 of 4 cases, 15 runs)",
        "theirs C Two – not decided",
    ):
        assert row in " ".join(table.split())
    assert table.index("theirs C") < table.index("ours A")


def test_a_statement_that_holds_explains_its_p_values():
    """A case of four with p = 0.57 was not needed."""
    html = report.page([report.Section("One", claims=[decided("paper", "holds", "most")])])
    text = " ".join(text for _, text in Parsed(html).texts)
    assert "holds in 3 of 4 cases, 3 needed; p at most 0.03 there" in text
    assert "step sizes were chosen on the runs that are tested, as in the paper" in text.lower()


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("before")
    with pytest.raises(ValueError, match="sections: got none"):
        report.write(path, [])
    assert path.read_text() == "before"
    report.write(path, [report.Section("Ünïcode ∞")], "Tïtle")
    assert "Ünïcode ∞" in path.read_text(encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


# Numbers


def by_hand(case: int, learner: int) -> tuple[tuple[int, int], np.ndarray]:
    """The chosen point by loops over the first four runs, and the curves of the other four."""
    found = results().isel(problem=case, learner=learner)
    errors, bad = found["rmsve"].values.astype(float), found["diverged"].values
    places = list(itertools.product(range(4), range(2)))
    means = []
    for place in places:
        lost = bad[place][:4].any()
        means.append(np.inf if lost else errors[place][:4, -1].mean())
    best = places[int(np.argmin(means))]
    curves = np.where(np.maximum.accumulate(bad[best], axis=1), np.inf, errors[best])
    return best, curves[4:]


def test_curves_are_those_of_the_independent_runs_at_the_chosen_point(html):
    found = [chart for chart in charts(html) if chart["label"] == "steps"]
    assert len(found) == 2
    for case, chart in enumerate(found):
        assert chart["x"] == list(range(100, 1300, 100))
        assert [each["name"] for each in chart["series"]] == list(LEARNERS)
        for learner, each in enumerate(chart["series"]):
            _, curves = by_hand(case, learner)
            expected = ["inf" if np.isinf(v) else v for v in curves.mean(axis=0)]
            for shown, value in zip(each["value"], expected, strict=True):
                assert shown == value if value == "inf" else shown == pytest.approx(value, rel=1e-4)
                assert shown != "inf" or each["high"][-1] == "inf"


def test_a_diverged_run_is_stated_and_makes_the_mean_infinite(html):
    text = " ".join(text for _, text in Parsed(html).texts)
    assert "1 of 4 diverged" in text
    case = analyse(section())[0]
    gem = case.learners[0]
    assert (gem.num_diverged, float(gem.final.value), float(gem.final.high)) == (1, np.inf, np.inf)
    assert np.isfinite(gem.final.low)
    assert np.isinf(gem.selection_bias or 0.0)
    assert "infinite from here on" in html


def test_an_error_beyond_all_numbers_counts_as_divergence():
    """The state may still be finite where its error has overflowed."""
    found = results()
    found["rmsve"][1, 1, 1, :, 7, 3] = np.inf
    td = analyse(section(datasets=[found]))[1].learners[1]
    assert td.point == {"step_size": 0.1}
    assert (td.num_diverged, td.num_runs, float(td.divergence_rate.value)) == (1, 4, 0.25)
    assert td.panels["step_size"].num_diverged.tolist() == [0, 1, 0, 0]
    assert np.isinf(td.area.value)
    assert np.isinf(td.curve.value[3])


def test_a_run_that_has_diverged_stays_infinite_though_its_numbers_come_back():
    found = results()
    found["diverged"][1, 1, 1, :, 7, 3] = True
    td = analyse(section(datasets=[found]))[1].learners[1]
    assert np.isinf(td.curve.value).tolist() == [False] * 3 + [True] * 9
    assert np.isinf(td.final.value)


def test_choices_leave_out_axes_that_a_learner_ignores():
    for case in range(2):
        found = analyse(section())[case]
        for place, each in enumerate(found.learners):
            (size, ridge), curves = by_hand(case, place)
            point = {"step_size": SIZES[size], "ridge": RIDGES[ridge]}
            kept = (("step_size", "ridge"), ("step_size",), ())[place]
            assert each.point == {axis: point[axis] for axis in kept}
            assert list(each.panels) == list(kept)
            assert each.num_points == (8, 4, 1)[place]
            np.testing.assert_array_equal(each.errors.values, curves[:, -1])


def test_the_sensitivity_panel_has_every_point_with_its_divergences(html):
    chart = next(chart for chart in charts(html) if chart["label"] == "step size")
    assert chart["x"] == sorted(SIZES)
    gem = chart["series"][0]
    assert gem["notes"] == ["0 of 4 runs diverged"] * 2 + [
        "1 of 4 runs diverged",
        "4 of 4 runs diverged",
    ]
    assert gem["value"][2:] == ["inf", "inf"]
    found = results().isel(problem=0, learner=1, ridge=0)
    final = found["rmsve"].isel(time=-1, run=slice(4, None)).mean("run").values[::-1]
    np.testing.assert_allclose(chart["series"][1]["value"], final, rtol=1e-4)
    assert len(set(chart["series"][2]["value"])) == 1  # level: it has no step size


def test_pairs_are_compared_run_by_run_and_in_both_directions():
    case = analyse(section())[1]
    turned = analyse(section(datasets=[results().isel(learner=[2, 1, 0])]))[1]
    assert len(case.comparisons) == 3
    for each in (*case.comparisons, *turned.comparisons):
        runs = {learner.name: learner.errors.values for learner in case.learners}
        first, second = runs[each.first], runs[each.second]
        assert first.mean() <= second.mean()
        np.testing.assert_allclose(each.difference.value, first.mean() - second.mean())
        assert each.wins == (first < second).sum()
        losses = each.num_runs - each.wins
        heads = sum(np.prod(range(k + 1, 5)) / np.prod(range(1, 5 - k)) for k in
                    range(max(each.wins, losses), 5)) / 2**4  # fmt: skip
        assert each.p_value == pytest.approx(min(1.0, 2 * heads))


def test_a_pair_is_decided_by_its_interval_and_its_signs_together():
    case = analyse(section(datasets=[_doubled()]))[1]
    pairs = {(each.first, each.second): each for each in case.comparisons}
    assert pairs["td", HOSTILE].is_decided
    apart = dataclasses.replace(pairs["td", HOSTILE], p_value=0.06)
    assert not apart.is_decided
    touching = statistics.Interval(*map(np.asarray, (-1.0, -2.0, 0.0)))
    assert not dataclasses.replace(pairs["td", HOSTILE], difference=touching).is_decided
    outlier = dataclasses.replace(pairs["td", HOSTILE], p_value=0.01, wins=0, losses=8)
    assert not outlier.is_decided  # a smaller mean, because of one run of the other
    text = " ".join(text for _, text in Parsed(report.page([section(datasets=[_doubled()])])).texts)
    assert "has the smallest error of the last window" in text
    assert f"It is better than {HOSTILE}." in text
    assert "against" not in text


def _doubled() -> xarray.Dataset:
    """Twice as many runs: enough for the sign test."""
    parts = [results(), results()]
    return xarray.concat(parts, "run", data_vars="minimal").assign_coords(run=np.arange(2 * RUNS))


def test_cases_are_put_together_in_units_of_their_best():
    cases = analyse(section())
    found = {each.name: each for each in pool_cases(section(), cases)}
    assert set(found) == set(LEARNERS)
    assert (found["gem"].num_diverged, found["gem"].num_runs) == (1, 8)
    assert np.isinf(found["gem"].worst)
    unit = [min(np.mean(each.selection_errors) for each in case.learners) for case in cases]
    td = [c.learners[1].errors.values / u for c, u in zip(cases, unit, strict=True)]
    np.testing.assert_allclose(found["td"].scaled.value, statistics.iqm(np.concatenate(td)))
    assert found["td"].scaled.value < 3.0  # though the second case is a hundred times larger
    np.testing.assert_allclose(found["td"].worst, max(part.mean() for part in td))


def test_learners_are_ranked_within_each_case():
    """By their means: a run that diverged is the last one's, whatever its other runs are."""
    cases = analyse(section())
    rows = pool_cases(section(), cases)
    for place, case in enumerate(cases):
        order = sorted(case.learners, key=lambda each: float(each.final.value))
        for each in rows:
            assert each.ranks[place] == 1 + [part.name for part in order].index(each.name)
    assert [each.mean_rank for each in rows] == sorted(each.mean_rank for each in rows)
    assert next(each for each in rows if each.name == "gem").ranks[0] == 3
    same = dataclasses.replace(cases[0], learners=[cases[0].learners[1]] * 2)
    renamed = dataclasses.replace(same.learners[1], name="twin")
    same = dataclasses.replace(same, learners=[same.learners[0], renamed])
    assert [each.ranks for each in pool_cases(section(), [same])] == [(1.5,), (1.5,)]


def test_a_run_that_blew_up_without_diverging_is_marked_and_not_ranked_second():
    """Finite, but a million times its first error: in the legend, in the table and in the ranks."""
    found = results()
    found["rmsve"][1, 1, :, :, 6, 5:] = 5.65e8
    other, case = analyse(section(datasets=[found]))
    assert (other.learners[0].num_diverged, other.learners[0].num_blown_up) == (1, 0)
    td = case.learners[1]
    assert (td.num_diverged, td.num_blown_up, td.num_runs) == (0, 1, 4)
    assert [each.num_blown_up for each in case.learners] == [0, 1, 0]
    text = " ".join(text for _, text in Parsed(report.page([section(datasets=[found])])).texts)
    assert "0 of 4 diverged, 1 blew up" in text
    assert "0 of 8 diverged, 1 blew up" in text
    assert "1000 times above the median error of all first windows" in text
    rows = {each.name: each for each in pool_cases(section(), [case])}
    assert rows["td"].ranks == (3.0,)
    assert rows["td"].worst > 1e5


def test_the_statistic_and_the_rule_are_the_sections():
    case = analyse(section(statistic="median", rule="area", thresholds={"rmsve": 1e9}))[0]
    for each in case.learners:
        np.testing.assert_allclose(float(each.final.value), np.median(_final(each)), rtol=1e-6)
    assert case.threshold == 1e9
    times = [float(each.time_to_threshold.value) for each in case.learners]
    assert times == [100.0, 100.0, 100.0]
    html = report.page([section(statistic="iqm")])
    assert "interquartile mean over runs" in html


def _final(each) -> np.ndarray:
    curves = each.errors.values  # areas
    assert curves.shape == (4,)
    found = results().isel(problem=0).sel(learner=each.name)
    for axis in ("step_size", "ridge"):
        found = found.sel({axis: each.point.get(axis, found[axis].values[0])})
    part = found.isel(run=slice(4, None))
    return np.where(part["diverged"].any("time"), np.inf, part["rmsve"].isel(time=-1))


def test_one_run_and_no_grid_are_enough():
    one = results().isel(run=[0])
    html = report.page([section(datasets=[one])])
    assert "chosen and judged on the same single run" in html
    assert "chosen for" not in html
    assert "(not bounded)." in html
    assert "[\u2212\u221e" not in html
    assert 'fill-opacity="0.15"' not in html  # no band
    assert not re.search(r"\bnan\b", html, re.IGNORECASE)
    plain = results().isel(step_size=2, ridge=0, problem=0, drop=True)
    case = analyse(section(datasets=[plain], cases=[]))[0]
    assert case.label == ""
    assert all(each.num_runs == RUNS for each in case.learners)
    assert "no hyper-parameters to choose" in report.page([section(datasets=[plain], cases=[])])


def test_datasets_of_their_own_learners_and_grids_are_shown_together():
    whole = results()
    first = whole.sel(learner=["gem"])
    second = whole.sel(learner=["td"]).isel(ridge=0, drop=True).isel(step_size=[1, 2])
    case = analyse(section(datasets=[first, second]))[0]
    assert [each.name for each in case.learners] == ["gem", "td"]
    html = report.page([section(datasets=[first, second])])
    chart = next(chart for chart in charts(html) if chart["label"] == "step size")
    assert [v is None for v in chart["series"][1]["value"]] == [True, False, False, True]
    assert chart["series"][1]["notes"][0] == "not in its grid"


def test_what_was_not_computed_is_not_taken_for_divergence():
    found = results()
    found["rmsve"][0, 1] = np.nan  # a learner that has not begun
    found["rmsve"][1, :, :, :, 5:] = np.nan  # runs that have not
    found["diverged"][1, :, :, :, 5:] = False
    cases = analyse(section(datasets=[found]))
    assert cases[0].not_run == ["td"]
    assert [each.num_runs + each.num_selecting for each in cases[1].learners] == [5, 5, 5]
    assert "Not run: td." in report.page([section(datasets=[found])])


def test_long_curves_are_thinned_and_keep_their_last_point():
    assert thin(5).tolist() == [0, 1, 2, 3, 4]
    for size in (300, 301, 1000, 12345):
        kept = thin(size)
        assert len(kept) <= 300
        assert kept[-1] == size - 1
        assert len(set(np.diff(kept))) == 1
    html = report.page([section(datasets=[results(1000).isel(problem=[0])])])
    assert all(len(chart["x"]) <= 300 for chart in charts(html))
    assert len(html) < 400_000


# What is refused


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"title": " "}, "title: got nothing"),
        ({"statistic": "average"}, "statistic: unknown name 'average'"),
        ({"rule": "last"}, "rule: unknown name 'last'"),
        (
            {"cases": ["problems"]},
            "datasets: 'diverged' has the dimensions .*; problems is required",
        ),
        ({"measures": ["rmsv"]}, "measures: unknown name 'rmsv'; did you mean 'rmsve'"),
        ({"thresholds": {"x": 1.0}}, "measures: unknown name 'x'"),
        ({"datasets": [results().drop_vars("diverged")]}, "datasets: no variable 'diverged'"),
        ({"datasets": [results().drop_vars("rmsve")]}, "datasets: no measure"),
        (
            {"certificates": {"other": certify(problems.two_state())}},
            "certificates: unknown name 'other'",
        ),
    ],
)
def test_a_section_that_cannot_be_shown_is_refused_at_once(changes, words):
    good = section()
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(good, **changes)


def test_a_picture_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="kind: unknown name 'jpg'"):
        report.Picture(PNG, "jpg", "", "")


# Folders


def test_a_folder_of_another_name_is_told_from_its_files(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    summary = {"rows": [{"algorithm": "x", "error": "inf"}], "claims": [CLAIM]}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "figure.png").write_bytes(PNG)
    (folder / "film.gif").write_bytes(b"GIF89a")
    found = report.from_folder(folder)
    assert found.title == "Mine"
    assert [each.kind for each in found.pictures] == ["png", "gif"]
    assert found.tables["Results"] == (["algorithm", "error"], [["x", np.inf]])
    Parsed(report.page([found]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "folder: .*summary.json does not exist"),
        ("{", "folder: .*summary.json is not JSON"),
        ("[]", r"folder: .*summary.json: got \[\]; an object is required"),
    ],
)
def test_a_folder_without_a_summary_is_refused(text, words, tmp_path):
    if text is not None:
        (tmp_path / "summary.json").write_text(text)
    with pytest.raises(ValueError, match=words):
        report.from_folder(tmp_path)


# Markup, numbers and ticks


def test_text_is_escaped_and_markup_is_not():
    assert tag("p", "<&>", Html("<b>x</b>"), None, class_='"') == (
        '<p class="&quot;">&lt;&amp;&gt;<b>x</b></p>'
    )
    assert tag("input", checked=True, hidden=False, data_x=1) == '<input checked data-x="1">'


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (1234.5, "1234"),
        (-0.5, "−0.5"),
        (1e-7, "10⁻⁷"),
        (-2.5e12, "−2.5×10¹²"),
        (np.inf, "∞"),
        (-np.inf, "−∞"),
        (np.nan, "–"),
        (None, "–"),
    ],
)
def test_numbers_are_short(value, words):
    assert format_number(value) == words


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 7.5), (0.0, 3e-9), (1e5, 1.001e5)])
def test_ticks_are_few_and_round(low, high):
    ticks = round_numbers(low, high, 5)
    assert 2 <= len(ticks) <= 11
    assert low - 1e-9 * abs(low) <= ticks[0]
    assert ticks[-1] <= high * (1 + 1e-9)


@pytest.mark.parametrize(("low", "high"), [(1e-3, 1e3), (1e-30, 1e20), (0.2, 0.9), (3.4, 3.6)])
def test_logarithmic_ticks_are_few_and_inside(low, high):
    ticks = decades(low, high)
    assert 2 <= len(ticks) <= 12
    assert all(low * (1 - 1e-9) <= tick <= high * (1 + 1e-9) for tick in ticks)


def test_lines_differ_in_colour_and_in_dashes_and_are_dark_enough():
    assert len({(COLORS[k % 8], dash(k)) for k in range(16)}) == 16
    assert len({dash(k) for k in range(8)}) == 8
    for color in COLORS:
        parts = np.array([int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        luminance = linear @ [0.2126, 0.7152, 0.0722]
        assert 1.05 / (luminance + 0.05) >= 3.0


def test_an_outlier_does_not_set_the_scale():
    x = np.arange(5.0)

    def chart(*levels: float) -> Chart:
        series = [
            Series(str(k), k, statistics.Interval(*[np.full(5, v)] * 3))
            for k, v in enumerate(levels)
        ]
        return Chart("", x, "steps", "error", "linear", series)

    assert not prefers_log(chart(1.0, 1.1, 1.2))
    assert prefers_log(chart(1.0, 1.1, 1e30))
    assert not prefers_log(chart(-1.0, 1e3))


# In a browser

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no chromium on the path")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, html, tmp_path):
    """Opens the page of the tests, or another one, and fails if it complains or asks for more."""
    complaints, contexts = [], []

    def open_page(text: str = html, **options):
        path = tmp_path / f"report-{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                request.url.startswith("data:")
                or request.url == path.as_uri()
                or complaints.append(request.url)
            ),
        )
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def test_boxes_hide_and_show_a_learner_everywhere_in_its_section(opened):
    page = opened()
    line = "g.lin .lines .s0, g.log .lines .s0"
    cards = page.locator(".card")
    assert cards.count() == 2

    def hidden() -> list[bool]:
        return [
            not any(each.is_visible() for each in cards.nth(k).locator(line).all()) for k in (0, 1)
        ]

    assert hidden() == [False, False]
    cards.nth(0).locator("label", has_text="gem").click()
    assert hidden() == [True, True]
    assert cards.nth(1).locator(".plot").first.locator(".s1:visible").count() > 0
    cards.nth(1).locator("label", has_text="gem").click()
    assert hidden() == [False, False]


def test_the_switch_changes_the_scale(opened):
    page = opened()
    card = page.locator(".card").first
    plot = card.locator(".plot").first

    def scale() -> list[bool]:
        return [plot.locator(f"g.{name}").is_visible() for name in ("lin", "log")]

    card.locator("label", has_text="linear").click()
    assert scale() == [True, False]
    card.locator(".switch label").nth(1).click()
    assert scale() == [False, True]
    assert page.locator(".card").nth(1).locator(".scale-log").is_checked()


def test_a_panel_is_fitted_to_what_is_left_as_if_the_rest_had_never_been_there(opened):
    """The script's scale is that with which the page of fewer learners is drawn."""
    few, many = (
        report.page([section(datasets=[results().sel(learner=names)])])
        for names in (["td", HOSTILE], list(LEARNERS))
    )
    page = opened(many)
    card = page.locator(".card").first
    card.locator("label", has_text="gem").click()
    for name in ("lin", "log"):
        group = card.locator(".plot").first.locator(f"g.{name}")
        matrix = group.locator(".lines").get_attribute("transform")
        _, _, _, k, _, shift = (float(v) for v in matrix[len("matrix(") : -1].split())
        start, slope = charts(many)[0]["scales"][name]
        expected = charts(few)[0]["scales"][name]
        np.testing.assert_allclose([shift + k * start, k * slope], expected, rtol=1e-3)
        assert group.locator(".fitted text").count() >= 2
    card.locator("label", has_text="gem").click()
    assert card.locator(".fitted").count() == 0


def test_the_pointer_and_the_keys_show_values(opened):
    page = opened()
    plot = page.locator(".card").nth(1).locator(".plot").first
    tip = plot.locator(".tip")
    assert tip.is_hidden()
    plot.locator("svg").hover()
    assert tip.is_visible()
    assert "steps" in tip.inner_text()
    plot.focus()
    page.keyboard.press("End")
    data = charts(report.page([section()]))
    last = [chart for chart in data if chart["label"] == "steps"][1]["series"][1]["value"][-1]
    words = tip.inner_text().splitlines()
    assert words[0].replace("\u202f", "") == "steps 1200"
    assert any(line.startswith(f"td {format_number(last)} [") for line in words)
    page.keyboard.press("Escape")
    assert tip.is_hidden()


def test_with_scripts_off_figures_are_there_and_boxes_and_switches_work(opened):
    page = opened(java_script_enabled=False)
    card = page.locator(".card").first
    drawing = card.locator(".plot svg").first
    assert drawing.is_visible()
    assert drawing.bounding_box()["width"] > 200
    assert card.locator(".lines .s0:visible").count() > 0
    card.locator("label", has_text="gem").click()
    assert card.locator(".lines .s0:visible").count() == 0
    card.locator("label", has_text="linear").click()
    assert card.locator("g.lin:visible").count() == card.locator(".plot").count()
    assert card.locator("g.log:visible").count() == 0


def test_a_phone_scrolls_down_only_and_its_text_can_be_read(opened):
    page = opened(viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    sizes = page.evaluate(
        "[...document.querySelectorAll('.plot:first-of-type svg text')].map(t => "
        "parseFloat(getComputedStyle(t).fontSize) * "
        "Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b))"
    )
    assert min(sizes) >= 8.5
    assert np.median(sizes) >= 10.0
    page.locator(".plot svg").first.tap()
    assert page.locator(".plot .tip").first.is_visible()


def test_in_print_everything_is_unfolded_and_nothing_is_to_be_clicked(opened):
    page = opened()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.locator(".switch:visible, .legend input:visible, #contents:visible").count() == 0
    assert page.locator(".legend:visible").count() == 2
