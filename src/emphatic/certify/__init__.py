"""Certificates: which of the paper's assumptions hold, and which theorem covers a set-up."""

from .assumptions import Assumption as Assumption, Verdict as Verdict
from .bias import Bias as Bias
from .certificate import (
    Certificate as Certificate,
    certify as certify,
    Pair as Pair,
    Target as Target,
    Theorem as Theorem,
)
