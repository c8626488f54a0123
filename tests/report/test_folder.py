"""The folders that `emphatic reproduce` leaves, told as sections of a report."""

import dataclasses
import json

import pytest

from emphatic import report
from emphatic.figures import convergence
from emphatic.report.markup import tag


@pytest.mark.parametrize("name", ["emphasis", "convergence"])
def test_a_figures_folder_is_told_whole(name, reproduced, monkeypatch):
    monkeypatch.setattr(convergence, "SETTINGS", convergence.SETTINGS[1:2])
    folder = reproduced[name][0]
    summary = json.loads((folder / "summary.json").read_text())
    found = report.from_folder(folder)
    assert len(found.claims) == len(summary["claims"])
    assert found.command.startswith(f"emphatic reproduce {name} --runs 2 --steps 2000")
    assert "jax" in found.provenance["versions"]
    html = report.page([dataclasses.replace(found, problems={}, certificates={})])
    for claim in summary["claims"]:
        assert tag("p", claim["claim"]).removeprefix("<p>") in html
    assert '<img src="data:image/svg+xml;base64,' in html
    if name == "emphasis":
        assert found.title.startswith("Figure 2: how well GEM")
        assert len(found.problems) == 8
        assert len(found.tables["The chosen step sizes, without a ridge"][1]) == 24


def test_the_figure_on_convergence_brings_the_certificates_of_its_agents(reproduced, monkeypatch):
    monkeypatch.setattr(convergence, "SETTINGS", convergence.SETTINGS[1:2])
    found = report.from_folder(reproduced["convergence"][0])
    (label,) = found.problems
    assert label == "counterexample-continuing, tabular"
    evidence = found.claims[0]["evidence"]["cases"]
    covered = [c["covered"] for c in evidence if f"{c['problem']}, {c['features']}" == label]
    assert covered
    assert all(covered)
    assert found.certificates[label].covered
    assert "Theorem 1, Theorem 2, Theorem 3" in report.page([found])
