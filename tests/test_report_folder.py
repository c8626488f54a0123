"""The folders that `emphatic reproduce` leaves, told as sections of a report."""

import dataclasses
import json

from emphatic import report
from emphatic.report.markup import tag


def test_a_figures_folder_is_told_whole(reproduced):
    for name in ("emphasis", "convergence"):
        folder = reproduced[name][0]
        summary = json.loads((folder / "summary.json").read_text())
        found = report.from_folder(folder)
        assert len(found.claims) == len(summary["claims"])
        assert found.problems
        assert found.command.startswith(f"emphatic reproduce {name} --runs 2 --seed 0")
        html = report.page([dataclasses.replace(found, problems={})])
        for claim in summary["claims"]:
            words = tag("p", claim["claim"]).removeprefix("<p>").removesuffix("</p>")
            assert words in html
        assert '<img src="data:image/svg+xml;base64,' in html
        assert "jax" in found.provenance["versions"]
    first = report.from_folder(reproduced["emphasis"][0])
    assert first.title.startswith("Figure 2: how well GEM")
    assert len(first.problems) == 8
    assert len(first.tables["The chosen step sizes, without a ridge"][1]) == 24
