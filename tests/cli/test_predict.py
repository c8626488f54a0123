"""`emphatic predict`: exact curves as JSON, tables and pictures."""

import json

import numpy as np
import pytest

from emphatic import learners, predict, problems

from .command import assert_refused, run

PREDICTED = ["steps", "emphasis_rmse", "limit", "mean_threshold", "mean_square_threshold"]


def test_predict_prints_the_exact_curve(capsys, tmp_path):
    arguments = ("predict", "two_state", "--learner", "gem", "--step-size", "0.02", "--json")
    path = tmp_path / "curve.png"
    more = ("--steps", "1e3", "--best", "--plot", str(path), "--runs", "3")
    status, out, _ = run(capsys, *arguments, *more)
    assert status == 0
    found = json.loads(out)
    assert list(found) == [*PREDICTED, "lyapunov", "best_step_size"]
    problem = problems.two_state()
    curve = predict.learning_curve(problem, learners.gem(0.02), found["steps"])
    np.testing.assert_allclose(found["emphasis_rmse"], curve.rmse, rtol=1e-9)
    assert (found["steps"][0], found["steps"][-1]) == (0, 1000)
    stable = predict.thresholds(problem, learners.gem)
    assert (found["mean_threshold"], found["mean_square_threshold"]) == (
        stable.mean,
        stable.mean_square,
    )
    assert found["lyapunov"]["low"] < found["lyapunov"]["estimate"] < found["lyapunov"]["high"]
    best = predict.learning_curve(problem, learners.gem(found["best_step_size"]), [1000])
    assert best.rmse[0] < curve.rmse[-1]
    assert path.read_bytes().startswith(b"\x89PNG")


def test_predict_speaks_of_values_and_of_given_weights(capsys, tmp_path):
    np.savetxt(tmp_path / "weights.txt", [3.0])
    arguments = ("predict", "two_state", "--learner", "td", "--target", "behavior", "--steps", "10")
    status, out, _ = run(capsys, *arguments, "--initial", str(tmp_path / "weights.txt"), "--json")
    found = json.loads(out)
    assert status == 0
    error = np.sqrt(np.mean((3.0 * problems.two_state().x) ** 2))  # all values are 0
    np.testing.assert_allclose(found["value_rmse"][0], error)
    assert found["best_step_size"] is None
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
