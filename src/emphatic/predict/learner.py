"""Learners as they are given to predictions: made, as functions that make them, or as text."""

import inspect
from dataclasses import replace

from numpy.typing import ArrayLike

from ..engine.expressions import parse_learner, separate_step_size
from ..mdp import Problem
from ..types import Critic, LearnerFactory


def as_learner(problem: Problem, learner: Critic | str, target: ArrayLike | None) -> Critic:
    """Returns a learner, which may be an expression such as `gem(0.025)`; see [parse_learner]."""
    if not isinstance(learner, str):
        return learner
    factory = parse_learner(learner)(_with_target(problem, target))
    parameters = inspect.signature(factory).parameters.values()
    if missing := [p.name for p in parameters if p.default is p.empty]:
        raise ValueError(f"learner: {learner} lacks {', '.join(missing)}, as in {learner}(0.025)")
    return factory()


def as_factory(
    problem: Problem, factory: LearnerFactory | str, target: ArrayLike | None
) -> LearnerFactory:
    """Returns a function from a step size to a learner, which may be `gem(step_size, 1e-3)`.

    An expression that has its own step size, as `gem(0.025)`, is taken with others in its place.
    """
    if not isinstance(factory, str):
        return factory
    expression, _ = separate_step_size(factory)
    make = parse_learner(expression, ("step_size",))(_with_target(problem, target))
    if "step_size" not in inspect.signature(make).parameters:
        raise ValueError(f"learner: {factory} has no step size; such as gem(step_size) has")
    return lambda step_size: make(step_size=step_size)


def _with_target(problem: Problem, target: ArrayLike | None) -> Problem:
    return replace(problem, target=problem.require_target(target))
