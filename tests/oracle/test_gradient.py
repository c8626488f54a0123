"""The gradient, the limiting update and the bias agree with what JAX differentiates."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, strategies as st

from emphatic import oracle, problems

from ..plainly import plainly
from ..strategies import COMPILED, problems_and_targets, random_softmax, SEEDS


def _objective_in_jax(problem, policy):
    """J through the linear solve, to be differentiated by JAX."""
    p = jnp.asarray(problem.mdp.transition)
    gamma = jnp.broadcast_to(jnp.asarray(problem.mdp.discount), p.shape)
    r = jnp.broadcast_to(jnp.asarray(problem.mdp.reward), p.shape)
    weight = jnp.asarray(oracle.stationary(problem) * problem.interest)

    def objective(theta):
        pi = policy(theta)
        gP = jnp.einsum("sa,sat,sat->st", pi, p, gamma)
        return weight @ jnp.linalg.solve(
            jnp.eye(len(p)) - gP, jnp.einsum("sa,sat,sat->s", pi, p, r)
        )

    return objective


@COMPILED
@given(problems_and_targets(), SEEDS)
def test_policy_gradient_is_the_gradient_of_the_objective(pair, seed):
    """Against `jax.grad` through the linear solve, and against finite differences."""
    problem, _ = pair
    policy, theta = random_softmax(problem, seed)
    gradient = oracle.policy_gradient(problem, policy, theta)
    exact = jax.grad(_objective_in_jax(problem, policy))(jnp.asarray(theta))
    scale = 1.0 + np.abs(exact).max()
    np.testing.assert_allclose(gradient / scale, exact / scale, atol=1e-10)

    step, direction = 1e-5, np.random.default_rng(seed + 1).normal(size=4)
    ahead, behind = (
        oracle.objective(problem, np.asarray(policy(theta + sign * step * direction)))
        for sign in (1, -1)
    )
    difference = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(difference / scale, gradient @ direction / scale, atol=1e-6)


def test_policy_gradient_of_a_nonlinear_policy_is_a_pytree_like_theta():
    """On a sparse problem too, where nothing is densified."""
    problem = problems.grid(4, 3)
    rng = np.random.default_rng(0)
    theta = {"hidden": rng.normal(size=(12, 5)), "out": rng.normal(size=(5, 4))}

    def policy(theta):
        return jax.nn.softmax(jnp.tanh(theta["hidden"]) @ theta["out"], axis=1)

    gradient = oracle.policy_gradient(problem, policy, theta)
    assert {key: leaf.shape for key, leaf in gradient.items()} == {"hidden": (12, 5), "out": (5, 4)}
    moved = {"hidden": theta["hidden"].copy(), "out": theta["out"]}
    moved["hidden"][3, 2] += 1e-6
    before, after = (oracle.objective(problem, np.asarray(policy(t))) for t in (theta, moved))
    np.testing.assert_allclose((after - before) / 1e-6, gradient["hidden"][3, 2], rtol=1e-4)


@COMPILED
@given(problems_and_targets(), SEEDS, st.floats(1e-3, 1.0))
def test_limiting_update_is_the_mean_actor_step_with_converged_critics(pair, seed, ridge):
    r"""$\mathbb E[\rho_t(w^\top x_t)(u^\top\tilde x_t)\nabla\log\pi(A_t|S_t)]$ (Algorithm 1)."""
    problem, _ = pair
    policy, theta = random_softmax(problem, seed)
    target = np.asarray(policy(theta))
    w = np.split(oracle.gem_system(problem, target, ridge).solution(), 2)[1]
    u = np.split(oracle.gq2_system(problem, target, ridge).solution(), 2)[1]
    pi = jnp.asarray(target)

    def actor_step(sample):
        y = problem.view(pi[sample.state], pi[sample.state_next], sample)
        score = jax.grad(lambda t: jnp.log(policy(t)[sample.state, sample.action]))(
            jnp.asarray(theta)
        )
        return y.rho * (y.x @ w) * (y.xa @ u) * score

    expected = oracle.expectation(problem, actor_step)
    update = oracle.limiting_update(problem, policy, theta, ridge)
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(update / scale, expected / scale, atol=1e-10)
    gradient = oracle.policy_gradient(problem, policy, theta)
    np.testing.assert_allclose(
        oracle.bias(problem, policy, theta, ridge) / scale, (gradient - update) / scale, atol=1e-12
    )


@given(problems_and_targets(), SEEDS)
def test_exact_critics_leave_no_bias(pair, seed):
    problem, _ = pair
    states, actions = problem.behavior.shape
    eye = np.eye(states * actions).reshape(states, actions, -1)
    problem = dataclasses.replace(problem, x=np.eye(states), xa=eye)
    policy, theta = random_softmax(problem, seed)
    gradient = oracle.policy_gradient(problem, policy, theta)
    bias = oracle.bias(problem, policy, theta, ridge=0.0)
    np.testing.assert_allclose(bias, 0.0, atol=1e-6 * (1.0 + np.abs(gradient).max()))


@given(problems_and_targets(varying=False), st.floats(0.0, 1.0))
def test_bias_terms_are_those_of_proposition_3(pair, weight):
    r"""And where $F$ is positive semidefinite they bound $\|m_\pi - Xw^*(0)\|_D$ (its proof)."""
    problem, other = pair
    target = 0.9 * (weight * other + (1 - weight) * problem.behavior) + 0.1 * problem.behavior
    is_, terms = plainly(problem, target), oracle.bias_terms(problem, target)
    law = oracle.stationary(problem, target)
    kappa = np.linalg.cond(np.diag(np.sqrt(law / is_.d)))
    joint = (law[:, None] * target).ravel() / np.diag(is_.D_actions)
    kappa_actions = np.linalg.cond(np.diag(np.sqrt(joint)))
    gamma = problem.mdp.discount
    np.testing.assert_allclose(terms.emphasis_condition, kappa, rtol=1e-9)
    np.testing.assert_allclose(terms.value_condition, kappa_actions, rtol=1e-9)
    assert terms.emphasis_factor is not None
    assert terms.value_factor is not None
    np.testing.assert_allclose(terms.emphasis_factor, (1 + gamma * kappa) / (1 - gamma), rtol=1e-9)
    np.testing.assert_allclose(
        terms.value_factor, (1 + gamma * kappa_actions) / (1 - gamma), rtol=1e-9
    )

    def distance(x, D, y):
        root = np.sqrt(np.diag(D))
        best = np.linalg.lstsq(root[:, None] * x, root * y, rcond=None)[0]
        return np.linalg.norm(root * (y - x @ best))

    m, q = oracle.emphasis(problem, target), oracle.action_values(problem, target).ravel()
    np.testing.assert_allclose(terms.emphasis_error, distance(is_.x, is_.D, m), atol=1e-9)
    np.testing.assert_allclose(terms.value_error, distance(is_.xa, is_.D_actions, q), atol=1e-9)

    C, cross = is_.x.T @ is_.D @ is_.x, is_.x.T @ is_.P.T @ is_.D @ is_.x
    F = np.block([[C, cross], [cross.T, C]])
    if np.linalg.eigvalsh(F)[0] >= 0:
        w = np.split(oracle.gem_system(problem, target).solution(), 2)[1]
        error = np.sqrt(is_.d @ (m - is_.x @ w) ** 2)
        assert error <= terms.emphasis_factor * terms.emphasis_error + 1e-8


def test_bias_terms_without_a_constant_discount_have_no_factor():
    terms = oracle.bias_terms(problems.random_walk())
    assert terms.emphasis_factor is terms.value_factor is None
    assert terms.emphasis_error < 1e-12
    never = np.array([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    assert oracle.bias_terms(problems.random_walk(), never).value_condition == np.inf
