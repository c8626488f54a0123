"""Convergent off-policy reinforcement learning: exact quantities, certificates, compiled learners.

State an [MDP] and a [Problem], or take one of `emphatic.problems`. [solve] computes its exact
quantities, and [run] runs learners on it. The packages have the rest: `learners` and `agents` the
algorithms, `oracle` the exact quantities one by one, `certify` the theorems, `predict` exact
learning curves, `experiments` sweeps and their stores. Deep agents, figures, reports and checks of
one's own code are in `emphatic.deep`, `emphatic.figures`, `emphatic.report` and
`emphatic.conformance`, which are imported on request.
"""

from importlib.metadata import version as _version

from . import (
    agents as agents,
    certify as certify,
    engine as engine,
    experiments as experiments,
    learners as learners,
    oracle as oracle,
    predict as predict,
    problems as problems,
    schedules as schedules,
    statistics as statistics,
    types as types,
)
from .agents import Softmax as Softmax
from .engine import run as run
from .mdp import MDP as MDP, Problem as Problem
from .oracle import FixedPoint as FixedPoint, solve as solve
from .types import Agent as Agent, Learner as Learner, Sample as Sample, Transition as Transition

__version__ = _version("emphatic")
"""The version of the installed package."""
