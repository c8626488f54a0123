"""Experience of the behaviour: one stream for each seed, the same on every engine."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Sample
from ..mdp import Problem

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA


def threefry(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011): two random words, of any uint32 type."""
    keys = (*key, key[0] ^ key[1] ^ np.uint32(PARITY))
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for block in range(5):
        for rotation in ROTATIONS[block % 2]:
            a = a + b
            b = a ^ ((b << np.uint32(rotation)) | (b >> np.uint32(32 - rotation)))
        a = a + keys[(block + 1) % 3]
        b = b + keys[(block + 2) % 3] + np.uint32(block + 1)
    return a, b


def thresholds(probability: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Laws, one after the other, as cumulated 32-bit words; law n begins at `first[n]`.

    A word picks the first entry whose threshold exceeds it, or else the last one. Probabilities
    are so kept to 2^-32, and the path does not depend on the working precision.
    """
    count = np.diff(first)
    upto = np.concatenate([[0.0], np.cumsum(probability)])
    total = upto[first[1:]] - upto[first[:-1]]
    share = (upto[1:] - np.repeat(upto[first[:-1]], count)) / np.repeat(total, count)
    return np.minimum(np.rint(share * 2.0**32), 2.0**32 - 1).astype(np.uint32)


def search(table: Any, first: Any, last: Any, word: Any, most: int) -> Any:
    """Where a word falls among the thresholds of `first..last-1`, of which there are `most`."""
    found, word = first, jnp.minimum(word, np.uint32(2**32 - 2))  # below a threshold of 1
    for bit in reversed(range((most - 1).bit_length())):
        probe = found + np.uint32(1 << bit)
        below = table[jnp.minimum(probe, last) - np.uint32(1)] <= word
        found = jnp.where((probe < last) & below, probe, found)
    return found


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Tables:
    """The laws of the behaviour's chain, as thresholds, and where outcomes lead; all uint32."""

    outcome: Any
    first: Any
    state_next: Any
    action: Any
    start: Any


class Stream:
    r"""The samples of a problem, numbered, and how to draw one after the other.

    A *pair* is $sA + a$, and a *row* is $eA + a'$, where $e$ numbers the outcomes $(s, a, s')$ of
    positive probability. Time $t$ is drawn by the words of the counter $(t + 1, 0)$ under the key
    (lower half of the seed, upper half): the first draws $S_{t+1}$, the second $A_{t+1}$. The
    counter $(0, 0)$ draws $S_0$ and $A_0$.
    """

    def __init__(self, problem: Problem):
        self.pair, self.state_next, p, self.reward, self.discount = problem.mdp.outcomes
        states, self.num_actions = problem.behavior.shape
        self.num_rows = len(p) * self.num_actions
        pairs = states * self.num_actions
        first = np.searchsorted(self.pair, np.arange(pairs + 1))
        if max(self.num_rows, pairs) >= 2**31:
            raise ValueError(f"problem: {self.num_rows} samples; at most 2^31 can be numbered")
        self.most = int(np.diff(first).max())
        self.states = states
        self.tables = Tables(
            outcome=thresholds(p, first),
            first=first.astype(np.uint32),
            state_next=self.state_next.astype(np.uint32),
            action=thresholds(problem.behavior.ravel(), self.num_actions * np.arange(states + 1)),
            start=thresholds(problem.start, np.array([0, states])),
        )

    def _action(self, tables: Tables, state: Any, word: Any) -> Any:
        first = state * np.uint32(self.num_actions)
        last = first + np.uint32(self.num_actions)
        return search(tables.action, first, last, word, self.num_actions)

    def begin(self, tables: Tables, key: tuple[Any, Any]) -> Any:
        """The first pair, $S_0A + A_0$."""
        zero = key[0] ^ key[0]
        one, two = threefry(key, (zero, zero))
        state = search(tables.start, zero, zero + np.uint32(self.states), one, self.states)
        return self._action(tables, state, two)

    def advance(self, tables: Tables, key: tuple[Any, Any], pair: Any, time: Any) -> tuple:
        """The next pair, and the row of the sample at this time."""
        one, two = threefry(key, (time + np.uint32(1), time ^ time))
        first, last = tables.first[pair], tables.first[pair + np.uint32(1)]
        outcome = search(tables.outcome, first, last, one, self.most)
        state_next = tables.state_next[outcome]
        pair_next = self._action(tables, state_next, two)
        action_next = pair_next - state_next * np.uint32(self.num_actions)
        return pair_next, outcome * np.uint32(self.num_actions) + action_next

    def sample(self, rows: np.ndarray, time: Any) -> Sample:
        """What happened in these rows, at these times."""
        outcome, action_next = np.divmod(rows, self.num_actions)
        pair = self.pair[outcome]
        return Sample(
            time=np.broadcast_to(np.asarray(time, np.int32), rows.shape),
            state=(pair // self.num_actions).astype(np.int32),
            action=(pair % self.num_actions).astype(np.int32),
            reward=self.reward[outcome],
            discount=self.discount[outcome],
            state_next=self.state_next[outcome].astype(np.int32),
            action_next=action_next.astype(np.int32),
        )
