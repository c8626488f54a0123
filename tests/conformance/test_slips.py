"""Each slip of the catalogue is found in a learner that has it, and named."""

import pytest

from emphatic.conformance import check

from .wrong import WRONG


@pytest.mark.parametrize("name", WRONG)
def test_a_slip_is_named(name):
    claim, learner, words = WRONG[name]
    verdict = check(learner, claim)
    assert not verdict.conforms
    found = [slip.words for slip in verdict.slips]
    assert any(words in each for each in found), str(verdict)
    assert len(found) <= 4, str(verdict)
