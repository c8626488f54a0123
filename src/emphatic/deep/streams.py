"""Streams of transitions for all runs, segment by segment: generated, or recorded before."""

import hashlib
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Integer, Shaped

from ..types import Array, DeviceName, Key
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
Devices: TypeAlias = tuple[Any, ...]
"""Devices of JAX, which has no type for them; runs are spread over them."""
Result = TypeVar("Result")


def find_devices(device: DeviceName) -> Devices:
    """Returns JAX's devices of a kind, and for `auto` those that it takes by itself."""
    try:
        return tuple(jax.devices(None if device == "auto" else device))
    except RuntimeError:
        advice = "; a GPU needs NVIDIA's driver and the extra 'cuda13'" if device == "gpu" else ""
        raise ValueError(f"device: JAX finds no {device.upper()} here{advice}") from None


def derive_key(key: Key, *purposes: Count) -> Key:
    """Derives the key of a run for one purpose, such as a stream at a time."""
    for purpose in purposes:
        key = jax.random.fold_in(key, purpose)
    return key


def map_over_runs(
    function: Callable[..., Result],
    axes: tuple[int | None, ...],
    devices: Devices,
    donate: tuple[int, ...] = (),
) -> Callable[..., Result]:
    """Compiles a function for all runs, spread over devices; an axis of None is shared by all."""
    mesh = Mesh(np.array(devices), ("run",))
    split, shared = PartitionSpec("run"), PartitionSpec()
    specs = tuple(shared if axis is None else split for axis in axes)
    sharded = jax.shard_map(
        jax.vmap(function, axes), mesh=mesh, in_specs=specs, out_specs=split, check_vma=False
    )
    return jax.jit(sharded, donate_argnums=donate)


@lru_cache(maxsize=8)
def _compile_generator(
    environment: Environment, num_workers: int, length: int, limit_ends: bool, devices: Devices
) -> tuple[Callable[[Keys], Workers], Callable[[Workers, Keys, Count], tuple[Workers, Transition]]]:
    """The first workers, and what they do in a segment: compiled apart from whoever learns."""
    reset, advance = uniform_steps(environment, num_workers)
    density = uniform_density(environment.low, environment.high)

    def init(key: Key) -> Workers:
        return reset(derive_key(key, STREAM))

    def generate(workers: Workers, key: Key, begin: Count) -> tuple[Workers, Transition]:
        def step(workers: Workers, time: Integer[Array, ""]) -> tuple[Workers, Step]:
            return advance(workers, derive_key(key, STREAM, time))

        workers, steps = jax.lax.scan(step, workers, begin + jnp.arange(length))
        observation = jax.vmap(environment.observe)(workers.state)
        return workers, transitions(steps, density, observation, limit_ends)

    return map_over_runs(init, (0,), devices), map_over_runs(generate, (0, 0, None), devices)


def generate_segments(
    environment: Environment,
    keys: Keys,
    num_workers: int,
    times: range,
    limit_ends: bool,
    devices: Devices,
) -> Iterator[Transition]:
    """Generates the transitions of uniform behaviour, in segments that begin at `times`."""
    settings = num_workers, times.step, limit_ends, devices
    init, generate = _compile_generator(environment, *settings)
    workers = init(keys)
    for begin in times:
        workers, batches = generate(workers, keys, jnp.int32(begin))
        yield batches


def recorded_segments(
    source: Recordings, num_seeds: int, num_runs: int, times: range, limit_ends: bool
) -> tuple[int | None, Iterator[Transition]]:
    """Returns the axis of runs, None if all share a recording, and its transitions by segment."""
    recordings = [source] if isinstance(source, Experience) else list(source)
    if len(recordings) not in (1, num_seeds):
        raise ValueError(
            f"experience: got {len(recordings)}; one, or one for each seed, is required"
        )
    for recording in recordings:
        length = len(recording.behavior)
        if length < times.stop:
            raise ValueError(f"num_iterations: got {times.stop}; the experience has {length}")

    def recorded_transitions(recording: Experience) -> Transition:
        steps, n = recording.steps, times.stop
        ended = (steps.terminated | steps.truncated)[n - 1, :, None]
        # Where the recording ends with an episode, any start will do for the next one.
        last = np.where(ended, steps.observation[0], steps.observation_next[n - 1])
        observation = steps.observation[n] if n < len(recording.behavior) else last
        steps, behavior = jax.tree.map(lambda leaf: leaf[:n], steps), recording.behavior[:n]
        return jax.tree.map(np.asarray, transitions(steps, behavior, observation, limit_ends))

    if (len(recordings) == 1 and num_seeds > 1) or isinstance(source, Experience):
        axis, data = None, recorded_transitions(recordings[0])
    else:
        recordings += recordings[-1:] * (num_runs - len(recordings))
        runs = map(recorded_transitions, recordings)
        axis, data = 0, jax.tree.map(lambda *leaves: np.stack(leaves), *runs)

    def segments() -> Iterator[Transition]:
        for begin in times:
            segment = slice(begin, begin + times.step)
            index = segment if axis is None else (slice(None), segment)
            yield jax.tree.map(operator.itemgetter(index), data)

    return axis, segments()


def source_identity(source: Source, length: int) -> str | list[str]:
    """Identifies a source of experience: by its name, or by what its recordings have of so many
    iterations."""
    if isinstance(source, Environment):
        return source.name
    if not isinstance(source, Experience):
        return [_recording_identity(recording, length) for recording in source]
    return _recording_identity(source, length)


def _recording_identity(recording: Experience, length: int) -> str:
    """The content up to an iteration, and what is observed then: the successor of an end."""
    leaves = *jax.tree.leaves(recording.steps), recording.behavior
    following = recording.steps.observation[length : length + 1]
    digest = hashlib.sha256()
    for leaf in (*(leaf[:length] for leaf in leaves), following):
        digest.update(np.ascontiguousarray(leaf).data)
    return f"{recording.environment}, sha256 {digest.hexdigest()}"
