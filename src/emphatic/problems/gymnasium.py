"""Gymnasium environments that publish their transition table."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..mdp import MDP, Problem


def from_gymnasium(
    env: Any,
    discount: float = 0.99,
    behavior: ArrayLike | None = None,
    target: ArrayLike | None = None,
) -> Problem:
    """The problem of an environment with a transition table `P`, such as FrozenLake or Taxi.

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
    law = getattr(env, "initial_state_distrib", None)
    if not isinstance(table, dict) or law is None:
        raise ValueError(
            f"env: {type(env).__name__} publishes no transition table; an environment with `P` and "
            "`initial_state_distrib` (FrozenLake, CliffWalking, Taxi) is required"
        )
    law = np.asarray(law, dtype=np.float64)
    law = law / law.sum()
    num_actions = len(table[0])
    # One row for each possible outcome: (state, action, probability, next, reward, terminated).
    outcomes = np.array(
        [
            (s, a, *outcome)
            for s, actions in table.items()
            for a, branch in actions.items()
            for outcome in branch
            if outcome[0] > 0
        ],
        dtype=np.float64,
    )
    s, a, p, s_next, reward, ended = outcomes.T
    s, a, s_next, ended = s.astype(int), a.astype(int), s_next.astype(int), ended > 0

    reached = law > 0
    while True:
        found = reached.copy()
        found[s_next[reached[s] & ~ended]] = True
        if (found == reached).all():
            break
        reached = found
    labels = np.flatnonzero(reached)
    number = np.cumsum(reached) - 1

    starts = np.flatnonzero(law)
    kept, over = reached[s] & ~ended, reached[s] & ended
    row = s * num_actions + a
    rows = np.concatenate([row[kept], np.repeat(row[over], len(starts))])
    columns = np.concatenate([s_next[kept], np.tile(starts, over.sum())])
    data = np.concatenate([p[kept], np.outer(p[over], law[starts]).ravel()])
    rewards = np.concatenate([reward[kept], np.repeat(reward[over], len(starts))])
    discounts = np.repeat([float(discount), 0.0], [kept.sum(), over.sum() * len(starts)])

    rows = number[rows // num_actions] * num_actions + rows % num_actions
    order = np.argsort(rows, kind="stable")
    size = len(labels) * num_actions
    pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=size))])
    transition = sparse.csr_array(
        (data[order], number[columns[order]], pointers), shape=(size, len(labels))
    )
    uniform = np.full((len(law), num_actions), 1.0 / num_actions)

    def restricted(policy):
        policy = uniform if policy is None else np.asarray(policy, dtype=np.float64)
        if policy.shape != uniform.shape:
            raise ValueError(
                f"policy: got shape {policy.shape}; {uniform.shape} (original states, actions) is "
                "required"
            )
        return policy[labels]

    return Problem(
        MDP(transition, rewards[order], discounts[order]),
        behavior=restricted(behavior),
        interest=1.0,
        x=sparse.eye_array(len(labels), format="csr"),
        start=law[labels],
        target=restricted(target),
        labels=labels,
    )


def gymnasium(
    env: Literal[
        "FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "Taxi-v4"
    ] = "FrozenLake-v1",
    discount: float = 0.99,
) -> Problem:
    """A tabular environment of Gymnasium as a continuing chain; see [from_gymnasium].

    **Arguments:**

    - `env`: The environment's name.
    - `discount`: The discount inside an episode, in [0, 1].
    """
    try:
        import gymnasium as gym
    except ImportError:
        raise ValueError(
            "env: Gymnasium is not installed; install emphatic with the extra 'gymnasium'"
        ) from None
    try:
        made = gym.make(env)
    except gym.error.Error as error:
        raise ValueError(f"env: got {env!r}; {error}") from None
    return from_gymnasium(made, discount)
