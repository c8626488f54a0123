"""Certificates decide a table of set-ups as a reader of the paper does."""

from typing import Any

import numpy as np
import pytest

from emphatic import schedules
from emphatic.certify import certificate, certify

from .setups import make_agent, make_policy, make_problem, Setup, SETUPS

GOOD = {"ridge": 1e-3, "step_size": "1/t^0.6"}
GOOD_ACTOR = {"actor_step_size": "1/t^0.9", "damping": 10.0}
RESULTS = {"1": "Theorem 1", "2": "Theorem 2", "3": "Theorem 3", "Y": "Yu (2017)"}


def read(setting: Any) -> Any:
    """A setting in which texts are schedules."""
    if isinstance(setting, tuple):
        return tuple(map(read, setting))
    return schedules.parse(setting) if isinstance(setting, str) else setting


def arguments(setup: Setup) -> tuple[Any, dict[str, Any]]:
    if setup.policy.startswith("agent "):
        return make_agent(setup.policy.removeprefix("agent "), setup.problem), {}
    settings = GOOD | (GOOD_ACTOR if setup.policy != "fixed" else {}) | setup.settings
    settings = {name: read(setting) for name, setting in settings.items()}
    if setup.policy == "fixed":
        return None, settings
    if setup.policy == "function":
        settings["theta"] = np.zeros(make_problem(setup.problem).behavior.shape)
    return make_policy(setup.policy, setup.problem), settings


def test_the_table_has_a_hundred_different_rows():
    assert len({repr(setup) for setup in SETUPS}) == len(SETUPS) >= 100


@pytest.mark.filterwarnings("ignore:step_size")  # of an actor that is not slower
@pytest.mark.parametrize(
    "setup", SETUPS, ids=lambda setup: f"{setup.problem}-{setup.policy}-{setup.why or 'covered'}"
)
def test_a_set_up_is_covered_as_the_paper_says(monkeypatch, setup):
    """The results that cover it, and the one assumption in the way of another."""
    # What says how far the limits are from the truth decides nothing.
    monkeypatch.setattr(certificate, "bias_at_ends", lambda *_: (None, None, ""))
    monkeypatch.setattr(certificate.oracle, "ridge_cost", lambda *_: None)
    target, settings = arguments(setup)
    decided = certify(make_problem(setup.problem), target, **settings)
    results = {
        letter: theorem
        for theorem in decided.theorems
        for letter, name in RESULTS.items()
        if theorem.name.startswith(name)
    }
    assert "".join(letter for letter in results if results[letter].covers) == setup.covers
    assert decided.covered == bool(setup.covers)
    uncovered = [letter for letter in results if not results[letter].covers]
    if not setup.why:
        assert set(uncovered) <= {"Y"}
        return
    result = setup.result or ("3" if "3" in results else uncovered[0])
    assert results[result].missing == (setup.why,)
    assert decided[setup.why].verdict == setup.verdict
