"""What work takes is known before it begins, and what is too much is refused."""

import dataclasses
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from emphatic import _work as work, cli, MDP, Problem, problems
from emphatic.engine import run as engine_run
from emphatic.experiments import completion, experiment, store, toml
from emphatic.experiments.compute import cut, Estimate, estimate, PROBE_CELLS

from .cli.command import assert_refused, run

DAY = 24 * 3600


@pytest.fixture
def small_machine(monkeypatch):
    """A machine with 64 MiB of memory left."""
    monkeypatch.setattr(work, "available_memory", lambda: 2.0**26)


def test_more_memory_than_there_is_is_refused_and_the_error_says_what_to_reduce(small_machine):
    work.require_memory("grid: 10 cells", 2**26, "reduce width")
    message = (
        r"grid: 10 cells would need 128 MiB of memory, and 64 MiB are available; reduce width$"
    )
    with pytest.raises(ValueError, match=message):
        work.require_memory("grid: 10 cells", 2**27, "reduce width")
    with pytest.raises(ValueError, match="would need inf TiB"):
        work.require_memory("grid: 10 cells", float("inf"))


def test_more_than_a_day_begins_only_if_it_is_confirmed():
    work.require_time("steps: 10", DAY, confirmed=False)
    work.require_time("steps: 10", 2 * DAY, confirmed=True)
    with pytest.raises(ValueError, match=r"steps: 10 would take about 2 days .* only with --yes"):
        work.require_time("steps: 10", 2 * DAY, confirmed=False)


def test_results_larger_than_the_disk_begin_only_if_it_is_confirmed(tmp_path):
    folder = tmp_path / "not" / "yet"
    work.require_disk(folder, 1000, confirmed=False)
    work.require_disk(folder, 1e18, confirmed=True)
    with pytest.raises(ValueError, match=r"not/yet would need .* TiB, and .* free on its disk"):
        work.require_disk(folder, 1e18, confirmed=False)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "5 s"), (600, "10 min"), (3 * 3600, "3 hours"), (9 * DAY, "9 days"), (1e10, "317 years")],
)
def test_durations_are_said_as_a_person_says_them(seconds, text):
    assert work.describe_duration(seconds) == text


def test_a_limit_on_the_address_space_is_a_limit_of_what_is_available(monkeypatch):
    before = work.available_memory()
    assert before > 0
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc").exists() else 0
    limit = pages * resource.getpagesize() + 2**20
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    assert work.available_memory() <= 2**21


def test_a_limit_of_a_control_group_counts_with_the_caches_that_it_gives_back(
    monkeypatch, tmp_path
):
    files = {
        "/proc/self/cgroup": "0::/jobs/one\n",
        "/sys/fs/cgroup/jobs/one/memory.max": "max",
        "/sys/fs/cgroup/jobs/memory.max": "1000",
        "/sys/fs/cgroup/jobs/memory.current": "700",
        "/sys/fs/cgroup/jobs/memory.stat": "anon 500\ninactive_file 200\n",
    }

    def read_text(path):
        if str(path) not in files:
            raise FileNotFoundError(path)
        return files[str(path)]

    monkeypatch.setattr(Path, "read_text", read_text)
    assert work.available_memory() == 500
    files["/proc/self/cgroup"] = "4:memory:/jobs\n3:cpu:/\n"
    files["/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes"] = "900"
    files["/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes"] = "500"
    files["/sys/fs/cgroup/memory/jobs/memory.stat"] = "inactive_file 0"
    assert work.available_memory() == 400


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("grid --width 1e5 --height 1e5", "grid: 10,000,000,000 cells would need 18.2 TiB"),
        ("grid --width 1e9 --height 1e9", "reduce width or height"),
        ("grid --width 1e4 --height 1e3", "10,000,000 cells"),
        ("garnet --num-states 1e6 --num-actions 1e3", "garnet: 1,000,000 states, 1,000 actions"),
        ("garnet --num-states 999 --num-actions 1e3", "reduce num_states, num_actions, branching"),
        ("garnet --num-states 1e9", "1,000,000,000 states"),
        ("garnet --num-features 1e9", "1,000,000,000 features"),
        ("garnet --num-states 2000 --branching 2000 --num-actions 2000", "of memory"),
    ],
)
@pytest.mark.parametrize("command", ["solve", "certify", "predict", "compare"])
def test_problems_that_do_not_fit_are_refused_before_anything_is_allocated(
    capsys, small_machine, monkeypatch, command, arguments, message
):
    def fail(*_):
        raise AssertionError("allocated")

    monkeypatch.setattr(np.random, "default_rng", fail)
    monkeypatch.setattr(np, "arange", fail)
    assert_refused(capsys, f"{command} {arguments}", message)


def test_state_action_features_that_do_not_fit_are_refused_before_they_are_made(small_machine):
    """The default has a column for each action and feature, and a row for each state and action."""
    transition = np.full((10, 100, 10), 0.1)
    policy, x = np.full((10, 100), 0.01), np.ones((10, 100))
    with pytest.raises(ValueError, match="xa: the default would need 229 MiB"):
        Problem(MDP(transition, 0.0, 0.9), policy, 1.0, x)


def test_sparse_features_are_not_made_dense_where_that_does_not_fit(small_machine):
    problem = problems.grid(100, 100, tiles=100)
    with pytest.raises(ValueError, match="xa: a dense array of it would need"):
        _ = problem.dense_features


@pytest.mark.parametrize("command", ["predict", "sweep", "compare", "reproduce", "train"])
def test_the_help_of_commands_that_may_take_long_has_yes(capsys, command):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    assert "--yes" in capsys.readouterr().out


# Experiments

TOML = """
name = "big"
steps = 1e3
runs = 3
record_every = 100
problem = "two_state"
learners.td = "td(step_size)"
learners.etd = "etd(followon(), step_size)"
grid.step_size = "0.1 * 2^[0:-6]"
"""


def nothing_may_run(monkeypatch):
    """Makes it an error to list units or to compute any."""

    def fail(*_, **__):
        raise AssertionError("it begins")

    monkeypatch.setattr(completion, "complete_with", fail)
    monkeypatch.setattr(experiment.Experiment, "units", property(fail))


def test_sizes_of_an_experiment_come_from_counts():
    whole = toml.parse(TOML)
    sizes = [(unit.num_cells, unit.num_updates) for unit in whole.wholes]
    assert sizes == [(7 * 3, 7 * 3 * 1000)] * 2
    many = dataclasses.replace(whole, num_runs=10**9)
    assert many.num_units == 2 * 10**8
    assert many.num_updates() == 2 * 7 * 10**12
    for num_runs in (1, 10, 11, 23):
        some = dataclasses.replace(whole, num_runs=num_runs)
        assert some.num_units == len(some.units)
        assert some.num_updates() == sum(unit.num_updates for unit in some.units)
        assert [unit.learner for unit in some.wholes] == ["td", "etd"]


def test_an_estimate_of_what_is_left_is_in_proportion(tmp_path):
    whole = toml.parse(TOML)
    everything = estimate(whole)
    assert everything.num_cells == 42
    assert everything.num_updates == whole.num_updates()
    half = estimate(whole, [21, 0])
    assert (half.num_cells, half.num_updates) == (21, 21_000)
    assert half.num_bytes < everything.num_bytes
    assert estimate(whole, [0, 0]) == Estimate(0, 0, 0.0, 0)
    assert store.missing_cells(whole, tmp_path / "out") == [21, 21]
    completion.complete(whole, tmp_path / "out")
    assert store.missing_cells(whole, tmp_path / "out") == [0, 0]
    more = dataclasses.replace(whole, num_runs=10**7)
    assert store.missing_cells(more, tmp_path / "out") == [7 * (10**7 - 3)] * 2


def test_a_probe_has_few_curves_however_large_the_grid():
    text = TOML.replace("followon()", "gem(0.01, ridge)") + "grid.ridge = [0.0]\n"
    grid = {"step_size": np.linspace(0.001, 0.1, 60), "ridge": np.linspace(0.0, 1.0, 40)}
    large = dataclasses.replace(toml.parse(text), grid=grid, num_runs=10**6)
    for whole in large.wholes:
        probe = cut(whole)
        assert min(whole.num_cells, 60 * 10) <= probe.num_cells <= PROBE_CELLS
        assert list(probe.grid) == list(whole.grid)
        assert probe.runs == tuple(range(10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--runs 1e7", "sweep: 1.4e+11 updates would take about"),
        ("--runs 1e9", "14,000,000,000 curves of 10 windows would need"),
    ],
)
def test_a_sweep_that_is_too_much_is_planned_and_does_not_begin(
    capsys, monkeypatch, tmp_path, options, message
):
    nothing_may_run(monkeypatch)
    monkeypatch.setattr(work, "DAY", 1e-3)
    (tmp_path / "big.toml").write_text(TOML)
    command = [
        "sweep",
        str(tmp_path / "big.toml"),
        "--out",
        str(tmp_path / "out"),
        *options.split(),
    ]
    for dry, expected in (([], 2), (["--dry-run"], 0)):
        status, out, err = run(capsys, *command, *dry)
        assert status == expected
        assert "big: 1 problem x 2 learner x 7 step_size x" in out
        assert err.count("\n") == 1
        assert message in err
    assert not (tmp_path / "out").exists()
    if "1e9" not in options:
        with pytest.raises(AssertionError, match="it begins"):
            cli.main([*command, "--yes"])


def test_results_that_no_disk_holds_begin_only_with_yes(capsys, monkeypatch, tmp_path):
    nothing_may_run(monkeypatch)
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    (tmp_path / "big.toml").write_text(TOML)
    command = ["sweep", str(tmp_path / "big.toml"), "--out", str(tmp_path / "out")]
    status, _, err = run(capsys, *command)
    assert status == 2
    assert re.search(r"out would need [\d.]+ KiB, and 10 B are free on its disk", err)
    with pytest.raises(AssertionError, match="it begins"):
        cli.main([*command, "--yes"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("compare boyan --learners td(0.1) td(0.2) --runs 1e9", "2,000,000,000 curves of 100"),
        (
            "compare boyan --learners td(0.1) td(0.2) --steps 1e18",
            "num_steps: got 1000000000000000",
        ),
        ("reproduce emphasis --runs 1e7", "curves of 1,000 windows would need"),
        ("train --runs 1e6", "runs: 1,000,000 runs of 50,000 steps would need 1.5 TiB"),
        ("train --runs 1e4 --steps 1e9", "would need"),
    ],
)
def test_commands_that_need_too_much_are_one_line_and_write_nothing(
    capsys, monkeypatch, tmp_path, arguments, message
):
    nothing_may_run(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work, "available_memory", lambda: 2.0**36)
    assert_refused(capsys, arguments, message)
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_and_a_training_of_more_than_a_day_need_yes(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work, "DAY", 1e-9)
    monkeypatch.setattr(completion, "MANY", 10)
    words = "compare two_state --learners td(0.1) td(0.2) --steps 100 --runs 2"
    assert_refused(capsys, words, "compare: 400 updates would take about")
    assert run(capsys, *words.split(), "--yes")[0] == 0
    assert_refused(capsys, "train --steps 1000", "train: 1 runs of 1,000 steps would take about")
    left = Estimate(1, 400, 3600.0, 0)
    monkeypatch.setattr(completion, "estimate", lambda *_: left)
    words = "reproduce emphasis --runs 1 --steps 1000"
    assert_refused(capsys, words, "emphasis: 400 updates would take about 60 min")
    assert list(tmp_path.iterdir()) == []


def test_a_run_from_python_knows_first_what_its_seeds_and_windows_take(monkeypatch):
    monkeypatch.setattr(work, "available_memory", lambda: 2.0**34)
    problem = problems.two_state()
    with pytest.raises(ValueError, match=r"^seeds: 1,000,000,000 curves of 1 windows would need"):
        engine_run(problem, ["td(0.1)"], num_steps=100, seeds=10**9)
    with pytest.raises(ValueError, match=r"^record_every: 1,000,000,000 windows would need"):
        engine_run(problem, ["td(0.1)"], num_steps=10**9, record_every=1)


def test_a_prediction_of_what_overflows_at_once_is_refused(capsys):
    assert_refused(capsys, "predict two_state --step-size 1e200", "step_size: updates have coeff")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("arguments", ["predict grid", "solve grid --width 300 --height 300"])
def test_long_exact_work_stops_within_seconds_of_ctrl_c(arguments, number):
    command = [sys.executable, "-m", "emphatic", *arguments.split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(8.0)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (128 + number, "")
    assert err.splitlines()[-1] in ("emphatic: interrupted", "emphatic: terminated")
