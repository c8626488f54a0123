"""Sweeps from the command line: planned, run, resumed, looked at, compared, told as a page."""

import json
import re
import shutil

import numpy as np
import pytest

from emphatic import cli, learners, problems, statistics
from emphatic.engine import run as engine_run
from emphatic.engine.fused import cuda
from emphatic.experiments import store, toml

from ..engine.fused import host
from .command import run

TEXT = """\
# Two critics of values on two problems.
steps = 2e3
runs = 4
measures = ["rmsve"]
record_every = 500

[problems.boyan]
[problems.baird]
features = "aliased"

[learners]
td = "td(step_size)"
gem-etd = "etd(gem(0.01, ridge), step_size)"

[grid]
step_size = [0.001, 0.1, 1e9]
ridge = [0.0, 0.1]

[selection]
runs = 2
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A file and the folder of its results, as the command line leaves it."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "critics.toml").write_text(TEXT)
    assert cli.main(["sweep", str(folder / "critics.toml"), "--out", str(folder / "out")]) == 0
    return folder / "critics.toml", folder / "out"


def test_a_sweep_is_planned_before_it_runs(capsys, tmp_path):
    path = tmp_path / "critics.toml"
    path.write_text(TEXT)
    status, out, err = run(capsys, "sweep", str(path), "--dry-run", "--out", str(tmp_path / "out"))
    text = " ".join(out.split())
    assert (status, err) == (0, "")
    assert "critics: 2 problem x 2 learner x 3 step_size x 2 ridge x 6 run" in text
    cells = 2 * (3 + 6) * 6
    assert f"{cells} cells of 2,000 steps in 4 units: {cells * 2000:.3g} updates" in text
    assert re.search(r"expected: \d+ s on this machine, [\d.]+ kB", text)
    assert not (tmp_path / "out").exists()


def test_what_is_swept_is_what_the_engine_gives(swept):
    dataset = store.load(swept[1])
    direct = engine_run(
        problems.boyan(),
        {"td": learners.td},
        {"step_size": [0.001, 0.1, 1e9]},
        num_steps=2000,
        seeds=6,
        record_every=500,
        measures=["rmsve"],
    ).squeeze("learner")
    errors = dataset["rmsve"].sel(problem="boyan", learner="td")
    for ridge in (0.0, 0.1):  # an axis that TD does not take
        np.testing.assert_array_equal(errors.sel(ridge=ridge), direct["rmsve"].astype(np.float32))
    assert dataset["diverged"].sel(step_size=1e9).isel(time=-1).all()


def test_a_sweep_goes_on_with_what_is_missing(swept, capsys, tmp_path):
    """Two axes, a lost unit, more runs, another learner: nothing that is there is written again."""
    path, folder = tmp_path / "critics.toml", tmp_path / "out"
    shutil.copytree(swept[1], folder)
    units = sorted((folder / "units").iterdir())
    units[0].unlink()
    times = {unit.name: unit.stat().st_mtime_ns for unit in units[1:]}
    path.write_text(TEXT)
    status, out, _ = run(capsys, "status", str(folder))
    assert status == 1
    assert re.search(r"\d+ of 108 cells done in 3 units", out)
    assert run(capsys, "sweep", str(path), "--out", str(folder))[0] == 0
    assert run(capsys, "status", str(folder))[0] == 0
    again = store.load(folder)
    np.testing.assert_array_equal(again["rmsve"], store.load(swept[1])["rmsve"])
    text = TEXT.replace("runs = 4", "runs = 5").replace("[grid]", 'tdc = "tdc(0.01)"\n[grid]')
    path.write_text(text)
    assert run(capsys, "sweep", str(path), "--out", str(folder))[0] == 0
    extended = store.load(folder)
    assert extended.attrs["interrupted"] == 0
    shared = extended["rmsve"].sel(learner=["td", "gem-etd"], run=range(6))
    np.testing.assert_array_equal(shared, again["rmsve"])
    assert len(list((folder / "units").iterdir())) == 4 + 4 + 2
    for unit in (folder / "units").iterdir():
        assert times.get(unit.name, unit.stat().st_mtime_ns) == unit.stat().st_mtime_ns
    description = store.status(folder)
    assert (description.left, description.cells) == (0, 2 * (3 + 6 + 1) * 7)


def test_the_status_is_told_to_people_and_to_programs(swept, capsys):
    status, out, _ = run(capsys, "status", str(swept[1]))
    assert status == 0
    assert "108 of 108 cells done in 4 units, 36 of them diverged" in " ".join(out.split())
    status, out, _ = run(capsys, "status", str(swept[1]), "--json")
    assert (status, json.loads(out)["diverged"]) == (0, 36)


def test_the_status_of_a_folder_is_that_of_all_experiments_below_it(swept, capsys, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(swept[1], tmp_path / "figure" / "data" / name)
    status, out, _ = run(capsys, "status", str(tmp_path))
    assert (status, out.count("108 of 108 cells done")) == (0, 2)
    next((tmp_path / "figure" / "data" / "two" / "units").iterdir()).unlink()
    status, out, _ = run(capsys, "status", str(tmp_path), "--json")
    left = {path: fields["left"] for path, fields in json.loads(out).items()}
    assert status == 1
    assert sorted(left.values())[0] == 0 < sorted(left.values())[1]


def test_numbers_in_place_of_the_files(capsys, tmp_path, swept):
    options = ["--runs", "1", "--steps", "700", "--seed", "3", "--out", str(tmp_path / "other")]
    assert run(capsys, "sweep", str(swept[0]), *options)[0] == 0
    dataset = store.load(tmp_path / "other")
    assert (dataset.sizes["run"], int(dataset["time"][-1]), dataset.attrs["seed"]) == (1, 700, 3)


def test_a_quick_trial_lives_apart_and_can_be_reported_at_once(swept, capsys, tmp_path):
    """Else it would replace what `status`, `report` and `load` show of the full experiment."""
    folder, trial = tmp_path / "out", tmp_path / "out-quick"
    shutil.copytree(swept[1], folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    status, out, _ = run(capsys, "sweep", str(swept[0]), "--quick", "--out", str(folder))
    assert status == 0
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    dataset = store.load(trial)
    assert (dataset.sizes["run"], int(dataset["time"][-1])) == (2, 1000)
    assert store.load(folder).sizes["run"] == 6
    suggestion = out.splitlines()[-1].removeprefix("next: emphatic ").split()
    assert suggestion == ["report", str(trial)]
    page = tmp_path / "page.html"
    assert run(capsys, *suggestion, "--out", str(page))[0] == 0  # of its runs one chooses
    assert f"emphatic sweep critics.toml --quick --out {folder}<" in page.read_text()


def test_a_status_counts_what_was_asked_for(swept, capsys, tmp_path):
    """A store with six runs, asked for two: not twelve of 36 cells diverged but those of two."""
    folder = tmp_path / "out"
    shutil.copytree(swept[1], folder)
    status, out, _ = run(capsys, "sweep", str(swept[0]), "--runs", "2", "--out", str(folder))
    assert status == 0
    lines = " ".join(out.split())
    assert "36 of these cells are done, 0 are left" in lines
    assert "expected:" not in lines
    assert "36 of 36 cells done in 4 units, 12 of them diverged" in lines
    text = TEXT.replace("[0.001, 0.1, 1e9]", "[0.1, 0.001]")
    (tmp_path / "critics.toml").write_text(text)
    status, out, _ = run(capsys, "sweep", str(tmp_path / "critics.toml"), "--out", str(folder))
    assert "72 of 72 cells done in 4 units, 0 of them diverged" in " ".join(out.split())


def test_a_resumed_sweep_says_what_is_left_and_how_long_that_takes(swept, capsys, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(swept[1], folder)
    arguments = ["sweep", str(swept[0]), "--runs", "7", "--out", str(folder), "--dry-run"]
    status, out, _ = run(capsys, *arguments)
    lines = " ".join(out.split())
    assert (status, store.status(folder).cells) == (0, 108)  # nothing is changed
    assert "126 cells of 2,000 steps in 4 units: 2.52e+05 updates" in lines
    assert "108 of these cells are done, 18 are left: 3.6e+04 updates" in lines
    unit = next((folder / "units").iterdir())
    unit.write_bytes(unit.read_bytes()[:100])
    assert run(capsys, *arguments)[0] == 0


def test_a_sweep_is_told_as_a_page(swept, capsys, tmp_path):
    page = tmp_path / "page.html"
    status, out, _ = run(capsys, "report", str(swept[1]), "--out", str(page))
    assert (status, out) == (0, f"the report is {page}\n")
    html = page.read_text()
    assert "Two critics of values on two problems." in html
    assert "emphatic sweep critics.toml" in html
    dataset = store.load(swept[1]).sel(problem="boyan", learner="gem-etd")
    selection, evaluation = dataset.isel(run=slice(2)), dataset.isel(run=slice(2, None))
    means = statistics.area(selection, "rmsve").mean("run")
    values = means.stack(point=("step_size", "ridge")).idxmin("point").item()
    point = dict(zip(("step_size", "ridge"), values, strict=True))
    area = statistics.area(evaluation.sel(point), "rmsve").mean()
    assert f"{float(area):.4g}" in html  # chosen by some runs, measured by others


AGENTS = """\
steps = 400
runs = 2
measures = ["objective"]
problem = "counterexample"
[learners]
cof-pac = 'actor_critic(tabular(), gem(0.1, 1e-3), gq2(0.1, 1e-3), beta)'
[grid]
beta = [0.001, 0.1]
"""


def test_agents_are_chosen_by_how_far_they_are_below_the_best(capsys, tmp_path):
    (tmp_path / "agents.toml").write_text(AGENTS)
    assert (
        run(capsys, "sweep", str(tmp_path / "agents.toml"), "--out", str(tmp_path / "out"))[0] == 0
    )
    from emphatic import report

    (dataset,) = (section := report.from_folder(tmp_path / "out")).datasets
    assert list(section.measures) == ["below_best"]
    below = dataset["objective"].max() - dataset["objective"]
    np.testing.assert_array_equal(dataset["below_best"], below)
    assert "below best" in report.page([section])


# Bad input: one line, and nothing is touched


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("runs = 4", "rnus = 4"), "line 3, rnus: key: unknown name 'rnus'; did you mean 'runs'"),
        (("td(step_size)", "dt(step_size)"), "line 12, learners.td: function: unknown name 'dt'"),
        (("[0.001, 0.1, 1e9]", "[]"), "line 16, grid.step_size: it is empty"),
        (("[0.0, 0.1]", "[0.1, 0.1]"), "grid.ridge: ridge is"),
        (("record_every = 500", "record_every = 0"), "record_every: got 0"),
        (("td(step_size)", "followon()"), "'rmsve' is an error of values; 'td' estimates emphasis"),
    ],
)
def test_a_slip_in_a_file_is_one_line(capsys, tmp_path, change, message):
    assert change[0] in TEXT
    (tmp_path / "bad.toml").write_text(TEXT.replace(*change))
    status, out, err = run(
        capsys, "sweep", str(tmp_path / "bad.toml"), "--out", str(tmp_path / "o")
    )
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep"], "file: not given"),
        (["sweep", "none.toml"], "file: none.toml does not exist"),
        (["status"], "folder: not given"),
        (["status", "nowhere"], "folder: nowhere does not exist"),
        (["report"], "folder: not given"),
        (["report", "nowhere"], "folder: nowhere does not exist"),
    ],
)
def test_bad_words_are_one_line(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_another_experiment_is_left_alone(swept, capsys, tmp_path):
    (tmp_path / "other.toml").write_text('name = "other"\n' + TEXT)
    folder = tmp_path / "out"
    shutil.copytree(swept[1], folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    status, _, err = run(capsys, "sweep", str(tmp_path / "other.toml"), "--out", str(folder))
    assert status == 2
    assert "holds the experiment 'critics', not 'other'" in err
    plan = json.loads((folder / "experiment.json").read_text())
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    (folder / "experiment.json").write_text(json.dumps({**plan, "format": 99}))
    status, _, err = run(capsys, "sweep", str(swept[0]), "--out", str(folder))
    assert status == 2
    assert "has the format 99, of a newer version" in err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    status, _, err = run(capsys, "sweep", str(swept[0]), "--out", str(tmp_path / "full"))
    assert status == 2
    assert "holds other files" in err


def test_the_example_has_at_most_25_lines_and_can_be_planned():
    from pathlib import Path

    path = Path(__file__).parents[2] / "examples" / "critics.toml"
    assert len(path.read_text().splitlines()) <= 25
    experiment = toml.read(path)
    assert len(experiment.definitions) == 4
    assert len({str(label).split()[0] for label in experiment.cases["problem"]}) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cluster", "lokal"], "cluster: unknown name 'lokal'; did you mean 'local'?"),
        (["--cluster", "lokal", "--dry-run"], "did you mean 'local'?"),
        (["--cluster", "local", "--workers", "0"], "num_workers: got 0"),
        (["--cluster", "tcp://host:1", "--workers", "2"], "tcp://host:1 has its own"),
        (["--workers", "2"], "workers: only a cluster has workers"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_before_anything_is_done(
    capsys, tmp_path, monkeypatch, options, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "critics.toml").write_text('name = "critics"\n' + TEXT)
    status, out, err = run(capsys, "sweep", "critics.toml", *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert [path.name for path in tmp_path.iterdir()] == ["critics.toml"]


def test_the_number_of_workers_reaches_the_cluster(capsys, tmp_path, monkeypatch):
    def complete(experiment, folder, address, *, num_workers, **_):
        raise ValueError(f"{address} with {num_workers}")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("emphatic.experiments.cluster.complete", complete)
    (tmp_path / "critics.toml").write_text('name = "critics"\n' + TEXT)
    words = ["sweep", "critics.toml", "--quick", "--cluster", "local", "--workers", "3"]
    assert "emphatic: local with 3" in run(capsys, *words)[2]


def test_a_dry_run_imports_nothing_that_the_file_names(capsys, monkeypatch, tmp_path):
    (tmp_path / "marker.py").write_text("import pathlib; pathlib.Path('imported').touch()")
    monkeypatch.chdir(tmp_path)
    for problem, learner in (
        ('{name = "gymnasium", env = "marker:Taxi-v4"}', "td(0.1)"),
        ('"boyan"', "marker:make(0.1)"),
    ):
        text = f"steps = 10\nproblem = {problem}\n[learners]\na = '{learner}'\n"
        (tmp_path / "code.toml").write_text(text)
        status, out, err = run(capsys, "sweep", "code.toml", "--dry-run")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("emphatic: code.toml, line ")
    assert not (tmp_path / "imported").exists()


# Devices


def plug_in(monkeypatch, reason: str = "") -> None:
    """Plugs a GPU in that is the host; or none, for a reason."""
    device = host.Device()

    def find(number: int = 0) -> host.Device:
        if reason:
            raise cuda.DeviceError(f"device: {reason}; device='cpu' needs none")
        return device

    monkeypatch.setattr(cuda, "find_device", find)
    monkeypatch.setattr(cuda, "count_devices", lambda: 1)


def devices_of(folder) -> set[str]:
    """What computed a store."""
    origins = json.loads(store.load(folder).attrs["provenance"])
    return {origin["device"].rpartition(",")[0] for origin in origins}


SHORT = 'device = "gpu"\nsteps = 100\nruns = 3\nproblem = "baird"\n[learners]\ngem = "gem(0.1)"\n'


def test_a_sweep_runs_where_the_file_says_unless_the_command_does(capsys, tmp_path, monkeypatch):
    plug_in(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.toml").write_text(SHORT)
    for words, device in (([], "a GPU that is the host"), (["--device", "cpu"], "CPU")):
        status, out, err = run(capsys, "sweep", "short.toml", "--out", device, *words)
        assert status == 0, err
        assert devices_of(device) == {device}
        assert (f"on this machine ({device}, " in " ".join(out.split())) == (not words)
    names, others = (
        {path.name for path in (tmp_path / folder / "units").iterdir()}
        for folder in ("a GPU that is the host", "CPU")
    )
    assert names == others
    found, expected = map(store.load, ("a GPU that is the host", "CPU"))
    assert found.drop_attrs().identical(expected.drop_attrs())


def test_without_a_gpu_auto_says_so_in_one_line_and_gpu_is_refused(capsys, tmp_path, monkeypatch):
    plug_in(monkeypatch, "no driver of NVIDIA is installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.toml").write_text(SHORT)
    message = "device: no driver of NVIDIA is installed; the CPU is used"
    with pytest.warns(UserWarning, match=message) as told:
        status, _, err = run(capsys, "sweep", "short.toml", "--device", "auto", "--out", "out")
    assert (status, err.count("emphatic: ")) == (0, 0)
    assert [str(warning.message) for warning in told] == [message]  # once
    assert devices_of("out") == {"CPU"}
    learners = ["compare", "baird", "--learners", "gem(0.1)", "followon()", "--device", "gpu"]
    for words in (["sweep", "short.toml"], learners, ["reproduce", "emphasis", "--device", "gpu"]):
        status, out, err = run(capsys, *words)
        message = "emphatic: device: no driver of NVIDIA is installed; device='cpu' needs none\n"
        assert (status, out, err) == (2, "", message)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "short.toml"]


def test_a_cluster_elsewhere_has_gpus_of_its_own(capsys, tmp_path, monkeypatch):
    def complete(experiment, folder, address, **_):
        raise ValueError(f"{address} with device {experiment.device}")

    plug_in(monkeypatch, "no driver of NVIDIA is installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("emphatic.experiments.cluster.complete", complete)
    (tmp_path / "short.toml").write_text(SHORT)
    words = ["sweep", "short.toml", "--cluster", "tcp://host:1"]
    assert "emphatic: tcp://host:1 with device gpu" in run(capsys, *words)[2]


def test_learners_are_compared_on_a_gpu_which_is_said(capsys, monkeypatch):
    plug_in(monkeypatch)
    words = ["compare", "two_state", "--learners", "gem(0.1)", "followon()", "--runs", "2"]
    printed = [
        run(capsys, *words, "--steps", "100", "--device", device)[1] for device in ("gpu", "cpu")
    ]
    assert printed[0].startswith(printed[1])
    assert printed[0].splitlines()[-1].startswith("run on a GPU that is the host, ")
