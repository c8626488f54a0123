"""`emphatic reproduce`: figures at a small size, on either engine, interrupted."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from emphatic import cli, report
from emphatic.cli import figures
from emphatic.experiments import completion, store
from emphatic.figures import FIGURES, policy_evaluation
from emphatic.figures.figure import parts_from
from emphatic.figures.summary import format_mean

from .command import assert_refused, run


@pytest.mark.parametrize("figure", ["emphasis", "evaluation"])
def test_reproduce_writes_data_figure_and_summary(reproduced, figure):
    folder, status, out, err = reproduced[figure]
    assert status == 0
    files = ["data", "figure.png", "figure.svg", "summary.json"]
    assert sorted(path.name for path in folder.iterdir()) == files
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
        attributes = {"num_steps": 2000, "seed": 0, "interrupted": 0}
        assert attributes.items() <= dataset.attrs.items()
        assert set(dataset["engine"].values.ravel().tolist()) == {"fused"}
    assert f"written to {folder}" in " ".join(out.split())
    assert err.count("\n") == 1  # the bar, as it was at the end, and no warning
    assert "100%" in err
    assert "updates/s" in err


@pytest.mark.parametrize("figure", ["emphasis", "evaluation"])
def test_reproduce_prints_the_chosen_step_sizes_and_every_claim(reproduced, figure):
    folder, _, out, _ = reproduced[figure]
    summary, text = json.loads((folder / "summary.json").read_text()), " ".join(out.split())
    best_rows = [row for row in summary["rows"] if row["best"] and not row["ridge"]]
    table = [line for line in out.splitlines() if line.rstrip().endswith(" of 2")]
    assert len(table) == len(best_rows)
    for row in best_rows:
        size = "-" if row["exponent"] is None else f"0.1 x 2^{row['exponent']}"
        start = f"{row['algorithm']} {row['features']} {row['solid']:g} {size} "
        errors = (format_mean(row[f"{name}_mean"], row[f"{name}_std"]) for name in ("final", "auc"))
        assert f"{start}{' '.join(errors)} {row['diverged_runs']} of 2" in text
    for claim in summary["claims"]:
        support = f"holds in {claim['evidence']['held']} of "
        assert f"{claim['verdict']} {claim['claim']} {support}" in text
    assert text.index("The paper's claims") < text.index("What we found beyond the paper")
    assert "These are runs of 2,000 steps, not of the figure's own length." in text
    assert "on independent runs: not decided (0 of " in text
    for name in {row["algorithm"] for row in summary["rows"]}:
        assert summary["engines"][name] == ["fused"]
        assert f"{name} by fused" in text


@pytest.mark.slow
def test_reproduce_gives_the_same_rows_on_either_engine(reproduced, capsys, monkeypatch, tmp_path):
    """To float32 accuracy; one set of features will do."""
    features = ("aliased",)
    monkeypatch.setattr(policy_evaluation, "FEATURES", features)
    shorter = [
        dataclasses.replace(experiment, cases={**experiment.cases, "features": features})
        for experiment in policy_evaluation.EXPERIMENTS
    ]
    figure = dataclasses.replace(FIGURES["evaluation"], parts=parts_from("evaluation", shorter))
    monkeypatch.setitem(FIGURES, "evaluation", figure)
    arguments = ["--runs", "2", "--steps", "2e3", "--engine", "scan", "--out", str(tmp_path)]
    assert run(capsys, "reproduce", "evaluation", *arguments)[0] == 0
    data = store.load(tmp_path / "evaluation" / "data" / "gem-etd")
    assert set(data["engine"].values.ravel().tolist()) == {"scan"}
    scanned, fused = (
        json.loads((folder / "summary.json").read_text())["rows"]
        for folder in (tmp_path / "evaluation", reproduced["evaluation"][0])
    )
    fused = [row for row in fused if row["features"] in features]
    for row, fused_row in zip(scanned, fused, strict=True):
        for key in row.keys() - {"final_mean", "final_std", "auc_mean", "auc_std"}:
            assert row[key] == fused_row[key]
        for key in ("final", "auc"):
            for part in (f"{key}_mean", f"{key}_std"):
                if "inf" in (row[part], fused_row[part]):
                    assert row[part] == fused_row[part]
                else:
                    assert abs(row[part] - fused_row[part]) <= 1e-3 * fused_row[f"{key}_mean"]


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
        ("--out folder", "out: folder/evaluation is not a folder"),
    ],
)
def test_a_wrong_option_of_reproduce_is_one_line_before_anything_runs(
    capsys, monkeypatch, tmp_path, arguments, message
):
    def run_nothing(*_, **__):
        raise AssertionError("nothing may run")

    monkeypatch.setattr(completion, "complete", run_nothing)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder/evaluation"):
        (tmp_path / name).write_text("kept")
    status, out, err = run(capsys, "reproduce", "evaluation", *arguments.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("emphatic: ")
    assert message in err
    paths = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert paths == ["file", "folder", "folder/evaluation"]
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("reproduce", "figure: not given; `emphatic reproduce FIGURE` needs one of emphasis, eval"),
        ("reproduce --runs 3", "figure: not given"),
        ("reproduce emphases", "did you mean 'emphasis'?"),
        ("reproduce evalution --runs 3", "did you mean 'evaluation'?"),
        ("reproduce figure2", "known: emphasis, evaluation"),
        ("reprodce emphasis", "did you mean 'reproduce'?"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, arguments, message):
    assert_refused(capsys, arguments, message)


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
    output = ""
    try:
        while not re.search(r"\b[1-9]%", output):
            output += os.read(terminal, 4096).decode()
        process.send_signal(signal.SIGINT)
        while text := _read(terminal):
            output += text
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert "updates/s" in output
    assert "Traceback" not in output
    assert "Warning" not in output
    assert output.count("emphatic: ") == 1
    assert re.search(r"interrupted; .* To go on: emphatic reproduce \w+ .*\r\n$", output)
    folder = tmp_path / "evaluation"
    assert [path.name for path in folder.iterdir()] == ["data"]
    assert [path.name for path in (folder / "data").iterdir()] == ["gem-etd"]
    status = store.status(folder / "data" / "gem-etd")
    assert (status.cells, status.running) == (20 * 5 * 2 * 4, [])
    assert status.done < status.cells


def _read(terminal: int) -> str:
    """Reads what a process still writes; nothing once it has closed its end."""
    try:
        return os.read(terminal, 4096).decode()
    except OSError:
        return ""


def test_ctrl_c_before_anything_is_finished_is_one_line(capsys, monkeypatch, tmp_path):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(completion, "complete", stop)
    status, out, err = run(capsys, "reproduce", "emphasis", "--out", str(tmp_path))
    assert (status, out) == (130, "")
    message = "emphatic: interrupted; what is finished is kept. To go on: emphatic reproduce"
    assert err.splitlines()[-1].startswith(message)
    assert err.count("emphatic: ") == 1


def test_a_trial_of_all_figures_lives_apart_from_their_results(monkeypatch, tmp_path, capsys):
    folders, devices = [], []

    def make(name, out, _, **options):
        folders.append(out / name)
        devices.append(options["device"])

    monkeypatch.setattr(figures, "_reproduce_figure", make)
    monkeypatch.setattr(figures, "use_cores", lambda runs: None)
    monkeypatch.setattr(report, "from_folder", lambda folder: folders.append(folder))
    monkeypatch.setattr(report, "write", lambda page, *_: folders.append(page))
    out = tmp_path / "results"
    assert run(capsys, "reproduce", "all", "--quick", "--out", str(out))[0] == 0
    trial = tmp_path / "results-quick"
    assert folders == [*2 * [trial / name for name in FIGURES], trial / "report.html"]
    assert devices == [None] * len(FIGURES)  # of each figure its own default
    monkeypatch.setattr(figures, "settle_device", lambda device: "cpu")
    assert run(capsys, "reproduce", "all", "--device", "auto", "--out", str(out))[0] == 0
    assert dict(zip(FIGURES, devices[4:], strict=True)) == {
        **dict.fromkeys(FIGURES, "cpu"),
        "control": "auto",
    }
