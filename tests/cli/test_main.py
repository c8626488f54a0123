"""The command line, as a user meets it."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import gettempdir
from types import SimpleNamespace

import numpy as np
import pytest
import xarray

from emphatic import cli, learners, MDP, oracle, predict, Problem, problems, Softmax, store
from emphatic.agents import NetworkSoftmax, over_states
from emphatic.figures import policy_evaluation
from emphatic.problems.counterexample import ACTOR_FEATURES


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    """The exit status, standard output and standard error of a command."""
    status = cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def solved(capsys, *arguments: str) -> dict:
    status, out, err = run(capsys, "solve", *arguments, "--json")
    assert (status, err) == (0, "")

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(out, parse_constant=refuse)


# What is printed


@pytest.mark.parametrize("features", ["original", "one-hot", "zero-hot", "aliased"])
@pytest.mark.parametrize(
    ("solid", "others", "seventh", "value", "radius"),
    [
        ("0.05", "110.725", "35.65", "95", "1.0491"),
        ("0.1", "104.95", "70.3", "90", "0.9948"),
        ("0.3", "81.85", "208.9", "70", "1.1778"),
    ],
)
def test_baird_table_is_printed_to_all_digits(
    capsys, features, solid, others, seventh, value, radius
):
    status, out, _ = run(capsys, "solve", "baird", "--features", features, "--solid", solid)
    assert status == 0
    rows = [line.split() for line in out.splitlines()]
    states = {row[0]: row for row in rows if row and row[0] in "1234567"}
    assert list(states) == list("1234567")
    for state, row in states.items():
        _, d, m, _, _, v, *_ = row
        assert (d, m, v) == ("0.142857", seventh if state == "7" else others, value)
    line = next(row for row in rows if row[:1] == ["radius"])
    assert f"{float(line[6]):.4f}" == radius
    assert line[7] == ("(finite" if solid == "0.1" else "(infinite")


def test_json_is_keyed_by_the_functions_of_the_oracle(capsys):
    found = solved(capsys, "baird", "--features", "aliased", "--solid", "0.3")
    problem = problems.baird("aliased", 0.3)
    for name in ("stationary", "values", "action_values", "emphasis", "density_ratio"):
        np.testing.assert_allclose(found[name], getattr(oracle, name)(problem), rtol=1e-12)
    np.testing.assert_allclose(found["objective"], 70.0)
    assert found["followon_variance"] == ["inf"] * 7
    np.testing.assert_allclose(found["contraction"]["modulus"], oracle.contraction(problem).modulus)
    assert found["truncation_length"] == oracle.truncation_length(problem)
    assert found["labels"] == [1, 2, 3, 4, 5, 6, 7]
    gem = found["gem_system"]
    np.testing.assert_allclose(gem["solution"], oracle.gem_system(problem).solution(), rtol=1e-9)
    exact = {name for name in found if hasattr(oracle, name)}
    assert set(found) - exact == {"problem", "labels", "notes"}
    assert {name for name in dir(oracle) if name.endswith("_system")} <= exact


def test_errors_of_limits_are_distances_under_the_behaviour(capsys):
    found = solved(capsys, "baird", "--features", "aliased", "--ridge", "1e-4")
    problem = problems.baird("aliased")
    w = np.split(oracle.gem_system(problem, ridge=1e-4).solution(), 2)[1]
    error = np.sqrt(((problem.x @ w - oracle.emphasis(problem)) ** 2).mean())
    np.testing.assert_allclose(found["gem_system"]["error"], error)
    u = np.split(oracle.gq2_system(problem, ridge=1e-4).solution(), 2)[1]
    q = oracle.action_values(problem)
    square = ((problem.xa @ u - q) ** 2 * problem.behavior).sum(1).mean()
    np.testing.assert_allclose(found["gq2_system"]["error"], np.sqrt(square))


def test_learners_that_diverge_are_named(capsys):
    _, out, _ = run(capsys, "solve", "two_state")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "diverges" in lines["TD(0)"]
    assert "-0.47" in lines["TD(0)"]
    assert "diverges" in lines["reversed"]
    assert "diverges" not in lines["GTD2"]
    assert "13 ratios and more" in lines["truncated"]
    _, out, _ = run(capsys, "solve", "baird", "--features", "original")
    assert "singular: least norm" in out
    assert "none is stable" in out


def test_states_too_rare_to_believe_are_not_printed(capsys, tmp_path):
    """A walk that drifts hard to the left hardly ever reaches the right end."""
    states = 12
    p = np.zeros((states, 2, states))
    p[np.arange(states), 0, np.maximum(np.arange(states) - 1, 0)] = 1.0
    p[np.arange(states), 1, np.minimum(np.arange(states) + 1, states - 1)] = 1.0
    behavior = np.tile([0.99, 0.01], (states, 1))
    problem = Problem(MDP(p, 1.0, 0.9), behavior, 1.0, np.eye(states), target=behavior)
    assert oracle.stationary(problem).min() < 1e-12
    problems.save(problem, tmp_path / "rare.npz")
    _, out, _ = run(capsys, "solve", str(tmp_path / "rare.npz"))
    assert "(finite variance)" in out  # what is not shown is not infinite
    found = solved(capsys, str(tmp_path / "rare.npz"))
    rare = np.array(found["stationary"]) < 1e-12
    for name in ("emphasis", "density_ratio", "followon_variance"):
        assert [value is None for value in found[name]] == rare.tolist()
    assert "noise" in found["notes"][0]
    status, out, _ = run(capsys, "solve", str(tmp_path / "rare.npz"))
    assert status == 0
    assert "are noise there and not shown" in " ".join(out.split())


def test_many_states_are_summarised(capsys):
    status, out, _ = run(capsys, "solve", "grid", "--width", "1e1", "--height", "9")
    assert status == 0
    assert "90 states" in out
    assert "mean under d" in out


@pytest.mark.parametrize("name", [*problems.NAMED])
def test_every_named_problem_can_be_solved(capsys, name):
    found = solved(capsys, name)
    assert abs(sum(found["stationary"]) - 1.0) < 1e-12


def test_problems_are_listed_with_their_options(capsys):
    status, out, _ = run(capsys, "problems")
    assert status == 0
    for name in problems.NAMED:
        assert f"\n{name}  " in "\n" + out
    assert "--features original" in out
    assert "zero-hot" in out
    assert "$" not in out
    assert "in [0, 1]" in out
    assert "--no-goal" in out


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_is_given(capsys, arguments):
    status, out, _ = run(capsys, *arguments)
    assert status == 0
    for command in ("problems", "solve", "certify", "predict", "export", "reproduce"):
        assert command in out


@pytest.mark.parametrize("command", ["solve", "certify", "predict", "export"])
def test_each_command_explains_its_options(capsys, command):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "baird", "--help"])
    assert not stop.value.code
    out = capsys.readouterr().out
    assert "--solid" in out
    assert "--target" in out


def test_the_version_is_printed(capsys):
    status, out, _ = run(capsys, "--version")
    assert (status, out.split()[0]) == (0, "emphatic")


# Files and targets


def test_a_problem_can_be_exported_and_solved_from_its_file(capsys, tmp_path):
    path = str(tmp_path / "walk.npz")
    status, out, _ = run(capsys, "export", "random_walk", "--right", "0.7", "--out", path)
    assert status == 0
    assert path in out
    direct, read = solved(capsys, "random_walk", "--right", "0.7"), solved(capsys, path)
    assert direct["emphasis"] == read["emphasis"]
    status, out, _ = run(capsys, "certify", path)
    assert status == 1


@pytest.mark.parametrize("suffix", [".npy", ".txt", ".csv"])
def test_a_target_can_be_read_from_a_file(capsys, tmp_path, suffix):
    target = np.tile([0.3, 0.7], (7, 1))
    path = tmp_path / f"target{suffix}"
    if suffix == ".npy":
        np.save(path, target)
    else:
        np.savetxt(path, target, delimiter="," if suffix == ".csv" else " ")
    found = solved(capsys, "baird", "--target", str(path))
    np.testing.assert_allclose(found["emphasis"][6], 208.9)


def test_the_target_can_be_uniform_or_the_behaviour(capsys):
    on_policy = solved(capsys, "baird", "--target", "behavior")
    np.testing.assert_allclose(on_policy["emphasis"], 100.0)
    uniform = solved(capsys, "baird", "--target", "uniform")
    np.testing.assert_allclose(uniform["objective"], 50.0)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
@pytest.mark.parametrize("name", ["baird", "grid"])
def test_a_picture_is_drawn(capsys, tmp_path, suffix, name):
    path = tmp_path / f"picture.{suffix}"
    status, _, _ = run(capsys, "solve", name, "--plot", str(path))
    assert status == 0
    head = path.read_bytes()[:300]
    assert {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix] in head


# Certificates


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--features", "one-hot"), 0, "covered by Theorem 1, Theorem 2"),
        (("--features", "zero-hot"), 0, "covered by Theorem 1, Theorem 2"),
        (("--features", "aliased"), 0, "the features express m_pi"),
        (("--features", "original"), 1, "singular: rank 7 of 8"),
    ],
)
def test_certify_says_what_the_paper_says(capsys, arguments, status, says):
    given = ("--ridge", "1e-6", "--step-size", "1/t^0.8")
    found, out, _ = run(capsys, "certify", "baird", *arguments, *given)
    assert found == status
    assert says in out


def test_certify_of_an_actor(capsys):
    arguments = ["certify", "counterexample", "--continuing", "--policy", "softmax"]
    arguments += ["--ridge", "1e-6", "--step-size", "1/t^0.6", "--actor-step-size", "1/t^0.9"]
    status, out, _ = run(capsys, *arguments, "--damping", "10", "--tolerance", "0.1")
    assert status == 0
    assert "Theorem 3" in out
    assert "largest ridge within 0.1" in out
    assert run(capsys, *arguments)[0] == 1  # without damping
    status, out, _ = run(capsys, *arguments, "--damping", "10", "--json")
    found = json.loads(out)
    assert found["covered"] is True
    assert {row["key"] for row in found["rows"]} >= {"1.ergodic", "2.C", "3", "4b.A", "damping"}


def test_certify_reads_theta(capsys, tmp_path):
    path = tmp_path / "theta.npy"
    np.save(path, np.ones(14))
    arguments = ("certify", "baird", "--features", "one-hot", "--policy", "softmax")
    status, out, _ = run(capsys, *arguments, "--theta", str(path))
    assert status == 1
    assert "at this theta" in out


@pytest.fixture
def figure(tmp_path):
    """Options of the figure's agent: what its actor sees, where it starts, and its damping."""
    (tmp_path / "features.csv").write_text("1,0\n0,1\n0,1\n")
    np.save(tmp_path / "theta.npy", np.log([9.0, 9.0, 1.0, 1.0]))
    files = ["--actor-features", str(tmp_path / "features.csv")]
    files += ["--theta", str(tmp_path / "theta.npy")]
    return ["--policy", "softmax", *files, "--damping", "100"]


SCHEDULES = ["--step-size", "0.1/(1+t/1e4)^0.6", "--actor-step-size", "4e-4/(1+t/1e4)^0.9"]


@pytest.mark.parametrize("ridge", ["1e-3", "1e-5"])
def test_certify_accepts_the_figures_agent(capsys, figure, ridge):
    arguments = ["certify", "counterexample", "--continuing", *figure, *SCHEDULES]
    status, out, _ = run(capsys, *arguments, "--ridge", ridge, "--json")
    found = json.loads(out)
    assert status == 0
    assert "COF-PAC visits every neighbourhood" in found["advice"]
    assert found["covered"] is found["reached"] is True
    problem, policy = problems.counterexample(continuing=True), over_states(ACTOR_FEATURES, 2)
    theta = np.log([9.0, 9.0, 1.0, 1.0])
    bias = np.linalg.norm(oracle.bias(problem, policy, theta, float(ridge)))
    np.testing.assert_allclose(found["start"]["bias_norm"], bias)
    np.testing.assert_allclose(found["end"]["objective"], 9.25, atol=1e-4)
    assert found["end_note"] == "where the mean field of COF-PAC leads"


def test_certify_accepts_the_figures_agent_on_baird(capsys):
    arguments = ["certify", "baird", "--features", "aliased", "--policy", "tabular", *SCHEDULES]
    status, out, _ = run(capsys, *arguments, "--ridge", "1e-3", "--damping", "100")
    assert status == 0
    assert "covered by Theorem 1, Theorem 2, Theorem 3" in out
    assert "linear softmax: C_0 = 3.5 for every theta" in out  # one parameter for each (s, a)
    assert ": in {|grad J| <= |b|}" in out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["--ridge", "0"], "with eta = 0 and a changing policy convergence is an open problem"),
        (["--actor-step-size", "4e-4/(1+t/1e4)^0.6"], "powers 0.6 <= 0.6: no d will do"),
        (["--step-size", "0.1", "--actor-step-size", "4e-4"], "no theorem here covers a constant"),
    ],
)
def test_certify_rejects_what_theorem_3_does_not_cover_and_says_why(capsys, figure, change, says):
    arguments = ["certify", "counterexample", "--continuing", *figure, *SCHEDULES]
    status, out, _ = run(capsys, *arguments, "--ridge", "1e-3", *change)
    assert status == 1
    assert says in " ".join(out.split())
    assert "does not Theorem 3" in out
    assert "no theorem covers this set-up" in out


def test_certify_rejects_a_behaviour_with_a_zero(capsys, figure, tmp_path):
    mu = np.array([[0.25, 0.75], [1.0, 0.0], [0.25, 0.75]])
    problem = problems.counterexample(continuing=True)
    problem = dataclasses.replace(problem, behavior=mu, target=None)
    problems.save(problem, tmp_path / "zero.npz")
    for name, actor in (
        (str(tmp_path / "zero.npz"), figure),
        ("collision", ["--policy", "tabular"]),
    ):
        status, out, err = run(capsys, "certify", name, *actor, *SCHEDULES, "--ridge", "1e-3")
        assert (status, err) == (1, "")
        words = " ".join(out.split())
        assert "smallest mu(a|s) = 0 (state " in words
        assert "let the behaviour take every action with positive probability" in words
        assert "no theorem covers this set-up" in words


def test_certify_of_a_network(capsys, figure, tmp_path):
    """On the state features of the problem, or on those of the actor."""
    arguments = ["certify", "counterexample", "--continuing", "--policy", "network", "--json"]
    arguments += ["--theta-end", str(tmp_path / "last.npy")]
    problem = problems.counterexample(continuing=True)
    np.save(tmp_path / "last.npy", np.ones(NetworkSoftmax(problem.x, 2).num_parameters))
    assert run(capsys, *arguments)[0] == 1
    policy = NetworkSoftmax(ACTOR_FEATURES, 2)
    np.save(tmp_path / "last.npy", np.ones(policy.num_parameters))
    status, out, _ = run(capsys, *arguments, *figure[2:4], "--ridge", "1e-3")
    found = json.loads(out)
    assert status == 1
    rows = {row["key"]: row for row in found["rows"]}
    assert rows["3"]["verdict"] == "cannot be decided"
    assert "no constant serves every theta" in rows["3"]["figure"]
    assert found["end_note"] == "at theta_end"
    bias = oracle.bias(problem, policy, np.ones(policy.num_parameters), 1e-3)
    np.testing.assert_allclose(found["end"]["bias_norm"], np.linalg.norm(bias))


def test_one_column_and_one_number_are_read_as_what_they_stand_for(capsys, tmp_path):
    """A feature for each state, a parameter for each action, a probability for each state."""
    (tmp_path / "x.txt").write_text("1\n2\n3\n")
    (tmp_path / "theta.txt").write_text("0.5 -0.5")
    arguments = ["certify", "counterexample", "--policy", "softmax"]
    files = ["--actor-features", str(tmp_path / "x.txt"), "--theta", str(tmp_path / "theta.txt")]
    assert run(capsys, *arguments, *files)[0] == 1
    (tmp_path / "theta.txt").write_text("0.5")
    one = Problem(MDP(np.ones((1, 1, 1)), 1.0, 0.9), np.ones((1, 1)), 1.0, np.ones((1, 1)))
    problems.save(one, tmp_path / "one.npz")
    arguments = ["certify", str(tmp_path / "one.npz"), "--policy", "softmax", *files[2:]]
    assert run(capsys, *arguments)[0] == 1
    (tmp_path / "target.txt").write_text("1")
    arguments = ["certify", str(tmp_path / "one.npz"), "--target", str(tmp_path / "target.txt")]
    assert run(capsys, *arguments)[0] == 1


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("1 0\n0 1", "actor_features: got shape (2, 2); (3, k) is required"),
        ("1 0\n0 1\n0 nan", "actor_features: entry (2, 1) is nan"),
        ("", "actor_features: got shape"),
        ("one two", "cannot be read"),
    ],
)
def test_features_of_an_actor_that_do_not_fit_are_one_line(capsys, tmp_path, features, message):
    path = tmp_path / "x.txt"
    path.write_text(features)
    for policy in ("softmax", "network"):
        arguments = ("--policy", policy, "--actor-features", str(path))
        status, out, err = run(capsys, "certify", "counterexample", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert message in err
    np.save(tmp_path / "flat.npy", np.ones(3))
    arguments = ("--policy", "softmax", "--actor-features", str(tmp_path / "flat.npy"))
    assert (
        "actor_features: got shape (3,)" in run(capsys, "certify", "counterexample", *arguments)[2]
    )


def test_parameters_at_the_end_must_fit_too(capsys, tmp_path):
    np.save(tmp_path / "last.npy", np.zeros(3))
    arguments = ("--policy", "tabular", "--theta-end", str(tmp_path / "last.npy"))
    status, _, err = run(capsys, "certify", "counterexample", *arguments)
    assert (status, err.count("\n")) == (2, 1)
    assert "theta_end: got shape (3,); (6,) (parameters) is required" in err


# Predictions

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


# Errors: one line, exit status 2, no traceback


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("slove baird", "did you mean 'solve'?"),
        ("solve", "problem: not given"),
        ("solve --json", "problem: not given"),
        ("solve bard", "did you mean 'baird'?"),
        ("solve missing.npz", "missing.npz does not exist"),
        ("solve baird --featurs aliased", "Unrecognized options: --featurs"),
        ("solve baird --features alased", "invalid choice 'alased'"),
        ("solve baird --solid much", "Error parsing --solid"),
        ("solve baird --solid 1.5", "solid: got 1.5; a probability"),
        ("solve baird --discount 1", "discount: got 1"),
        ("solve baird --ridge nan", "ridge: got nan"),
        ("solve baird --target unifrom", "did you mean 'uniform'?"),
        ("solve baird --plot nowhere/at/all.png", "the directory nowhere/at does not exist"),
        ("solve baird --plot picture.abc", "ends in 'abc'"),
        ("solve garnet --num-states 2.5", "2.5 is not a whole number"),
        ("solve garnet --num-states inf", "inf"),
        ("solve garnet --branching 30", "branching: got 30"),
        ("solve gymnasium --env CartPole-v1", "invalid choice"),
        ("solve garnet --seed -1", "seed: got -1"),
        ("solve garnet --greediness inf", "greediness: got inf"),
        ("solve grid --width 1e30", "width: got 1000000000000000019884624838656"),
        ("solve grid --width 1e9 --height 1e9", "does not fit in memory"),
        ("solve baird --plot .", "plot: . ends in ''"),
        ("certify baird --damping -1", "a fixed target has no actor"),
        ("certify baird --actor-step-size 1/t", "a fixed target has no actor"),
        ("certify baird --step-size=", "--step-size: step size: got ''"),
        ("predict baird --learner gme", "did you mean 'gem'?"),
        ("predict baird --learner gem-etd", "what learns emphasis.kappa, emphasis.w is"),
        ("predict baird --learner td --ridge 1", "ridge: td has none"),
        ("predict baird --step-size 0", "a step size must be positive"),
        ("predict baird --steps 0", "steps: got 0"),
        ("predict baird --runs 3", "runs: got 3"),
        ("predict baird --plot picture.abc", "ends in 'abc'"),
        ("predict baird --initial nothing.npy", "initial: nothing.npy cannot be read"),
        ("predict garnet --num-states 300 --num-features 60", "GiB of memory"),
        ("export baird --out .", "is a directory"),
        ("solve baird more", "Unrecognized options: more"),
        ("problems all", "takes no arguments"),
        ("certify baird --step-size fast", "step size: got 'fast'"),
        ("certify baird --ridge -1", "ridge: got -1"),
        ("certify baird --policy softmax --target uniform", "a softmax policy has none"),
        ("certify baird --policy tabular --target uniform", "a tabular policy has none"),
        ("certify baird --policy network --target uniform", "a network policy has none"),
        ("certify baird --policy linear", "invalid choice 'linear'"),
        ("certify baird --theta theta.npy", "theta: a fixed target has no actor"),
        ("certify baird --theta-end theta.npy", "theta_end: a fixed target has no actor"),
        ("certify baird --actor-features x.npy", "actor_features: a fixed target has no actor"),
        (
            "certify baird --policy tabular --actor-features x.npy",
            "actor_features: a tabular policy has none",
        ),
        (
            "certify baird --policy softmax --actor-features x.npy",
            "actor_features: x.npy cannot be",
        ),
        ("certify baird --policy softmax --theta-end x.npy", "theta_end: x.npy cannot be read"),
        ("certify baird --policy softmax --damping -1", "damping: got -1"),
        ("export baird --out nowhere/at/all.npz", "nowhere/at/all.npz cannot be written"),
        ("reproduce", "figure: not given; `emphatic reproduce FIGURE` needs one of emphasis, eval"),
        ("reproduce --runs 3", "figure: not given"),
        ("reproduce emphases", "did you mean 'emphasis'?"),
        ("reproduce evalution --runs 3", "did you mean 'evaluation'?"),
        ("reproduce figure2", "known: emphasis, evaluation"),
        ("reprodce emphasis", "did you mean 'reproduce'?"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, arguments, message):
    status, out, err = run(capsys, *arguments.split())
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("emphatic: ")
    assert message in err


def test_a_picture_that_cannot_be_written_is_one_line(capsys, tmp_path):
    (tmp_path / "folder.png").mkdir()
    status, _, err = run(capsys, "solve", "baird", "--plot", str(tmp_path / "folder.png"))
    assert (status, err.count("\n")) == (2, 1)
    assert "is a directory" in err


def test_parameters_of_the_wrong_size_are_one_line(capsys, tmp_path):
    for content in ("", "1 2 3"):
        (tmp_path / "theta.txt").write_text(content)
        arguments = ("--policy", "softmax", "--theta", str(tmp_path / "theta.txt"))
        status, _, err = run(capsys, "certify", "baird", *arguments)
        assert (status, err.count("\n")) == (2, 1)
        assert "theta: got shape" in err


def test_a_narrow_terminal_still_shows_every_digit(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run(capsys, "solve", "grid", "--width", "4", "--height", "4")
    assert "…" not in out
    assert "q(3)" in out


def test_a_file_that_is_no_target_is_one_line(capsys, tmp_path):
    for name, content in (("a.npy", b"\x93NUMPY"), ("b.txt", b"one two"), ("c.npy", b"")):
        path: Path = tmp_path / name
        path.write_bytes(content)
        status, _, err = run(capsys, "solve", "baird", "--target", str(path))
        assert status == 2
        assert err.count("\n") == 1
        assert "cannot be read" in err


# From the installed command


def installed(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    command = Path(sys.executable).parent / "emphatic"
    env = {"PATH": "/usr/bin:/bin", "HOME": gettempdir(), **environment}
    return subprocess.run([command, *arguments], capture_output=True, text=True, env=env)


def test_the_installed_command_is_exact_without_x64(capsys):
    """Neither the tables nor the gradient depend on how JAX is set."""
    process = installed("solve", "baird", "--solid", "0.3", "--json", JAX_ENABLE_X64="0")
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    np.testing.assert_allclose(found["emphasis"], [81.85] * 6 + [208.9], rtol=1e-13)
    np.testing.assert_allclose(found["values"], 70.0, rtol=1e-13)
    arguments = ("certify", "baird", "--features", "zero-hot", "--policy", "softmax")
    arguments += ("--ridge", "1e-5", "--tolerance", "0.1", "--json")
    process = installed(*arguments, JAX_ENABLE_X64="0")
    assert process.returncode == 1, process.stderr
    _, out, _ = run(capsys, *arguments)
    here, there = json.loads(out)["ridge_cost"], json.loads(process.stdout)["ridge_cost"]
    for name, value in here.items():
        np.testing.assert_allclose(there[name], value, rtol=1e-9)  # float32 is 1e-7 off


def test_the_gradient_is_exact_without_x64():
    script = """
import jax, numpy as np
from emphatic import oracle, problems, Softmax
problem = problems.baird("one-hot")
theta = np.linspace(-1.0, 1.0, 14)
policy = Softmax(problem.xa)
assert not jax.config.jax_enable_x64
print(*oracle.policy_gradient(problem, policy, theta).tolist())
print(oracle.expectation(problem, lambda y: y.reward))
assert not jax.config.jax_enable_x64
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": gettempdir(), "JAX_ENABLE_X64": "0"},
    )
    assert process.returncode == 0, process.stderr
    gradient, reward = process.stdout.splitlines()
    problem = problems.baird("one-hot")
    expected = oracle.policy_gradient(problem, Softmax(problem.xa), np.linspace(-1.0, 1.0, 14))
    np.testing.assert_allclose([float(x) for x in gradient.split()], expected, rtol=1e-12)
    assert abs(float(reward) - 6.0 / 7.0) < 1e-15


def test_a_reader_that_stops_reading_is_no_error():
    command = Path(sys.executable).parent / "emphatic"
    process = subprocess.run(
        f"{command} solve garnet --num-states 60 | head -1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert "garnet" in process.stdout
    assert "Traceback" not in process.stderr


def test_what_the_readme_shows_is_what_the_commands_print():
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    blocks = [block for block in readme.split("```") if block.startswith("\n$ emphatic")]
    assert len(blocks) == 3
    folder = Path(sys.executable).parent
    for block in blocks:
        command, *expected = block.strip().splitlines()
        process = subprocess.run(
            f"{folder}/{command[2:]}",
            shell=True,
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONUTF8": "1"},
        )
        printed = [line.rstrip() for line in process.stdout.splitlines() if line.strip()]
        assert printed == [line.rstrip() for line in expected if line.strip()]


def test_export_writes_the_target_that_was_asked_for(capsys, tmp_path):
    path = str(tmp_path / "p.npz")
    assert run(capsys, "export", "baird", "--target", "behavior", "--out", path)[0] == 0
    read = problems.load(path)
    np.testing.assert_array_equal(read.target, read.behavior)


def test_every_option_of_certify_reaches_the_certificate(capsys):
    arguments = ["certify", "baird", "--features", "one-hot", "--policy", "softmax", "--json"]
    arguments += ["--ridge", "1e-3", "--step-size", "1/t^0.6", "--actor-step-size", "2/t^0.9"]
    _, out, _ = run(capsys, *arguments, "--damping", "10", "--tolerance", "0.5")
    rows = {row["key"]: row["figure"] for row in json.loads(out)["rows"]}
    assert rows["ridge"] == "eta = 0.001"
    assert rows["alpha"].startswith("1/t^0.6:")
    assert rows["beta"].startswith("2/t^0.9:")
    assert "= 11," in rows["damping"]
    assert json.loads(out)["ridge_cost"]["tolerance"] == 0.5


def test_bars_are_drawn_around_the_emphasis(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    from emphatic import _show
    from emphatic.solve import solve

    drawn = []
    monkeypatch.setattr(Axes, "errorbar", lambda self, x, y, e, **kwargs: drawn.append((y, e)))
    problem = problems.baird("one-hot", 0.1)
    exact, _ = solve(problem)
    _show.draw(tmp_path / "a.png", "", problem, exact)
    ((middle, spread),) = drawn
    np.testing.assert_array_equal(middle, exact["emphasis"])
    upward = np.atleast_2d(spread)[-1]
    np.testing.assert_array_equal(upward, np.sqrt(exact["followon_variance"]))


# Figures


@pytest.mark.parametrize("figure", ["emphasis", "evaluation"])
def test_reproduce_writes_data_figure_and_summary(reproduced, figure):
    folder, status, out, err = reproduced[figure]
    assert status == 0
    written = ["data", "figure.png", "figure.svg", "summary.json"]
    assert sorted(path.name for path in folder.iterdir()) == written
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (folder / "figure.svg").read_bytes()
    names = {
        "emphasis": ["gem-0.1", "gem-0.3", "references-0.1", "references-0.3"],
        "evaluation": ["baselines", "gem-etd"],
    }
    assert sorted(path.name for path in (folder / "data").iterdir()) == names[figure]
    for path in (folder / "data").iterdir():
        dataset = store.load(path)
        assert dataset["time"].values.tolist() == [1000, 2000]
        assert dataset.sizes["run"] == 2
        facts = {"num_steps": 2000, "seed": 0, "interrupted": 0}
        assert facts.items() <= dataset.attrs.items()
        assert set(dataset["engine"].values.ravel().tolist()) == {"fused"}
    assert f"written to {folder}" in " ".join(out.split())
    assert err.count("\n") == 1  # the bar, as it was at the end, and no warning
    assert "100%" in err
    assert "updates/s" in err


@pytest.mark.parametrize("figure", ["emphasis", "evaluation"])
def test_reproduce_prints_the_chosen_step_sizes_and_every_claim(reproduced, figure):
    folder, _, out, _ = reproduced[figure]
    summary, words = json.loads((folder / "summary.json").read_text()), " ".join(out.split())
    listed = [row for row in summary["rows"] if row["best"] and not row["ridge"]]
    table = [line for line in out.splitlines() if line.rstrip().endswith(" of 2")]
    assert len(table) == len(listed)
    for row in listed:
        size = "-" if row["exponent"] is None else f"0.1 x 2^{row['exponent']}"
        start = f"{row['algorithm']} {row['features']} {row['solid']:g} {size} "
        errors = f"{row['final_mean']:.4g} +- {row['final_std']:.2g}"
        errors += f" {row['auc_mean']:.4g} +- {row['auc_std']:.2g}"
        assert f"{start}{errors} {row['diverged_runs']} of 2" in words
    for claim in summary["claims"]:
        verdict = "holds" if claim["holds"] else "not shown"
        assert f"{verdict} {claim['claim']} ({claim['evidence']['held']} of " in words
    for name in {row["algorithm"] for row in summary["rows"]}:
        assert summary["engines"][name] == ["fused"]
        assert f"{name} by fused" in words


def test_reproduce_gives_the_same_rows_on_either_engine(reproduced, capsys, monkeypatch, tmp_path):
    """To float32 accuracy; one set of features will do."""
    features = ("aliased",)
    monkeypatch.setattr(policy_evaluation, "FEATURES", features)
    shorter = [
        dataclasses.replace(each, cases={**each.cases, "features": features})
        for each in policy_evaluation.EXPERIMENTS
    ]
    monkeypatch.setattr(policy_evaluation, "EXPERIMENTS", shorter)
    arguments = ["--runs", "2", "--steps", "2e3", "--engine", "scan", "--out", str(tmp_path)]
    assert run(capsys, "reproduce", "evaluation", *arguments)[0] == 0
    data = store.load(tmp_path / "evaluation" / "data" / "gem-etd")
    assert set(data["engine"].values.ravel().tolist()) == {"scan"}
    scanned, fused = (
        json.loads((folder / "summary.json").read_text())["rows"]
        for folder in (tmp_path / "evaluation", reproduced["evaluation"][0])
    )
    fused = [row for row in fused if row["features"] in features]
    for here, there in zip(scanned, fused, strict=True):
        for key in here.keys() - {"final_mean", "final_std", "auc_mean", "auc_std"}:
            assert here[key] == there[key]
        for key in ("final", "auc"):
            for part in (f"{key}_mean", f"{key}_std"):
                if "inf" in (here[part], there[part]):
                    assert here[part] == there[part]
                else:
                    assert abs(here[part] - there[part]) <= 1e-3 * there[f"{key}_mean"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--runs 0", "runs: got 0; at least 1 is required"),
        ("--runs -2", "runs: got -2"),
        ("--runs 1.5", "1.5 is not a whole number"),
        ("--runs many", "Error parsing --runs"),
        ("--runs 1e10", "runs: got 10000000000; at most 10^9"),
        ("--steps 0", "steps: got 0; at least 1 is required"),
        ("--steps inf", "inf is not a whole number"),
        ("--seed -1", "seed: got -1; at least 0 is required"),
        ("--seed 3e9", "seed: got 3000000000; below 2^31 is required"),
        ("--engine gpu", "invalid choice 'gpu'"),
        ("--step 5", "--step"),
        ("more", "Unrecognized options: more"),
        ("--out file", "out: file/evaluation cannot be written: Not a directory"),
        ("--out file/deeper", "cannot be written: Not a directory"),
        ("--out folder", "out: folder/evaluation cannot be written: File exists"),
    ],
)
def test_a_wrong_option_of_reproduce_is_one_line_before_anything_runs(
    capsys, monkeypatch, tmp_path, arguments, message
):
    def run_nothing(*_, **__):
        raise AssertionError("nothing may run")

    monkeypatch.setattr(store, "run", run_nothing)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder/evaluation"):
        (tmp_path / name).write_text("kept")
    status, out, err = run(capsys, "reproduce", "evaluation", *arguments.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("emphatic: ")
    assert message in err
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["file", "folder", "folder/evaluation"]
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["emphasis", "--help"]])
def test_reproduce_explains_its_options(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        cli.main(["reproduce", *arguments])
    assert not stop.value.code
    out = capsys.readouterr().out
    for option in ("--runs", "--seed", "--steps", "--out", "--engine", "--authors"):
        assert option in out
    assert "auto,fused,scan" in "".join(out.split())


def test_ctrl_c_ends_with_one_line_and_keeps_what_is_finished(tmp_path):
    """On a terminal, once the bar shows the first percent of a run that would take a minute."""
    pty = pytest.importorskip("pty")
    script = "import sys; from emphatic.cli import main; sys.exit(main())"
    arguments = ["reproduce", "evaluation", "--runs", "2", "--steps", "1e7", "--out"]
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments, str(tmp_path)],
        stderr=end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(end)
    seen = ""
    try:
        while not re.search(r"\b[1-9]%", seen):
            seen += os.read(terminal, 4096).decode()
        process.send_signal(signal.SIGINT)
        while text := _read(terminal):
            seen += text
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert "updates/s" in seen
    assert "Traceback" not in seen
    assert "Warning" not in seen
    assert seen.count("emphatic: ") == 1
    assert seen.endswith("emphatic: interrupted\r\n")
    folder = tmp_path / "evaluation"
    assert [path.name for path in folder.iterdir()] == ["data"]
    assert [path.name for path in (folder / "data").iterdir()] == ["gem-etd"]
    found = store.status(folder / "data" / "gem-etd")
    assert (found["cells"], found["running"]) == (20 * 5 * 2 * 4, [])
    assert found["done"] < found["cells"]


def _read(terminal: int) -> str:
    """What a process still writes; nothing once it has closed its end."""
    try:
        return os.read(terminal, 4096).decode()
    except OSError:
        return ""


def test_ctrl_c_before_anything_is_finished_is_one_line(capsys, monkeypatch, tmp_path):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "run", stop)
    status, out, err = run(capsys, "reproduce", "emphasis", "--out", str(tmp_path))
    assert (status, out) == (130, "")
    assert err.splitlines()[-1] == "emphatic: interrupted"
    assert err.count("emphatic: ") == 1


# Networks


@pytest.fixture
def flags(monkeypatch):
    """The flags of XLA, which commands that train change for the process."""
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    return lambda: os.environ["XLA_FLAGS"]


def test_every_core_is_a_device_but_no_more_than_runs(flags, monkeypatch):
    device = "--xla_force_host_platform_device_count"
    cli.networks.use_cores(30)
    assert flags() == f"{device}=3"
    cli.networks.use_cores(1)
    assert flags() == f"{device}=3"  # what is set already stays
    for given, runs, expected in (
        ("--xla_dump_to=d", 2, f"--xla_dump_to=d {device}=2"),
        (f"{device}=8", 2, f"{device}=8"),
        ("", -1, f"{device}=1"),
    ):
        monkeypatch.setenv("XLA_FLAGS", given)
        cli.networks.use_cores(runs)
        assert flags() == expected


def test_jax_has_not_begun_when_the_command_line_asks_for_devices():
    script = (
        "import os; from emphatic import cli; import emphatic.figures, emphatic.deep.policy; "
        "os.sched_getaffinity = lambda _: {0, 1}; cli.networks.use_cores(2); "
        "import jax; print(jax.device_count('cpu'))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert process.stdout.split() == ["2"], process.stderr


@pytest.mark.usefixtures("flags")
@pytest.mark.slow
def test_a_policy_is_trained_and_evaluated_on_a_box(capsys, tmp_path):
    out = tmp_path / "pendulum"
    arguments = "--env Pendulum-v1 --algorithm cof-pac --policy truncated --max-steps 9"
    arguments += f" --steps 2000 --out {out}"
    status, printed, err = run(capsys, "train", *arguments.split())
    assert (status, err) == (0, "")
    lines = printed.splitlines()
    assert [line.split(":")[0].strip() for line in lines[:3]] == [
        "0 of 2000 steps",
        "1000 of 2000 steps",
        "2000 of 2000 steps",
    ]
    assert all(re.search(r"J -\d+\.\d\d, return -\d+\.\d\d$", line) for line in lines[:3])
    assert lines[3] == f"written to {out}: curves.nc, experience, policy.safetensors"
    curves = xarray.load_dataset(out / "curves.nc", engine="scipy")
    assert curves["steps"].values.tolist() == [0, 1000, 2000]
    assert 0.8 < float(curves["ratio"][0, 2]) < 1.25  # a truncated policy stays in the box
    status, printed, _ = run(capsys, "evaluate", str(out), "--episodes", "3", "--json")
    found = json.loads(printed)
    assert (status, found["kind"], found["episodes"]) == (0, "truncated", 3)
    (only,) = found["runs"]
    assert only["length"] == {"mean": 9.0, "std": 0.0}
    assert only["undiscounted"]["mean"] <= only["discounted"]["mean"] < 0
    status, printed, _ = run(capsys, "evaluate", str(out / "policy.safetensors"), "--episodes", "3")
    assert status == 0
    assert f"{only['discounted']['mean']:.2f} +- {only['discounted']['std']:.2f}" in printed
    status, printed, err = run(capsys, "train", *arguments.split())
    assert (status, printed) == (2, "")
    assert "has a policy already" in err


@pytest.mark.usefixtures("flags")
@pytest.mark.slow
def test_policies_are_trained_with_numbers_of_actions_from_a_recording(capsys, tmp_path):
    from emphatic.deep import experience, gym

    given = tmp_path / "given.safetensors"
    experience.save(gym.record("CartPole-v1", 400, 4), given)
    arguments = f"--env CartPole-v1 --algorithm off-pac --seeds 2 --seed 5 --experience {given}"
    arguments += (
        f" --steps 400 --evaluate-every 400 --max-steps 40 --limit-ends --out {tmp_path / 'out'}"
    )
    status, printed, err = run(capsys, "train", *arguments.split())
    assert (status, err) == (0, "")
    assert re.search(r"400 of 400 steps: J \d+\.\d\d \+- \d+\.\d\d, return \d+", printed)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["curves.nc", "policy.safetensors"]  # nothing was recorded
    status, printed, _ = run(capsys, "evaluate", str(tmp_path / "out"), "--json")
    found = json.loads(printed)
    assert (status, found["kind"], [each["seed"] for each in found["runs"]]) == (
        0,
        "softmax",
        [5, 6],
    )


class Writer:
    """What TensorBoard's writer is called with."""

    def __init__(self, folder):
        self.folder, self.scalars, self.closed = folder, [], False
        Writer.last = self

    last: "Writer"

    def add_scalar(self, tag, value, step):
        self.scalars.append((tag, value, step))

    def close(self):
        self.closed = True


@pytest.fixture
def untrained(monkeypatch):
    """Training that ends at once, with two evaluations."""
    from emphatic.deep import policy

    def trained(*, out, watch, **options):
        out.mkdir()
        for steps in (0, 1000):
            watch(steps, {"J": np.full(2, steps + 0.5), "return": np.array([1.0, np.nan])})

    monkeypatch.setattr(policy, "trained", trained)


@pytest.mark.usefixtures("flags", "untrained")
def test_evaluations_are_logged_on_request(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=Writer))
    out = tmp_path / "out"
    assert run(capsys, "train", "--seeds", "2", "--tensorboard", "--out", str(out))[0] == 0
    assert Writer.last.folder == str(out / "tensorboard")
    assert Writer.last.closed
    values = [("J/0", 0.5, 0), ("J/1", 0.5, 0), ("return/0", 1.0, 0)]
    values += [("J/0", 1000.5, 1000), ("J/1", 1000.5, 1000), ("return/0", 1.0, 1000)]
    assert Writer.last.scalars == values


@pytest.mark.usefixtures("flags", "untrained")
def test_without_tensorboard_the_extra_is_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    status, out, err = run(capsys, "train", "--tensorboard", "--out", str(tmp_path / "out"))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "pip install 'emphatic[tensorboard]'" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train --env Pendulum-v2", "Gymnasium has no 'Pendulum-v2'; near it are 'Pendulum-v1'"),
        ("train --algorithm cof", "did you mean 'cof-pac'?"),
        ("train --env CartPole-v1 --algorithm td3", "TD3 needs a box of actions"),
        ("train --env CartPole-v1 --policy gaussian", "are numbers, for which there is softmax"),
        ("train --policy softmax", "are vectors, for which there is gaussian or truncated"),
        ("train --policy gauss", "invalid choice 'gauss'"),
        ("train --env Blackjack-v1", "the observations of 'Blackjack-v1' are Tuple"),
        ("train --steps 1234", "steps: got 1234; a multiple of 1000 is required"),
        ("train --steps 0", "steps: got 0; at least 1"),
        ("train --evaluate-every 15", "evaluate_every: got 15; 10 workers must divide it"),
        ("train --seeds 0", "seeds: got 0; at least 1"),
        ("train --seed -1", "seed: got -1; at least 0"),
        ("train --seed 4294967296", "seed: got 4294967296; below 2^32"),
        ("train --discount 1.5", "discount: got 1.5"),
        ("train --experience nowhere", "path: nowhere does not exist"),
        ("train --experience file", "path: file cannot be read as experience"),
        ("train --out file", "out: file cannot be written"),
        ("train --env reacher more", "Unrecognized options: more"),
        ("evaluate", "path: not given"),
        ("evaluate --json", "path: not given"),
        ("evaluate nowhere", "policy: nowhere does not exist"),
        ("evaluate file", "policy: file cannot be read as a policy"),
        ("evaluate file --episodes 0", "episodes: got 0; at least 1"),
        ("evaluat file", "did you mean 'evaluate'?"),
        ("reproduce control --algorithms ac", "did you mean 'ace'?"),
        ("reproduce control --env Nothing-v0", "Gymnasium has no 'Nothing-v0'"),
        ("reproduce control --steps 1500", "steps: got 1500; a multiple of 1000"),
        ("reproduce control --engine scan", "Unrecognized options: --engine"),
        ("reproduce emphasis --algorithms ace", "Unrecognized options: --algorithms"),
        ("reproduce evaluation --env reacher", "Unrecognized options: --env"),
        ("reproduce convergence --full", "Unrecognized options: --full"),
    ],
)
@pytest.mark.usefixtures("flags")
def test_what_networks_cannot_do_is_one_line_before_anything_is_written(
    capsys, monkeypatch, tmp_path, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("kept")
    status, out, err = run(capsys, *arguments.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("emphatic: ")
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("reproduce control", ("--algorithms", "--env", "--full", "--runs", "--authors")),
        ("train", ("--env", "--algorithm", "--experience", "--policy", "--tensorboard")),
        ("evaluate", ("--episodes", "--json")),
    ],
)
def test_commands_about_networks_explain_their_options(capsys, arguments, options):
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments.split(), "--help"])
    assert not stop.value.code
    out = capsys.readouterr().out
    assert all(option in out for option in options)
    assert arguments.split()[0] in cli.HELP
