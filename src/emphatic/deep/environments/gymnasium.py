"""Experience and evaluation in Gymnasium environments whose actions are a Box or Discrete."""

import functools
import importlib
import os
import sys
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast, TYPE_CHECKING, TypeAlias

import jax
import numpy as np
from jaxtyping import Float, Integer

from ... import _validation as check
from ..._schema import show
from ...types import Array, Key
from ..experience import Experience, Step
from .environment import uniform_density

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec

Observations: TypeAlias = Float[Array, "n o"]
"""Observations of all copies."""
Actions: TypeAlias = Float[Array, "n a"] | Integer[Array, " n"]
"""Actions for all copies: vectors, or numbers of actions."""
Behavior: TypeAlias = Callable[[Observations, Key], tuple[Actions, float | Float[Array, " n"]]]
r"""A behaviour policy: actions for all copies, and their $\mu(A_t|S_t)$."""
_Observations: TypeAlias = Float[np.ndarray, "n o"]
_Actions: TypeAlias = Float[np.ndarray, "n a"] | Integer[np.ndarray, " n"]

INSTALL = "run pip install 'emphatic[gym]'"
PACKAGES = ("emphatic", "gymnasium", "mujoco", "numpy")


@dataclass(frozen=True, eq=False)
class Returns:
    r"""What episodes returned, one entry for each: $\sum_k \gamma^k R_{t+k+1}$ from the first step
    that counts, $\sum_k R_{t+k+1}$, and how many steps counted."""

    discounted: Float[np.ndarray, " n"]
    undiscounted: Float[np.ndarray, " n"]
    length: Integer[np.ndarray, " n"]


@dataclass(frozen=True)
class _Copies:
    """Copies of an environment, what its observations become, and what its actions are."""

    name: str
    envs: "gymnasium.vector.SyncVectorEnv"
    encode: Callable[[Array], _Observations]
    decode: Callable[[_Actions], np.ndarray]
    low: Float[np.ndarray, " a"] | None = None
    high: Float[np.ndarray, " a"] | None = None
    num_actions: int | None = None


def _make_envs(name: str, num_copies: int, **options: Any) -> "gymnasium.vector.SyncVectorEnv":
    spec = find_spec(name)
    import gymnasium

    _report_mujoco_once()
    same_step = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    try:
        envs = gymnasium.make_vec(spec, num_copies, "sync", vector_kwargs=same_step, **options)
        return cast("gymnasium.vector.SyncVectorEnv", envs)
    except (gymnasium.error.Error, ImportError) as error:
        advice = INSTALL if "mujoco is not installed" in str(error).lower() else str(error)
        raise ValueError(f"environment: {name!r} cannot be made here; {advice}") from None


def find_spec(name: str, imports: Collection[str] | None = None) -> "EnvSpec":
    """Returns what Gymnasium knows of a registered environment, `Id` or `module:Id`.

    The module, which registers it and may be in the working folder, is imported here and nowhere
    else, if it is one of `imports`; by default it may be, as a person has named it.
    """
    try:
        import gymnasium
    except ImportError:
        raise ValueError(f"environment: Gymnasium is not installed; {INSTALL}") from None
    module, _, env_id = name.rpartition(":")
    if module and module not in sys.modules:
        if imports is not None and module not in imports:
            raise ValueError(
                f"environment: {show(name)} is code, which a file does not import by itself; if "
                f"you trust it, add --import {module[:60]}"
            )
        _import_module(module)
    if env_id not in gymnasium.registry:
        matches = ", ".join(map(repr, get_close_matches(env_id[:60], gymnasium.registry, n=3)))
        hint = f"near it are {matches}" if matches else "no id is near it"
        raise ValueError(f"environment: Gymnasium has no {show(name)}; {hint}")
    return gymnasium.registry[env_id]


def _import_module(module: str) -> None:
    """Imports a module, which may be in the working folder."""
    if (folder := os.getcwd()) not in sys.path:
        sys.path.append(folder)
    try:
        importlib.import_module(module)
    except Exception as error:  # whatever its code raises
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"environment: {show(module)} cannot be imported: {reason}") from error


@functools.cache
def _report_mujoco_once() -> None:
    """Makes MuJoCo print each of its warnings once, and write none to a file of its own."""
    try:
        import mujoco
    except ImportError:
        return
    messages: set[str] = set()

    def report(message: str) -> None:
        text = message.partition(" Time = ")[0].strip()
        if text not in messages:
            messages.add(text)
            print(f"MuJoCo: {text}", file=sys.stderr)

    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(report)


def _make_encoder(name: str, space: "gymnasium.Space") -> Callable[[Array], _Observations]:
    from gymnasium.spaces import Box, Discrete

    if isinstance(space, Box):
        return lambda raw: np.asarray(raw, np.float32).reshape(len(raw), -1)
    if isinstance(space, Discrete):
        numbers = space.start + np.arange(space.n)
        return lambda raw: (np.asarray(raw)[:, None] == numbers).astype(np.float32)
    raise ValueError(
        f"environment: the observations of {name!r} are {space}; a Box or Discrete is required"
    )


def _describe(name: str, envs: "gymnasium.vector.SyncVectorEnv") -> _Copies:
    from gymnasium.spaces import Box, Discrete

    space, encode = envs.single_action_space, _make_encoder(name, envs.single_observation_space)
    if isinstance(space, Discrete):
        first = space.start
        return _Copies(name, envs, encode, lambda a: a + first, num_actions=int(space.n))
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        shape, dtype = space.shape, space.dtype

        def decode(actions: _Actions) -> np.ndarray:
            return actions.reshape(len(actions), *shape).astype(dtype)

        return _Copies(name, envs, encode, decode, space.low.ravel(), space.high.ravel())
    raise ValueError(
        f"environment: the actions of {name!r} are {space}; a Box of real numbers or Discrete is "
        "required"
    )


def _step(copies: _Copies, actions: _Actions) -> tuple[np.ndarray, ...]:
    """Takes a step: the true successors, rewards, both flags, and observations after resets."""
    raw, reward, terminated, truncated, info = copies.envs.step(copies.decode(actions))
    observations = successors = copies.encode(raw)
    if "final_obs" in info:
        ended = np.flatnonzero(info["_final_obs"])
        successors = observations.copy()
        successors[ended] = copies.encode(np.stack(list(info["final_obs"][ended])))
    return successors, reward, terminated, truncated, observations


def _uniform_behavior(copies: _Copies, rng: np.random.Generator) -> Behavior:
    num, low, high, num_actions = copies.envs.num_envs, copies.low, copies.high, copies.num_actions
    if num_actions is not None:
        return lambda *_: (rng.integers(num_actions, size=num), 1.0 / num_actions)
    if low is None or high is None or not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(
            f"behavior: the actions of {copies.name!r} are an unbounded Box, on which no uniform "
            "behaviour exists; give a policy"
        )
    return lambda *_: (rng.uniform(low, high, (num, low.size)), uniform_density(low, high))


def _to_actions(name: str, copies: _Copies, actions: object) -> _Actions:
    """Converts actions to their type; a `ValueError` unless they are the environment's."""
    shape = (copies.envs.num_envs, *(() if copies.low is None else copies.low.shape))
    dtype = np.int32 if copies.low is None else np.float32
    actions = np.asarray(actions)
    if actions.shape != shape or not np.can_cast(actions.dtype, dtype, "same_kind"):
        raise ValueError(
            f"{name}: gave actions of shape {actions.shape} and type {actions.dtype}; {shape} and "
            f"{np.dtype(dtype)} are required"
        )
    if copies.num_actions is not None and not np.isin(actions, range(copies.num_actions)).all():
        raise ValueError(f"{name}: gave actions {actions}; 0 to {copies.num_actions - 1} exist")
    return actions.astype(dtype)


def _randomness(
    seed: int, purpose: int, num_copies: int
) -> tuple[list[int], np.random.Generator, Key]:
    """Derives seeds of the copies, a generator for actions, a key for policies: independent."""
    check.seed(seed)
    entropy = np.random.SeedSequence(seed, spawn_key=(purpose,))
    key_seed, *seeds = entropy.generate_state(1 + num_copies).tolist()
    return seeds, np.random.default_rng(entropy.spawn(1)[0]), jax.random.key(key_seed)


def _package_versions() -> dict[str, str]:
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def record(
    environment: str,
    num_steps: int,
    num_workers: int = 10,
    seed: int = 0,
    behavior: str | Behavior = "uniform",
    on_progress: Callable[[int, int], None] | None = None,
) -> Experience:
    r"""Records what a fixed behaviour does in copies of an environment.

    Observations become vectors: those of a Box are flattened, those of a finite set are one-hot.
    Where an episode ends another begins, and the recorded successor is still the true one. The
    steps of all workers together, `num_steps`, are rounded up to whole iterations; `on_progress` is
    called with how many of them are done.
    """
    check.count("num_steps", num_steps)
    check.count("num_workers", num_workers)
    if isinstance(behavior, str) and behavior != "uniform":
        raise ValueError(f"behavior: got {behavior!r}; 'uniform' or a function is required")
    seeds, rng, key = _randomness(seed, 0, num_workers)
    num_iterations = -(-num_steps // num_workers)
    with closing(_make_envs(environment, num_workers)) as envs:
        copies = _describe(environment, envs)
        choose = _uniform_behavior(copies, rng) if isinstance(behavior, str) else behavior
        observation = copies.encode(envs.reset(seed=[*seeds])[0])
        start, steps, densities = np.ones(num_workers, bool), [], []
        for t in range(num_iterations):
            action, density = choose(observation, jax.random.fold_in(key, t))
            action = _to_actions("behavior", copies, action)
            successor, reward, terminated, truncated, next_observation = _step(copies, action)
            steps.append(Step(observation, action, reward, successor, terminated, truncated, start))
            densities.append(np.broadcast_to(density, num_workers))
            observation, start = next_observation, terminated | truncated
            if on_progress is not None:
                on_progress((t + 1) * num_workers, num_iterations * num_workers)
    all_steps = jax.tree.map(lambda *leaves: np.stack(leaves), *steps)
    actions = copies.low, copies.high, copies.num_actions
    provenance = {"behavior": str(getattr(behavior, "__name__", behavior)), **_package_versions()}
    return Experience(all_steps, np.stack(densities), environment, seed, *actions, provenance)


def play(
    environment: str,
    act: Callable[[Observations, Key], Actions],
    num_episodes: int = 10,
    seed: int = 0,
    discount: float = 0.99,
    random_steps: int = 0,
    max_steps: int | None = None,
) -> Returns:
    r"""Plays episodes with a policy, side by side in as many copies; see [Returns].

    Each copy counts its first whole episode. With `random_steps` it counts an excursion instead:
    uniform behaviour takes $t \sim U\{0, \dots, n - 1\}$ steps, then the policy acts, and rewards
    count, until the episode ends; `random_steps` is $n$. The policy `act` is best compiled, and the
    environment gets its actions as they are. `max_steps` is a time limit in place of the
    environment's, which may have none.
    """
    check.count("num_episodes", num_episodes)
    check.probability("discount", discount)
    if random_steps < 0:
        raise ValueError(f"random_steps: got {random_steps}; at least 0 is required")
    options = {}
    if max_steps is not None:
        check.count("max_steps", max_steps)
        options["max_episode_steps"] = max_steps
    seeds, rng, key = _randomness(seed, 1, num_episodes)
    with closing(_make_envs(environment, num_episodes, **options)) as envs:
        if max_steps is None and (envs.spec is None or envs.spec.max_episode_steps is None):
            raise ValueError(f"max_steps: {environment!r} has no limit of its own; one is required")
        copies = _describe(environment, envs)
        explore = _uniform_behavior(copies, rng) if random_steps else None
        num_random = rng.integers(max(random_steps, 1), size=num_episodes)
        observation = copies.encode(envs.reset(seed=[*seeds])[0])
        discounted, undiscounted = np.zeros(num_episodes), np.zeros(num_episodes)
        length, finished, t = np.zeros(num_episodes, int), np.zeros(num_episodes, bool), 0
        while not finished.all():
            action = _to_actions("act", copies, act(observation, jax.random.fold_in(key, t)))
            is_random = t < num_random
            if explore is not None and is_random.any():
                action[is_random] = explore(observation, key)[0][is_random]
            _, reward, terminated, truncated, observation = _step(copies, action)
            counts = ~is_random & ~finished
            discounted += np.where(counts, discount**length * reward, 0.0)
            undiscounted += np.where(counts, reward, 0.0)
            length += counts
            finished |= counts & (terminated | truncated)
            t += 1
    return Returns(discounted, undiscounted, length)
