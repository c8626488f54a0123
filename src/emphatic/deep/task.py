"""Where agents learn: Reacher, inside the compiled program, or any environment of Gymnasium."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from .. import _checks as check
from .._names import unknown
from . import gym
from .agent import Agent
from .agents import NAMED
from .environment import Environment
from .evaluation import excursions
from .experience import Experience, load, save
from .networks import Gaussian, Policy, Softmax, TruncatedGaussian
from .reacher import reacher
from .training import train, Training

if TYPE_CHECKING:
    import xarray

WORKERS = 10
MEASURED = ("J", "return", "ratio", "sample_size", "emphasis", "trace", "slope")


@dataclass(frozen=True, eq=False)
class Task:
    """What an agent must know of the place in which it acts.

    **Arguments:**

    - `name`: `reacher`, or the id of a Gymnasium environment.
    - `horizon`: The number of steps after which an episode ends at the latest.
    - `low`, `high`: The bounds of an action, if actions are vectors.
    - `num_actions`: How many actions there are, if actions are numbers.
    - `environment`: The environment, if it is one of ours.
    """

    name: str
    horizon: int
    low: Any = None
    high: Any = None
    num_actions: int | None = None
    environment: Environment | None = None


def task(
    name: str,
    max_steps: int | None = None,
    experience: Experience | None = None,
    goals: str = "disc",
) -> Task:
    """The task of a name; a `ValueError` if there is none, or if nothing can be learned in it.

    **Arguments:**

    - `name`: `reacher`, or the id of a Gymnasium environment.
    - `max_steps`: The longest episode in an evaluation, if the environment has no limit of its own.
    - `experience`: What was recorded in it; without, uniform behaviour must be possible.
    - `goals`: Where Reacher's goals are; see [reacher].
    """
    if experience is not None and experience.environment != name:
        raise ValueError(f"experience: it is of {experience.environment!r}, not of {name!r}")
    if name == "reacher":
        ours = reacher(goals=goals)
        return Task(name, ours.horizon, ours.low, ours.high, environment=ours)
    if experience is None:
        experience = gym.record(name, 1, 1)  # one step shows all that can be wrong
    horizon = max_steps or _limit(name)
    return Task(name, horizon, experience.low, experience.high, experience.num_actions)


def _limit(name: str) -> int:
    try:
        import gymnasium
    except ImportError:
        raise ValueError(f"environment: Gymnasium is not installed; {gym.INSTALL}") from None
    try:
        limit = gymnasium.spec(name).max_episode_steps
    except gymnasium.error.Error as error:
        raise ValueError(f"environment: {name!r} cannot be made here; {error}") from None
    if limit is None:
        raise ValueError(f"max_steps: {name!r} has no limit of its own; one is required")
    return limit


def kinds(task: Task) -> tuple[str, ...]:
    """The kinds of policy for the actions of a task: first the one that is the default.

    **Arguments:**

    - `task`: The task.
    """
    return ("softmax",) if task.num_actions is not None else ("gaussian", "truncated")


def policy(task: Task, kind: str | None = None) -> Policy:
    """A policy for the actions of a task.

    **Arguments:**

    - `task`: The task.
    - `kind`: `gaussian` or `truncated` for vectors, `softmax` for numbers; see [kinds].
    """
    known, kind = kinds(task), kind or kinds(task)[0]
    if kind not in known:
        what = "vectors" if task.num_actions is None else "numbers"
        raise ValueError(
            f"policy: got {kind!r}; the actions of {task.name!r} are {what}, for which there is "
            f"{' or '.join(known)}"
        )
    if task.num_actions is not None:
        return Softmax(task.num_actions)
    return {"gaussian": Gaussian, "truncated": TruncatedGaussian}[kind](task.low, task.high)


def agent(algorithm: str, policy: Policy, **settings: Any) -> Agent:
    """An agent by the name of its algorithm.

    **Arguments:**

    - `algorithm`: A name of [NAMED].
    - `policy`: The policy that it changes.
    - `settings`: Those of the algorithm.
    """
    if algorithm not in NAMED:
        raise unknown("algorithm", algorithm, NAMED)
    return NAMED[algorithm](policy, **settings)


def experienced(
    task: Task, seeds: Sequence[int], num_steps: int, folder: Path
) -> Environment | list[Experience]:
    """What is learned from: an environment of ours, or what uniform behaviour did in another.

    Recordings are files of the folder, one for each seed, and made only where there is none.

    **Arguments:**

    - `task`: The task.
    - `seeds`: The seeds.
    - `num_steps`: How many steps there must be for each.
    - `folder`: Where recordings are.
    """
    if task.environment is not None:
        return task.environment
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for seed in seeds:
        path = folder / f"{task.name.replace('/', '-')}-{seed}.safetensors"
        if path.exists():
            each = load(path)
            if (each.environment, each.seed) != (task.name, seed):
                raise ValueError(f"experience: {path} is of {each.environment!r}, {each.seed}")
            if each.num_steps >= num_steps:
                found.append(each)
                continue
        found.append(gym.record(task.name, num_steps, WORKERS, seed))
        save(found[-1], path)
    return found


def iteration(experience: Any, num_steps: int, evaluate_every: int) -> int:
    """How many steps an iteration has; a `ValueError` if they do not make up what is asked for.

    **Arguments:**

    - `experience`: What is learned from; recordings have as many steps as workers.
    - `num_steps`: The environment steps of a run.
    - `evaluate_every`: How many of them are between evaluations.
    """
    recordings = [experience] if isinstance(experience, Experience) else experience
    recordings = recordings if isinstance(recordings, Sequence) else []
    workers = recordings[0].behavior.shape[1] if recordings else WORKERS
    if evaluate_every < 1 or evaluate_every % workers:
        raise ValueError(f"evaluate_every: got {evaluate_every}; {workers} workers must divide it")
    if num_steps < 1 or num_steps % evaluate_every:
        raise ValueError(f"steps: got {num_steps}; a multiple of {evaluate_every} is required")
    for each in recordings:
        if each.num_steps < num_steps:
            raise ValueError(f"steps: got {num_steps}; the experience has {each.num_steps}")
    return workers


def learn(
    task: Task,
    agent: Agent,
    experience: Environment | Experience | Sequence[Experience],
    seeds: Sequence[int],
    num_steps: int,
    *,
    evaluate_every: int = 1000,
    limit_ends: bool = True,
    checkpoint: str | os.PathLike | None = None,
    watch: Callable[[int, dict[str, np.ndarray]], None] | None = None,
) -> Training:
    """Trains an agent for a task, once for each seed, and evaluates it there as it learns.

    **Arguments:**

    - `task`: The task.
    - `agent`: The agent.
    - `experience`: What it learns from; see [experienced] and [train].
    - `seeds`: The seeds.
    - `num_steps`: The environment steps of a run, those of all workers together.
    - `evaluate_every`: How many of them are between evaluations.
    - `limit_ends`: Whether a limit of time counts as the end of the task; see [transitions].
    - `checkpoint`: A file to go on from, if it exists, and to write at each evaluation.
    - `watch`: Called at each evaluation with the steps so far and the values of all runs.
    """
    workers = iteration(experience, num_steps, evaluate_every)
    ours, discount = task.environment, agent.definition["discount"]

    def judge(steps: int, values: dict[str, np.ndarray], theta: Any) -> dict[str, Any]:
        more = {} if ours is not None else _judged(task, agent, seeds, theta, steps, discount)
        if watch is not None:
            watch(steps, {**values, **more})
        return more

    return train(
        agent,
        experience,
        seeds,
        num_steps // workers,
        num_workers=workers,
        evaluate_every=evaluate_every // workers,
        evaluate=None if ours is None else excursions(ours, agent.act, discount),
        limit_ends=limit_ends,
        checkpoint=checkpoint,
        watch=judge,
    )


def _judged(
    task: Task, agent: Agent, seeds: Sequence[int], theta: Any, steps: int, discount: float
) -> dict[str, np.ndarray]:
    """J and the return of each run, as [excursions] gives them; NaN for a run that diverged."""
    found = {"J": np.full(len(seeds), np.nan), "return": np.full(len(seeds), np.nan)}
    for run, seed in enumerate(seeds):
        mine = jax.tree.map(lambda leaf, run=run: leaf[run], theta)
        if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(mine)):
            word = int(np.random.SeedSequence((seed, steps)).generate_state(1)[0])
            whole = {"seed": word, "discount": discount}
            away = returns(task, agent.act, mine, random_steps=task.horizon, **whole)
            found["J"][run] = away.discounted.mean()
            found["return"][run] = returns(task, agent.act, mine, **whole).undiscounted.mean()
    return found


def labelled(training: Training, algorithm: str, **attributes: Any) -> "xarray.Dataset":
    """The curves of a training as a dataset with the axes `run` and `steps`.

    **Arguments:**

    - `training`: The training.
    - `algorithm`: The name of the algorithm.
    - `attributes`: What else belongs to the dataset.
    """
    import xarray

    steps, first = training.steps, training.diverged[:, None]
    nothing = np.full((len(training.seeds), len(steps)), np.nan)
    axes = "run", "steps"
    return xarray.Dataset(
        {name: (axes, training.curves.get(name, nothing)) for name in MEASURED}
        | {"diverged": (axes, (first >= 0) & (steps >= first))}
        | {"seed": ("run", np.array(training.seeds)), "engine": ("learner", ["scan"])},
        {"run": np.arange(len(training.seeds)), "steps": steps, "learner": [algorithm]},
        {"interrupted": 0, "algorithm": algorithm, **attributes},
    )


def episode(environment: Environment, act: Callable, theta: Any, key: Any) -> tuple[Any, Any, Any]:
    """One episode of a policy from a reset: the states, the rewards, and which of them count.

    **Arguments:**

    - `environment`: The environment.
    - `act`: `(theta, observation, key)` to an action.
    - `theta`: What the policy needs to act.
    - `key`: A random key.
    """
    for_reset, key = jax.random.split(key)

    def step(carry: tuple[Any, Any], t: Any) -> tuple[tuple[Any, Any], tuple[Any, Any, Any]]:
        state, counts = carry
        for_action, for_step = jax.random.split(jax.random.fold_in(key, t))
        action = act(theta, environment.observe(state), for_action)
        after, reward, terminated, truncated = environment.step(state, action, for_step)
        return (after, counts & ~(terminated | truncated)), (state, reward, counts)

    first = environment.reset(for_reset), jnp.bool_(True)
    return jax.lax.scan(step, first, jnp.arange(environment.horizon))[1]


@partial(jax.jit, static_argnums=(0, 1))
def _episodes(environment: Environment, act: Callable, theta: Any, keys: Any) -> tuple:
    return jax.vmap(partial(episode, environment, act), (None, 0))(theta, keys)


@partial(jax.jit, static_argnums=0)
def _actions(act: Callable, theta: Any, observations: Any, key: Any) -> Any:
    keys = jax.random.split(key, len(observations))
    return jax.vmap(act, (None, 0, 0))(theta, observations, keys)


def returns(
    task: Task,
    act: Callable[[Any, Any, Any], Any],
    theta: Any,
    num_episodes: int = 10,
    *,
    seed: int = 0,
    discount: float = 0.99,
    random_steps: int = 0,
) -> gym.Returns:
    r"""What a policy returns over episodes; in Gymnasium's environments also after random steps.

    **Arguments:**

    - `task`: The task.
    - `act`: `(theta, observation, key)` to an action.
    - `theta`: What the policy needs to act.
    - `num_episodes`: How many episodes.
    - `seed`: What everything random depends on.
    - `discount`: $\gamma$.
    - `random_steps`: The bound of the random steps before an excursion; 0 for whole episodes.
    """
    check.count("num_episodes", num_episodes)
    check.seed(seed)
    if task.environment is None:
        choose = partial(_actions, act, theta)
        return gym.evaluate(
            task.name, choose, num_episodes, seed, discount, random_steps, task.horizon
        )
    keys = jax.random.split(jax.random.key(seed), num_episodes)
    _, reward, counts = _episodes(task.environment, act, theta, keys)
    reward, counts = np.where(counts, reward, 0.0).astype(np.float64), np.asarray(counts)
    weights = discount ** np.arange(task.horizon)
    return gym.Returns(reward @ weights, reward.sum(1), counts.sum(1))
