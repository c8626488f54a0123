"""`emphatic compare`, and the same from Python."""

import json
import shlex

import numpy as np
import pytest

from emphatic import learners, problems
from emphatic.cli import HELP
from emphatic.engine import run as engine_run
from emphatic.experiments import compare

from .command import run


def test_compare_puts_the_best_first_and_says_how_sure_that_is(capsys):
    options = ["--learners", "gtd2(0.001)", "td(0.1)", "td(1e9)", "--steps", "4000", "--runs", "6"]
    status, out, err = run(capsys, "compare", "boyan", *options, "--json")
    assert status == 0
    assert "Traceback" not in err
    comparison = json.loads(out)
    rows, pair = comparison["rows"], comparison["pairs"][0]
    assert [row["learner"] for row in rows] == ["td(0.1)", "gtd2(0.001)", "td(1e9)"]
    direct = engine_run(
        problems.boyan(),
        {"td": learners.td(0.1)},
        num_steps=4000,
        seeds=6,
        record_every=40,
        measures=["rmsve"],
    )["rmsve"].squeeze()
    np.testing.assert_allclose(rows[0]["final"], direct[:, -1].mean(), rtol=1e-5)
    np.testing.assert_allclose(rows[0]["area"], direct.mean(), rtol=1e-5)
    assert rows[0]["low"] < rows[0]["final"] < rows[0]["high"]
    assert [row["diverged_runs"] for row in rows] == [0, 0, 6]
    assert rows[2]["final"] == "inf"
    assert (pair["wins"], pair["runs"]) == (6, 6)
    assert pair["difference"] < 0
    status, out, _ = run(capsys, "compare", "boyan", *options)
    lines = " ".join(out.split())
    assert "td(0.1) against gtd2(0.001)" in lines
    assert "smaller in 6 of 6 runs, two-sided p = 0.031" in lines
    assert "boyan: rmsve, 6 runs of 4,000 steps" in lines


def test_the_example_of_the_help_shows_what_the_paper_says(capsys):
    """GEM beats the trace at the horizon of the paper, which is the default."""
    (line,) = (line for line in HELP.splitlines() if line.startswith("  emphatic compare"))
    status, out, _ = run(capsys, *shlex.split(line)[1:], "--runs", "6", "--json")
    assert status == 0
    comparison = json.loads(out)
    assert (comparison["steps"], comparison["runs"]) == (1_000_000, 6)
    gem, trace = comparison["rows"]
    assert (gem["learner"], trace["learner"]) == ("gem(0.025)", "followon()")
    assert gem["high"] < 20 < 50 < trace["low"]
    (pair,) = comparison["pairs"]
    assert (pair["wins"], pair["p_value"]) == (6, 2 / 2**6)


def test_compare_from_python_has_a_seed():
    one, same, other = (
        compare(problems.boyan(), ["td(0.1)", "td(0.2)"], num_steps=500, num_runs=2, seed=seed)
        for seed in (0, 0, 1)
    )
    assert one == same
    assert one["rows"][0]["final"] != other["rows"][0]["final"]
    for comparison in (one, other):  # which of the two is the smaller is chosen after looking
        (pair,) = comparison["pairs"]
        assert (pair["wins"], pair["p_value"]) in ((0, 0.5), (1, 1.0), (2, 0.5))


def test_compare_measures_what_the_learners_estimate(capsys):
    options = ["--steps", "50", "--runs", "2", "--json"]
    for names, measure in (
        (["gem(0.1)", "followon()"], "emphasis_error"),
        (["td(0.1)", "etd(constant(2), 0.1)"], "rmsve"),
        (["gq2(0.1)", "gq2(0.2)"], "rmsqe"),
        (["cop_td(0.1, 0.5)", "ratio(gem(0.1), 0.9)"], "ratio_error"),
    ):
        status, out, _ = run(capsys, "compare", "boyan", "--learners", *names, *options)
        assert (status, json.loads(out)["measure"]) == (0, measure)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["compare", "baird", "--learners", "gem(0.025)", "td(0.01)"],
            "'gem(0.025)' estimates emphasis, 'td(0.01)' estimates values; no error ranks them",
        ),
        (
            ["compare", "baird", "--learners", "gem(0.1)", "gem(0.2)", "--measure", "rmsve"],
            "measures: 'rmsve' is an error of values; 'gem(0.1)' estimates emphasis",
        ),
        (
            ["compare", "baird", "--learners", "gradient_dice(0.1, 0.9)", "gem(0.1)"],
            "estimates ratio, 'gem(0.1)' estimates emphasis; no error ranks them",
        ),
        (
            ["compare", "baird", "--learners", "cop_td(0.1, 1)", "cop_td(0.1, 0)"],
            "cop_td: discount: got 1; a number in [0, 1) is required",
        ),
        (
            ["compare", "baird", "--learners", "lms(0.01)", "gem(0.2)"],
            "learners: 'lms(0.01)': lms: missing a required argument",
        ),
        (["compare", "baird", "--learners", "td(0.1)"], "learners: got 1; two or more"),
        (["compare", "baird", "--learners", "td(1)", "td(1)"], "two or more different ones"),
        (["compare", "baird", "--learners", "td(1)", "dt(2)"], "unknown name 'dt'"),
        (["compare", "baird", "--learners", "td(1)", "td(2)", "--measure", "rmse"], "unknown name"),
    ],
)
def test_bad_words_are_one_line(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_is_drawn_kept_and_resumed(capsys, tmp_path, monkeypatch):
    words = ["compare", "boyan", "--learners", "td(0.1)", "gtd2(0.01)", "--steps", "400"]
    words += ["--runs", "3", "--json"]
    folder, drawing = tmp_path / "kept", tmp_path / "curves.png"
    status, expected, _ = run(capsys, *words)
    kept = [*words, "--out", str(folder), "--plot", str(drawing)]
    assert run(capsys, *kept)[:2] == (status, expected)  # the same numbers, wherever they are
    assert drawing.read_bytes()[:4] == b"\x89PNG"
    assert run(capsys, "status", str(folder))[0] == 0
    page = tmp_path / "page.html"
    assert run(capsys, "report", str(folder), "--out", str(page))[0] == 0
    assert "emphatic compare boyan --learners" in page.read_text()
    monkeypatch.setattr("emphatic.experiments.completion.compute", None)  # nothing is left
    assert run(capsys, *kept)[:2] == (status, expected)


def test_a_plot_that_cannot_be_written_is_refused_before_anything_runs(capsys, tmp_path):
    words = ["compare", "boyan", "--learners", "td(0.1)", "td(0.2)", "--plot"]
    status, _, err = run(capsys, *words, str(tmp_path / "curves.txt"), "--out", str(tmp_path / "x"))
    assert status == 2
    assert "ends in 'txt'" in err
    assert list(tmp_path.iterdir()) == []


REFUSED = {
    "gem(1/0)": "gem: step_size: 1 / 0 is no finite real number",
    "gem(emphasis)": "gem: step_size: got an array of shape (7,); a number or a schedule",
    "etd(0.1, 0.1)": "etd: emphasis: got 0.1; a learner such as followon() is required",
    "gem(True)": "gem: step_size: got True; a number or a schedule",
    "gem(0.1, rigde=1)": "gem: argument: unknown name 'rigde'; did you mean 'ridge'?",
    "gem(step_size=)": "cannot be read: got ')' at character 15",
    "gem(" + "-" * 3000 + "1)": "it is nested more than 30 deep",
    "gem(" + "1" * 10**6 + ")": "it has 1000005 characters; at most 10000 are read",
}


@pytest.mark.parametrize("command", ["compare", "predict", "solve"])
def test_every_command_refuses_an_expression_in_the_same_line(capsys, command):
    options = {
        "compare": ["--steps", "10", "--runs", "1", "--learners", "gem(0.1)"],
        "predict": ["--no-stability", "--steps", "10", "--learner"],
        "solve": ["--learners"],
    }[command]
    for text, message in REFUSED.items():
        status, out, err = run(capsys, command, "baird", *options, text)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert message in err
        assert len(err) < 400
