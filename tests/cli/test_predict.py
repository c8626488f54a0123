"""`emphatic predict`: exact curves as JSON, tables and pictures."""

import json

import numpy as np
import pytest

from emphatic import learners, predict, problems

from .command import assert_refused, run

KEYS = ["steps", "emphasis_rmse", "limit", "mean_threshold", "mean_square_threshold"]


def test_predict_prints_the_exact_curve(capsys, tmp_path):
    arguments = ("predict", "two_state", "--learner", "gem", "--step-size", "0.02", "--json")
    path = tmp_path / "curve.png"
    options = ("--steps", "1e3", "--best", "--plot", str(path), "--runs", "3")
    status, out, _ = run(capsys, *arguments, *options)
    assert status == 0
    prediction = json.loads(out)
    assert list(prediction) == [*KEYS, "lyapunov", "best_step_size"]
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
    assert "stable in mean square up to step size" in out


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
        ("predict baird --initial nothing.npy", "initial: nothing.npy cannot be read"),
        ("predict garnet --num-states 300 --num-features 60", "GiB of memory"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, arguments, message):
    assert_refused(capsys, arguments, message)
