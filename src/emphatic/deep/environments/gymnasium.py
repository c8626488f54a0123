"""Experience and evaluation in Gymnasium environments whose actions are a Box or Discrete."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import numpy as np

from .. import _checks as check
from .environment import Step, uniform_density
from .experience import Experience

INSTALL = "run pip install 'emphatic[gym]'"
PACKAGES = ("emphatic", "gymnasium", "mujoco", "numpy")


@dataclass(frozen=True, eq=False)
class Returns:
    r"""What episodes returned, one entry for each.

    **Arguments:**

    - `discounted`: $\sum_k \gamma^k R_{t+k+1}$, from the first step that counts.
    - `undiscounted`: $\sum_k R_{t+k+1}$.
    - `length`: How many steps counted.
    """

    discounted: np.ndarray
    undiscounted: np.ndarray
    length: np.ndarray


@dataclass(frozen=True)
class _Copies:
    """Copies of an environment, what its observations become, and what its actions are."""

    name: str
    envs: Any
    encode: Callable[[Any], np.ndarray]
    low: Any = None
    high: Any = None
    num_actions: Any = None


def _make(name: str, num_copies: int, **options: Any) -> Any:
    try:
        import gymnasium
    except ImportError:
        raise ValueError(f"environment: Gymnasium is not installed; {INSTALL}") from None
    same_step = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    try:
        return gymnasium.make_vec(name, num_copies, "sync", vector_kwargs=same_step, **options)
    except gymnasium.error.UnregisteredEnv:
        near = ", ".join(map(repr, get_close_matches(name, gymnasium.registry, n=3)))
        hint = f"near it are {near}" if near else "no id is near it"
        raise ValueError(f"environment: Gymnasium has no {name!r}; {hint}") from None
    except (gymnasium.error.Error, ImportError) as error:
        advice = INSTALL if "mujoco is not installed" in str(error).lower() else str(error)
        raise ValueError(f"environment: {name!r} cannot be made here; {advice}") from None


def _encoder(name: str, space: Any) -> Callable[[Any], np.ndarray]:
    from gymnasium.spaces import Box, Discrete

    if isinstance(space, Box):
        return lambda raw: np.asarray(raw, np.float32).reshape(len(raw), -1)
    if isinstance(space, Discrete):
        numbers = space.start + np.arange(space.n)
        return lambda raw: (np.asarray(raw)[:, None] == numbers).astype(np.float32)
    raise ValueError(
        f"environment: the observations of {name!r} are {space}; a Box or Discrete is required"
    )


def _copies(name: str, envs: Any) -> _Copies:
    from gymnasium.spaces import Box, Discrete

    space, encode = envs.single_action_space, _encoder(name, envs.single_observation_space)
    if isinstance(space, Discrete):
        return _Copies(name, envs, encode, num_actions=int(space.n))
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        return _Copies(name, envs, encode, space.low.ravel(), space.high.ravel())
    raise ValueError(
        f"environment: the actions of {name!r} are {space}; a Box of real numbers or Discrete is "
        "required"
    )


def _step(copies: _Copies, actions: np.ndarray) -> tuple[Any, ...]:
    """The true successors, rewards, both flags, and the observations after resets."""
    envs, space = copies.envs, copies.envs.single_action_space
    if copies.num_actions is None:
        sent = actions.reshape(len(actions), *space.shape).astype(space.dtype)
    else:
        sent = actions + space.start
    raw, reward, terminated, truncated, info = envs.step(sent)
    observations = encoded = copies.encode(raw)
    if "final_obs" in info:
        ended = np.flatnonzero(info["_final_obs"])
        encoded = observations.copy()
        encoded[ended] = copies.encode(np.stack(list(info["final_obs"][ended])))
    return encoded, reward, terminated, truncated, observations


def _uniform(copies: _Copies, rng: np.random.Generator) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Uniform behaviour in the place of a policy: actions for all copies, and their density."""
    num, low, high = copies.envs.num_envs, copies.low, copies.high
    if low is None or high is None:
        return lambda *_: (rng.integers(copies.num_actions, size=num), 1.0 / copies.num_actions)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(
            f"behavior: the actions of {copies.name!r} are an unbounded Box, on which no uniform "
            "behaviour exists; give a policy"
        )
    return lambda *_: (rng.uniform(low, high, (num, low.size)), uniform_density(low, high))


def _checked(name: str, copies: _Copies, actions: Any) -> np.ndarray:
    shape = (copies.envs.num_envs, *(() if copies.low is None else copies.low.shape))
    dtype = np.int32 if copies.low is None else np.float32
    actions = np.asarray(actions)
    if actions.shape != shape or not np.can_cast(actions.dtype, dtype, "same_kind"):
        raise ValueError(
            f"{name}: gave actions of shape {actions.shape} and type {actions.dtype}; {shape} and "
            f"{np.dtype(dtype)} are required"
        )
    if copies.low is None and not np.isin(actions, np.arange(copies.num_actions)).all():
        raise ValueError(f"{name}: gave actions {actions}; 0 to {copies.num_actions - 1} exist")
    return actions.astype(dtype)


def _randomness(seed: int, purpose: int, num_copies: int) -> tuple[list[int], Any, Any]:
    """Seeds of the copies, a generator for actions, a key for policies: all independent."""
    check.seed(seed)
    entropy = np.random.SeedSequence(seed, spawn_key=(purpose,))
    word, *seeds = entropy.generate_state(1 + num_copies).tolist()
    return seeds, np.random.default_rng(entropy.spawn(1)[0]), jax.random.key(word)


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def record(
    environment: str,
    num_steps: int,
    num_workers: int = 10,
    seed: int = 0,
    behavior: str | Callable[[Any, Any], tuple[Any, Any]] = "uniform",
    progress: Callable[[int, int], None] | None = None,
) -> Experience:
    r"""Lets a fixed behaviour act in copies of an environment, and keeps what happens.

    Observations become vectors: those of a Box are flattened, those of a finite set are one-hot.
    Where an episode ends another begins, and the successor that is kept is still the true one.

    **Arguments:**

    - `environment`: The id of a Gymnasium environment.
    - `num_steps`: The steps of all workers together, rounded up to whole iterations.
    - `num_workers`: How many copies act side by side.
    - `seed`: What everything random depends on.
    - `behavior`: `uniform`, or a function of observations, one for each worker, and a random key,
      that gives actions and their $\mu(A_t|S_t)$.
    - `progress`: Called with the steps done and the steps of all.
    """
    check.count("num_steps", num_steps)
    check.count("num_workers", num_workers)
    if isinstance(behavior, str) and behavior != "uniform":
        raise ValueError(f"behavior: got {behavior!r}; 'uniform' or a function is required")
    seeds, rng, key = _randomness(seed, 0, num_workers)
    iterations = -(-num_steps // num_workers)
    with closing(_make(environment, num_workers)) as envs:
        copies = _copies(environment, envs)
        choose = _uniform(copies, rng) if isinstance(behavior, str) else behavior
        observation = copies.encode(envs.reset(seed=seeds)[0])
        start, steps, densities = np.ones(num_workers, bool), [], []
        for t in range(iterations):
            action, density = choose(observation, jax.random.fold_in(key, t))
            action = _checked("behavior", copies, action)
            successor, reward, terminated, truncated, after = _step(copies, action)
            steps.append(Step(observation, action, reward, successor, terminated, truncated, start))
            densities.append(np.broadcast_to(density, num_workers))
            observation, start = after, terminated | truncated
            if progress is not None:
                progress((t + 1) * num_workers, iterations * num_workers)
    return Experience(
        steps=jax.tree.map(lambda *leaves: np.stack(leaves), *steps),
        behavior=np.stack(densities),
        environment=environment,
        seed=seed,
        low=copies.low,
        high=copies.high,
        num_actions=copies.num_actions,
        provenance={"behavior": str(getattr(behavior, "__name__", behavior)), **_versions()},
    )


def evaluate(
    environment: str,
    act: Callable[[Any, Any], Any],
    num_episodes: int = 10,
    seed: int = 0,
    discount: float = 0.99,
    random_steps: int = 0,
    max_steps: int | None = None,
) -> Returns:
    r"""What a policy returns, over episodes that run side by side in as many copies.

    Each copy counts its first whole episode. With `random_steps` it counts an excursion instead:
    uniform behaviour takes $t \sim U\{0, \dots, n - 1\}$ steps, then the policy acts, and rewards
    count, until the episode ends.

    **Arguments:**

    - `environment`: The id of a Gymnasium environment.
    - `act`: The policy: a function, best compiled, of observations, one for each copy, and a
      random key, that gives actions. The environment sees them as they are.
    - `num_episodes`: How many episodes are counted.
    - `seed`: What everything random depends on.
    - `discount`: The discount $\gamma$.
    - `random_steps`: The bound $n$ of the random steps before; 0 for episodes from their start.
    - `max_steps`: A limit of time in place of the environment's, which may have none.
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
    with closing(_make(environment, num_episodes, **options)) as envs:
        if max_steps is None and envs.spec.max_episode_steps is None:
            raise ValueError(f"max_steps: {environment!r} has no limit of its own; one is required")
        copies = _copies(environment, envs)
        explore = _uniform(copies, rng) if random_steps else act
        wait = rng.integers(max(random_steps, 1), size=num_episodes)
        observation = copies.encode(envs.reset(seed=seeds)[0])
        discounted, undiscounted = np.zeros(num_episodes), np.zeros(num_episodes)
        length, over, t = np.zeros(num_episodes, int), np.zeros(num_episodes, bool), 0
        while not over.all():
            action = _checked("act", copies, act(observation, jax.random.fold_in(key, t)))
            waiting = t < wait
            if waiting.any():
                action[waiting] = explore(observation, key)[0][waiting]
            _, reward, terminated, truncated, observation = _step(copies, action)
            counts = ~waiting & ~over
            discounted += np.where(counts, discount**length * reward, 0.0)
            undiscounted += np.where(counts, reward, 0.0)
            length += counts
            over |= counts & (terminated | truncated)
            t += 1
    return Returns(discounted, undiscounted, length)
