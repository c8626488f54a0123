"""The folders that `emphatic reproduce` leaves, told as sections of a report."""

import dataclasses
import json

import numpy as np
import pytest

from emphatic import report
from emphatic._files import to_jsonable
from emphatic.figures.control.summary import summarise, table
from emphatic.figures.convergence import levels
from emphatic.report.markup import tag

from ..figures.test_control import made_up


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
