"""The linear systems are the mean fields of the updates that the paper prints."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from emphatic import oracle, problems

from ..plainly import plainly
from ..strategies import as_sparse, COMPILED, problems_and_targets, SEEDS


@given(problems_and_targets(), st.floats(1e-3, 1.0))
def test_mean_matrices_are_positive_definite_with_a_ridge(pair, ridge):
    r"""$d^\top Gd \ge \min(\lambda_{\min}(C), \eta)\|d\|^2$: $G$ is invertible (Lemma 3)."""
    problem, target = pair
    is_ = plainly(problem, target)
    for make, x, D in (
        (oracle.gem_system, is_.x, is_.D),
        (oracle.gq2_system, is_.xa, is_.D_actions),
    ):
        G = make(problem, target, ridge).matrix
        smallest = np.linalg.eigvalsh(G + G.T)[0] / 2
        bound = min(np.linalg.eigvalsh(x.T @ D @ x)[0], ridge)
        np.testing.assert_allclose(smallest, bound, rtol=1e-9)
        assert np.linalg.slogdet(G)[1] > -np.inf


def _updates(problem, target, ridge, d):
    """The learners' mean increments, written as the paper prints them."""
    emphasis = jnp.asarray(oracle.emphasis(problem, target))
    pi = jnp.asarray(target)

    def gem(y, s):
        kappa, w = d["state"]
        delta = y.interest_next + y.discount * y.rho * y.x @ w - y.x_next @ w
        move = (y.x_next - y.discount * y.rho * y.x) * (y.x_next @ kappa) - ridge * w
        return jnp.concatenate([(delta - y.x_next @ kappa) * y.x_next, move])

    def gq2(y, s):
        kappa, u = d["action"]
        delta = y.reward + y.discount * y.rho_next * y.xa_next @ u - y.xa @ u
        move = (y.xa - y.discount * y.rho_next * y.xa_next) * (y.xa @ kappa) - ridge * u
        return jnp.concatenate([(delta - y.xa @ kappa) * y.xa, move])

    def delta(y, nu):
        return y.reward + y.discount * y.x_next @ nu - y.x @ nu

    def gtd2(y, s):
        kappa, nu = d["state"]
        move = y.rho * (y.x - y.discount * y.x_next) * (y.x @ kappa)
        return jnp.concatenate([(y.rho * delta(y, nu) - y.x @ kappa) * y.x, move])

    def tdc(y, s):
        kappa, nu = d["state"]
        move = y.rho * (delta(y, nu) * y.x - y.discount * y.x_next * (y.x @ kappa))
        return jnp.concatenate([(y.rho * delta(y, nu) - y.x @ kappa) * y.x, move])

    def tdrc(y, s):
        kappa, _ = d["state"]
        return tdc(y, s) - jnp.concatenate([ridge * kappa, 0.0 * kappa])

    def htd(y, s):
        kappa, nu = d["state"]
        back, error = y.x - y.discount * y.x_next, y.rho * delta(y, nu) * y.x
        move = error + (y.rho - 1.0) * back * (y.x @ kappa)
        return jnp.concatenate([error - back * (y.x @ kappa), move])

    def td(y, s):
        return y.rho * delta(y, d["state"][1]) * y.x

    def etd(y, s):
        return emphasis[s.state] * td(y, s)

    def reverse_td(y, s):
        w = d["state"][1]
        return (y.interest_next + y.discount * y.rho * y.x @ w - y.x_next @ w) * y.x_next

    def all_of_them(s):
        y = problem.view(pi[s.state], pi[s.state_next], s)
        return {f.__name__: f(y, s) for f in (gem, gq2, gtd2, tdc, tdrc, htd, td, etd, reverse_td)}

    return oracle.expectation(problem, all_of_them)


@COMPILED
@given(problems_and_targets(), st.floats(0.0, 1.0), SEEDS, st.booleans())
def test_systems_are_the_mean_fields_of_the_printed_updates(pair, ridge, seed, make_sparse):
    """Enumerating every (s, a, s', a') gives the drift of each system, sparse or dense."""
    problem, target = pair
    rng = np.random.default_rng(seed)
    d = {
        "state": rng.normal(size=(2, problem.x.shape[1])),
        "action": rng.normal(size=(2, problem.xa.shape[-1])),
    }
    if make_sparse:
        problem = as_sparse(problem)
    mean = _updates(problem, target, ridge, d)
    both, actions, last = d["state"].ravel(), d["action"].ravel(), d["state"][1]
    for name, system, point in (
        ("gem", oracle.gem_system(problem, target, ridge), both),
        ("gq2", oracle.gq2_system(problem, target, ridge), actions),
        ("gtd2", oracle.gtd2_system(problem, target), both),
        ("tdc", oracle.tdc_system(problem, target), both),
        ("tdrc", oracle.tdrc_system(problem, target, ridge), both),
        ("htd", oracle.htd_system(problem, target), both),
        ("td", oracle.td_system(problem, target), last),
        ("etd", oracle.etd_system(problem, target), last),
        ("reverse_td", oracle.reverse_td_system(problem, target), last),
    ):
        scale = 1.0 + np.abs(mean[name]).max()
        np.testing.assert_allclose(mean[name] / scale, system.drift(point) / scale, atol=1e-12)


@given(problems_and_targets())
def test_limit_without_a_ridge_is_a_projected_fixed_point(pair):
    r"""$\Pi\hat{\mathcal T}(Xw^*(0)) = Xw^*(0)$ (Proposition 2)."""
    problem, target = pair
    system = oracle.gem_system(problem, target)
    assume(np.linalg.cond(system.matrix) < 1e8)
    is_, w = plainly(problem, target), np.split(system.solution(), 2)[1]
    m = is_.x @ w
    mapped = is_.i + is_.gP.T @ (is_.d * m) / is_.d
    scale = np.abs(m).max()
    np.testing.assert_allclose(oracle.projection(problem) @ mapped / scale, m / scale, atol=1e-9)


@given(problems_and_targets(), st.floats(1e-6, 1.0))
def test_limits_with_a_ridge_have_the_printed_closed_form(pair, ridge):
    r"""$w^*(\eta) = (A^\top C^{-1}A + \eta I)^{-1}A^\top C^{-1}X^\top Di$, and $u^*$ alike."""
    problem, target = pair
    is_ = plainly(problem, target)
    eye = np.eye(len(is_.d))
    for x, D, A, b, system in (
        (
            is_.x,
            is_.D,
            is_.x.T @ (eye - is_.gP.T) @ is_.D @ is_.x,
            is_.x.T @ is_.D @ is_.i,
            oracle.gem_system(problem, target, ridge),
        ),
        (
            is_.xa,
            is_.D_actions,
            is_.xa.T @ is_.D_actions @ (np.eye(len(is_.xa)) - is_.gP_actions) @ is_.xa,
            is_.xa.T @ is_.D_actions @ is_.r_actions,
            oracle.gq2_system(problem, target, ridge),
        ),
    ):
        C_inverse = np.linalg.inv(x.T @ D @ x)
        expected = np.linalg.solve(
            A.T @ C_inverse @ A + ridge * np.eye(len(A)), A.T @ C_inverse @ b
        )
        found = np.split(system.solution(), 2)[1]
        scale = np.abs(expected).max() + 1e-9
        np.testing.assert_allclose(found / scale, expected / scale, atol=1e-7)


@given(problems_and_targets())
def test_with_tabular_features_every_limit_is_exact(pair):
    problem, target = pair
    states, actions = problem.behavior.shape
    eye = np.eye(states * actions).reshape(states, actions, -1)
    problem = dataclasses.replace(problem, x=np.eye(states), xa=eye)
    v, m = oracle.values(problem, target), oracle.emphasis(problem, target)
    q = oracle.action_values(problem, target).ravel()
    for system, truth in (
        (oracle.gem_system(problem, target), m),
        (oracle.reverse_td_system(problem, target), m),
        (oracle.gq2_system(problem, target), q),
        (oracle.gtd2_system(problem, target), v),
        (oracle.tdc_system(problem, target), v),
        (oracle.td_system(problem, target), v),
        (oracle.etd_system(problem, target, m + 1.0), v),
    ):
        solution = system.solution()[-len(truth) :]
        np.testing.assert_allclose(solution, truth, rtol=1e-6, atol=1e-7)


@given(problems_and_targets(), SEEDS)
def test_projection_is_the_closest_point_of_the_features(pair, seed):
    problem, target = pair
    is_ = plainly(problem, target)
    doubled = dataclasses.replace(problem, x=np.hstack([is_.x, is_.x]))  # dependent features
    for Pi, x, D in (
        (oracle.projection(problem), is_.x, is_.D),
        (oracle.projection(problem, actions=True), is_.xa, is_.D_actions),
        (oracle.projection(doubled), is_.x, is_.D),
    ):
        y = np.random.default_rng(seed).normal(size=len(x))
        closest = Pi @ y
        np.testing.assert_allclose(x.T @ D @ (y - closest), 0.0, atol=1e-12)
        np.testing.assert_allclose(Pi @ closest, closest, atol=1e-10)
        np.testing.assert_allclose(Pi.T @ y, (Pi @ np.eye(len(x))).T @ y, atol=1e-10)
        inverse = np.linalg.inv(x.T @ D @ x)
        np.testing.assert_allclose(Pi @ np.eye(len(x)), x @ inverse @ x.T @ D, atol=1e-9)


def test_a_singular_system_says_so_and_offers_the_least_norm_solution():
    """With Baird's original features the mean matrix has rank 15 of 16 even with a ridge."""
    system = oracle.gem_system(problems.baird("original"), ridge=1e-3)
    assert system.rank() == 15
    with pytest.raises(ValueError, match=r"singular.*least_norm_solution"):
        system.solution()
    shortest = system.least_norm_solution()
    np.testing.assert_allclose(system.drift(shortest), 0.0, atol=1e-10)
    null = np.linalg.svd(system.matrix)[2][-1]
    np.testing.assert_allclose(shortest @ null, 0.0, atol=1e-8)


def test_the_least_norm_solution_ignores_what_is_rounding():
    system = oracle.LinearSystem(np.diag([1.0, 0.5, 1e-14]), np.ones(3))
    assert system.rank() == 2
    np.testing.assert_allclose(system.least_norm_solution(), [1.0, 2.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("discount", [0.5, 5 / 6, 0.99])
def test_the_slowest_mode_of_td_on_the_two_states_is_their_key_matrix(discount):
    """It is (5 - 6 gamma)/2: negative where TD diverges, and 0 where it vanishes."""
    slowest = oracle.td_system(problems.two_state(discount)).slowest_mode()
    assert slowest is not None
    np.testing.assert_allclose(slowest, (5 - 6 * discount) / 2, rtol=1e-12, atol=1e-15)


def test_a_large_sparse_system_is_solved_sparse():
    """Tabular features of many states stay sparse, and the limit is still exact."""
    problem = problems.grid(40, 40, tiles=40)
    system = oracle.gem_system(problem)
    assert not isinstance(system.matrix, np.ndarray)
    w = np.split(system.solution(), 2)[1]
    np.testing.assert_allclose(w, oracle.emphasis(problem), rtol=1e-6)
    with pytest.raises(ValueError, match="at most 1000"):
        system.least_norm_solution()


def test_etd_refuses_an_emphasis_of_another_size():
    with pytest.raises(ValueError, match=r"emphasis: got shape \(3,\)"):
        oracle.etd_system(problems.baird(), emphasis=np.ones(3))


def test_a_large_ridge_on_small_features_is_not_singular():
    """With eta = 1 beside features of 1e-7 the limit exists, and is nearly 0."""
    problem = problems.baird("one-hot")
    small = dataclasses.replace(problem, x=1e-7 * problem.x)
    system = oracle.gem_system(small, ridge=1.0)
    assert system.rank() == 14
    w = np.split(system.solution(), 2)[1]
    is_ = plainly(small, np.asarray(problem.target))
    C_inverse = np.linalg.inv(small.x.T @ is_.D @ small.x)
    A = small.x.T @ (np.eye(7) - is_.gP.T) @ is_.D @ small.x
    b = A.T @ C_inverse @ small.x.T @ is_.D @ is_.i
    np.testing.assert_allclose(w, np.linalg.solve(A.T @ C_inverse @ A + np.eye(7), b), rtol=1e-9)


def test_a_matrix_that_cancels_to_rounding_is_singular():
    """At gamma = 5/6 the key matrix (5 - 6 gamma)/2 of TD on the two states is 0."""
    problem = problems.two_state(discount=5.0 / 6.0)
    for system in (oracle.td_system(problem), oracle.reverse_td_system(problem)):
        with pytest.raises(ValueError, match="singular"):
            system.solution()
