"""`emphatic predict`: exact curves as JSON, tables and pictures."""

import _thread
import json
import re
import sys
import time

import numpy as np
import pytest

from emphatic import _work, learners, oracle, predict, problems
from emphatic.cli import prediction
from emphatic.predict import cost, summary

from ..predict.test_stability import diverging_problem
from .command import assert_refused, run

KEYS = [
    *("steps", "emphasis_rmse", "limit", "is_stable_in_mean", "is_stable_in_mean_square"),
    *("mean_threshold", "mean_square_threshold", "stable_in_mean", "stable_in_mean_square"),
    *("lyapunov", "best_step_size", "best_rmse"),
]


def test_predict_prints_the_exact_curve(capsys, tmp_path):
    arguments = ("predict", "two_state", "--learner", "gem", "--step-size", "0.02", "--json")
    path = tmp_path / "curve.png"
    options = ("--steps", "1e3", "--best", "--plot", str(path), "--runs", "3")
    status, out, _ = run(capsys, *arguments, *options)
    assert status == 0
    prediction = json.loads(out)
    assert list(prediction) == KEYS
    problem = problems.two_state()
    curve = predict.learning_curve(problem, learners.gem(0.02), prediction["steps"])
    np.testing.assert_allclose(prediction["emphasis_rmse"], curve.rmse, rtol=1e-9)
    assert (prediction["steps"][0], prediction["steps"][-1]) == (0, 1000)
    thresholds = predict.thresholds(problem, learners.gem)
    assert prediction["mean_threshold"] == thresholds.mean
    assert prediction["mean_square_threshold"] == thresholds.mean_square
    lyapunov = prediction["lyapunov"]
    assert lyapunov["low"] < lyapunov["estimate"] < lyapunov["high"]
    best = predict.learning_curve(problem, learners.gem(prediction["best_step_size"]), [1000])
    assert best.rmse[0] < curve.rmse[-1]
    assert path.read_bytes().startswith(b"\x89PNG")


def test_predict_speaks_of_values_and_of_given_weights(capsys, tmp_path):
    np.savetxt(tmp_path / "weights.txt", [3.0])
    arguments = ("predict", "two_state", "--learner", "td", "--target", "behavior", "--steps", "10")
    status, out, _ = run(capsys, *arguments, "--initial", str(tmp_path / "weights.txt"), "--json")
    prediction = json.loads(out)
    assert status == 0
    error = np.sqrt(np.mean((3.0 * problems.two_state().x) ** 2))  # all values are 0
    np.testing.assert_allclose(prediction["value_rmse"][0], error)
    assert prediction["best_step_size"] is None
    status, out, _ = run(capsys, *arguments)
    assert "value error" in out
    assert "stable in mean square   step sizes below" in out


def test_a_step_size_that_diverges_is_not_printed_as_stable(capsys, tmp_path):
    """The mean field is unstable, although larger steps are stable."""
    path = str(tmp_path / "problem.npz")
    problems.save(diverging_problem(), path)
    _, out, _ = run(capsys, "predict", path, "--learner", "td(0.01)", "--steps", "1000")
    assert out.count("not stable at 0.01") == 3
    assert "no small step size, only those from 0.1705 to 0.6023" in out
    arguments = ("predict", path, "--learner", "td", "--step-size", "0.3", "--json")
    prediction = json.loads(run(capsys, *arguments)[1])
    assert prediction["is_stable_in_mean"]
    assert prediction["is_stable_in_mean_square"]
    assert prediction["mean_threshold"] == prediction["mean_square_threshold"] == 0.0
    ((low, high),) = prediction["stable_in_mean_square"]
    assert 0.1 < low < 0.3 < high


def test_an_expression_with_its_step_size_is_that_learner(capsys):
    options = ("--steps", "100", "--json", "--no-stability")
    predictions = [
        json.loads(run(capsys, "predict", "two_state", "--learner", *learner, *options)[1])
        for learner in (
            ("gem(0.1*2^-2)",),
            ("gem(step_size=0.025, ridge=0)",),
            ("gem", "--step-size", "0.025"),
            ("gem(step_size, ridge)",),
        )
    ]
    assert predictions[1:] == predictions[:-1]


def test_a_trace_is_predicted_exactly_where_its_moments_close(capsys):
    arguments = ("predict", "random_walk", "--learner", "followon", "--steps", "1000", "--json")
    prediction = json.loads(run(capsys, *arguments)[1])
    problem = problems.random_walk()
    variance = problem.stationary @ oracle.followon_variance(problem)
    np.testing.assert_allclose(prediction["limit"], np.sqrt(variance))
    assert "stable_in_mean" not in prediction
    _, out, _ = run(capsys, "predict", "two_state", "--learner", "followon()", "--steps", "1000")
    assert re.search(r"limit +inf", out)
    assert re.search(r"stable in mean square +not stable", out)


def test_what_is_not_wanted_is_not_computed(capsys):
    arguments = ("predict", "two_state", "--steps", "10", "--no-stability")
    _, out, err = run(capsys, *arguments)
    assert "stable" not in out
    assert err == ""
    assert "lyapunov" not in json.loads(run(capsys, *arguments, "--json")[1])


def test_a_long_prediction_says_beforehand_what_it_takes(capsys, monkeypatch):
    monkeypatch.setattr(cost, "_flops_per_second", lambda: 1e2)
    status, _, err = run(capsys, "predict", "two_state", "--steps", "10", "--no-stability")
    assert status == 0
    assert err.count("\n") == 1
    assert re.search(r"12 unknowns, 5.06 KiB, about \d+ min \(Ctrl-C stops\)", err)


def test_more_than_a_day_begins_only_with_yes(capsys, monkeypatch):
    monkeypatch.setattr(cost, "_flops_per_second", lambda: 1e-3)
    arguments = "predict two_state --steps 10 --no-stability"
    assert_refused(capsys, arguments, "predict: 12 unknowns would take about 277 days")
    status, _, err = run(capsys, *arguments.split(), "--yes")
    assert (status, err.count("\n")) == (0, 1)


def test_the_stability_of_many_unknowns_is_found_only_where_it_is_asked_for(capsys, monkeypatch):
    monkeypatch.setattr(cost, "MANY", 11)
    monkeypatch.setattr(prediction, "LONG", 0.0)
    arguments = "predict", "two_state", "--steps", "10"
    _, out, err = run(capsys, *arguments)
    assert "stable" not in out
    assert "without the stability, which --stability finds" in err
    _, out, err = run(capsys, *arguments, "--stability")
    assert "stable in mean" in out
    assert "--no-stability takes less" in err
    monkeypatch.setattr(cost, "MANY", 12)
    assert "stable in mean" in run(capsys, *arguments)[1]


def test_ctrl_c_stops_a_prediction(capsys, monkeypatch):
    def compute(*_, on_progress, **__):
        on_progress("the first stage")
        _thread.interrupt_main()
        while True:
            time.sleep(0.01)
            on_progress("the next stage")

    monkeypatch.setattr(summary, "summarize", compute)
    status, out, err = run(capsys, "predict", "two_state")
    assert (status, out) == (130, "")
    assert err == "emphatic: interrupted\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("predict baird --learner gme", "did you mean 'gem'?"),
        ("predict baird --learner gem-etd", "what learns emphasis.kappa, emphasis.w is"),
        ("predict baird --learner td --ridge 1", "ridge: td has none"),
        ("predict baird --step-size 0", "a step size must be positive"),
        ("predict baird --steps 0", "steps: got 0"),
        ("predict baird --runs 3", "runs: got 3"),
        ("predict baird --plot picture.abc", "ends in 'abc'"),
        ("predict baird --initial nothing.npy", "initial: nothing.npy does not exist"),
        ("predict two_state --learner gme(0.1)", "did you mean 'gem'?"),
        ("predict two_state --learner gem(0.1) --step-size 0.2", "gem(0.1) has its own; leave out"),
        ("predict two_state --learner gem(0.1) --ridge 0.2", "ridge: got 0.2, but gem(0.1) has"),
        ("predict two_state --learner followon --step-size 0.2", "followon has none"),
        ("predict two_state --learner followon --best", "best: followon has no step size"),
        ("predict two_state --learner constant(3)", "measure: not given"),
        ("predict two_state --learner gem(0.1) --measure value", "gem estimates the emphasis"),
        ("predict grid --width 40 --height 40", "second moments would need"),
        ("predict garnet --num-states 300 --num-features 60", "of memory, and 1 GiB are available"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, monkeypatch, arguments, message):
    monkeypatch.setattr(_work, "available_memory", lambda: 2.0**30)
    assert_refused(capsys, arguments, message)


def test_a_function_of_ones_own_that_makes_no_learner_is_refused(monkeypatch, tmp_path, capsys):
    (tmp_path / "nothing.py").write_text("def make():\n    return None\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    command = "predict two_state --steps 10 --learner nothing:make"
    assert_refused(capsys, command, "learner: got a NoneType; a learner, such as gem(0.025), is")
