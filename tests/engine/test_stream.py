"""Experience is one stream for each seed: the same bits on every engine, with the exact law."""

import dataclasses
from functools import cache
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from jax.extend.random import threefry_2x32
from scipy import stats

from emphatic import MDP, Problem, problems
from emphatic.engine import scan
from emphatic.engine.fused import cpu
from emphatic.engine.stream import search, Stream, threefry, thresholds

from .. import transcriptions as plain
from ..strategies import as_sparse, build, SEEDS

WORDS = (0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1)
MOST = 2**32 - 1


def uneven() -> Problem:
    """States with one, two and three outcomes, and actions that the behaviour never takes."""
    transition = np.zeros((3, 3, 3))
    transition[0, :, 1] = 1.0
    transition[1, :] = [0.3, 0.0, 0.7]
    transition[2, 0] = [0.2, 0.5, 0.3]
    transition[2, 1:] = [1.0, 0.0, 0.0]
    behavior = np.array([[0.4, 0.6, 0.0], [0.0, 0.5, 0.5], [0.3, 0.0, 0.7]])
    return Problem(
        MDP(transition, np.arange(9.0).reshape(3, 3), 0.9),
        behavior,
        interest=1.0,
        x=np.eye(3),
        start=[0.0, 1.0, 0.0],
        target=behavior,
    )


def single_action() -> Problem:
    """A chain of three states, where nothing is chosen."""
    transition = np.array([[[0.1, 0.9, 0.0]], [[0.0, 0.5, 0.5]], [[0.6, 0.0, 0.4]]])
    return Problem(
        MDP(transition, 1.0, 0.5),
        np.ones((3, 1)),
        interest=1.0,
        x=np.eye(3),
        target=np.ones((3, 1)),
    )


PROBLEMS = {
    "dense": lambda: build((5, 3, 5, 4), 7, varying=True)[0],
    "sparse": lambda: as_sparse(build((8, 2, 3, 6), 3, varying=True)[0]),
    "frozen lake": problems.gymnasium,
    "random walk": problems.random_walk,
    "uneven": uneven,
    "single action": single_action,
}


@cache
def made(name: str) -> SimpleNamespace:
    """A problem with its stream on both engines, compiled once."""
    problem = PROBLEMS[name]()
    stream = Stream(problem)
    return SimpleNamespace(
        problem=problem, stream=stream, fused=cpu.Experience(stream), scan=scan.Experience(stream)
    )


def rows(experience, seeds, num_steps) -> np.ndarray:
    """The first rows of some seeds."""
    return np.asarray(experience.advance(seeds, 0, experience.begin(seeds), num_steps)[1])


# Words


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((MOST, MOST), (MOST, MOST), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_published_words(key, counter, words):
    """The known answers of Random123."""

    (a, b), (c, d) = (np.array(pair, np.uint32)[:, None] for pair in (key, counter))
    found = threefry((a, b), (c, d))
    assert tuple(np.concatenate(found).tolist()) == words == plain.threefry(key, counter)


@given(SEEDS)
def test_threefry_is_that_of_jax(seed):
    key, counter = np.random.default_rng(seed).integers(0, 2**32, (2, 2, 9), np.uint32)
    expected = np.stack(
        [
            np.asarray(threefry_2x32(jnp.asarray(k), jnp.asarray(c)))
            for k, c in zip(key.T, counter.T, strict=True)
        ]
    )
    for numbers in (np.asarray, jnp.asarray):
        (a, b), (c, d) = numbers(key), numbers(counter)
        found = threefry((a, b), (c, d))
        np.testing.assert_array_equal(np.stack(found, 1), expected)
        assert all(word.dtype == np.uint32 for word in found)


# Laws as thresholds


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any), max_size=4), SEEDS)
def test_a_word_picks_the_first_entry_whose_threshold_exceeds_it(counts, seed):
    """Also at the thresholds themselves, and next to them."""
    laws = [[count / sum(law) for count in law] for law in [*counts, [0.0, 1.0]]]
    first = np.cumsum([0, *map(len, laws)])
    table = thresholds(np.concatenate(laws), first)
    edges = [int(edge) + step for edge in table for step in (-1, 0, 1)]
    words = [0, MOST - 1, MOST, *(word for word in edges if 0 <= word <= MOST)]
    words += np.random.default_rng(seed).integers(0, 2**32, 100 - len(words)).tolist()
    padded = jnp.asarray(np.pad(table, (0, 30 - len(table))))  # one shape for all examples
    for number, law in enumerate(laws):
        low, high = (np.full(100, end, np.uint32) for end in first[number : number + 2])
        found = search(padded, low, high, jnp.asarray(words, jnp.uint32), max(map(len, laws)))
        expected = [first[number] + plain.drawn(law, word) for word in words]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "law", [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.1] * 10 + [0.0], [1 / 3] * 3 + [0.0, 0.0]]
)
def test_no_word_picks_what_is_impossible(law):
    """Not even the largest one, where the law's last entries have probability 0."""
    table = jnp.asarray(thresholds(np.array(law), np.array([0, len(law)])))
    low, high = np.uint32(0), np.uint32(len(law))
    for word in (0, MOST - 1, MOST):
        assert law[int(search(table, low, high, np.uint32(word), len(law)))] > 0


def test_thresholds_keep_probabilities_to_the_last_bit_of_a_word():
    rng = np.random.default_rng(0)
    laws = rng.dirichlet(np.ones(7), 2000)
    table = thresholds(laws.ravel(), 7 * np.arange(2001)).reshape(laws.shape)
    upto = table.astype(float)
    upto[:, -1] = 2.0**32  # the last entry takes whatever is left
    kept = np.diff(upto, axis=1, prepend=0.0) / 2**32
    np.testing.assert_allclose(kept, laws, rtol=0.0, atol=1.01 * 2**-32)


# The stream of a seed


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_engine_draws_the_transcribed_stream(name):
    """The rows of LLVM, of `lax.scan`, and of a loop over Python's whole numbers are equal."""
    here = made(name)
    expected = [[y.row for y in plain.experience(here.problem, seed, 300)] for seed in WORDS]
    np.testing.assert_array_equal(rows(here.fused, WORDS, 300), expected)
    np.testing.assert_array_equal(rows(here.scan, WORDS, 300), expected)


def test_the_problems_here_have_what_is_hard_about_streams():
    """Outcomes that lead to one state with different discounts, and laws of many lengths."""
    lake, walk = made("frozen lake").problem.mdp, made("random walk").stream
    arrivals = {}
    for pair, found in enumerate(plain.outcomes(made("frozen lake").problem)):
        for _, state, _, _, discount in found:
            arrivals.setdefault((pair, state), set()).add(discount)
    assert lake.is_sparse
    assert {0.0, 0.99} in arrivals.values()
    assert walk.most == 1
    lengths = {len(found) for found in plain.outcomes(made("uneven").problem)}
    assert lengths == {1, 2, 3}


@pytest.mark.parametrize("name", PROBLEMS)
def test_rows_say_what_happened(name):
    """`Stream.sample` gives the time, states, actions, reward and discount of every row."""
    here = made(name)
    path = plain.experience(here.problem, 5, 200)
    found = here.stream.sample(np.array([y.row for y in path]), np.arange(200))
    for field, symbol in {
        "time": "t",
        "state": "s",
        "action": "a",
        "reward": "r",
        "discount": "gamma",
        "state_next": "s_next",
        "action_next": "a_next",
    }.items():
        np.testing.assert_array_equal(
            getattr(found, field), [getattr(y, symbol) for y in path], err_msg=field
        )


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_step_begins_where_the_last_one_ended(name):
    """$S_{t+1}, A_{t+1}$ of one row are $S_t, A_t$ of the next, and both are possible."""
    here = made(name)
    for seed in range(3):
        y = here.stream.sample(rows(here.fused, [seed], 5000)[0], 0)
        np.testing.assert_array_equal(y.state_next[:-1], y.state[1:])
        np.testing.assert_array_equal(y.action_next[:-1], y.action[1:])
        assert (here.problem.behavior[y.state, y.action] > 0).all()
        assert here.problem.start[y.state[0]] > 0


@pytest.mark.parametrize(("engine", "lengths"), [("fused", (1, 7, 100, 192)), ("scan", (150, 150))])
def test_a_stream_continues_in_pieces(engine, lengths):
    here = made("dense")
    experience = getattr(here, engine)
    pairs, pieces, time = experience.begin(WORDS), [], 0
    for steps in lengths:
        pairs, found = experience.advance(WORDS, time, pairs, steps)
        pieces.append(np.asarray(found))
        time += steps
    np.testing.assert_array_equal(np.concatenate(pieces, 1), rows(experience, WORDS, 300))


def test_seeds_have_streams_of_their_own():
    """No two begin alike, nor does one run ahead of another."""
    here = made("dense")
    seeds = [*range(50), *(2**32 * k for k in range(1, 50)), 2**63, 2**64 - 1]
    found = rows(here.fused, seeds, 60)
    windows = {tuple(path[n : n + 30].tolist()) for path in found for n in range(31)}
    assert len(windows) == 31 * len(seeds)


@pytest.mark.parametrize("wide", [False, True])
def test_the_stream_does_not_depend_on_features_target_or_precision(wide):
    here = made("dense")
    mdp = dataclasses.replace(here.problem.mdp, reward=0.0, discount=0.5)
    other = dataclasses.replace(
        here.problem, mdp=mdp, x=np.eye(5), xa=None, target=here.problem.behavior, interest=3.0
    )
    with jax.enable_x64(wide):
        for engine in (cpu, scan):
            found = rows(engine.Experience(Stream(other)), [4, 2**63], 100)
            np.testing.assert_array_equal(found, rows(here.fused, [4, 2**63], 100))


def chi_square(counts, law) -> tuple[float, int]:
    """The statistic of counts against a law, and its degrees of freedom."""
    kept = np.asarray(law) > 0
    assert not np.asarray(counts)[~kept].any()
    expected = np.sum(counts) * np.asarray(law)[kept]
    return float(((np.asarray(counts)[kept] - expected) ** 2 / expected).sum()), kept.sum() - 1


@pytest.mark.parametrize("name", ["dense", "sparse", "frozen lake", "uneven"])
def test_frequencies_are_those_of_the_exact_law(name):
    """Given (s, a) the outcomes, and given s' the actions, are multinomial: chi-square."""
    here = made(name)
    found = rows(here.fused, [11], 400_000)[0]
    actions = here.problem.behavior.shape[1]
    numbers = np.bincount(found // actions, minlength=len(here.stream.pair))
    tests = []
    for possible in plain.outcomes(here.problem):
        counts = [numbers[number] for number, *_ in possible]
        if sum(counts) > 1000:
            tests.append(chi_square(counts, [p for _, _, p, *_ in possible]))
    y = here.stream.sample(found, 0)
    for state, law in enumerate(here.problem.behavior):
        chosen = np.bincount(y.action_next[y.state_next == state], minlength=actions)
        if chosen.sum() > 1000:
            tests.append(chi_square(chosen, law))
    statistic, freedom = np.sum(tests, axis=0)
    assert freedom > 3
    assert 1e-3 < stats.chi2.sf(statistic, freedom) < 1 - 1e-3


def test_first_states_and_actions_have_their_exact_law():
    """Over seeds the first pair is multinomial with $p(s)\\mu(a|s)$."""
    here = made("dense")
    counts = np.bincount(here.fused.begin(range(20_000)).ravel(), minlength=15)
    law = here.problem.start[:, None] * here.problem.behavior
    statistic, freedom = chi_square(counts, law.ravel())
    assert 1e-3 < stats.chi2.sf(statistic, freedom) < 1 - 1e-3


def test_the_two_words_of_a_time_are_independent():
    """Given S_{t+1}, the action A_{t+1} does not depend on how S_{t+1} was reached."""
    here = made("dense")
    y = here.stream.sample(rows(here.fused, [13], 200_000)[0], 0)
    for state in range(5):
        arrived = y.state_next == state
        counts = np.zeros((5, 3))
        np.add.at(counts, (y.state[arrived], y.action_next[arrived]), 1.0)
        assert stats.chi2_contingency(counts[counts.any(1)])[1] > 1e-3


def test_a_problem_of_too_many_samples_is_refused():
    """Rows are 32-bit words: 46341 actions in one state have more than 2^31 of them."""
    law = np.full((1, 46341), 1 / 46341)
    problem = Problem(
        MDP(np.ones((1, 46341, 1)), 0.0, 0.5),
        law,
        interest=1.0,
        x=np.ones((1, 1)),
        xa=np.ones((1, 46341, 1)),
    )
    with pytest.raises(ValueError, match="problem: 2147488281 samples"):
        Stream(problem)
