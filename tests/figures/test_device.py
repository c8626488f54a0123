"""Figures that a GPU computes are those of the CPU, to the last digit of their summaries."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from emphatic.engine.fused import cuda
from emphatic.figures import FIGURES, policy_evaluation, reproduce, style
from emphatic.figures.figure import parts_from

from ..engine.fused import host

NAME = "a GPU that is the host"


@pytest.fixture
def _gpu(monkeypatch) -> None:
    device = host.Device()
    monkeypatch.setattr(cuda, "find_device", lambda number=0: device)
    monkeypatch.setattr(cuda, "count_devices", lambda: 1)


def on_gpu(monkeypatch, figure: str, folder: Path) -> dict[str, Any]:
    """The summary of a figure, of two short runs; nothing is drawn."""
    record = dataclasses.replace(FIGURES[figure], draw=lambda *_: style.panels(1, 1, (1.0, 1.0))[0])
    monkeypatch.setitem(FIGURES, figure, record)
    reproduce(figure, folder, runs=2, steps=2000, device="gpu")
    return json.loads((folder / figure / "summary.json").read_text())


def of_cpu(reproduced, figure: str) -> dict[str, Any]:
    return json.loads((reproduced[figure][0] / "summary.json").read_text())


@pytest.mark.usefixtures("_gpu")
def test_the_rows_of_a_figure_are_those_of_the_cpu(reproduced, monkeypatch, tmp_path):
    """One set of features will do."""
    features = ("aliased",)
    monkeypatch.setattr(policy_evaluation, "FEATURES", features)
    shorter = [
        dataclasses.replace(each, cases={**each.cases, "features": features})
        for each in policy_evaluation.EXPERIMENTS
    ]
    parts = parts_from("evaluation", shorter)
    record = dataclasses.replace(FIGURES["evaluation"], parts=parts)
    monkeypatch.setitem(FIGURES, "evaluation", record)
    summary = on_gpu(monkeypatch, "evaluation", tmp_path)
    expected = of_cpu(reproduced, "evaluation")["rows"]
    assert summary["rows"] == [row for row in expected if row["features"] in features]
    (origin,) = summary["provenance"]
    assert origin["device"].startswith(NAME)


@pytest.mark.slow
@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize("figure", ["emphasis", "evaluation", "convergence"])
def test_the_summary_of_a_figure_is_that_of_the_cpu(reproduced, monkeypatch, tmp_path, figure):
    summary, expected = on_gpu(monkeypatch, figure, tmp_path), of_cpu(reproduced, figure)
    for origin in summary.pop("provenance"):
        assert origin["device"].startswith(NAME)
    del expected["provenance"], expected["settings"]["engine"]
    assert summary == expected
