"""Nonnegative matrices: what is computed equals what brute or exact arithmetic says."""

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from emphatic import _markov
from emphatic._markov import Resolvent

seeds = st.integers(0, 2**32 - 1)
FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])


def graph_of(seed, size=8, density=0.2):
    return np.random.default_rng(seed).random((size, size)) < density


def irreducible(seed, size=8, density=0.3):
    """A random stochastic matrix with a cycle through all states."""
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.1, 1.0, (size, size)) * (rng.random((size, size)) < density)
    cycle = rng.permutation(size)
    weight[cycle, np.roll(cycle, -1)] += 0.5
    return weight / weight.sum(1, keepdims=True)


def random_graph(size, degree, seed=0):
    """A large sparse stochastic matrix: each state leads to a few random ones."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(size), degree)
    columns = rng.integers(size, size=(size, degree))
    columns[:, 0] = (np.arange(size) + 1) % size
    data = rng.dirichlet(np.ones(degree), size) * 0.5 + 0.5 / degree
    return sparse.csr_array((data.ravel(), (rows, columns.ravel())), shape=(size, size))


def walk(width, height):
    """A lazy walk on a grid, whose states are far from each other."""

    def line(size):
        steps = np.ones(size - 1)
        return sparse.diags_array([steps, steps], offsets=[-1, 1])

    moves = sparse.kronsum(line(width), line(height), format="csr")
    weight = sparse.csr_array(moves + sparse.eye_array(width * height))
    return sparse.csr_array(sparse.diags_array(1.0 / weight.sum(1)) @ weight)


def exact_law(matrix):
    """The stationary law by elimination of states, in rational arithmetic.

    Only the entries off the diagonal are used: the diagonal is what is missing to one.
    """
    size = len(matrix)
    q = [[Fraction(float(entry)) for entry in row] for row in matrix]
    for k in range(size - 1, 0, -1):
        total = sum(q[k][:k])
        for i in range(k):
            q[i][k] /= total
            for j in range(k):
                q[i][j] += q[i][k] * q[k][j]
    law = [Fraction(1)]
    for k in range(1, size):
        law.append(sum((law[i] * q[i][k] for i in range(k)), Fraction(0)))
    return np.array([float(entry / sum(law)) for entry in law])


# Classes and periods.


def closure(edges):
    """Which state leads to which, in any number of steps, by Warshall's algorithm."""
    reach = edges | np.eye(len(edges), dtype=bool)
    for k in range(len(edges)):
        reach |= np.outer(reach[:, k], reach[k])
    return reach


@given(seeds, seeds)
def test_the_reachable_states_are_those_of_the_transitive_closure(seed, other):
    edges = graph_of(seed, density=0.15)
    sources = np.random.default_rng(other).random(8) < 0.3
    for form in (np.asarray, sparse.csr_array, sparse.csc_array):
        found = _markov.reachable(form(edges * 0.5), sources)
        np.testing.assert_array_equal(found, closure(edges)[sources].any(0))


@given(seeds)
def test_strong_classes_are_the_states_that_lead_to_each_other(seed):
    edges = graph_of(seed)
    reach = closure(edges)
    for form in (np.asarray, sparse.csr_array):
        classes = _markov.strong_classes(form(edges * 0.5))
        np.testing.assert_array_equal(classes[:, None] == classes, reach & reach.T)


def test_a_stored_zero_is_not_an_edge():
    edges = sparse.csr_array((np.array([1.0, 0.0]), np.array([1, 0]), np.array([0, 1, 2])))
    assert _markov.strong_classes(edges).max() == 1
    np.testing.assert_array_equal(_markov.reachable(edges, np.array([False, True])), [False, True])


def cycles(*lengths):
    """Cycles of these lengths that share state 0."""
    size = 1 + sum(length - 1 for length in lengths)
    edges, last = np.zeros((size, size)), 0
    for length in lengths:
        path = [0, *range(last + 1, last + length), 0]
        edges[path[:-1], path[1:]] = 1.0
        last += length - 1
    return edges


@FORMS
@pytest.mark.parametrize(
    ("lengths", "expected"),
    [((1,), 1), ((2,), 2), ((5,), 5), ((4, 6), 2), ((6, 10, 15), 1), ((3, 1), 1), ((6, 9), 3)],
)
def test_the_period_is_the_gcd_of_the_lengths_of_the_cycles(form, lengths, expected):
    assert _markov.period(form(cycles(*lengths))) == expected


@given(seeds)
def test_the_period_is_the_number_of_eigenvalues_on_the_unit_circle(seed):
    matrix = irreducible(seed, size=6, density=0.08)
    on_circle = np.abs(np.abs(np.linalg.eigvals(matrix)) - 1.0) < 1e-9
    assert _markov.period(matrix) == on_circle.sum()


# Stationary laws.


@given(seeds, st.sampled_from([2, 5, 12]))
def test_the_stationary_law_is_the_left_eigenvector(seed, size):
    matrix = irreducible(seed, size)
    _, _, vectors = np.linalg.svd(matrix.T - np.eye(size))
    expected = vectors[-1] / vectors[-1].sum()
    for form in (np.asarray, sparse.csr_array):
        law = _markov.stationary(form(matrix))
        assert (law > 0).all()
        np.testing.assert_allclose(law, expected, rtol=1e-9)
        np.testing.assert_allclose(law, exact_law(matrix), rtol=1e-12)


def test_a_single_state_has_a_law():
    np.testing.assert_array_equal(_markov.stationary(np.ones((1, 1))), [1.0])


@FORMS
def test_a_periodic_chain_has_a_law(form):
    ring = np.roll(np.eye(6), 1, axis=1)
    np.testing.assert_allclose(_markov.stationary(form(ring)), np.full(6, 1 / 6), rtol=1e-15)


@FORMS
def test_states_that_are_almost_never_visited_have_exact_probabilities(form):
    """A walk that falls back with probability 1 - 1e-4: the law spans 44 orders of magnitude."""
    size, up = 12, 1e-4
    matrix = np.diag(np.full(size - 1, up), 1) + np.diag(np.full(size - 1, 1 - up), -1)
    matrix[0, 0], matrix[-1, -1] = 1 - up, up
    law = _markov.stationary(form(matrix))
    expected = exact_law(matrix)
    assert expected.min() < 1e-40
    np.testing.assert_allclose(law, expected, rtol=1e-12)


@FORMS
def test_what_leaves_two_states_decides_their_law_and_not_what_stays(form):
    """One minus what stays would be off by a part in a hundred; the way out itself is exact."""
    matrix = np.array([[1 - 1e-15, 1e-15], [3e-15, 1 - 3e-15]])
    np.testing.assert_allclose(_markov.stationary(form(matrix)), [0.75, 0.25], rtol=1e-14)


@FORMS
def test_the_law_of_a_long_walk_that_drifts_down_is_geometric(form):
    """Too many states to eliminate, and the top ones are visited once in 1e140 steps."""
    size, up, down = 400, 0.3, 0.7
    matrix = np.diag(np.full(size - 1, up), 1) + np.diag(np.full(size - 1, down), -1)
    matrix[0, 0], matrix[-1, -1] = down, up
    expected = (up / down) ** np.arange(size)
    expected /= expected.sum()
    assert expected[-1] < 1e-140
    np.testing.assert_allclose(_markov.stationary(form(matrix)), expected, rtol=1e-10)


def test_a_rare_state_of_a_large_random_graph_has_the_probability_of_the_way_to_it():
    """Far below the accuracy of an iteration: the state is entered from one other only."""
    size, rare = 4000, 1e-25
    chain = random_graph(size, 4).tolil()
    chain.resize((size + 1, size + 1))
    chain[7, size] = rare
    chain[size, 0] = 1.0
    chain = sparse.csr_array(chain)
    assert _markov.is_wide(chain)
    law = _markov.stationary(chain)
    np.testing.assert_allclose(law[size], rare * law[7], rtol=1e-6)


@FORMS
@pytest.mark.parametrize("coupling", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("seed", range(5))
def test_the_law_of_a_nearly_decomposable_chain_loses_only_what_rounding_its_entries_does(
    form, coupling, seed
):
    """An entry off by 2^-53 changes the balance of the two halves by 2^-53 / coupling."""
    rng = np.random.default_rng(seed)
    halves = np.zeros((6, 6))
    halves[:3, :3], halves[3:, 3:] = rng.dirichlet(np.ones(3), (2, 3))
    between = rng.uniform(0.2, 1.0, (6, 6)) * coupling * (halves == 0)
    matrix = halves * (1.0 - between.sum(1, keepdims=True)) + between
    law = _markov.stationary(form(matrix))
    np.testing.assert_allclose(law, exact_law(matrix), rtol=1e-15 / coupling)


def test_the_krylov_law_of_a_large_random_graph_is_the_direct_one(monkeypatch):
    chain = random_graph(4000, 4)
    assert _markov.is_wide(chain)
    tried = []
    krylov = _markov._stationary_krylov

    def watched(*arguments):
        tried.append(krylov(*arguments))
        return tried[-1]

    monkeypatch.setattr(_markov, "_stationary_krylov", watched)
    law = _markov.stationary(chain)
    assert len(tried) == 2
    assert tried[0] is law
    monkeypatch.setattr(_markov, "is_wide", lambda matrix: False)
    np.testing.assert_allclose(law, _markov.stationary(chain), rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(law @ chain, law, atol=1e-13)


@pytest.mark.parametrize("coupling", [1e-4, 1e-10, 1e-14])  # the last hides from a residual
def test_two_weakly_coupled_random_graphs_are_visited_in_the_right_proportion(coupling):
    """Every state of the first graph leaves it twice as often as one of the second does."""
    size = 1600
    halves = [random_graph(size, 4, seed) for seed in (1, 2)]
    laws = [_markov.stationary(half) for half in halves]
    leave = np.repeat([2.0 * coupling, coupling], size)
    within = sparse.diags_array(1.0 - leave) @ sparse.block_diag(halves)
    across = sparse.csr_array((leave, np.roll(np.arange(2 * size), size), np.arange(2 * size + 1)))
    chain = sparse.csr_array(within + across)
    assert _markov.is_wide(chain)
    law = _markov.stationary(chain)
    np.testing.assert_allclose(law @ chain, law, atol=1e-14)
    np.testing.assert_allclose(law[:size].sum(), 1.0 / 3.0, rtol=1e-9)
    for half, expected in zip(np.split(law, 2), laws, strict=True):
        np.testing.assert_allclose(half / half.sum(), expected, rtol=100 * coupling, atol=1e-9)


# Resolvents.


def substochastic(seed, size=8):
    rng = np.random.default_rng(seed)
    return irreducible(seed, size) * rng.uniform(0.3, 0.99, (size, 1))


@given(seeds)
def test_both_sides_of_a_resolvent_solve_their_equation(seed):
    matrix = substochastic(seed)
    b = np.random.default_rng(seed).normal(size=8)
    right = np.linalg.solve(np.eye(8) - matrix, b)
    left = np.linalg.solve(np.eye(8) - matrix.T, b)
    for form in (np.asarray, sparse.csr_array):
        for iterative in (False, True):
            resolvent = Resolvent(form(matrix), iterative=iterative)
            for y, expected, operator in (
                (resolvent.right(b), right, matrix),
                (resolvent.left(b), left, matrix.T),
            ):
                np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-10)
                residual = np.linalg.norm(b + operator @ y - y)
                assert residual < 1e-12 * np.linalg.norm(y)


@pytest.mark.parametrize("discount", [0.9, 0.999])
@pytest.mark.parametrize("chain", [random_graph(3500, 3), walk(60, 60)], ids=["wide", "narrow"])
def test_the_iterative_and_the_direct_resolvent_of_a_large_chain_agree(chain, discount):
    matrix = discount * chain
    b = np.random.default_rng(0).uniform(0.5, 1.5, chain.shape[0])
    direct = Resolvent(matrix, iterative=False)
    iterative = Resolvent(matrix, iterative=True)
    for side, operator in (("right", matrix), ("left", matrix.T)):
        y, z = getattr(direct, side)(b), getattr(iterative, side)(b)
        np.testing.assert_allclose(y, z, rtol=1e-9)
        assert np.linalg.norm(b + operator @ z - z) < 1e-12 * np.linalg.norm(z)
        assert np.linalg.norm(b + operator @ y - y) < 1e-12 * np.linalg.norm(y)


@FORMS
def test_nonnegative_sources_have_nonnegative_solutions(form):
    """Zeros of the solution stay zero: no rounding appears where nothing leads."""
    matrix = np.triu(np.full((30, 30), 0.03), 1)
    b = np.zeros(30)
    b[10] = 1.0
    resolvent = Resolvent(form(matrix))
    assert (resolvent.left(b) >= 0).all()
    np.testing.assert_array_equal(resolvent.left(b)[:10], 0.0)
    np.testing.assert_array_equal(resolvent.right(b)[11:], 0.0)


# Radii.


@FORMS
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("periodic", [False, True])
def test_a_resolvent_converges_exactly_when_the_radius_is_below_one(form, seed, periodic):
    matrix = irreducible(seed, density=0.0 if periodic else 0.4)
    matrix = matrix * np.random.default_rng(seed).uniform(0.1, 3.0, (8, 1))
    matrix /= np.abs(np.linalg.eigvals(matrix)).max()
    for radius in (0.5, 1.0 - 1e-6):
        resolvent = _markov.convergent_resolvent(form(radius * matrix))
        assert resolvent is not None
        np.testing.assert_allclose(
            resolvent.right(np.ones(8)),
            np.linalg.solve(np.eye(8) - radius * matrix, np.ones(8)),
            rtol=1e-6,
        )
    for radius in (1.0 + 1e-6, 2.0):
        assert _markov.convergent_resolvent(form(radius * matrix)) is None


@FORMS
@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_radius_of_exactly_one_does_not_converge(form, size):
    ring = np.roll(np.eye(size), 1, axis=1)
    assert _markov.convergent_resolvent(form(ring)) is None


@FORMS
@pytest.mark.parametrize("seed", range(20))
def test_an_exactly_stochastic_matrix_does_not_converge(form, seed):
    """Entries are sixteenths, so that the radius is 1 and only rounding could say otherwise."""
    rng = np.random.default_rng(seed)
    matrix = np.array([rng.multinomial(16, rng.dirichlet(np.ones(12))) for _ in range(12)]) / 16.0
    assert _markov.convergent_resolvent(form(matrix)) is None


@FORMS
def test_a_class_of_large_radius_is_found_behind_others(form):
    matrix = np.diag([0.5, 1.5, 0.5]) + np.diag([1.0, 1.0], 1)
    assert _markov.convergent_resolvent(form(matrix)) is None
    matrix[1, 1] = 0.9
    assert _markov.convergent_resolvent(form(matrix)) is not None


@FORMS
@pytest.mark.parametrize("feedback", [0.0, 1e-30])
def test_a_small_radius_is_recognised_where_the_walks_first_grow_by_many_magnitudes(form, feedback):
    """(I - Q)^{-1} 1 is 1e19 here, too large for its 1 to be seen in y - Qy."""
    matrix = np.diag(np.full(20, 0.5)) + np.diag(np.full(19, 5.0), 1)
    matrix[-1, 0] = feedback
    assert np.abs(np.linalg.eigvals(matrix)).max() < 0.7
    assert _markov.convergent_resolvent(form(matrix)) is not None
    assert _markov.convergent_resolvent(form(2.1 * matrix)) is None


@given(seeds)
def test_the_spectral_radius_is_the_largest_modulus(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.random((6, 6)) * (rng.random((6, 6)) < 0.4)
    expected = np.abs(np.linalg.eigvals(matrix)).max()
    for form in (np.asarray, sparse.csr_array):
        np.testing.assert_allclose(_markov.spectral_radius(form(matrix)), expected, atol=1e-9)


@FORMS
def test_two_states_that_lead_to_each_other_have_the_geometric_mean_as_radius(form):
    assert _markov.spectral_radius(form(np.array([[0.0, 4.0], [1.0, 0.0]]))) == pytest.approx(2.0)


LARGE = 1300


def large_cycle(weights):
    states = np.arange(LARGE)
    return sparse.csr_array((weights, (states, (states + 1) % LARGE)), shape=(LARGE, LARGE))


def test_the_radius_of_a_large_chain_is_its_discount():
    chain = random_graph(LARGE, 4)
    np.testing.assert_allclose(_markov.spectral_radius(0.9 * chain), 0.9, rtol=1e-10)
    np.testing.assert_allclose(_markov.spectral_radius(0.9 * chain.toarray()), 0.9, rtol=1e-10)


def test_the_radius_of_a_large_similar_matrix_is_the_same():
    """Scaling states changes every entry and no eigenvalue."""
    scale = np.random.default_rng(0).uniform(0.5, 2.0, LARGE)
    chain = 0.8 * random_graph(LARGE, 4)
    similar = sparse.csr_array(sparse.diags_array(scale) @ chain @ sparse.diags_array(1 / scale))
    np.testing.assert_allclose(_markov.spectral_radius(similar), 0.8, rtol=1e-10)


def test_the_radius_of_a_large_periodic_matrix_is_found():
    np.testing.assert_allclose(
        _markov.spectral_radius(large_cycle(np.full(LARGE, 0.5))), 0.5, rtol=1e-9
    )


def test_the_radius_of_a_wide_periodic_matrix_is_found(monkeypatch):
    """Powers of a matrix that swaps two halves do not settle."""
    rng, size = np.random.default_rng(0), 60
    for name in ("SMALL", "DENSE"):
        monkeypatch.setattr(_markov, name, size)
    matrix = np.zeros((2 * size, 2 * size))
    matrix[:size, size:], matrix[size:, :size] = rng.random((2, size, size)) < 0.1
    matrix *= rng.uniform(0.1, 1.0, matrix.shape)
    matrix[:size, size:] += 0.1 * np.eye(size)
    matrix[size:, :size] += 0.1 * np.roll(np.eye(size), 1, axis=1)
    assert _markov.is_wide(sparse.csr_array(matrix))
    expected = np.abs(np.linalg.eigvals(matrix)).max()
    found = _markov.spectral_radius(sparse.csr_array(matrix))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_radius_of_a_large_cycle_is_the_geometric_mean_of_its_weights():
    weights = np.random.default_rng(0).uniform(0.5, 1.0, LARGE)
    expected = np.exp(np.log(weights).mean())
    np.testing.assert_allclose(_markov.spectral_radius(large_cycle(weights)), expected, rtol=1e-9)


def test_the_radius_of_a_large_matrix_without_cycles_is_zero():
    weights = np.ones(LARGE)
    weights[-1] = 0.0
    assert _markov.spectral_radius(large_cycle(weights)) < 1e-9


def test_the_radius_of_a_large_triangular_matrix_is_its_largest_diagonal_entry():
    """Its powers grow by hundreds of magnitudes before they decay."""
    bands = [np.full(LARGE, 0.9), np.full(LARGE - 1, 1.5)]
    matrix = sparse.csr_array(sparse.diags_array(bands, offsets=[0, 1]))
    np.testing.assert_allclose(_markov.spectral_radius(matrix), 0.9, rtol=1e-9)


def test_the_radius_of_a_large_drifting_walk_is_that_of_its_symmetric_form():
    """Toeplitz bands u above and v below have the radius 2 sqrt(uv) cos(pi / (n + 1))."""
    up, down = 0.6, 0.4
    bands = [np.full(LARGE - 1, up), np.full(LARGE - 1, down)]
    matrix = sparse.csr_array(sparse.diags_array(bands, offsets=[1, -1]))
    expected = 2.0 * np.sqrt(up * down) * np.cos(np.pi / (LARGE + 1))
    np.testing.assert_allclose(_markov.spectral_radius(matrix), expected, rtol=1e-6)


# Wide graphs.


def test_a_large_random_graph_is_wide_and_a_grid_is_not():
    assert _markov.is_wide(random_graph(4000, 4))
    assert not _markov.is_wide(walk(64, 64))
    assert not _markov.is_wide(random_graph(1000, 4))
    assert not _markov.is_wide(np.full((3001, 3001), 1.0 / 3001))


def test_pieces_that_do_not_hang_together_are_not_wide():
    rows = sparse.block_diag([walk(64, 1)] * 64, format="csr")
    assert connected_components(rows)[0] == 64
    assert not _markov.is_wide(sparse.csr_array(rows))


# Stationary laws of chains that nearly fall apart.


def nearly_two(size, coupling, seed=0):
    """Two halves, each of which leads to the other from one of its states only, rarely."""
    rng, half = np.random.default_rng(seed), size // 2
    chain = np.zeros((size, size))
    chain[:half, :half], chain[half:, half:] = rng.random((half, half)), rng.random((half, half))
    chain /= chain.sum(1, keepdims=True)
    for state, other, rate in ((0, half, coupling), (half, 0, 3.0 * coupling)):
        chain[state] *= 1.0 - rate
        chain[state, other] = rate
    return chain


def eliminated(chain, number: Any = np.longdouble):
    """Grassmann, Taksar and Heyman, state by state in more precise numbers."""
    p = np.vectorize(number, otypes=[object])(chain) if number is Fraction else chain.astype(number)
    visits = p[0] * 0 + 1
    for k in range(len(p) - 1, 0, -1):
        p[:k, k] = p[:k, k] / p[k, :k].sum()
        p[:k, :k] += p[:k, k, None] * p[k, :k]
    for k in range(1, len(p)):
        visits[k] = visits[:k] @ p[:k, k]
    return visits / visits.sum()


@FORMS
@pytest.mark.parametrize("coupling", [1e-3, 1e-12, 1e-14, 1e-15, 1e-30])
def test_a_stationary_law_keeps_its_digits_where_a_chain_of_302_states_nearly_falls_apart(
    form, coupling
):
    chain = nearly_two(302, coupling)
    law = _markov.stationary(form(chain))
    exact = eliminated(chain)
    assert 0.6 < exact[:151].sum() < 0.9
    np.testing.assert_allclose(law, exact.astype(float), rtol=1e-9 if coupling == 1e-3 else 1e-13)


@pytest.mark.parametrize("coupling", [1e-17, 1e-18, 1e-20, 1e-30])
def test_a_bound_is_never_small_where_the_law_is_wrong(coupling):
    """Below rounding, whether it is noticed must not depend on how that falls."""
    for seed in range(9):
        chain = nearly_two(302, coupling, seed)
        law, error = _markov._stationary_visits(chain)
        exact = _markov._stationary_elimination(chain.copy())
        assert np.abs(law / exact - 1.0).max() <= error


def test_a_law_is_eliminated_in_blocks_as_it_is_state_by_state():
    """Three blocks and a rest, with entries over many magnitudes."""
    chain = np.random.default_rng(1).random((700, 700)) ** 20 + 1e-30
    chain /= chain.sum(1, keepdims=True)
    expected = eliminated(chain, np.float64)
    np.testing.assert_allclose(_markov._stationary_elimination(chain.copy()), expected, rtol=1e-12)


@pytest.mark.parametrize("coupling", [1e-9, 1e-16, 1e-40])
def test_the_law_of_a_small_chain_is_that_of_fractions(coupling):
    chain = nearly_two(10, coupling)
    exact = eliminated(chain, Fraction).astype(float)
    np.testing.assert_allclose(_markov.stationary(chain), exact, rtol=1e-14)


def test_a_law_that_is_believed_keeps_its_bits():
    """Stores are addressed by them."""
    for chain in (walk(60, 60), random_graph(1000, 4)):
        law, error = _markov._stationary_visits(chain)
        assert error < 1e-9
        np.testing.assert_array_equal(_markov.stationary(chain), law)
        np.testing.assert_allclose(law @ chain, law, rtol=1e-9)


@pytest.mark.parametrize("coupling", [1e-7, 1e-8, 1e-10])
def test_beyond_elimination_a_law_says_how_many_digits_are_sure(monkeypatch, coupling):
    monkeypatch.setattr(_markov, "ELIMINATED", 301)
    chain = nearly_two(302, coupling)
    with pytest.warns(UserWarning, match="sure digits: its chain of 302 states") as record:
        law = _markov.stationary(sparse.csr_array(chain))
    digits = int(re.findall(r"has (\d+) sure", str(record[0].message))[0])
    error = np.abs(law / eliminated(chain) - 1).max()
    assert 1e-16 < error < 10.0**-digits
    assert digits < 6


def test_beyond_elimination_a_law_without_a_sure_digit_is_refused(monkeypatch):
    monkeypatch.setattr(_markov, "ELIMINATED", 301)
    for coupling in (1e-14, 1e-15, 1e-30):
        with pytest.raises(ValueError, match=r"^policy: its chain nearly falls apart"):
            _markov.stationary(sparse.csr_array(nearly_two(302, coupling)))


@pytest.mark.slow
def test_ten_thousand_states_are_eliminated():
    """In a minute or two; the two halves balance: what one loses the other gains."""
    chain = nearly_two(10_000, 1e-13)
    law = _markov.stationary(chain)
    np.testing.assert_allclose(law[0] * chain[0, 5000], law[5000] * chain[5000, 0], rtol=1e-12)
    np.testing.assert_allclose(law @ chain, law, rtol=1e-10)
