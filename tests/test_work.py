"""What work takes is known before it begins, and what is too much is refused."""

import resource
from pathlib import Path

import numpy as np
import pytest

from emphatic import _work as work, cli, MDP, Problem, problems

from .cli.command import assert_refused

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


def test_the_command_for_help_knows_the_option(capsys):
    for command in ("predict",):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        assert "--yes" in capsys.readouterr().out
