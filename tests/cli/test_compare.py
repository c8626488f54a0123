"""`emphatic compare`, and the same from Python."""

import json

import numpy as np
import pytest

from emphatic import learners, problems
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
    assert "smaller in 6 of 6 runs, p = 0.016" in lines


def test_compare_from_python_has_a_seed():
    one, same, other = (
        compare(problems.boyan(), ["td(0.1)", "td(0.2)"], num_steps=500, num_runs=2, seed=seed)
        for seed in (0, 0, 1)
    )
    assert one == same
    assert one["rows"][0]["final"] != other["rows"][0]["final"]


def test_compare_measures_what_the_learners_estimate(capsys):
    options = ["--steps", "50", "--runs", "2", "--json"]
    for names, measure in (
        (["gem(0.1)", "followon()"], "emphasis_error"),
        (["td(0.1)", "etd(constant(2), 0.1)"], "rmsve"),
        (["gq2(0.1)", "gq2(0.2)"], "rmsqe"),
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
