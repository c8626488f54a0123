"""Anybody's implementation of a learner: three functions or a class, run in plain Python."""

import copy
import inspect
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .._validation import unknown
from ..engine.source import import_module
from ..types import Critic, Learner, named_leaves, Transition
from .trials import Trial

Weights: TypeAlias = dict[str, np.ndarray]
"""Initial weights by the names of our learner's state, such as `nu` or `emphasis.w`."""
Theirs: TypeAlias = Any
"""A module, an object, a class or a function: see [as_implementation]."""

SHOWN = 120  # characters of what an implementation says when it raises
TWO_RESULTS = "two results for one state: it keeps hidden state or is random"


class FaultError(Exception):
    """What makes an implementation no pure function of its arguments, in one line."""


@dataclass(frozen=True)
class Implementation:
    """A learner in plain Python.

    **Arguments:**

    - `init`: The first state, from a trial and the weights to begin with.
    - `step`: The state after a transition.
    - `predict`: The estimate at $S_t$, before the step.
    - `error`: The error that is plotted, from a state and the problem, if there is one.
    """

    init: Callable[[Trial, Weights], Any]
    step: Callable[[Any, Any], Any]
    predict: Callable[[Any, Any], Any]
    error: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True)
class Run:
    """What an implementation did on the streams of a trial."""

    predictions: Float[np.ndarray, "streams steps"]
    """Before each step."""
    is_known: Bool[np.ndarray, "streams steps"]
    """Which of these there are: none after a fault."""
    fault: str | None


def load(reference: str) -> Theirs:
    """Imports `module` or `module:name`; modules may be in the current folder."""
    name, _, attribute = reference.partition(":")
    value: Theirs = import_module(name)
    for part in filter(None, attribute.split(".")):
        if not hasattr(value, part):
            raise unknown(name, part, [key for key in vars(value) if not key.startswith("_")])
        value = getattr(value, part)
    return value


def as_implementation(theirs: Theirs) -> Implementation:
    """Adapts what somebody wrote.

    It has the functions `init(weights)`, `step(state, y)` and `predict(state, y)`; or it makes from
    `weights` an object with the methods `step(y)`, which changes the object, and `predict(y)`; or
    it is a [Learner]; or a function without arguments that returns one of these. What takes the
    weights may take the problem, too.
    """
    if isinstance(theirs, Learner):
        return _from_learner(theirs)
    if _has(theirs, "init", "step", "predict") and not isinstance(theirs, type):
        error = getattr(theirs, "error", None)
        return Implementation(_with_problem(theirs.init), theirs.step, theirs.predict, error)
    if callable(theirs):
        required = [p for p in _parameters(theirs) if p.default is p.empty]
        if required or isinstance(theirs, type):
            return _from_class(theirs)
        return as_implementation(theirs())
    got = getattr(theirs, "__name__", type(theirs).__name__)
    raise ValueError(f"learner: {got!r} has no functions init, step and predict, and is no class")


def _has(theirs: Theirs, *names: str) -> bool:
    return all(callable(getattr(theirs, name, None)) for name in names)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Returns the arguments that a function takes by position."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _with_problem(init: Callable[..., Any]) -> Callable[[Trial, Weights], Any]:
    """Gives the problem to an `init` that requires two arguments."""
    required = [p for p in _parameters(init) if p.default is p.empty]
    if len(required) > 1:
        return lambda trial, weights: init(weights, trial.problem)
    return lambda trial, weights: init(weights)


def _from_class(make: Callable[..., Any]) -> Implementation:
    """Makes functions of a class whose objects change: they are copied before each step."""

    def step(state: Any, y: Any) -> Any:
        state = copy.deepcopy(state)
        state.step(y)
        return state

    def init(trial: Trial, weights: Weights) -> Any:
        state = begin(trial, weights)
        if not _has(state, "step", "predict"):
            kind = type(state).__name__
            raise FaultError(f"makes {kind!r} of the weights, which lacks step(y) or predict(y)")
        return state

    begin = _with_problem(make)
    has_error = callable(getattr(make, "error", None))
    error = (lambda state, problem: state.error(problem)) if has_error else None
    return Implementation(init, step, lambda state, y: state.predict(y), error)


def _from_learner(learner: Critic) -> Implementation:
    """Makes functions of plain transitions of a learner in JAX."""
    step, predict = jax.jit(learner.step), jax.jit(learner.predict)

    def init(trial: Trial, weights: Weights) -> Any:
        state = learner.init(jax.random.key(0), as_transition(trial.streams[0][0]))
        leaves = [weights.get(name, leaf) for name, leaf in named_leaves(state).items()]
        return jax.tree.unflatten(jax.tree.structure(state), map(jnp.asarray, leaves))

    return Implementation(
        init,
        lambda state, y: step(state, as_transition(y)),
        lambda state, y: predict(state, as_transition(y)),
    )


def as_transition(y: Any) -> Transition:
    """Returns a plain transition as a learner of ours has it."""
    return Transition(*map(np.asarray, vars(y).values()))


def run(theirs: Implementation, trial: Trial, weights: Weights, is_tested: bool) -> Run:
    """Runs an implementation on all streams of a trial, each from the same weights.

    If it is tested, its steps on the first stream must be functions of their arguments."""
    shape = trial.seen["rho"].shape
    predictions, is_known = np.zeros(shape), np.zeros(shape, bool)
    fault = None

    def follow(stream: int, is_tested: bool) -> None:
        state = begin(theirs, trial, weights)
        for step, y in enumerate(trial.streams[stream]):
            try:
                predictions[stream, step] = predict(theirs, state, y)
                is_known[stream, step] = True
                state = (_pure_step if is_tested else advance)(theirs, state, y)
            except FaultError as fault:
                where = f"rho {y.rho:.3g}, discount {y.discount:.3g}, interest {y.interest:.3g}"
                raise FaultError(f"{fault} (step {step} of a stream: {where})") from fault

    with tolerant():
        for stream in range(shape[0]):
            try:
                follow(stream, is_tested=is_tested and stream == 0)
            except FaultError as error:
                fault = fault or str(error)
        if is_tested and fault is None:
            first = predictions[0].copy()
            follow(0, is_tested=False)
            if not np.array_equal(first, predictions[0], equal_nan=True):
                fault = "keeps hidden state: the same stream does not repeat its predictions"
                predictions[0] = first
    return Run(predictions, is_known, fault)


@contextmanager
def tolerant() -> Generator[None, None, None]:
    """Lets implementations overflow, and warn of it, without a word."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        yield


def begin(theirs: Implementation, trial: Trial, weights: Weights) -> Any:
    """Returns the first state."""
    return _call("init", theirs.init, trial, {name: w.copy() for name, w in weights.items()})


def _call(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function of an implementation; what it raises is a [FaultError]."""
    try:
        return function(*arguments)
    except FaultError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:SHOWN]
        if isinstance(error, ValueError) and "read-only" in text:
            raise FaultError(
                f"{name} changes the transition, which is read-only: {text}"
            ) from error
        has = ""
        if name == "init" and isinstance(error, KeyError | IndexError):
            sizes = (f"{key} {array.shape}" for key, array in arguments[1].items())
            has = f"; the weights are {', '.join(sizes) or 'none'}"
        raise FaultError(f"{name} raises {type(error).__name__}: {text}{has}") from error


def predict(theirs: Implementation, state: Any, y: Any) -> float:
    """Returns the prediction as a number."""
    value = _call("predict", theirs.predict, state, y)
    if (shape := tuple(getattr(value, "shape", ()))) != ():
        raise FaultError(f"predict returns an array of shape {shape}; a number is required")
    try:
        return float(value)
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise FaultError(f"predict returns {kind!r}; a number is required") from None


def advance(theirs: Implementation, state: Any, y: Any) -> Any:
    """Returns the state after a step."""
    after = _call("step", theirs.step, state, y)
    if after is None and state is not None:
        raise FaultError("step returns None; the next state is required")
    return after


def _pure_step(theirs: Implementation, state: Any, y: Any) -> Any:
    """Returns the state after a step, which must be a function of its arguments alone."""
    kept = _call("copying the state", copy.deepcopy, state)
    prediction, before = predict(theirs, state, y), named_arrays(state)
    after = advance(theirs, state, y)
    if not _equal(named_arrays(state), named_arrays(kept)):
        raise FaultError(
            "step changes the state that it is given; return a new one, or give a class"
        )
    arrays = named_arrays(after)
    for name in before.keys() & arrays.keys():
        if before[name].shape != arrays[name].shape:
            change = f"from {before[name].shape} to {arrays[name].shape}"
            raise FaultError(f"step changes the shape of {name or 'the state'} {change}")
    again = advance(theirs, kept, y)
    numbers = predict(theirs, state, y), *(predict(theirs, each, y) for each in (after, again))
    if not _same(prediction, numbers[0]):
        raise FaultError(
            "predict gives two results for one state: it keeps hidden state or is random"
        )
    if not (_equal(arrays, named_arrays(again)) and _same(*numbers[1:])):
        raise FaultError(f"step gives {TWO_RESULTS}")
    return after


def _same(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def _equal(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> bool:
    return all(np.array_equal(a[name], b[name], equal_nan=True) for name in a.keys() & b.keys())


def named_arrays(state: Any, prefix: str = "", depth: int = 3) -> dict[str, np.ndarray]:
    """Returns the arrays and numbers of a state that can be seen from outside, by name."""
    if isinstance(state, bool | int | float) or hasattr(state, "__array__"):
        try:
            array = np.array(state)
        except Exception:  # of a library of arrays that says no, such as one that tracks gradients
            return {}
        return {prefix: array} if array.dtype.kind in "biuf" else {}
    if not depth:
        return {}
    match state:
        case Mapping():
            parts = dict(state)
        case list() | tuple():
            parts = dict(enumerate(state))
        case _ if is_dataclass(state):
            parts = {field.name: getattr(state, field.name) for field in fields(state)}
        case _:
            parts = getattr(state, "__dict__", {})
    found: dict[str, np.ndarray] = {}
    for name, part in parts.items():
        found |= named_arrays(part, f"{prefix}.{name}" if prefix else f"{name}", depth - 1)
    return found
