"""What a person asks of an engine, checked before anything runs."""

import inspect
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import _checks as checks
from .. import learners as library
from .._names import unknown
from .._types import Agent, Learner
from ..mdp import Problem
from .measures import example_of, is_linear, Make, Measure, MEASURES

NUMBER = int | float | np.number
OWN = ("learner", "target", "seed", "time")  # axes that are always there
RESULTS = ("diverged", "engine", "reason", *MEASURES)  # names that a result has besides


def count(name: str, value: Any) -> int:
    """A whole number of something, at least 1; 1e6 is one, too."""
    if not isinstance(value, NUMBER) or not float(value).is_integer():
        raise ValueError(f"{name}: got {value!r}; a whole number is required")
    checks.count(name, int(value))
    return int(value)


def seeds(seeds: Any) -> list[int]:
    """The seeds as a list; a number stands for all below it."""
    if isinstance(seeds, NUMBER):
        return list(range(count("seeds", seeds)))
    words = list(seeds) if isinstance(seeds, Iterable) else [seeds]
    whole = all(isinstance(seed, int | np.integer) and 0 <= int(seed) < 2**64 for seed in words)
    if not words or not whole or len(set(words)) < len(words):
        raise ValueError(f"seeds: got {seeds}; distinct whole numbers in [0, 2^64) are required")
    return [int(seed) for seed in words]


def targets(problem: Problem, target: Any, unused: bool = False) -> dict[Any, np.ndarray]:
    """The target policies by label; a single one has an empty label.

    Agents have targets of their own: where there is nothing else, none may be given.
    """
    if unused:
        if target is not None:
            raise ValueError("target: given to agents, which change their own; give none")
        return {"": problem.behavior}
    if not isinstance(target, Mapping):
        return {"": problem.require_target(target)}
    if not target:
        raise ValueError("target: got no policies; at least one is required")
    return {label: problem.require_target(policy) for label, policy in target.items()}


def axes(grid: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
    """The axes of a grid, each distinct finite numbers."""
    axes = {}
    for name, values in grid.items():
        if name in OWN:
            raise ValueError(f"grid: {name!r} is an axis of every result; choose another name")
        if name in RESULTS:
            raise ValueError(f"grid: {name!r} is the name of a result; choose another name")
        listed = list(np.ravel(np.asarray(values, object)))
        for value in listed:
            if not isinstance(value, NUMBER):
                raise ValueError(
                    f"grid: {name} has {value!r}; a lane needs a number (a schedule belongs in "
                    "the function that makes the learner)"
                )
        axes[name] = checks.finite(f"grid: {name}", listed)
        if not listed or len(set(listed)) < len(listed):
            raise ValueError(f"grid: {name} is {listed}; distinct numbers are required")
    return axes


def _arguments(make: Make) -> tuple[set[str], set[str]]:
    """The arguments that a function takes, and those that it needs."""
    parameters = inspect.signature(make).parameters.values()
    takes = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
    return takes, {each.name for each in parameters if each.default is each.empty} & takes


def _named(name: str) -> Make:
    known = [key for key, each in vars(library).items() if inspect.isfunction(each)]
    if name not in known:
        raise unknown("learners", name, known)
    return getattr(library, name)


def _always(learner: Learner) -> Make:
    return lambda: learner


def makes(learners: Any, axes: Mapping[str, np.ndarray]) -> dict[str, Make]:
    """Functions that make learners; every point of their axes has been tried."""
    if not learners or isinstance(learners, str):
        raise ValueError(f"learners: got {learners!r}; at least one by its name is required")
    if not isinstance(learners, Mapping):
        learners = {name: _named(name) for name in learners}
    made: dict[str, Any] = {}
    for name, make in learners.items():
        if not callable(make) and not isinstance(make, Learner):
            raise ValueError(
                f"learners: {name!r} is a {type(make).__name__}; a function that makes a learner, "
                "or a learner, is required"
            )
        made[name] = _always(make) if isinstance(make, Learner) else make
    known = {name: _arguments(make) for name, make in made.items()}
    every = sorted(set().union(*(takes for takes, _ in known.values())))
    for axis in axes:
        if axis not in every:
            raise unknown("grid", axis, every)
    for name, (_, needs) in known.items():
        for argument in sorted(needs - set(axes)):
            raise ValueError(f"grid: learner {name!r} needs {argument!r}; give its values")
    for name, make in made.items():
        own = {axis: each.tolist() for axis, each in axes.items() if axis in known[name][0]}
        first = {axis: values[0] for axis, values in own.items()}
        if not isinstance(found := _tried(name, make, first), Learner):
            raise ValueError(
                f"learners: {name!r} makes a {type(found).__name__}; a learner is required"
            )
        for axis, values in own.items():
            for value in values:
                _tried(name, make, first | {axis: value}, axis)
    return made


def _tried(name: str, make: Make, values: Mapping[str, float], axis: str | None = None) -> Any:
    try:
        return make(**values)
    except ValueError as error:
        named = values if axis is None else {axis: values[axis]}
        where = ", ".join(f"{each} = {value:g}" for each, value in named.items())
        raise ValueError(f"grid: {name!r} with {where}: {error}") from None


def lanes(make: Make, axes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All points of the axes that a learner takes, the last axis fastest."""
    own = {axis: values for axis, values in axes.items() if axis in _arguments(make)[0]}
    points = np.meshgrid(*own.values(), indexing="ij")
    return {axis: each.ravel() for axis, each in zip(own, points, strict=True)}


def agents(makes: Mapping[str, Make], axes: Mapping[str, np.ndarray]) -> set[str]:
    """The names of those that are agents."""
    first = {axis: float(values[0]) for axis, values in axes.items()}
    return {
        name
        for name, make in makes.items()
        if isinstance(make(**{axis: first[axis] for axis in lanes(make, axes)}), Agent)
    }


def num_lanes(make: Make, axes: Mapping[str, np.ndarray]) -> int:
    """How many points that is; a learner that takes no axis has one."""
    return len(next(iter(lanes(make, axes).values()), [None]))


def measures(
    problem: Problem,
    asked: Any,
    makes: Mapping[str, Make],
    axes: Mapping[str, np.ndarray],
    agents: Collection[str] = (),
) -> dict[str, Measure]:
    """The measures by name, each known and fit for every learner; `weights` is left out."""
    if not asked or isinstance(asked, str):
        raise ValueError(f"measures: got {asked!r}; a list of names is required")
    if not isinstance(asked, Mapping):
        for name in asked:
            if name not in MEASURES and name != "weights":
                raise unknown("measures", name, (*MEASURES, "weights"))
        asked = {name: MEASURES[name] for name in asked if name != "weights"}
    if asked and agents:
        raise ValueError(
            f"measures: {', '.join(asked)} cannot be taken of the agents "
            f"{', '.join(sorted(agents))}; ask for weights, and track what they mean"
        )
    for name, measure in asked.items():
        if not isinstance(measure, Measure) or name in (*OWN, *axes, "weights", "diverged"):
            raise ValueError(f"measures: {name!r} is {measure!r}; a Measure with a name of its own")
        if measure.features is None:
            continue
        for learner, make in makes.items():
            first = {axis: float(each[0]) for axis, each in lanes(make, axes).items()}
            if not is_linear(make(**first), example_of(problem, np.float32), measure.features):
                raise ValueError(
                    f"measures: {name!r} needs a prediction that is linear in the features "
                    f"{measure.features}; that of {learner!r} is not"
                )
    return dict(asked)
