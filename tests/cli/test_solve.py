"""`emphatic solve`: tables, JSON, targets from files, pictures."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from emphatic import cli, MDP, oracle, Problem, problems

from .command import assert_refused, run, solve_json


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
    solution = solve_json(capsys, "baird", "--features", "aliased", "--solid", "0.3")
    problem = problems.baird("aliased", 0.3)
    for name in ("stationary", "values", "action_values", "emphasis", "density_ratio"):
        np.testing.assert_allclose(solution[name], getattr(oracle, name)(problem), rtol=1e-12)
    np.testing.assert_allclose(solution["objective"], 70.0)
    assert solution["followon_variance"] == ["inf"] * 7
    modulus = oracle.contraction(problem).modulus
    np.testing.assert_allclose(solution["contraction"]["modulus"], modulus)
    assert solution["truncation_length"] == oracle.truncation_length(problem)
    assert solution["labels"] == [1, 2, 3, 4, 5, 6, 7]
    gem = solution["gem_system"]
    np.testing.assert_allclose(gem["solution"], oracle.gem_system(problem).solution(), rtol=1e-9)
    exact = {name for name in solution if hasattr(oracle, name)}
    assert set(solution) - exact == {"problem", "labels", "notes"}
    assert {name for name in dir(oracle) if name.endswith("_system")} <= exact


def test_errors_of_limits_are_distances_under_the_behaviour(capsys):
    solution = solve_json(capsys, "baird", "--features", "aliased", "--ridge", "1e-4")
    problem = problems.baird("aliased")
    w = np.split(oracle.gem_system(problem, ridge=1e-4).solution(), 2)[1]
    error = np.sqrt(((problem.x @ w - oracle.emphasis(problem)) ** 2).mean())
    np.testing.assert_allclose(solution["gem_system"]["error"], error)
    u = np.split(oracle.gq2_system(problem, ridge=1e-4).solution(), 2)[1]
    q = oracle.action_values(problem)
    square = ((problem.xa @ u - q) ** 2 * problem.behavior).sum(1).mean()
    np.testing.assert_allclose(solution["gq2_system"]["error"], np.sqrt(square))


def test_learners_that_diverge_are_named(capsys):
    _, out, _ = run(capsys, "solve", "two_state")
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "diverges" in lines["TD(0)"]
    assert "-0.47" in lines["TD(0)"]
    assert "diverges" in lines["reversed"]
    assert "diverges" not in lines["GTD2"]
    assert "stable with 13 ratios or more" in lines["ETD"]
    _, out, _ = run(capsys, "solve", "baird", "--features", "original")
    assert "singular: least norm" in out
    assert "ETD with a truncated trace" in out
    assert "not stable, however long it is" in out


def test_states_too_rare_to_believe_are_not_printed(capsys, tmp_path):
    """A walk that drifts hard to the left hardly ever reaches the right end."""
    num_states = 12
    p = np.zeros((num_states, 2, num_states))
    p[np.arange(num_states), 0, np.maximum(np.arange(num_states) - 1, 0)] = 1.0
    p[np.arange(num_states), 1, np.minimum(np.arange(num_states) + 1, num_states - 1)] = 1.0
    behavior = np.tile([0.99, 0.01], (num_states, 1))
    problem = Problem(MDP(p, 1.0, 0.9), behavior, 1.0, np.eye(num_states), target=behavior)
    assert oracle.stationary(problem).min() < 1e-12
    problems.save(problem, tmp_path / "rare.npz")
    _, out, _ = run(capsys, "solve", str(tmp_path / "rare.npz"))
    assert "(finite variance)" in out  # what is not shown is not infinite
    solution = solve_json(capsys, str(tmp_path / "rare.npz"))
    rare = np.array(solution["stationary"]) < 1e-12
    for name in ("emphasis", "density_ratio", "followon_variance"):
        assert [value is None for value in solution[name]] == rare.tolist()
    assert "noise" in solution["notes"][0]
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
    solution = solve_json(capsys, name)
    assert abs(sum(solution["stationary"]) - 1.0) < 1e-12


def test_a_narrow_terminal_still_shows_every_digit(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run(capsys, "solve", "grid", "--width", "4", "--height", "4")
    assert "…" not in out
    assert "q(3)" in out


@pytest.mark.parametrize("suffix", [".npy", ".txt", ".csv"])
def test_a_target_can_be_read_from_a_file(capsys, tmp_path, suffix):
    target = np.tile([0.3, 0.7], (7, 1))
    path = tmp_path / f"target{suffix}"
    if suffix == ".npy":
        np.save(path, target)
    else:
        np.savetxt(path, target, delimiter="," if suffix == ".csv" else " ")
    solution = solve_json(capsys, "baird", "--target", str(path))
    np.testing.assert_allclose(solution["emphasis"][6], 208.9)


def test_the_target_can_be_uniform_or_the_behaviour(capsys):
    on_policy = solve_json(capsys, "baird", "--target", "behavior")
    np.testing.assert_allclose(on_policy["emphasis"], 100.0)
    uniform = solve_json(capsys, "baird", "--target", "uniform")
    np.testing.assert_allclose(uniform["objective"], 50.0)


@pytest.mark.parametrize(
    ("name", "suffix"), [("baird", "png"), ("baird", "svg"), ("baird", "pdf"), ("grid", "png")]
)
def test_a_picture_is_drawn(capsys, tmp_path, suffix, name):
    path = tmp_path / f"picture.{suffix}"
    status, _, _ = run(capsys, "solve", name, "--plot", str(path))
    assert status == 0
    head = path.read_bytes()[:300]
    assert {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix] in head


def test_bars_are_drawn_around_the_emphasis(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    from emphatic.cli import plots
    from emphatic.oracle.solution import solve

    drawn = []
    monkeypatch.setattr(Axes, "errorbar", lambda self, x, y, e, **kwargs: drawn.append((y, e)))
    problem = problems.baird("one-hot", 0.1)
    exact, _ = solve(problem)
    plots.draw_solution(tmp_path / "a.png", "", problem, exact)
    ((means, spread),) = drawn
    np.testing.assert_array_equal(means, exact["emphasis"])
    upward = np.atleast_2d(spread)[-1]
    np.testing.assert_array_equal(upward, np.sqrt(exact["followon_variance"]))


def test_a_picture_that_cannot_be_written_is_one_line(capsys, tmp_path):
    (tmp_path / "folder.png").mkdir()
    status, _, err = run(capsys, "solve", "baird", "--plot", str(tmp_path / "folder.png"))
    assert (status, err.count("\n")) == (2, 1)
    assert "is a directory" in err


def test_a_file_that_is_no_target_is_one_line(capsys, tmp_path):
    files = {"a.npy": b"\x93NUMPY", "b.txt": b"one two", "c.npy": b"", "d.csv": b"1+2j,3\n" * 9}
    os.mkfifo(tmp_path / "e.npy")
    np.save(tmp_path / "f.npy", np.ones((7, 2), complex))
    np.save(tmp_path / "g.npy", np.ones((7, 2), "M8[s]"))
    for name in (*files, "e.npy", "f.npy", "g.npy"):
        path: Path = tmp_path / name
        if name in files:
            path.write_bytes(files[name])
        status, _, err = run(capsys, "solve", "baird", "--target", str(path))
        assert status == 2
        assert err.count("\n") == 1
        assert "cannot be read" in err or "real numbers required" in err


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
        ("solve garnet --problem-seed -1", "seed: got -1"),
        ("solve garnet --greediness inf", "greediness: got inf"),
        ("solve grid --width 1e30", "width: got 1000000000000000019884624838656"),
        ("solve grid --width 1e9 --height 1e9", "would need 1.82e+09 TiB of memory"),
        ("solve baird --plot .", "plot: . ends in ''"),
        ("solve baird more", "Unrecognized options: more"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, arguments, message):
    assert_refused(capsys, arguments, message)


def test_digits_that_a_discount_near_one_costs_are_told_in_one_line(capsys):
    """And what would take a trillion passes is left out."""
    with pytest.warns(UserWarning, match="values and emphasis have 3 sure digits") as record:
        status, out, _ = run(capsys, "solve", "two_state", "--discount", "0.999999999999")
    assert status == 0
    assert "no truncation_length" in out
    before = warnings.formatwarning
    with cli._plain_warnings():
        line = warnings.formatwarning(record[0].message, UserWarning, "solution.py", 1)
    assert line == f"emphatic: warning: {record[0].message}\n"
    assert warnings.formatwarning is before


def test_limits_of_learners_given_as_expressions_are_printed_beside_those_of_the_paper(capsys):
    texts = ("gem(0.025, 1e-3)", "etd(exact(emphasis), step_size)", "td", "gem(step_size, ridge)")
    arguments = ("baird", "--features", "aliased", "--ridge", "1e-3", "--learners", *texts)
    exact = solve_json(capsys, *arguments)
    for text, system in zip(texts, ("gem", "etd", "td", "gem"), strict=True):
        for quantity in ("error", "slowest"):
            expected = exact[f"{system}_system"][quantity]
            np.testing.assert_allclose(exact[text][quantity], expected, rtol=1e-6, atol=1e-8)
    status, out, _ = run(capsys, "solve", *arguments)
    assert status == 0
    assert any(line.split()[:3] == ["gem(0.025,", "1e-3)", "m"] for line in out.splitlines())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("followon()", "learners: 'followon()': a step size that can go to 0 is required"),
        ("etd(followon(decay=1.0),0.1)", "emphasis.terms of etd has no mean"),
        ("gme", "learners: 'gme': unknown name 'gme'; did you mean 'gem'"),
    ],
)
def test_learners_without_an_exact_limit_are_refused(capsys, text, message):
    assert_refused(capsys, f"solve baird --learners {text}", message)
