"""Right learners conform: our own, their transcriptions, and whatever rounding people do."""

import numpy as np
import pytest

from emphatic import learners
from emphatic.conformance import assert_conforms, check
from emphatic.conformance.claim import as_claim
from emphatic.conformance.expected_step import ExpectedStep
from emphatic import oracle
import jax

from .right import CLAIMS, ETD, transcription, variant
from .wrong import ALPHA, ERRORS, ETA, GEM, td, TD, TDC, with_error

EXPRESSIONS = {**CLAIMS, "gem-etd": f"etd(gem({ALPHA}, {ETA}), {ALPHA})"}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_transcription_conforms(name):
    verdict = check(transcription(name), EXPRESSIONS[name])
    assert verdict.conforms, str(verdict)
    assert (verdict.precision, verdict.expected_step, verdict.slips) == ("float64", True, ())


def test_nobody_is_accused_wrongly():
    for seed in range(20):
        name = list(CLAIMS)[seed % len(CLAIMS)]
        verdict = check(variant(name, seed), CLAIMS[name])
        assert verdict.conforms, (seed, str(verdict))


@pytest.mark.slow
def test_nobody_is_accused_wrongly_of_a_thousand():
    precisions = set()
    for seed in range(1000):
        name = list(CLAIMS)[seed % len(CLAIMS)]
        verdict = check(variant(name, seed), CLAIMS[name])
        assert verdict.conforms, (seed, str(verdict))
        assert verdict.expected_step
        precisions.add(verdict.precision)
    assert precisions == {"float32", "float64"}
