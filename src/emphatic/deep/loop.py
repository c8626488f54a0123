"""The training of many runs at once: compiled, spread over all devices, resumable."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Generic, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer, Shaped

from .. import _validation as check
from .._files import StrPath
from ..types import Array, DeviceName, Key, named_leaves, Params, Scalar
from . import replay, streams
from .agents.agent import Agent, AgentState, Diagnostics, State
from .checkpoint import (
    Definition,
    find_extent,
    load_checkpoint,
    require_definition,
    save_checkpoint,
)
from .environments.environment import Environment
from .evaluation import calibration, Evaluate, excursions
from .replay import Count
from .streams import (
    derive_key,
    Devices,
    find_devices,
    generate_segments,
    Keys,
    map_over_runs,
    recorded_segments,
    Source,
)
from .transition import Transition

cached_excursions = lru_cache(maxsize=8)(excursions)  # a program is compiled for each of them

# The purposes of the random numbers of a run, besides that of its stream.
PARAMETERS, UPDATES, EVALUATION = range(1, 4)

Measured: TypeAlias = dict[str, Shaped[Array, " run"]]
Timed: TypeAlias = tuple[Integer[Array, ""], Transition]
Values: TypeAlias = dict[str, Shaped[np.ndarray, " run"]]
"""What an evaluation measured, by name, with an entry for each run."""
OnEvaluation: TypeAlias = Callable[[int, Values, Params], Values | None]
"""Called with the steps so far, the values and theta of all runs; may return further values."""


@dataclass(frozen=True, eq=False)
class Training:
    """The result of a training: curves by name, NaN where there was nothing to measure, and the
    policies' last parameters, with the runs as their leading axis. `diverged` is for each run the
    steps at the first evaluation with a parameter that was not finite, or -1."""

    seeds: tuple[int, ...]
    steps: Integer[np.ndarray, " evaluation"]
    curves: dict[str, Float[np.ndarray, "run evaluation"]]
    theta: Params
    diverged: Integer[np.ndarray, " run"]


def train_agent(
    agent: Agent[State],
    experience: Source,
    seeds: Sequence[int],
    num_iterations: int,
    *,
    num_workers: int = 10,
    evaluate_every: int = 100,
    evaluate: Evaluate | None = None,
    capacity: int | None = None,
    limit_ends: bool = True,
    checkpoint: str | os.PathLike | None = None,
    device: DeviceName = "auto",
    on_evaluation: OnEvaluation | None = None,
) -> Training:
    r"""Trains an agent once for each seed, all side by side.

    Each run has a stream of its own, which depends on its seed alone: all agents that are trained
    with a seed learn from the same experience. Runs are spread over all devices of a kind, and what
    one run does, even if it diverges, does not touch another. Between evaluations a run is one
    compiled scan. With a checkpoint an interrupted training resumes at its last evaluation, and
    ends with the same bits as if it had not been interrupted: every random number depends on the
    seed, on its purpose and on the time, and the replay is filled again from the stream. So does
    one that has ended, where more iterations are required.

    **Arguments:**

    - `experience`: An environment, in which uniform behaviour acts; or recorded experience, one for
      all seeds or one for each.
    - `num_iterations`: How many iterations; in each one every worker takes a step.
    - `evaluate_every`: The iterations between evaluations; it must divide `num_iterations`.
    - `evaluate`: `(theta, key)` to numbers, compiled; by default [excursions] in the environment.
    - `capacity`: How many iterations the replay keeps; by default all.
    - `limit_ends`: Whether a time limit counts as the end of the task; see [transitions].
    - `checkpoint`: A file to resume from, if it exists, and to write at each evaluation.
    - `device`: The kind of JAX's devices, `cpu` or `gpu`; `auto` leaves that to JAX.
    - `on_evaluation`: Called at each evaluation with the steps so far, the values of all runs
      and their theta; the numbers that it returns, one for each run, join the curves.
    """
    seeds = tuple(int(seed) for seed in seeds)
    ring_size = num_iterations if capacity is None else capacity
    _check_arguments(seeds, num_iterations, evaluate_every, num_workers, ring_size)
    if evaluate is None and isinstance(experience, Environment):
        evaluate = cached_excursions(experience, agent.act, agent.discount)
    times, devices = range(0, num_iterations, evaluate_every), find_devices(device)
    keys = _run_keys(seeds, len(devices))
    if isinstance(experience, Environment):
        settings = num_workers, times, limit_ends, devices
        axis, segments = 0, generate_segments(experience, keys, *settings)
    else:
        axis, segments = recorded_segments(experience, len(seeds), len(keys), times, limit_ends)
    first = next(segments)
    example = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1 if axis is None else 2 :], leaf.dtype), first
    )
    program = _compile(agent, evaluate, example, axis, evaluate_every, ring_size, devices)
    state = program.init(keys)

    def define(length: int) -> Definition:
        """Defines the training that ends after so many iterations."""
        return {
            **agent.definition,
            "seeds": list(seeds),
            "experience": streams.source_identity(experience, length),
            "num_iterations": length,
            "num_workers": example.reward.shape[0],
            "evaluate_every": evaluate_every,
            "capacity": length if capacity is None else capacity,
            "limit_ends": limit_ends,
            "number": str(example.reward.dtype),
        }

    definition = define(num_iterations)
    history: list[Values] = []

    def record(time: int, state: State, measured: Measured) -> None:
        measured = {**measured, **program.evaluate(state, keys, jnp.int32(time))}
        values = {name: np.asarray(value)[: len(seeds)] for name, value in measured.items()}
        steps = time * example.reward.shape[0]
        if on_evaluation is not None:
            theta = jax.tree.map(lambda leaf: np.array(leaf)[: len(seeds)], agent.theta(state))
            values |= on_evaluation(steps, values, theta) or {}
        history.append({name: np.asarray(value, np.float64) for name, value in values.items()})
        if checkpoint is not None:
            save_checkpoint(checkpoint, definition, _to_arrays(state, history, len(seeds)))

    if checkpoint is not None and os.path.exists(checkpoint):
        saved, arrays = load_checkpoint(checkpoint)
        length = find_extent(checkpoint, saved, arrays)["num_iterations"]
        require_definition(checkpoint, saved, define(min(length, num_iterations)))
        state, history = _restore(checkpoint, arrays, state, len(seeds), len(keys))
    else:
        record(0, state, {})
    num_done = (len(history) - 1) * evaluate_every
    if num_done == num_iterations:
        times, segments = range(0), iter(())
    for begin, batches in zip(times, chain([first], segments), strict=False):
        if begin < num_done:
            ring = program.refill(state.replay, batches, jnp.int32(begin))
            state = dataclasses.replace(state, replay=ring)
        else:
            state, measured = program.advance(state, keys, batches, jnp.int32(begin))
            record(begin + evaluate_every, state, measured)
    curves = _stack_curves(history, len(seeds))
    steps = np.arange(len(history)) * evaluate_every * example.reward.shape[0]
    has_diverged = curves.pop("finite") == 0
    diverged = np.where(has_diverged.any(1), steps[has_diverged.argmax(1)], -1)
    theta = jax.tree.map(lambda leaf: np.asarray(leaf)[: len(seeds)], agent.theta(state))
    return Training(seeds, steps, curves, theta, diverged)


def _check_arguments(
    seeds: Sequence[int], total: int, every: int, num_workers: int, capacity: int
) -> None:
    for seed in seeds:
        check.seed(seed)
    if not seeds:
        raise ValueError("seeds: got none; at least one is required")
    check.count("num_iterations", total)
    check.count("num_workers", num_workers)
    check.count("evaluate_every", every)
    check.count("capacity", capacity)
    if total % every:
        raise ValueError(f"evaluate_every: got {every}; it must divide num_iterations, {total}")


def _run_keys(seeds: Sequence[int], num_devices: int) -> Keys:
    """A key for each run, and more until every device has as many; the last seed is repeated."""
    padding = [seeds[-1]] * (-len(seeds) % num_devices)
    return jax.vmap(jax.random.key)(jnp.array([*seeds, *padding], jnp.uint32))


@dataclass(frozen=True, eq=False)
class _Program(Generic[State]):
    """The compiled functions of an agent, for all runs: first states, a segment, an evaluation."""

    init: Callable[[Keys], State]
    advance: Callable[[State, Keys, Transition, Count], tuple[State, Measured]]
    evaluate: Callable[[State, Keys, Count], Measured]
    refill: Callable[[Transition, Transition, Count], Transition]


@lru_cache(maxsize=8)
def _compile(
    agent: Agent[State],
    evaluate: Evaluate | None,
    example: Transition,
    axis: int | None,
    length: int,
    capacity: int,
    devices: Devices,
) -> _Program[State]:
    def init(key: Key) -> State:
        return agent.init(derive_key(key, PARAMETERS), example, capacity)

    def advance(
        state: State, key: Key, batches: Transition, begin: Count
    ) -> tuple[State, dict[str, Scalar]]:
        def iterate(state: State, timed: Timed) -> tuple[State, Diagnostics]:
            time, batch = timed
            return agent.update(state, batch, time, derive_key(key, UPDATES, time))

        state, window = jax.lax.scan(iterate, state, (begin + jnp.arange(length), batches))
        return state, calibration(window) if window else {}

    def measure(state: State, key: Key, time: Count) -> dict[str, Array]:
        finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params)]
        values: dict[str, Array] = {"finite": jnp.stack(finite).all()}
        if evaluate is not None:
            values |= evaluate(agent.theta(state), derive_key(key, EVALUATION, time))
        return values

    def refill(ring: Transition, batches: Transition, begin: Count) -> Transition:
        def add(ring: Transition, timed: Timed) -> tuple[Transition, None]:
            return replay.add(ring, timed[1], timed[0]), None

        return jax.lax.scan(add, ring, (begin + jnp.arange(length), batches))[0]

    return _Program(
        init=map_over_runs(init, (0,), devices),
        advance=map_over_runs(advance, (0, 0, axis, None), devices, donate=(0,)),
        evaluate=map_over_runs(measure, (0, 0, None), devices),
        refill=map_over_runs(refill, (0, axis, None), devices, donate=(0,)),
    )


def _to_arrays(state: AgentState, history: list[Values], num_runs: int) -> dict[str, np.ndarray]:
    """Returns what a checkpoint holds: all but the replay, which the stream fills again."""
    leaves = {f"state.{path}": np.asarray(leaf)[:num_runs] for path, leaf in _learned_leaves(state)}
    curves = _stack_curves(history, num_runs)
    return leaves | {f"curves.{name}": curve for name, curve in curves.items()}


def _learned_leaves(state: AgentState) -> list[tuple[str, jax.Array]]:
    """Returns the leaves of a state without its replay, by their paths."""
    leaves = named_leaves(state).items()
    return [(path, leaf) for path, leaf in leaves if path.split(".")[0] != "replay"]


def _restore(
    checkpoint: StrPath, arrays: dict[str, np.ndarray], state: State, num_seeds: int, num_runs: int
) -> tuple[State, list[Values]]:
    """Returns state and history of a checkpoint; the replay of the state stays as it is."""
    restored = named_leaves(state)
    for path, leaf in _learned_leaves(state):
        saved, shape = arrays.get(f"state.{path}"), (num_seeds, *leaf.shape[1:])
        if saved is None or (saved.shape, saved.dtype) != (shape, leaf.dtype):
            got = "lacks it" if saved is None else f"has {saved.dtype} of shape {saved.shape}"
            required = f"state.{path} with {leaf.dtype} of shape {shape} is required"
            raise ValueError(f"checkpoint: {checkpoint} {got}; {required}")
        padded = np.concatenate([saved, *[saved[-1:]] * (num_runs - num_seeds)])
        restored[path] = jax.device_put(padded, leaf.sharding)
    curves = {k.removeprefix("curves."): v for k, v in arrays.items() if k.startswith("curves.")}
    length = curves["finite"].shape[1]
    history = [{name: curve[:, j] for name, curve in curves.items()} for j in range(length)]
    return jax.tree.unflatten(jax.tree.structure(state), restored.values()), history


def _stack_curves(
    history: list[Values], num_runs: int
) -> dict[str, Float[np.ndarray, "run evaluation"]]:
    names = dict.fromkeys(name for values in history for name in values)
    missing = np.full(num_runs, np.nan)
    return {name: np.stack([v.get(name, missing) for v in history], 1) for name in names}
