"""Random problems that are ergodic by construction."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from .. import _validation as checks
from .._work import require_memory
from ..mdp import MDP, Problem

Triple: TypeAlias = tuple[int | np.integer | Int[np.ndarray, " s"], ...]  # (s, a, s')
SPARSE_FROM = 1000  # states from which the transition is stored sparse


def _draw_successors(
    rng: np.random.Generator, forced: Sequence[Triple], shape: tuple[int, int, int], num_states: int
) -> Int[np.ndarray, "s a branching"]:
    """Draws distinct successors of each (s, a), with the forced (s, a, s') among them."""
    if num_states < SPARSE_FROM:
        keys = rng.random((*shape[:2], num_states))
        for triple in forced:
            keys[triple] = -1.0  # sorted first
        return np.argsort(keys, axis=-1)[..., : shape[2]]
    successors = rng.integers(num_states, size=shape)
    for column, (s, a, s_next) in enumerate(forced):
        successors[s, a, min(column, shape[2] - 1)] = s_next
    while True:  # draw again whatever repeats an earlier entry of its row
        order = np.argsort(successors, axis=-1, kind="stable")
        ordered = np.take_along_axis(successors, order, axis=-1)
        repeats = np.zeros(shape, bool)
        np.put_along_axis(repeats, order[..., 1:], ordered[..., 1:] == ordered[..., :-1], axis=-1)
        if not repeats.any():
            return successors
        successors[repeats] = rng.integers(num_states, size=repeats.sum())


def _require_memory(num_states: int, num_actions: int, branching: int, num_features: int) -> None:
    """Raises a `ValueError` if the arrays of a problem are more than there is memory for."""
    pairs = num_states * num_actions
    num_bytes = 160 * pairs * branching + 100 * pairs + 24 * num_states * num_features
    if num_states < SPARSE_FROM:
        num_bytes += pairs * (48 * num_states + 24 * num_actions * num_features)
    size = f"{num_states:,} states, {num_actions:,} actions and {num_features:,} features"
    advice = "reduce num_states, num_actions, branching or num_features"
    require_memory(f"garnet: {size}", num_bytes, advice)


def garnet(
    num_states: int = 20,
    num_actions: int = 3,
    branching: int = 3,
    num_features: int = 5,
    discount: float = 0.9,
    greediness: float = 1.0,
    seed: int = 0,
) -> Problem:
    r"""A random problem in which each action leads to a few random states.

    The first action of every state can lead to its successor on one random cycle through all
    states, and one state can stay where it is: under any behaviour that tries every action the
    chain is irreducible and aperiodic. Rewards and features are standard normal (each state of
    more than 1000 has one of its features only), the interest is uniform on [0.5, 1.5], and
    each policy is the softmax of normal preferences mixed with a tenth of the uniform one.

    **Arguments:**

    - `num_states`: The number of states; from 1000 on, transitions and features are sparse.
    - `num_actions`: The number of actions.
    - `branching`: How many states an action can lead to.
    - `num_features`: How many state features $X$ has.
    - `discount`: The discount $\gamma$.
    - `greediness`: The scale of the policies' preferences: 0 makes both policies uniform.
    - `seed`: Draws everything.
    """
    checks.count("num_states", num_states)
    checks.count("num_actions", num_actions)
    checks.count("branching", branching)
    checks.count("num_features", num_features)
    if branching > num_states:
        most = f"at most num_states = {num_states} is possible"
        raise ValueError(f"branching: got {branching}; {most}")
    if branching == num_actions == 1 < num_states:
        reason = "a chain with one way on is not aperiodic, so branching or num_actions must be"
        raise ValueError(f"branching: got 1 with a single action; {reason} at least 2")
    checks.number("greediness", greediness, "a finite number is required")
    checks.seed(seed)
    _require_memory(num_states, num_actions, branching, num_features)
    rng = np.random.default_rng(seed)
    cycle = rng.permutation(num_states)
    succession = np.empty(num_states, int)
    succession[cycle] = np.roll(cycle, -1)

    onward = (np.arange(num_states), 0, succession)
    stay = (cycle[0], 0 if branching > 1 else num_actions - 1, cycle[0])
    shape = (num_states, num_actions, branching)
    successors = _draw_successors(rng, [onward, stay], shape, num_states)
    p = rng.dirichlet(np.ones(branching), (num_states, num_actions)) * 0.9 + 0.1 / branching
    rows = np.repeat(np.arange(num_states * num_actions), branching)
    shape = (num_states * num_actions, num_states)
    transition = sparse.csr_array((p.ravel(), (rows, successors.ravel())), shape=shape)

    def draw_policy() -> Float[np.ndarray, "s a"]:
        preference = greediness * rng.normal(size=(num_states, num_actions))
        preference = np.exp(preference - preference.max(1, keepdims=True))
        return 0.9 * preference / preference.sum(1, keepdims=True) + 0.1 / num_actions

    behavior, target = draw_policy(), draw_policy()
    x = rng.normal(size=(num_states, num_features))
    if num_states < SPARSE_FROM:
        transition = transition.toarray().reshape(num_states, num_actions, num_states)
    else:
        states, column = np.arange(num_states), rng.integers(num_features, size=num_states)
        x = sparse.csr_array((x[states, column], (states, column)), shape=x.shape)
    mdp = MDP(transition, rng.normal(size=(num_states, num_actions)), discount)
    return Problem(mdp, behavior, rng.uniform(0.5, 1.5, num_states), x, target=target)
