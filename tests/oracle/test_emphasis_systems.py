"""Where learners of the emphasis move, and how they are related."""

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given, settings

from emphatic import oracle, problems

from ..plainly import plainly
from ..strategies import as_sparse, problems_and_targets

CONDITION = 1e6


def with_decay(problem, decay):
    """The same problem with the decay as its discount, where that is positive."""
    p = problem.mdp.transition
    discount = decay * (np.broadcast_to(problem.mdp.outcome(problem.mdp.discount), p.size) > 0)
    mdp = dataclasses.replace(problem.mdp, discount=discount.reshape(p.shape))
    return dataclasses.replace(problem, mdp=mdp)


@settings(max_examples=10)
@given(problems_and_targets())
def test_a_decay_is_a_discount_in_its_place(pair):
    """Of every exact quantity that has one; it makes a difference."""
    problem, target = pair
    other = with_decay(problem, 0.7)
    for quantity in (oracle.emphasis, oracle.followon_radius, oracle.followon_variance):
        expected = quantity(other, target)
        for one in (problem, as_sparse(problem)):
            np.testing.assert_allclose(quantity(one, target, decay=0.7), expected, rtol=1e-9)
    truncated = oracle.truncated_emphasis(problem, target, 3, decay=0.7)
    np.testing.assert_allclose(truncated, oracle.truncated_emphasis(other, target, 3), rtol=1e-12)
    for system in (
        oracle.gem_system,
        oracle.reverse_td_system,
        oracle.tdec_system,
        oracle.tderc_system,
        oracle.expected_trace_system,
    ):
        found, expected = system(problem, target, decay=0.7), system(other, target)
        np.testing.assert_allclose(found.matrix, expected.matrix, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.vector, expected.vector, rtol=1e-12, atol=1e-14)


def test_a_decay_of_1_has_a_mean_only_where_episodes_end():
    """On the random walk it is the discount itself; Baird's never ends."""
    walk = problems.random_walk()
    np.testing.assert_allclose(oracle.emphasis(walk, decay=1.0), oracle.emphasis(walk), rtol=1e-12)
    for quantity in (oracle.emphasis, oracle.followon_variance, oracle.gem_system):
        with pytest.raises(
            ValueError, match=r"decay: got 1, .*no finite mean: .* is 1; it must be below 1"
        ):
            quantity(problems.baird(), decay=1.0)
    with pytest.raises(ValueError, match=r"decay: got 1.5; a number in \[0, 1\] is required"):
        oracle.emphasis(walk, decay=1.5)


@settings(max_examples=10)
@given(problems_and_targets())
def test_tderc_lies_between_gem_and_reversed_td(pair):
    r"""$\kappa$ at rest moves $w$ along $(A^\top + \beta I)(C + \beta I)^{-1}(b - Aw)$."""
    problem, target = pair
    is_, k = plainly(problem, target), problem.x.shape[1]
    C, b = is_.x.T @ is_.D @ is_.x, is_.x.T @ is_.D @ is_.i
    A = is_.x.T @ (np.eye(len(is_.d)) - is_.gP.T) @ is_.D @ is_.x

    def at_rest(system):
        """The matrix and the vector of w when kappa has settled."""
        G, h = system.matrix, system.vector
        solved = np.linalg.solve(G[:k, :k], np.column_stack([G[:k, k:], h[:k]]))
        return (np.column_stack([G[k:, k:], h[k:]]) - G[k:, :k] @ solved).T

    gem = at_rest(oracle.gem_system(problem, target))
    np.testing.assert_allclose(at_rest(oracle.tdec_system(problem, target)), gem, atol=1e-9)
    np.testing.assert_allclose(gem[:-1].T, A.T @ np.linalg.solve(C, A), atol=1e-9)
    half = at_rest(oracle.tderc_system(problem, target, 0.4))
    mixed = (A.T + 0.4 * np.eye(k)) @ np.linalg.inv(C + 0.4 * np.eye(k))
    np.testing.assert_allclose(half, (mixed @ np.column_stack([A, b])).T, atol=1e-9)
    plain = oracle.reverse_td_system(problem, target)
    far = at_rest(oracle.tderc_system(problem, target, 1e9))
    np.testing.assert_allclose(far, np.vstack([plain.matrix.T, plain.vector]), atol=1e-6)
    assume(np.linalg.cond(A) < CONDITION)
    w = plain.solution()
    for system in (
        oracle.gem_system(problem, target),
        oracle.tdec_system(problem, target),
        oracle.tderc_system(problem, target, 0.4),
    ):
        if np.linalg.cond(system.matrix) < CONDITION**2:
            kappa, found = np.split(system.solution(), 2)
            np.testing.assert_allclose(found, w, rtol=1e-5, atol=1e-6 * np.abs(w).max())
            np.testing.assert_allclose(kappa, 0.0, atol=1e-6 * (1 + np.abs(w).max()))


@settings(max_examples=10)
@given(problems_and_targets())
def test_the_expected_trace_tends_to_the_projection_of_the_emphasis(pair):
    r"""$X^\top(I - (\gamma P_\pi^\top)^n)DXw = X^\top Dm_{n-1}$; with one step reversed TD."""
    problem, target = pair
    is_, m = plainly(problem, target), oracle.emphasis(problem, target)
    one, plain = (
        oracle.expected_trace_system(problem, target, 1),
        oracle.reverse_td_system(problem, target),
    )
    np.testing.assert_array_equal(one.matrix, plain.matrix)
    np.testing.assert_allclose(one.vector, plain.vector, rtol=1e-12)
    for n in (2, 5):
        system = oracle.expected_trace_system(problem, target, n)
        backward = np.linalg.matrix_power(is_.gP.T, n)
        terms = sum(np.linalg.matrix_power(is_.gP.T, k) for k in range(n))
        matrix = is_.x.T @ (np.eye(len(m)) - backward) @ is_.D @ is_.x
        np.testing.assert_allclose(system.matrix, matrix, atol=1e-12)
        np.testing.assert_allclose(system.vector, is_.x.T @ terms @ (is_.d * is_.i), rtol=1e-9)
    # Its distance is at most a constant times the n-th power, and the limit no solution but m's.
    w = oracle.expected_trace_system(problem, target, 2000).solution()
    projected = oracle.projection(problem) @ m
    np.testing.assert_allclose(problem.x @ w, projected, atol=1e-9 * np.abs(m).max())
    tabular = dataclasses.replace(problem, x=np.eye(len(m)))
    solution = oracle.expected_trace_system(tabular, target, 3).solution()
    np.testing.assert_allclose(solution, m, rtol=1e-8)
    sparse = oracle.expected_trace_system(as_sparse(problem), target, 3)
    np.testing.assert_allclose(
        sparse.matrix, oracle.expected_trace_system(problem, target, 3).matrix, atol=1e-12
    )


def test_lengths_and_regularizations_out_of_range_are_refused():
    problem = problems.two_state()
    with pytest.raises(ValueError, match="length: got 0; at least 1"):
        oracle.expected_trace_system(problem, length=0)
    with pytest.raises(ValueError, match=r"regularization: got -1"):
        oracle.tderc_system(problem, regularization=-1.0)
