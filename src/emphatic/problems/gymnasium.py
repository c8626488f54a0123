"""Gymnasium environments that publish their transition table."""

from typing import Any, get_args, Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import sparse

from .._schema import show
from .._validation import unknown
from ..mdp import MDP, Problem

Tabular = Literal["FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "Taxi-v4"]


def from_gymnasium(
    env: Any,
    discount: float = 0.99,
    behavior: ArrayLike | None = None,
    target: ArrayLike | None = None,
) -> Problem:
    """Builds the problem of an environment with a transition table `P`, such as FrozenLake or Taxi.

    The end of an episode is a transition with discount 0 straight to a start state. Only the states
    that are reached before termination are kept (tables contain others); `labels` holds their
    original numbers, and a policy given here has one row for each of the original states. The
    features are tabular.

    **Arguments:**

    - `env`: A Gymnasium environment, wrapped or not.
    - `discount`: The discount inside an episode, in [0, 1].
    - `behavior`, `target`: Policies over the original states, (s, a) arrays; by default uniform.
    """
    env = env.unwrapped
    table = getattr(env, "P", None)
    start = getattr(env, "initial_state_distrib", None)
    if not isinstance(table, dict) or start is None:
        raise ValueError(
            f"env: {type(env).__name__} publishes no transition table; an environment with `P` and "
            "`initial_state_distrib` (FrozenLake, CliffWalking, Taxi) is required"
        )
    start = np.asarray(start, dtype=np.float64)
    start = start / start.sum()
    num_actions = len(table[0])
    # One row for each possible outcome: (state, action, probability, next, reward, terminated).
    outcomes = [
        (s, a, *outcome)
        for s, actions in table.items()
        for a, branch in actions.items()
        for outcome in branch
        if outcome[0] > 0
    ]
    s, a, p, s_next, reward, ended = np.array(outcomes, dtype=np.float64).T
    s, a, s_next, ended = s.astype(int), a.astype(int), s_next.astype(int), ended > 0

    reached, num_reached = start > 0, 0
    while num_reached < reached.sum():
        num_reached = reached.sum()
        reached[s_next[reached[s] & ~ended]] = True
    labels = np.flatnonzero(reached)
    new_index = np.cumsum(reached) - 1

    starts = np.flatnonzero(start)
    within, final = reached[s] & ~ended, reached[s] & ended
    row = s * num_actions + a
    rows = np.concatenate([row[within], np.repeat(row[final], len(starts))])
    columns = np.concatenate([s_next[within], np.tile(starts, final.sum())])
    data = np.concatenate([p[within], np.outer(p[final], start[starts]).ravel()])
    rewards = np.concatenate([reward[within], np.repeat(reward[final], len(starts))])
    discounts = np.repeat([float(discount), 0.0], [within.sum(), final.sum() * len(starts)])

    rows = new_index[rows // num_actions] * num_actions + rows % num_actions
    order = np.argsort(rows, kind="stable")
    shape = (len(labels) * num_actions, len(labels))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
    transition = sparse.csr_array((data[order], new_index[columns[order]], indptr), shape=shape)
    uniform = np.full((len(start), num_actions), 1.0 / num_actions)

    def restrict(policy: ArrayLike | None) -> Float[np.ndarray, "s a"]:
        rows = uniform if policy is None else np.asarray(policy, dtype=np.float64)
        if rows.shape != uniform.shape:
            required = f"{uniform.shape} (original states, actions) is required"
            raise ValueError(f"policy: got shape {rows.shape}; {required}")
        return rows[labels]

    return Problem(
        MDP(transition, rewards[order], discounts[order]),
        behavior=restrict(behavior),
        interest=1.0,
        x=sparse.eye_array(len(labels), format="csr"),
        start=start[labels],
        target=restrict(target),
        labels=labels,
    )


def gymnasium(env: Tabular = "FrozenLake-v1", discount: float = 0.99) -> Problem:
    """A tabular environment of Gymnasium as a continuing chain; see [from_gymnasium].

    **Arguments:**

    - `env`: The environment's name.
    - `discount`: The discount inside an episode, in [0, 1].
    """
    try:
        import gymnasium as gym
    except ImportError:
        advice = "install emphatic with the extra 'gymnasium'"
        raise ValueError(f"env: Gymnasium is not installed; {advice}") from None
    if env not in gym.registry:  # else `module:Id` would import the module
        raise unknown("env", env, get_args(Tabular))
    try:
        return from_gymnasium(gym.make(gym.registry[env]), discount)
    except (gym.error.Error, ImportError) as error:
        raise ValueError(f"env: got {show(env)}; {error}") from None
