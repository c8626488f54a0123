"""Conformance: whether anybody's implementation is the learner that it claims to be."""

from .equation import Site as Site
from .implementation import load as load
from .trials import PlainTransition as PlainTransition
from .verdict import (
    assert_conforms as assert_conforms,
    check as check,
    Slip as Slip,
    Verdict as Verdict,
)
