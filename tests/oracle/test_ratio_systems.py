"""Density ratios, and where their learners settle or diverge."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emphatic import MDP, oracle, Problem, problems

from ..plainly import plainly
from ..strategies import as_sparse, problems_and_targets

GAMMAS = (0.0, 0.3, 0.8, 5 / 6 + 0.01, 0.95, 0.99, 0.999)


def tabular(problem):
    return dataclasses.replace(problem, x=np.eye(len(problem.interest)))


@settings(max_examples=10)
@given(problems_and_targets(), st.floats(0.0, 0.97))
def test_the_discounted_ratio_is_the_emphasis_of_a_chain_without_ends(pair, gamma):
    """Of the interest 1 - gamma; neither the problem's interest nor its discount matters."""
    problem, target = pair
    found = oracle.density_ratio(problem, target, gamma)
    mdp = dataclasses.replace(problem.mdp, discount=gamma)
    other = dataclasses.replace(problem, mdp=mdp, interest=1.0 - gamma)
    np.testing.assert_allclose(found, oracle.emphasis(other, target), rtol=1e-9)
    np.testing.assert_allclose(oracle.density_ratio(other, target), found, rtol=1e-9)
    np.testing.assert_allclose(problem.stationary @ found, 1.0, rtol=1e-12)
    sparse = oracle.density_ratio(as_sparse(problem), target, gamma)
    np.testing.assert_allclose(sparse, found, rtol=1e-9)


@settings(max_examples=10)
@given(problems_and_targets())
def test_at_1_the_ratio_is_that_of_long_run_frequencies(pair):
    """As the average of many powers of the chain, from the law of the behaviour, has them."""
    problem, target = pair
    is_ = plainly(problem, target)
    power = 0.5 * (np.eye(len(is_.d)) + is_.P)  # the same frequencies, and never periodic
    for _ in range(50):
        power = power @ power
        power /= power.sum(1, keepdims=True)
    expected = is_.d @ power / is_.d
    for one in (problem, as_sparse(problem)):
        found = oracle.density_ratio(one, target, 1.0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_several_closed_classes_have_the_probabilities_of_ending_there():
    """From state 0 to 3, from there to 1 with 3/4 and to 2 with 1/4, which stay; mu returns."""
    p = np.zeros((4, 2, 4))
    p[0, :, 3] = p[3, 0, 1] = p[3, 1, 2] = 1.0
    p[1, 0, 1] = p[1, 1, 0] = p[2, 0, 2] = p[2, 1, 0] = 1.0
    target = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.75, 0.25]])
    problem = Problem(MDP(p, 0.0, 0.9), np.full((4, 2), 0.5), 1.0, np.eye(4), target=target)
    d = problem.stationary
    passing = d[0] + d[3]
    expected = [0.0, d[1] + 0.75 * passing, d[2] + 0.25 * passing, 0.0]
    np.testing.assert_allclose(d * oracle.density_ratio(problem, discount=1.0), expected)
    near = oracle.density_ratio(problem, discount=1.0 - 1e-9)
    np.testing.assert_allclose(d * near, expected, atol=1e-8)


@settings(max_examples=10)
@given(problems_and_targets(varying=True), st.floats(0.0, 0.95))
def test_with_tabular_features_every_limit_is_the_exact_ratio(pair, gamma):
    problem, target = tabular(pair[0]), pair[1]
    truth = oracle.density_ratio(problem, target, gamma)
    for system in (
        oracle.cop_td_system(problem, target, gamma),
        oracle.gradient_cop_td_system(problem, target, discount=gamma),
        oracle.gradient_dice_system(problem, target, discount=gamma, penalty=0.3),
        oracle.gradient_dice_system(as_sparse(problem), target, discount=gamma),
    ):
        solution = system.solution()[-len(truth) :]
        np.testing.assert_allclose(solution, truth, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("gamma", [0.5, 0.99, 1.0])
def test_gradient_dice_has_the_exact_ratio_on_boyans_chain(gamma):
    """With tabular features; with the interpolated ones its limit is near the closest point."""
    problem = problems.boyan()
    truth = oracle.density_ratio(problem, discount=gamma)
    kappa_u_w = oracle.gradient_dice_system(tabular(problem), discount=gamma).solution()
    np.testing.assert_allclose(kappa_u_w[-13:], truth, rtol=1e-9)
    np.testing.assert_allclose(kappa_u_w[:-13], 0.0, atol=1e-10)
    w = oracle.gradient_dice_system(problem, discount=gamma).solution()[-4:]
    d, closest = problem.stationary, oracle.projection(problem) @ truth
    error, least = (float(np.sqrt(d @ (y - truth) ** 2)) for y in (problem.x @ w, closest))
    assert least <= error < 1.5 * least


@pytest.mark.parametrize("solid", [0.7, 0.9, 1.0])
def test_semi_gradients_diverge_beyond_15_over_12_plus_5_solid_on_bairds_features(solid):
    """Found by bisection; their eigenvalue 0 moves no prediction, and is the least one before."""
    problem, threshold = problems.baird("original", solid), 15.0 / (12.0 + 5.0 * solid)
    for gamma, diverges in ((threshold - 1e-6, False), (threshold + 1e-6, True)):
        slowest = oracle.cop_td_system(problem, discount=gamma).slowest_mode()
        assert slowest is not None
        assert (slowest < 0.0) == diverges
        assert oracle.gradient_cop_td_system(problem, discount=gamma).slowest_mode() == 0.0


def test_semi_gradients_diverge_beyond_a_discount_and_gradients_at_none():
    """On the two states at 5/6; the gradient form loses its fixed point there, but no stability."""
    problem = problems.two_state()
    for gamma in GAMMAS:
        semi = oracle.cop_td_system(problem, discount=gamma).slowest_mode()
        assert semi == pytest.approx((5 - 6 * gamma) / 2, rel=1e-9)
        gradient = oracle.gradient_cop_td_system(problem, discount=gamma)
        dice = oracle.gradient_dice_system(problem, discount=gamma)
        assert (gradient.slowest_mode() or 0.0) > 0.0
        assert (dice.slowest_mode() or 0.0) > 0.0
    at = {"discount": 5 / 6}
    assert oracle.gradient_cop_td_system(problem, **at).slowest_mode() == 0.0
    assert (oracle.gradient_cop_td_system(problem, ridge=1e-3, **at).slowest_mode() or 0.0) > 0.0
    assert (oracle.gradient_dice_system(problem, **at).slowest_mode() or 0.0) > 0.0
