"""`emphatic certify`: fixed targets, actors, what is refused and why."""

import dataclasses
import json

import numpy as np
import pytest

from emphatic import MDP, oracle, Problem, problems
from emphatic.agents import NetworkSoftmax, over_states
from emphatic.problems import ACTOR_FEATURES

from .command import assert_refused, run


@pytest.mark.parametrize(
    ("arguments", "expected", "text"),
    [
        (("--features", "one-hot"), 0, "covered by Theorem 1, Theorem 2"),
        (("--features", "zero-hot"), 0, "covered by Theorem 1, Theorem 2"),
        (("--features", "aliased"), 0, "the features express m_pi"),
        (("--features", "original"), 1, "singular: rank 7 of 8"),
    ],
)
def test_certify_says_what_the_paper_says(capsys, arguments, expected, text):
    options = ("--ridge", "1e-6", "--step-size", "1/t^0.8")
    status, out, _ = run(capsys, "certify", "baird", *arguments, *options)
    assert status == expected
    assert text in out


def test_certify_of_an_actor(capsys):
    arguments = ["certify", "counterexample", "--continuing", "--policy", "softmax"]
    arguments += ["--ridge", "1e-6", "--step-size", "1/t^0.6", "--actor-step-size", "1/t^0.9"]
    status, out, _ = run(capsys, *arguments, "--damping", "10", "--tolerance", "0.1")
    assert status == 0
    assert "Theorem 3" in out
    assert "largest ridge within 0.1" in out
    assert run(capsys, *arguments)[0] == 1  # without damping
    status, out, _ = run(capsys, *arguments, "--damping", "10", "--json")
    certificate = json.loads(out)
    assert certificate["covered"] is True
    keys = {row["key"] for row in certificate["rows"]}
    assert keys >= {"1.ergodic", "2.C", "3", "4b.A", "damping"}


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
    certificate = json.loads(out)
    assert status == 0
    assert "COF-PAC visits every neighbourhood" in certificate["advice"]
    assert certificate["covered"] is certificate["reached"] is True
    problem, policy = problems.counterexample(continuing=True), over_states(ACTOR_FEATURES, 2)
    theta = np.log([9.0, 9.0, 1.0, 1.0])
    bias = np.linalg.norm(oracle.bias(problem, policy, theta, float(ridge)))
    np.testing.assert_allclose(certificate["start"]["bias_norm"], bias)
    np.testing.assert_allclose(certificate["end"]["objective"], 9.25, atol=1e-4)
    assert certificate["end_note"] == "where the mean field of COF-PAC leads"


def test_certify_accepts_the_figures_agent_on_baird(capsys):
    arguments = ["certify", "baird", "--features", "aliased", "--policy", "tabular", *SCHEDULES]
    status, out, _ = run(capsys, *arguments, "--ridge", "1e-3", "--damping", "100")
    assert status == 0
    assert "covered by Theorem 1, Theorem 2, Theorem 3" in out
    assert "linear softmax: C_0 = 3.5 for every theta" in out  # one parameter for each (s, a)
    assert ": in {|grad J| <= |b|}" in out


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (["--ridge", "0"], "with eta = 0 and a changing policy convergence is an open problem"),
        (["--actor-step-size", "4e-4/(1+t/1e4)^0.6"], "powers 0.6 <= 0.6: no d will do"),
        (["--step-size", "0.1", "--actor-step-size", "4e-4"], "no theorem here covers a constant"),
    ],
)
def test_certify_rejects_what_theorem_3_does_not_cover_and_says_why(capsys, figure, change, text):
    arguments = ["certify", "counterexample", "--continuing", *figure, *SCHEDULES]
    status, out, _ = run(capsys, *arguments, "--ridge", "1e-3", *change)
    assert status == 1
    assert text in " ".join(out.split())
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
        text = " ".join(out.split())
        assert "smallest mu(a|s) = 0 (state " in text
        assert "let the behaviour take every action with positive probability" in text
        assert "no theorem covers this set-up" in text


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
    certificate = json.loads(out)
    assert status == 1
    rows = {row["key"]: row for row in certificate["rows"]}
    assert rows["3"]["verdict"] == "cannot be decided"
    assert "no constant serves every theta" in rows["3"]["evidence"]
    assert certificate["end_note"] == "at theta_end"
    bias = oracle.bias(problem, policy, np.ones(policy.num_parameters), 1e-3)
    np.testing.assert_allclose(certificate["end"]["bias_norm"], np.linalg.norm(bias))


def test_every_option_of_certify_reaches_the_certificate(capsys):
    arguments = ["certify", "baird", "--features", "one-hot", "--policy", "softmax", "--json"]
    arguments += ["--ridge", "1e-3", "--step-size", "1/t^0.6", "--actor-step-size", "2/t^0.9"]
    _, out, _ = run(capsys, *arguments, "--damping", "10", "--tolerance", "0.5")
    rows = {row["key"]: row["evidence"] for row in json.loads(out)["rows"]}
    assert rows["ridge"] == "eta = 0.001"
    assert rows["alpha"].startswith("1/t^0.6:")
    assert rows["beta"].startswith("2/t^0.9:")
    assert "= 11," in rows["damping"]
    assert json.loads(out)["ridge_cost"]["tolerance"] == 0.5


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


def test_parameters_of_the_wrong_size_are_one_line(capsys, tmp_path):
    for content in ("", "1 2 3"):
        (tmp_path / "theta.txt").write_text(content)
        arguments = ("--policy", "softmax", "--theta", str(tmp_path / "theta.txt"))
        status, _, err = run(capsys, "certify", "baird", *arguments)
        assert (status, err.count("\n")) == (2, 1)
        assert "theta: got shape" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("certify baird --damping -1", "a fixed target has no actor"),
        ("certify baird --actor-step-size 1/t", "a fixed target has no actor"),
        ("certify baird --step-size=", "--step-size: step size: got ''"),
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
            "actor_features: x.npy does not exist",
        ),
        ("certify baird --policy softmax --theta-end x.npy", "theta_end: x.npy does not exist"),
        ("certify baird --policy softmax --damping -1", "damping: got -1"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, arguments, message):
    assert_refused(capsys, arguments, message)
