"""Small random problems for hypothesis: numbers from a seed, shapes from a few choices."""

import dataclasses
import functools
import random
from typing import Any, cast

import numpy as np
from hypothesis import settings, strategies as st
from scipy import sparse

from emphatic import Learner, MDP, Problem, Softmax

SHAPES = ((3, 2, 2, 5), (5, 3, 5, 4), (8, 2, 3, 6))
"""States, actions, state features k and state-action features l (every shape compiles anew)."""

SEEDS = st.integers(0, 2**32 - 1)

COMPILED = settings(max_examples=8)
"""Of tests that compile a program for every example."""

LARGEST_RADIUS = 0.98
"""Of the targets' discounted chains, so that a test's tolerance can be an honest one."""


def of_anything(learner: Any) -> Any:
    """The same learner or factory, which does not say what it estimates: all measures fit it."""
    if isinstance(learner, Learner):
        return dataclasses.replace(learner, estimates=None)

    @functools.wraps(learner)
    def make(**values):
        return dataclasses.replace(learner(**values), estimates=None)

    return make


def _full_rank(rng, rows: int, columns: int) -> np.ndarray:
    """Features whose singular values lie in [0.5, 2]."""
    basis, _ = np.linalg.qr(rng.normal(size=(rows, columns)))
    mixing, _ = np.linalg.qr(rng.normal(size=(columns, columns)))
    return basis * rng.uniform(0.5, 2.0, columns) @ mixing


def _kernel(rng, states: int, actions: int) -> np.ndarray:
    """Dense or with about half of the entries, and a cycle through all states in either case."""
    possible = rng.random((states, actions, states)) < rng.choice([0.5, 1.0])
    cycle = rng.permutation(states)
    possible[cycle, rng.integers(actions, size=states), np.roll(cycle, -1)] = True
    empty = ~possible.any(2)
    possible[empty, rng.integers(states, size=empty.sum())] = True
    p = possible * rng.uniform(0.2, 1.0, possible.shape)
    return p / p.sum(2, keepdims=True)


def _policy(rng, states: int, actions: int, zeros: bool) -> np.ndarray:
    weight = rng.uniform(0.2, 1.0, (states, actions))
    if zeros:
        never = rng.random(weight.shape) < 0.4
        never[np.arange(states), rng.integers(actions, size=states)] = False
        weight[never] = 0.0
    return weight / weight.sum(1, keepdims=True)


def _discount(rng, transition: np.ndarray, targets: list[np.ndarray]) -> np.ndarray:
    """Entries in [0, 1], some 0 and some 1, such that every target's radius is below one."""
    while True:
        discount = rng.uniform(0.0, 1.0, transition.shape)
        kind = rng.random(transition.shape)
        discount[kind < 0.15] = 0.0
        discount[kind > 0.6] = 1.0
        chains = [np.einsum("sa,sat,sat->st", pi, transition, discount) for pi in targets]
        if max(np.abs(np.linalg.eigvals(chain)).max() for chain in chains) < LARGEST_RADIUS:
            return discount


def build(shape: tuple[int, int, int, int], seed: int, varying: bool) -> tuple[Problem, np.ndarray]:
    """A problem with a target of its own, and another target."""
    state = random.getstate()  # beartype moves it, which hypothesis does not want in a strategy
    try:
        return _build(shape, seed, varying)
    finally:
        random.setstate(state)


def _build(shape, seed, varying):
    states, actions, k, num_action_features = shape
    rng = np.random.default_rng(seed)
    transition = _kernel(rng, states, actions)
    targets = [_policy(rng, states, actions, zeros=rng.random() < 0.5) for _ in range(2)]
    if varying:
        discount = _discount(rng, transition, targets)
    else:
        discount = float(rng.choice([0.0, 0.95, *rng.uniform(0.0, 0.95, 4)]))
    interest = rng.uniform(0.2, 2.0, states)
    if rng.random() < 0.5:
        interest[rng.permutation(states)[: rng.integers(1, states)]] = 0.0
    problem = Problem(
        MDP(transition, rng.normal(size=transition.shape), discount),
        behavior=_policy(rng, states, actions, zeros=False),
        interest=interest,
        x=_full_rank(rng, states, k),
        xa=_full_rank(rng, states * actions, num_action_features).reshape(states, actions, -1),
        start=rng.dirichlet(np.ones(states)),  # not the stationary law
        target=targets[0],
    )
    return problem, targets[1]


def problems_and_targets(
    varying: bool | None = None,
) -> st.SearchStrategy[tuple[Problem, np.ndarray]]:
    """A problem and a target that is not its own; `varying` forces the kind of discount."""
    kinds = st.booleans() if varying is None else st.just(varying)
    return st.builds(build, st.sampled_from(SHAPES), st.integers(0, 2**32 - 1), kinds)


def problems(varying: bool | None = None) -> st.SearchStrategy[Problem]:
    """A problem with a target of its own; `varying` forces the kind of discount."""
    return problems_and_targets(varying).map(lambda pair: pair[0])


def as_sparse(problem: Problem) -> Problem:
    """The same problem with csr transitions and features; what varied is aligned with the data."""
    mdp = problem.mdp
    kernel = cast(np.ndarray, mdp.kernel)
    stored = kernel.ravel() > 0

    def aligned(values):
        return values if np.ndim(values) == 0 else mdp.outcome(values)[stored]

    return dataclasses.replace(
        problem,
        mdp=MDP(sparse.csr_array(kernel), aligned(mdp.reward), aligned(mdp.discount)),
        x=sparse.csr_array(problem.x),
        xa=sparse.csr_array(problem.xa_rows),
    )


def random_softmax(problem: Problem, seed: int) -> tuple[Softmax, np.ndarray]:
    """A linear softmax policy of four random features, and a theta."""
    rng = np.random.default_rng(seed)
    return Softmax(rng.normal(size=(*problem.behavior.shape, 4))), rng.normal(size=4)
