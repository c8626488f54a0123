"""Many runs at once, each from a stream of its own: compiled, over all devices, resumable."""

import dataclasses
import hashlib
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from .. import _checks as check
from . import replay
from .agent import Agent
from .checkpoint import load, named, save
from .environment import Environment, uniform_density, uniform_steps
from .evaluation import calibration, excursions
from .experience import Experience
from .transition import Transition, transitions

# What the random numbers of a seed are for. The stream has its own: it is the same for all agents.
STREAM, PARAMETERS, UPDATES, EVALUATION = range(4)


@dataclass(frozen=True, eq=False)
class Training:
    r"""What came of a training.

    **Arguments:**

    - `seeds`: The seeds, one for each run.
    - `steps`: The environment steps of a run at each evaluation, from 0.
    - `curves`: What was measured, by name, with the axes (run, evaluation); NaN where there was
      nothing to measure.
    - `theta`: What the policies need to act at the end, with the runs as the leading axis.
    - `diverged`: For each run the steps at the first evaluation with a parameter that was not
      finite, or -1.
    """

    seeds: tuple[int, ...]
    steps: np.ndarray
    curves: dict[str, np.ndarray]
    theta: Any
    diverged: np.ndarray


def train(
    agent: Agent,
    experience: Environment | Experience | Sequence[Experience],
    seeds: Sequence[int],
    num_iterations: int,
    *,
    num_workers: int = 10,
    evaluate_every: int = 100,
    evaluate: Callable[[Any, Any], dict[str, Any]] | None = None,
    capacity: int | None = None,
    limit_ends: bool = True,
    checkpoint: str | os.PathLike | None = None,
    watch: Callable[[int, dict[str, np.ndarray], Any], dict[str, Any] | None] | None = None,
) -> Training:
    r"""Trains an agent once for each seed, all side by side.

    Each run has a stream of its own, which depends on its seed alone: all agents that are trained
    with a seed learn from the same experience. Runs are spread over all devices, and what one run
    does, even if it diverges, does not touch another. Between evaluations a run is one compiled
    scan. With a checkpoint an interrupted training goes on at its last evaluation, and ends with
    the same bits as if it had not been interrupted: every random number depends on the seed, on
    what it is for and on the time, and the replay is made again from the stream.

    **Arguments:**

    - `agent`: The agent.
    - `experience`: An environment, in which uniform behaviour acts; or recorded experience, one for
      all seeds or one for each.
    - `seeds`: The seeds.
    - `num_iterations`: How many iterations; in each one every worker takes a step.
    - `num_workers`: How many copies of an environment act side by side in a run.
    - `evaluate_every`: The number of iterations between evaluations; it must divide their number.
    - `evaluate`: `(theta, key)` to numbers, compiled; by default [excursions] in the environment.
    - `capacity`: How many iterations the replay keeps; by default all.
    - `limit_ends`: Whether a limit of time counts as the end of the task; see [transitions].
    - `checkpoint`: A file to go on from, if it exists, and to write at each evaluation.
    - `watch`: Called at each evaluation with the steps so far, the values of all runs and their
      theta; the numbers that it returns, one for each run, join the curves.
    """
    seeds = tuple(int(seed) for seed in seeds)
    capacity = num_iterations if capacity is None else capacity
    _require(seeds, num_iterations, evaluate_every, num_workers, capacity)
    if evaluate is None and isinstance(experience, Environment):
        evaluate = _excursions(experience, agent.act, agent.definition.get("discount", 0.99))
    begins = range(0, num_iterations, evaluate_every)
    keys = _keys(seeds)
    if isinstance(experience, Environment):
        axis, stream = 0, _generated(experience, keys, num_workers, begins, limit_ends)
    else:
        axis, stream = _recorded(experience, seeds, len(keys), begins, limit_ends)
    begun = next(stream)
    example = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1 if axis is None else 2 :], leaf.dtype),
        begun,
    )
    program = _program(agent, evaluate, example, axis, evaluate_every, capacity)
    state = program.first(keys)
    definition = {
        **agent.definition,
        "seeds": list(seeds),
        "experience": _identity(experience),
        "num_iterations": num_iterations,
        "num_workers": example.reward.shape[0],
        "evaluate_every": evaluate_every,
        "capacity": capacity,
        "limit_ends": limit_ends,
        "number": str(example.reward.dtype),
    }
    history: list[dict[str, np.ndarray]] = []

    def record(time: int, state: Any, seen: dict[str, Any]) -> None:
        values = {**seen, **program.judge(state, keys, jnp.int32(time))}
        values = {name: np.asarray(value)[: len(seeds)] for name, value in values.items()}
        steps = time * example.reward.shape[0]
        if watch is not None:
            theta = jax.tree.map(lambda leaf: np.array(leaf)[: len(seeds)], agent.theta(state))
            values |= watch(steps, values, theta) or {}
        history.append({name: np.asarray(value, np.float64) for name, value in values.items()})
        if checkpoint is not None:
            save(checkpoint, definition, _kept(state, history, len(seeds)))

    if checkpoint is not None and os.path.exists(checkpoint):
        state, history = _resumed(load(checkpoint, definition), state, len(keys))
    else:
        record(0, state, {})
    done = (len(history) - 1) * evaluate_every
    for begin, batches in zip(begins, chain([begun], stream), strict=True):
        if begin < done:
            ring = program.refill(state.replay, batches, jnp.int32(begin))
            state = dataclasses.replace(state, replay=ring)
        else:
            state, seen = program.advance(state, keys, batches, jnp.int32(begin))
            record(begin + evaluate_every, state, seen)
    curves = _curves(history, len(seeds))
    steps = np.arange(len(history)) * evaluate_every * example.reward.shape[0]
    broken = curves.pop("finite") == 0
    diverged = np.where(broken.any(1), steps[broken.argmax(1)], -1)
    theta = jax.tree.map(lambda leaf: np.asarray(leaf)[: len(seeds)], agent.theta(state))
    return Training(seeds, steps, curves, theta, diverged)


def _require(seeds: Any, num_iterations: int, every: int, num_workers: int, capacity: int) -> None:
    for seed in seeds:
        check.seed(seed)
    if not seeds:
        raise ValueError("seeds: got none; at least one is required")
    check.count("num_iterations", num_iterations)
    check.count("num_workers", num_workers)
    check.count("evaluate_every", every)
    check.count("capacity", capacity)
    if num_iterations % every:
        raise ValueError(
            f"evaluate_every: got {every}; it must divide num_iterations, {num_iterations}"
        )


def _keys(seeds: Sequence[int]) -> Any:
    """A key for each run, and more until every device has as many; the last seed is repeated."""
    padding = [seeds[-1]] * (-len(seeds) % jax.device_count())
    return jax.vmap(jax.random.key)(jnp.array([*seeds, *padding], jnp.uint32))


def _key(key: Any, *parts: Any) -> Any:
    for part in parts:
        key = jax.random.fold_in(key, part)
    return key


def _over_runs(function: Callable, axes: tuple[int | None, ...], donate: Any = ()) -> Callable:
    """The function for all runs, each device doing its share; an axis of None is shared by all."""
    mesh = Mesh(np.array(jax.devices()), ("run",))
    specs = tuple(PartitionSpec() if axis is None else PartitionSpec("run") for axis in axes)
    shares = jax.shard_map(
        jax.vmap(function, axes),
        mesh=mesh,
        in_specs=specs,
        out_specs=PartitionSpec("run"),
        check_vma=False,
    )
    return jax.jit(shares, donate_argnums=donate)


@dataclass(frozen=True, eq=False)
class _Program:
    """What is compiled for an agent: its first state, a segment, an evaluation, and the replay."""

    first: Callable
    advance: Callable
    judge: Callable
    refill: Callable


@lru_cache(maxsize=8)
def _program(
    agent: Agent,
    evaluate: Callable[[Any, Any], dict[str, Any]] | None,
    example: Transition,
    axis: int | None,
    every: int,
    capacity: int,
) -> _Program:
    def first(key: Any) -> Any:
        return agent.init(_key(key, PARAMETERS), example, capacity)

    def advance(
        state: Any, key: Any, batches: Transition, begin: Any
    ) -> tuple[Any, dict[str, Any]]:
        def iterate(state: Any, given: tuple[Any, Transition]) -> tuple[Any, dict[str, Any]]:
            time, batch = given
            return agent.update(state, batch, time, _key(key, UPDATES, time))

        state, seen = jax.lax.scan(iterate, state, (begin + jnp.arange(every), batches))
        return state, calibration(seen) if seen else {}

    def judge(state: Any, key: Any, time: Any) -> dict[str, Any]:
        finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params)]
        values = {"finite": jnp.stack(finite).all()}
        if evaluate is not None:
            values |= evaluate(agent.theta(state), _key(key, EVALUATION, time))
        return values

    def refill(ring: Any, batches: Transition, begin: Any) -> Any:
        def put(ring: Any, given: tuple[Any, Transition]) -> tuple[Any, None]:
            return replay.add(ring, given[1], given[0]), None

        return jax.lax.scan(put, ring, (begin + jnp.arange(every), batches))[0]

    return _Program(
        first=_over_runs(first, (0,)),
        advance=_over_runs(advance, (0, 0, axis, None), donate=(0,)),
        judge=_over_runs(judge, (0, 0, None)),
        refill=_over_runs(refill, (0, axis, None), donate=(0,)),
    )


@lru_cache(maxsize=8)
def _excursions(
    environment: Environment, act: Callable, discount: float
) -> Callable[[Any, Any], dict[str, Any]]:
    return excursions(environment, act, discount)


@lru_cache(maxsize=8)
def _generator(
    environment: Environment, num_workers: int, every: int, limit_ends: bool
) -> tuple[Callable, Callable]:
    """The first workers, and what they do in a segment: compiled apart from whoever learns."""
    init, advance = uniform_steps(environment, num_workers)
    density = uniform_density(environment.low, environment.high)

    def first(key: Any) -> Any:
        return init(_key(key, STREAM))

    def generate(workers: Any, key: Any, begin: Any) -> tuple[Any, Transition]:
        def step(workers: Any, time: Any) -> tuple[Any, Any]:
            return advance(workers, _key(key, STREAM, time))

        workers, steps = jax.lax.scan(step, workers, begin + jnp.arange(every))
        after = jax.vmap(environment.observe)(workers.state)
        return workers, transitions(steps, density, after, limit_ends)

    return _over_runs(first, (0,)), _over_runs(generate, (0, 0, None))


def _generated(
    environment: Environment, keys: Any, num_workers: int, begins: range, limit_ends: bool
) -> Iterator[Transition]:
    """What uniform behaviour does in the environment, segment by segment."""
    first, generate = _generator(environment, num_workers, begins.step, limit_ends)
    workers = first(keys)
    for begin in begins:
        workers, batches = generate(workers, keys, jnp.int32(begin))
        yield batches


def _recorded(
    experience: Experience | Sequence[Experience],
    seeds: Sequence[int],
    num_runs: int,
    begins: range,
    limit_ends: bool,
) -> tuple[int | None, Iterator[Transition]]:
    """Recorded transitions, of one experience for all runs or of one for each."""
    every = [experience] if isinstance(experience, Experience) else list(experience)
    if len(every) not in (1, len(seeds)):
        raise ValueError(f"experience: got {len(every)}; one, or one for each seed, is required")
    for each in every:
        if len(each.behavior) < begins.stop:
            raise ValueError(
                f"num_iterations: got {begins.stop}; the experience has {len(each.behavior)}"
            )

    def whole(each: Experience) -> Transition:
        steps, n = each.steps, begins.stop
        ended = (steps.terminated | steps.truncated)[n - 1, :, None]
        unknown = np.where(ended, steps.observation[0], steps.observation_next[n - 1])
        after = steps.observation[n] if n < len(each.behavior) else unknown
        kept = jax.tree.map(lambda leaf: leaf[:n], steps)
        return jax.tree.map(np.asarray, transitions(kept, each.behavior[:n], after, limit_ends))

    if (len(every) == 1 and len(seeds) > 1) or isinstance(experience, Experience):
        axis, data = None, whole(every[0])
    else:
        every += every[-1:] * (num_runs - len(every))
        axis, data = 0, jax.tree.map(lambda *leaves: np.stack(leaves), *map(whole, every))

    def pieces() -> Iterator[Transition]:
        for begin in begins:
            part = slice(begin, begin + begins.step)
            where = part if axis is None else (slice(None), part)
            yield jax.tree.map(operator.itemgetter(where), data)

    return axis, pieces()


def _identity(experience: Any) -> Any:
    """What tells one experience from another."""
    if isinstance(experience, Environment):
        return experience.name
    if not isinstance(experience, Experience):
        return [_identity(each) for each in experience]
    digest = hashlib.sha256()
    for leaf in (*jax.tree.leaves(experience.steps), experience.behavior):
        digest.update(np.ascontiguousarray(leaf).data)
    return f"{experience.environment}, sha256 {digest.hexdigest()}"


def _kept(state: Any, history: list[dict[str, np.ndarray]], num_runs: int) -> dict[str, Any]:
    """What a checkpoint holds: all but the replay, which the stream can make again."""
    state = dataclasses.replace(state, replay=None)
    return {
        "state": jax.tree.map(lambda leaf: np.asarray(leaf)[:num_runs], state),
        "curves": _curves(history, num_runs),
    }


def _resumed(arrays: dict[str, np.ndarray], state: Any, num_runs: int) -> tuple[Any, list]:
    """State and history of a checkpoint; the replay of the state is as it was."""

    def fill(name: str, leaf: Any) -> Any:
        saved = arrays[f"state.{name}"]
        padded = np.concatenate([saved, *[saved[-1:]] * (num_runs - len(saved))])
        return jax.device_put(padded, leaf.sharding)

    kept = dataclasses.replace(state, replay=None)
    leaves = [fill(name, leaf) for name, leaf in named(kept).items()]
    restored = jax.tree.unflatten(jax.tree.structure(kept), leaves)
    curves = {k.removeprefix("curves."): v for k, v in arrays.items() if k.startswith("curves.")}
    length = curves["finite"].shape[1]
    history = [{name: curve[:, j] for name, curve in curves.items()} for j in range(length)]
    return dataclasses.replace(restored, replay=state.replay), history


def _curves(history: list[dict[str, np.ndarray]], num_runs: int) -> dict[str, np.ndarray]:
    names = dict.fromkeys(name for values in history for name in values)
    nothing = np.full(num_runs, np.nan)
    return {name: np.stack([v.get(name, nothing) for v in history], 1) for name in names}
