"""Experience of the behaviour: one stream for each seed, the same on every engine."""

from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer, UInt32

from ..mdp import Problem
from ..types import Array, Sample

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA

Word: TypeAlias = UInt32[Array, "..."] | np.uint32
"""32 random bits, or a number that selects an entry of a table."""
Words: TypeAlias = tuple[Word, Word]
"""A key of Threefry, a counter, or what it makes of them."""


def threefry(key: Words, counter: Words) -> Words:
    """Returns the two random words of Threefry-2x32 with 20 rounds (Salmon et al., 2011)."""
    keys = (*key, key[0] ^ key[1] ^ np.uint32(PARITY))
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for block in range(5):
        for rotation in ROTATIONS[block % 2]:
            a = a + b
            b = a ^ ((b << np.uint32(rotation)) | (b >> np.uint32(32 - rotation)))
        a = a + keys[(block + 1) % 3]
        b = b + keys[(block + 2) % 3] + np.uint32(block + 1)
    return a, b


def thresholds(
    probability: Float[np.ndarray, " n"], first: Integer[np.ndarray, " firsts"]
) -> UInt32[np.ndarray, " n"]:
    """Returns distributions as cumulated 32-bit words; number n begins at `first[n]`.

    A word picks the first entry whose threshold exceeds it, or else the last one. Probabilities
    are thus exact to 2^-32, and the path does not depend on the working precision.
    """
    count = np.diff(first)
    cumulated = np.concatenate([[0.0], np.cumsum(probability)])
    start, total = cumulated[first[:-1]], cumulated[first[1:]] - cumulated[first[:-1]]
    share = (cumulated[1:] - np.repeat(start, count)) / np.repeat(total, count)
    return np.minimum(np.rint(share * 2.0**32), 2.0**32 - 1).astype(np.uint32)


def search(table: UInt32[Array, " n"], first: Word, last: Word, word: Word, most: int) -> Word:
    """Returns where a word falls among the thresholds `first..last-1`, at most `most` of them."""
    index, word = first, jnp.minimum(word, np.uint32(2**32 - 2))  # below a threshold of 1
    for bit in reversed(range((most - 1).bit_length())):
        probe = index + np.uint32(1 << bit)
        below = table[jnp.minimum(probe, last) - np.uint32(1)] <= word
        index = jnp.where((probe < last) & below, probe, index)
    return index


class Tables(eqx.Module):
    """The distributions of the behaviour's chain, as [thresholds], and where outcomes lead."""

    outcome: UInt32[Array, " outcomes"]
    first: UInt32[Array, " firsts"]
    state_next: UInt32[Array, " outcomes"]
    action: UInt32[Array, " pairs"]
    start: UInt32[Array, " s"]


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

    def _draw_action(self, tables: Tables, state: Word, word: Word) -> Word:
        first = state * np.uint32(self.num_actions)
        last = first + np.uint32(self.num_actions)
        return search(tables.action, first, last, word, self.num_actions)

    def begin(self, tables: Tables, key: Words) -> Word:
        """Draws the first pair, $S_0A + A_0$."""
        zero = key[0] ^ key[0]
        one, two = threefry(key, (zero, zero))
        state = search(tables.start, zero, zero + np.uint32(self.states), one, self.states)
        return self._draw_action(tables, state, two)

    def advance(self, tables: Tables, key: Words, pair: Word, time: Word) -> Words:
        """Draws the next pair, and returns it with the row of the sample at this time."""
        return self.walk(tables, pair, self.words(key, time))

    def words(self, key: Words, time: Word) -> Words:
        """Returns the random words of a time, which depend on nothing that was drawn before."""
        return threefry(key, (time + np.uint32(1), time ^ time))

    def walk(self, tables: Tables, pair: Word, words: Words) -> Words:
        """Returns what the words of a time draw: the next pair, and the row of the sample."""
        one, two = words
        first, last = tables.first[pair], tables.first[pair + np.uint32(1)]
        outcome = search(tables.outcome, first, last, one, self.most)
        state_next = tables.state_next[outcome]
        pair_next = self._draw_action(tables, state_next, two)
        action_next = pair_next - state_next * np.uint32(self.num_actions)
        return pair_next, outcome * np.uint32(self.num_actions) + action_next

    def sample(
        self, rows: Integer[np.ndarray, "..."], time: int | Integer[np.ndarray, "..."]
    ) -> Sample:
        """Returns what happened in these rows, at these times."""
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
