"""The folders that `emphatic reproduce` leaves, told as sections of a report."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import xarray

from emphatic import report
from emphatic._files import to_jsonable
from emphatic.figures import FIGURES
from emphatic.figures.control.summary import summarise, table
from emphatic.figures.convergence import levels
from emphatic.report import training
from emphatic.report.markup import tag

from ..figures.test_control import made_up
from ..mutations import changed, require_one_line

FUZZ = Path(__file__).parents[1] / "fuzz"


@pytest.mark.parametrize("name", ["emphasis", "convergence"])
def test_a_figures_folder_is_told_whole(name, reproduced, monkeypatch):
    monkeypatch.setattr(levels, "SETTINGS", levels.SETTINGS[1:2])
    folder = reproduced[name][0]
    summary = json.loads((folder / "summary.json").read_text())
    found = report.from_folder(folder)
    assert len(found.claims) == len(summary["claims"])
    assert found.command.startswith(f"emphatic reproduce {name} --runs 2 --steps 2000")
    assert "jax" in found.provenance["versions"]
    html = report.page([dataclasses.replace(found, problems={}, certificates={})])
    for claim in summary["claims"]:
        assert tag("th", claim["claim"], scope="row") in html
    assert '<img src="data:image/svg+xml;base64,' in html
    if name == "emphasis":
        assert found.title.startswith("Figure 2: how well GEM")
        assert len(found.problems) == 8
        assert len(found.tables["The chosen step sizes, without a ridge"][1]) == 24


def test_the_figure_on_convergence_brings_the_certificates_of_its_agents(reproduced, monkeypatch):
    monkeypatch.setattr(levels, "SETTINGS", levels.SETTINGS[1:2])
    found = report.from_folder(reproduced["convergence"][0])
    (label,) = found.problems
    assert label == "counterexample-continuing, tabular"
    evidence = found.claims[0]["evidence"]["cases"]
    covered = [c["covered"] for c in evidence if f"{c['problem']}, {c['features']}" == label]
    assert covered
    assert all(covered)
    assert found.certificates[label].covered
    assert "Theorem 1, Theorem 2, Theorem 3" in report.page([found])


def test_a_figure_of_networks_with_missing_numbers_is_shown_by_terminal_and_report(tmp_path):
    """J is NaN at times that a short run does not reach, and null in its summary."""
    summary = summarise(made_up({"cof-pac": -5.0 * np.ones((2, 51))}, "Pendulum-v1"))
    for name in ("J_50000", "J_50000_std"):
        summary["rows"][0][name] = np.nan
    _, (line,) = table(summary["rows"])
    assert line[3:6] == ["-5.00 +- 0.00", "-5.00 +- 0.00", "-"]
    folder = tmp_path / "control"
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps(to_jsonable(summary)))
    _, (shown,) = report.from_folder(folder).tables["J, mean and one standard deviation over runs"]
    assert shown == [cell.replace("+-", "±") for cell in line]


def test_a_figure_of_agents_with_missing_norms_is_shown_by_terminal_and_report(
    reproduced, tmp_path
):
    folder = tmp_path / "convergence"
    folder.mkdir()
    summary = json.loads((reproduced["convergence"][0] / "summary.json").read_text())
    summary["rows"][0] |= {"objective_mean": "-inf", "objective_std": "inf", "gradient_norm": None}
    (folder / "summary.json").write_text(json.dumps(summary))
    tables = report.from_folder(folder).tables
    _, (line, *_) = tables["J at the end, and the norms of COF-PAC"]
    assert line[3] == "-inf ± inf"
    assert line[7] == "-"


ROW = {"algorithm": "gem", "features": "original", "solid": 0.1, "exponent": -2, "ridge": 0.0}
ROW |= {"final_mean": 1.5, "final_std": "inf", "auc_mean": 2.0, "auc_std": None}
ROW |= {"diverged_runs": 0, "runs": 2, "best": True}
EVIDENCE = {"held": 1, "against": 0, "needed": 2, "test": "paired sign test"}
EVIDENCE |= {"cases": [{"medians": {"gem": 1.0}, "p_value": 0.01, "holds": True}]}
EVIDENCE |= {"independent": {"verdict": "holds", "held": 1, "runs": 1, "cases": [{}]}}
SUMMARY = {
    "rows": [ROW],
    "claims": [{"claim": "It holds", "source": "paper", "verdict": "holds", "evidence": EVIDENCE}],
    "exact": [{"features": "original"}],
    "settings": {"runs": 2, "seed": 0, "steps": 10, "engine": "auto"},
    "provenance": [{"versions": {"jax": "1"}, "commit": None, "engine": "fused"}],
}


def test_only_numbers_of_a_row_are_infinite(tmp_path):
    figures = json.loads((FUZZ / "figures.json").read_text())
    row = {**figures["evaluation"]["rows"][0], "algorithm": "inf", "final_mean": "inf"}
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "summary.json").write_text(json.dumps({"rows": [row]}))
    (table,) = report.from_folder(tmp_path / "evaluation").tables.values()
    assert [cell for cell in table[1][0] if str(cell).lower() == "inf"]


def test_whatever_stands_in_a_summary_is_told_or_one_line(tmp_path, monkeypatch):
    figure = dataclasses.replace(FIGURES["emphasis"], problems=dict)
    monkeypatch.setitem(FIGURES, "emphasis", figure)
    path, told = tmp_path / "emphasis" / "summary.json", set()
    path.parent.mkdir()
    for what, other in changed(SUMMARY):
        path.write_text(json.dumps(other))
        try:
            report.page([report.from_folder(path.parent)])
            told.add(what)
        except ValueError as error:
            require_one_line(error, str(path))
    assert not {"rows: removed", "rows.0: None", "claims: {}", "rows.0.final_mean: x"} & told
    assert not {"rows.0.runs: removed", "claims.0.verdict: x", "claims.0.evidence: []"} & told
    assert not {"settings.steps: x", "provenance.0: x", "claims.0.evidence.cases.0: 5"} & told
    assert {"claims: removed", "rows.0.final_mean: None", "exact.0.features: 5"} < told


def test_whatever_stands_in_a_trainings_plan_is_told_or_one_line(tmp_path, monkeypatch):
    axes = "run", "steps"
    curves = {name: (axes, np.ones((1, 2))) for name in ("J", "return")}
    curves["diverged"] = axes, np.zeros((1, 2), bool)
    attributes = {"algorithm": "ace", "environment": "reacher"}
    axis = {"run": [0], "steps": [0, 10]}
    dataset = xarray.Dataset(curves, axis, {**attributes, "device": "a GPU"})
    dataset.to_netcdf(tmp_path / "curves.nc", engine="scipy")
    monkeypatch.setattr(training, "render", lambda *_: b"<svg/>")
    plan = {"format": "emphatic training 1", **attributes, "seeds": [3], "steps": 10, "x": None}
    told = set()
    for what, other in changed(plan):
        (tmp_path / "training.json").write_text(json.dumps(other))
        try:
            report.page([report.from_folder(tmp_path)])
            told.add(what)
        except ValueError as error:
            require_one_line(error, "training.json")
    assert not {"seeds: []", "seeds.0: x", "steps: removed", "algorithm: 5"} & told
    (tmp_path / "training.json").write_text(json.dumps(plan))
    assert report.from_folder(tmp_path).provenance == {"device": "a GPU"}
    (tmp_path / "curves.nc").write_bytes((tmp_path / "curves.nc").read_bytes()[:100])
    with pytest.raises(ValueError, match=r"curves\.nc cannot be read as netCDF: "):
        report.from_folder(tmp_path)
