"""The experiments of Figures 2 and 3 as the authors' code runs them."""

import dataclasses

import jax

from ..engine.expressions import parse_learner
from ..experiments.experiment import Experiment
from ..learners import gem, GEMState
from ..types import Key, Learner, Scalar, StepSize, Transition

GEM = "gem_of_the_code"  # its name in expressions, which are part of what defines stored results


def authors_gem(step_size: StepSize, ridge: StepSize) -> Learner[GEMState, Transition]:
    """Returns GEM as in the authors' code: a normal kappa_0, the error measured after an update."""
    learner = gem(step_size, ridge)

    def init(key: Key, y: Transition) -> GEMState:
        other = learner.init(jax.random.fold_in(key, 1), y)
        return dataclasses.replace(learner.init(key, y), kappa=other.w)

    def predict(state: GEMState, y: Transition) -> Scalar:
        return learner.predict(learner.step(state, y), y)

    return Learner(init, learner.step, predict)


def with_authors_gem(experiment: Experiment) -> Experiment:
    """Returns an experiment with GEM as in the authors' code, which has no ridge."""
    if "ridge" not in experiment.grid:
        return experiment
    (name, text), *_ = experiment.definitions.items()
    text = text.replace("gem(", f"{GEM}(")
    learner = parse_learner(text, experiment.grid, {GEM: authors_gem})
    return dataclasses.replace(
        experiment,
        learners=lambda problem: {name: learner(problem)},
        definitions={name: text},
        grid={**experiment.grid, "ridge": (0.0,)},
    )
