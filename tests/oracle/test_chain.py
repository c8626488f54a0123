"""Values, emphasis and the objective agree with their definitions and identities."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given

from emphatic import oracle, problems

from ..plainly import plainly
from ..strategies import as_sparse, problems_and_targets, SEEDS


@given(problems_and_targets())
def test_values_are_the_fixed_point_of_the_bellman_operator(pair):
    r"""$v = r_\pi + \gamma P_\pi v$, and the same for q."""
    problem, target = pair
    is_, v = plainly(problem, target), oracle.values(problem, target)
    q = oracle.action_values(problem, target)
    np.testing.assert_allclose(v, is_.r + is_.gP @ v, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        q.ravel(), is_.r_actions + is_.gP_actions @ q.ravel(), rtol=1e-11, atol=1e-11
    )
    np.testing.assert_allclose((target * q).sum(1), v, rtol=1e-11, atol=1e-11)


@given(problems_and_targets())
def test_stationary_law_is_invariant_and_agrees_with_the_null_space(pair):
    problem, target = pair
    is_, d = plainly(problem, target), oracle.stationary(problem)
    np.testing.assert_allclose(d @ is_.P_mu, d, atol=1e-15)
    np.testing.assert_allclose(d, is_.d, rtol=1e-9)
    assert d.min() > 0
    law = oracle.stationary(problem, 0.5 * target + 0.5 * problem.behavior)
    np.testing.assert_allclose(law @ (0.5 * is_.P + 0.5 * is_.P_mu), law, atol=1e-14)


@pytest.mark.parametrize(("gap", "digits"), [(1e-10, 5), (1e-12, 3), (1e-14, 1)])
def test_a_discount_near_one_warns_of_the_digits_that_it_costs(gap, digits):
    two = problems.two_state()
    mdp = dataclasses.replace(two.mdp, reward=1.0, discount=1.0 - gap)
    with pytest.warns(UserWarning, match=f"have {digits} sure digits: the rounding of 1e"):
        v = oracle.values(dataclasses.replace(two, mdp=mdp))
    np.testing.assert_allclose(v * gap, 1.0, rtol=10.0**-digits)


@pytest.mark.parametrize("gap", [1e-15, 2e-16])
def test_a_discount_too_near_one_for_any_digit_is_refused(gap):
    two = problems.two_state()
    mdp = dataclasses.replace(two.mdp, reward=1.0, discount=1.0 - gap)
    with pytest.raises(ValueError, match="target: no digit of its values or emphasis is sure"):
        oracle.values(dataclasses.replace(two, mdp=mdp))


@given(problems_and_targets())
def test_emphasis_is_the_fixed_point_of_its_operator(pair):
    r"""$m = i + \gamma D^{-1}P_\pi^\top Dm$ (Proposition 1)."""
    problem, target = pair
    is_, m = plainly(problem, target), oracle.emphasis(problem, target)
    np.testing.assert_allclose(m, is_.i + is_.gP.T @ (is_.d * m) / is_.d, rtol=1e-9)


@given(problems_and_targets(), SEEDS)
def test_operator_contracts_in_the_witnessed_norm(pair, seed):
    """Proposition 1, and the modulus is attained."""
    problem, target = pair
    is_, witness = plainly(problem, target), oracle.contraction(problem, target)

    def norm(y):
        return np.abs(y / witness.weights).max()

    def operator(y):
        return is_.i + is_.gP.T @ (is_.d * y) / is_.d

    y, z = np.random.default_rng(seed).normal(size=(2, len(is_.d)))
    assert 0 <= witness.modulus < 1
    assert witness.weights.min() >= 1 - 1e-12
    assert norm(operator(y) - operator(z)) <= witness.modulus * norm(y - z) + 1e-12
    shifted = norm(operator(y + witness.weights) - operator(y))
    np.testing.assert_allclose(shifted, witness.modulus, atol=1e-9)


@given(problems_and_targets())
def test_identities_hold(pair):
    r"""$\sum d\,i\,v = \sum d\,m\,r_\pi$, and the sum rule of the emphasis."""
    problem, target = pair
    is_, m = plainly(problem, target), oracle.emphasis(problem, target)
    v = oracle.values(problem, target)
    np.testing.assert_allclose(is_.d @ (is_.i * v), is_.d @ (m * is_.r), rtol=1e-9, atol=1e-10)
    leak = 1.0 - is_.gP.sum(1)
    np.testing.assert_allclose(is_.d @ (m * leak), is_.d @ is_.i, rtol=1e-9)
    np.testing.assert_allclose(oracle.objective(problem, target), is_.d @ (is_.i * v), rtol=1e-9)


@given(problems_and_targets())
def test_density_ratio_is_a_ratio_of_laws(pair):
    problem, target = pair
    is_, ratio = plainly(problem, target), oracle.density_ratio(problem, target)
    np.testing.assert_allclose(is_.d @ ratio, 1.0, rtol=1e-12)
    m = oracle.emphasis(problem, target)
    np.testing.assert_allclose(ratio * (is_.d @ m), m, rtol=1e-9)
    if isinstance(problem.mdp.discount, float):
        scale = (1.0 - problem.mdp.discount) / (is_.d @ is_.i)
        np.testing.assert_allclose(ratio, scale * m, rtol=1e-9)


@given(problems_and_targets())
def test_both_operators_have_one_norm(pair):
    r"""$\|P_\pi\|_D = \|D^{-1}P_\pi^\top D\|_D$ (Lemma 2), with the oracle's own law."""
    problem, target = pair
    is_, d = plainly(problem, target), oracle.stationary(problem)
    root = np.sqrt(d)

    def norm(matrix):
        return np.linalg.norm(root[:, None] * matrix / root, 2)

    np.testing.assert_allclose(norm(is_.P), norm((is_.P.T * d) / d[:, None]), rtol=1e-12)


@given(problems_and_targets())
def test_sparse_equals_dense(pair):
    problem, target = pair
    other = as_sparse(problem)
    for name in (
        "values",
        "action_values",
        "emphasis",
        "density_ratio",
        "objective",
        "followon_variance",
        "followon_radius",
    ):
        dense = getattr(oracle, name)(problem, target)
        np.testing.assert_allclose(getattr(oracle, name)(other, target), dense, rtol=1e-7)
    assert oracle.truncation_length(problem, target) == oracle.truncation_length(other, target)
    np.testing.assert_allclose(oracle.stationary(other), oracle.stationary(problem), rtol=1e-12)
    for name in ("gem_system", "gq2_system", "gtd2_system", "tdc_system", "etd_system"):
        first, second = (getattr(oracle, name)(p, target) for p in (problem, other))
        np.testing.assert_allclose(second.matrix, first.matrix, atol=1e-9)
        np.testing.assert_allclose(second.vector, first.vector, atol=1e-9)


def test_a_target_that_is_not_irreducible_has_no_stationary_law():
    with pytest.raises(ValueError, match=r"policy: .*not irreducible \(2 classes\)"):
        oracle.stationary(problems.two_state(), problems.two_state().target)


def test_the_target_defaults_to_the_problems_own():
    problem = problems.baird(solid=0.3)
    np.testing.assert_array_equal(
        oracle.emphasis(problem), oracle.emphasis(problem, problem.target)
    )
    bare = dataclasses.replace(problem, target=None)
    with pytest.raises(ValueError, match="target: not given"):
        oracle.values(bare)


def test_a_change_of_target_is_not_answered_from_memory():
    """One factorisation is kept for each problem: for the target that was asked last."""
    problem = problems.baird(solid=0.1)
    target = np.array(problem.target)
    before = oracle.emphasis(problem, target)
    target[:] = [0.3, 0.7]
    assert abs(oracle.emphasis(problem, target) - before).max() > 10
