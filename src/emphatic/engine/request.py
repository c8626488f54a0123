"""Parses and validates a request for an engine, before anything runs."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .. import _validation as checks
from .._schema import show
from .._validation import unknown
from ..learners import LEARNERS
from ..mdp import Problem
from ..types import Agent, Estimand, Learner, LearnerFactory
from .expressions import parse_learner
from .measures import example_transition, is_linear, Measure, MEASURES

NUMBER = int | float | np.number
DIMENSIONS = ("learner", "target", "seed", "time")  # of every result, besides the grid's axes
VARIABLES = ("diverged", "engine", "reason", *MEASURES)  # names that a result's variables may have

NamedLearners: TypeAlias = Mapping[str, LearnerFactory | Learner | str] | Sequence[str]
Learners: TypeAlias = NamedLearners | Callable[[Problem], NamedLearners]
"""Learners, functions that make them, or expressions, by name; or expressions alone; or a function
from the problem to these."""
Targets: TypeAlias = Mapping[Any, ArrayLike]
"""Target policies by label."""
Measures: TypeAlias = Mapping[str, Measure] | Sequence[str]
"""Measures by name; or names of [MEASURES], and `weights`."""
Axes: TypeAlias = Mapping[str, Float[np.ndarray, " values"]]
"""The axes of a grid: for each argument the values to try."""


def parse_count(name: str, value: object) -> int:
    """Returns a whole number that is at least 1; a float such as 1e6 is accepted."""
    if isinstance(value, float | np.floating) and value.is_integer():
        value = int(value)
    checks.count(name, value)
    return int(cast(int, value))


def parse_seeds(seeds: int | Iterable[int]) -> Sequence[int]:
    """Returns the seeds; a number stands for all whole numbers below it."""
    if isinstance(seeds, NUMBER):
        return range(parse_count("seeds", seeds))
    values = list(seeds) if isinstance(seeds, Iterable) else [seeds]
    valid = all(isinstance(seed, int | np.integer) and 0 <= int(seed) < 2**64 for seed in values)
    if not values or not valid or len(set(values)) < len(values):
        raise ValueError(f"seeds: got {seeds}; distinct whole numbers in [0, 2^64) are required")
    return [int(seed) for seed in values]


def parse_targets(
    problem: Problem, target: ArrayLike | Targets | None, only_agents: bool = False
) -> dict[Any, Float[np.ndarray, "s a"]]:
    """Returns the target policies by label, empty for a single one; agents change their own."""
    if only_agents:
        if target is not None:
            raise ValueError("target: given to agents, which change their own; give none")
        return {"": problem.behavior}
    if not isinstance(target, Mapping):
        return {"": problem.require_target(target)}
    if not target:
        raise ValueError("target: got no policies; at least one is required")
    return {label: problem.require_target(policy) for label, policy in target.items()}


def parse_axes(grid: Mapping[str, ArrayLike]) -> dict[str, Float[np.ndarray, " values"]]:
    """Returns the axes of a grid, each of distinct finite numbers."""
    axes: dict[str, np.ndarray] = {}
    for name, values in grid.items():
        if name in DIMENSIONS:
            raise ValueError(f"grid: {name!r} is an axis of every result; choose another name")
        if name in VARIABLES:
            raise ValueError(f"grid: {name!r} is the name of a result; choose another name")
        numbers = list(np.ravel(np.asarray(values, object)))
        for value in numbers:
            if not isinstance(value, NUMBER) or isinstance(value, bool):
                raise ValueError(
                    f"grid: {name} has {value!r}; a lane needs a number (a schedule belongs in "
                    "the function that makes the learner)"
                )
        axes[name] = checks.finite(f"grid: {name}", numbers)
        if not numbers or len(set(numbers)) < len(numbers):
            raise ValueError(f"grid: {name} is {show(numbers)}; distinct numbers are required")
    return axes


def _argument_names(factory: LearnerFactory) -> tuple[set[str], set[str]]:
    """Returns the arguments that a function takes, and those that it requires."""
    parameters = inspect.signature(factory).parameters.values()
    named = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    return {p.name for p in named}, {p.name for p in named if p.default is p.empty}


def parse_learners(
    learners: NamedLearners, axes: Axes, problem: Problem
) -> dict[str, LearnerFactory]:
    """Returns the learners' factories by name, each tried at every value of its axes."""
    if not learners or isinstance(learners, str):
        raise ValueError(f"learners: got {learners!r}; at least one by its name is required")
    if not isinstance(learners, Mapping):
        learners = {text: text for text in learners}
    factories = {
        name: _as_factory(name, learner, axes, problem) for name, learner in learners.items()
    }
    arguments = {name: _argument_names(factory) for name, factory in factories.items()}
    names = sorted(set[str]().union(*(every for every, _ in arguments.values())))
    for axis in axes:
        if axis not in names:
            raise unknown("grid", axis, names)
    for name, (_, required) in arguments.items():
        for argument in sorted(required - set(axes)):
            raise ValueError(f"grid: learner {show(name)} needs {argument!r}; give its values")
    for name, factory in factories.items():
        _try_factory(name, factory, axes)
    return factories


def _as_factory(name: str, learner: object, axes: Axes, problem: Problem) -> LearnerFactory:
    if isinstance(learner, Learner):
        made = cast(Learner[Any, Any], learner)
        return lambda: made
    if isinstance(learner, str):
        if learner.isidentifier() and learner not in LEARNERS:
            raise unknown("learners", learner, LEARNERS)
        try:
            return parse_learner(learner, axes)(problem)
        except ValueError as error:
            raise ValueError(f"learners: {show(learner)}: {error}") from None
    if callable(learner):
        return cast(LearnerFactory, learner)
    raise ValueError(
        f"learners: {name!r} is a {type(learner).__name__}; a function that makes a learner, a "
        "learner or an expression is required"
    )


def _try_factory(name: str, factory: LearnerFactory, axes: Axes) -> None:
    """Makes a learner for every value of each axis, the others at their first values."""
    first = first_values(factory, axes)
    learner = _make_learner(name, factory, first)
    if not isinstance(learner, Learner):
        raise ValueError(
            f"learners: {show(name)} makes a {type(learner).__name__}; a learner is required"
        )
    for axis in first:
        for value in axes[axis].tolist():
            _make_learner(name, factory, first | {axis: value}, axis)


def _make_learner(
    name: str, factory: LearnerFactory, values: Mapping[str, float], axis: str | None = None
) -> object:
    try:
        return factory(**values)
    except ValueError as error:
        if not values:
            raise ValueError(f"learners: {show(name)}: {error}") from None
        point = values if axis is None else {axis: values[axis]}
        text = ", ".join(f"{argument} = {value:g}" for argument, value in point.items())
        raise ValueError(f"grid: {show(name)} with {text}: {error}") from None


def learner_axes(factory: LearnerFactory, axes: Axes) -> dict[str, Float[np.ndarray, " values"]]:
    """Returns the axes that are arguments of a factory."""
    names, _ = _argument_names(factory)
    return {axis: values for axis, values in axes.items() if axis in names}


def first_values(factory: LearnerFactory, axes: Axes) -> dict[str, float]:
    """Returns the first point of the axes that a factory takes."""
    return {axis: float(values[0]) for axis, values in learner_axes(factory, axes).items()}


def lane_values(factory: LearnerFactory, axes: Axes) -> dict[str, Float[np.ndarray, " lanes"]]:
    """Returns all points of the axes that a factory takes, the last axis varying fastest."""
    grid = learner_axes(factory, axes)
    points = np.meshgrid(*grid.values(), indexing="ij")
    return {axis: values.ravel() for axis, values in zip(grid, points, strict=True)}


def find_agents(factories: Mapping[str, LearnerFactory], axes: Axes) -> set[str]:
    """Returns the names of the agents among the learners."""
    return {
        name
        for name, factory in factories.items()
        if isinstance(factory(**first_values(factory, axes)), Agent)
    }


def find_estimand(factories: Mapping[str, LearnerFactory], axes: Axes) -> Estimand | None:
    """Returns what all learners estimate, None if none says so; else a `ValueError`."""
    estimands: dict[str, Estimand | None] = {
        name: factory(**first_values(factory, axes)).estimates
        for name, factory in factories.items()
    }
    first: dict[Estimand | None, str] = {}
    for name, estimand in estimands.items():
        if estimand is not None:
            first.setdefault(estimand, name)
    if len(first) > 1:
        texts = [f"{name!r} estimates {_plain(estimand)}" for estimand, name in first.items()]
        raise ValueError(
            f"learners: {', '.join(texts)}; no error ranks them together, so compare them apart"
        )
    return next(iter(first), None)


def default_measures(factories: Mapping[str, LearnerFactory], axes: Axes) -> tuple[str, ...]:
    """Returns the error of what the learners estimate, which must be one thing."""
    agents = find_agents(factories, axes)
    if agents:
        raise _not_of_agents("errors", agents)
    estimand = find_estimand(factories, axes)
    fitting = [name for name, measure in MEASURES.items() if measure.estimates == estimand]
    if estimand is None or not fitting:
        problem = (
            "does not say what it estimates" if estimand is None else "has no error of its own"
        )
        raise ValueError(
            f"measures: {next(iter(factories))!r} {problem}; give one of {', '.join(MEASURES)}"
        )
    return (fitting[0],)


def _not_of_agents(measures: str, agents: Collection[str]) -> ValueError:
    return ValueError(
        f"measures: {measures} cannot be taken of the agents {', '.join(sorted(agents))}; ask for "
        "weights, and track what they mean"
    )


def _plain(estimand: Estimand | None) -> str:
    return str(estimand).replace("_", " ")


def require_estimates(
    measures: Mapping[str, Measure],
    factories: Mapping[str, LearnerFactory],
    axes: Axes,
    agents: Collection[str] = (),
) -> None:
    """Raises a `ValueError` unless measures are errors of what the learners estimate."""
    if measures and agents:
        raise _not_of_agents(", ".join(measures), agents)
    for name, measure in measures.items():
        if not isinstance(measure, Measure) or name in (*DIMENSIONS, *axes, "weights", "diverged"):
            raise ValueError(f"measures: {name!r} is {measure!r}; a Measure with a name of its own")
        for learner, factory in factories.items():
            estimand = factory(**first_values(factory, axes)).estimates
            if None not in (measure.estimates, estimand) and measure.estimates != estimand:
                raise ValueError(
                    f"measures: {name!r} is an error of {_plain(measure.estimates)}; "
                    f"{learner!r} estimates {_plain(estimand)}"
                )


def parse_measures(
    problem: Problem,
    measures: Measures,
    factories: Mapping[str, LearnerFactory],
    axes: Axes,
    agents: Collection[str] = (),
) -> dict[str, Measure]:
    """Returns the measures by name, each valid for every learner; `weights` is left out."""
    if not measures or isinstance(measures, str):
        raise ValueError(f"measures: got {measures!r}; a list of names is required")
    if not isinstance(measures, Mapping):
        for name in measures:
            if name not in MEASURES and name != "weights":
                raise unknown("measures", name, (*MEASURES, "weights"))
        measures = {name: MEASURES[name] for name in measures if name != "weights"}
    require_estimates(measures, factories, axes, agents)
    for name, measure in measures.items():
        if measure.features is None:
            continue
        example = example_transition(problem, np.float32)
        for learner, factory in factories.items():
            if not is_linear(factory(**first_values(factory, axes)), example, measure.features):
                raise ValueError(
                    f"measures: {name!r} needs a prediction that is linear in the features "
                    f"{measure.features}; that of {learner!r} is not"
                )
    return dict(measures)
