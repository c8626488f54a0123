"""Streams of transitions for all runs, segment by segment: generated, or recorded before."""

import hashlib
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Integer, Shaped

from ..types import Array, Key
from .environments.environment import Environment, uniform_density, uniform_steps, Workers
from .experience import Experience, Step
from .replay import Count
from .transition import Transition, transitions

STREAM = 0  # the purpose of the random numbers of a stream: it is the same for all agents

Recordings: TypeAlias = Experience | Sequence[Experience]
Source: TypeAlias = Environment | Recordings
"""An environment in which uniform behaviour acts, or recordings: one for all runs, or for each."""
Keys: TypeAlias = Shaped[jax.Array, " runs"]
"""A random key for each run."""


def derive_key(key: Key, *purposes: Count) -> Key:
    """The key of a run for one purpose, such as a stream at a time."""
    for purpose in purposes:
        key = jax.random.fold_in(key, purpose)
    return key


def map_over_runs(
    function: Callable, axes: tuple[int | None, ...], donate: tuple[int, ...] = ()
) -> Callable:
    """The function for all runs, each device doing its share; an axis of None is shared by all."""
    mesh = Mesh(np.array(jax.devices()), ("run",))
    own, shared = PartitionSpec("run"), PartitionSpec()
    specs = tuple(shared if axis is None else own for axis in axes)
    shares = jax.shard_map(
        jax.vmap(function, axes), mesh=mesh, in_specs=specs, out_specs=own, check_vma=False
    )
    return jax.jit(shares, donate_argnums=donate)


@lru_cache(maxsize=8)
def _generator(
    environment: Environment, num_workers: int, length: int, limit_ends: bool
) -> tuple[Callable, Callable]:
    """The first workers, and what they do in a segment: compiled apart from whoever learns."""
    init, advance = uniform_steps(environment, num_workers)
    density = uniform_density(environment.low, environment.high)

    def first(key: Key) -> Workers:
        return init(derive_key(key, STREAM))

    def generate(workers: Workers, key: Key, begin: Count) -> tuple[Workers, Transition]:
        def step(workers: Workers, time: Integer[Array, ""]) -> tuple[Workers, Step]:
            return advance(workers, derive_key(key, STREAM, time))

        workers, steps = jax.lax.scan(step, workers, begin + jnp.arange(length))
        after = jax.vmap(environment.observe)(workers.state)
        return workers, transitions(steps, density, after, limit_ends)

    return map_over_runs(first, (0,)), map_over_runs(generate, (0, 0, None))


def generated_batches(
    environment: Environment, keys: Keys, num_workers: int, begins: range, limit_ends: bool
) -> Iterator[Transition]:
    """What uniform behaviour does in the environment, segment by segment."""
    first, generate = _generator(environment, num_workers, begins.step, limit_ends)
    workers = first(keys)
    for begin in begins:
        workers, batches = generate(workers, keys, jnp.int32(begin))
        yield batches


def recorded_batches(
    source: Recordings, num_seeds: int, num_runs: int, begins: range, limit_ends: bool
) -> tuple[int | None, Iterator[Transition]]:
    """Recorded transitions, segment by segment, and the axis of runs: None if all share them."""
    recordings = [source] if isinstance(source, Experience) else list(source)
    if len(recordings) not in (1, num_seeds):
        raise ValueError(
            f"experience: got {len(recordings)}; one, or one for each seed, is required"
        )
    for recording in recordings:
        length = len(recording.behavior)
        if length < begins.stop:
            raise ValueError(f"num_iterations: got {begins.stop}; the experience has {length}")

    def recorded_transitions(recording: Experience) -> Transition:
        steps, n = recording.steps, begins.stop
        ended = (steps.terminated | steps.truncated)[n - 1, :, None]
        unknown = np.where(ended, steps.observation[0], steps.observation_next[n - 1])
        after = steps.observation[n] if n < len(recording.behavior) else unknown
        first = jax.tree.map(lambda leaf: leaf[:n], steps)
        behavior = recording.behavior[:n]
        return jax.tree.map(np.asarray, transitions(first, behavior, after, limit_ends))

    if (len(recordings) == 1 and num_seeds > 1) or isinstance(source, Experience):
        axis, data = None, recorded_transitions(recordings[0])
    else:
        recordings += recordings[-1:] * (num_runs - len(recordings))
        stacked = map(recorded_transitions, recordings)
        axis, data = 0, jax.tree.map(lambda *leaves: np.stack(leaves), *stacked)

    def segments() -> Iterator[Transition]:
        for begin in begins:
            segment = slice(begin, begin + begins.step)
            index = segment if axis is None else (slice(None), segment)
            yield jax.tree.map(operator.itemgetter(index), data)

    return axis, segments()


def source_identity(source: Source) -> str | list[str]:
    """What tells one source of experience from another."""
    if isinstance(source, Environment):
        return source.name
    if not isinstance(source, Experience):
        return [_recording_identity(recording) for recording in source]
    return _recording_identity(source)


def _recording_identity(recording: Experience) -> str:
    digest = hashlib.sha256()
    for leaf in (*jax.tree.leaves(recording.steps), recording.behavior):
        digest.update(np.ascontiguousarray(leaf).data)
    return f"{recording.environment}, sha256 {digest.hexdigest()}"
