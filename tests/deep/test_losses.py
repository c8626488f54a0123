"""Losses equal what one computes by hand, and the emphasis converges to the oracle's."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from emphatic import oracle, problems
from emphatic.deep.losses import (
    actor_loss,
    density_loss,
    emphasis_loss,
    masked_emphasis_loss,
    td_error,
    value_loss,
)
from emphatic.deep.networks import positive

from ..strategies import build


def gradients(loss, *args):
    return np.array(jax.grad(loss, argnums=tuple(range(len(args))))(*args))


def test_the_value_loss_by_hand():
    # delta = 1 + 0.9 * 2 - 0.5 = 2.3, and 0.5 * 0.4 * 2.3^2 = 1.058
    args = (0.5, 1.0, 0.9, 2.0, 0.4)
    np.testing.assert_allclose(td_error(*args[:4]), 2.3)
    np.testing.assert_allclose(value_loss(*args), 1.058)
    np.testing.assert_allclose(gradients(value_loss, *args), [-0.92, 0, 0, 0, 0])


def test_the_emphasis_loss_by_hand():
    # 2 + 1 * 3 - 1.5 = 3.5 within an episode, 2 - 1.5 = 0.5 where it ends
    np.testing.assert_allclose(emphasis_loss(1.5, 2.0, 1.0, 3.0), 6.125)
    np.testing.assert_allclose(gradients(emphasis_loss, 1.5, 2.0, 1.0, 3.0), [-3.5, 0, 0, 0])
    np.testing.assert_allclose(emphasis_loss(1.5, 2.0, 0.0, 3.0), 0.125)
    np.testing.assert_allclose(gradients(emphasis_loss, 1.5, 2.0, 0.0, 3.0), [-0.5, 0, 0, 0])


def test_the_masked_emphasis_loss_by_hand():
    """The same within an episode; where one ends it is constant, and nothing is learned from it."""
    np.testing.assert_allclose(masked_emphasis_loss(1.5, 2.0, 1.0, 3.0), 6.125)
    np.testing.assert_allclose(gradients(masked_emphasis_loss, 1.5, 2.0, 1.0, 3.0), [-3.5, 0, 0, 0])
    np.testing.assert_allclose(masked_emphasis_loss(1.5, 2.0, 0.0, 3.0), 12.5)
    np.testing.assert_allclose(gradients(masked_emphasis_loss, 1.5, 2.0, 0.0, 3.0), [0, 0, 0, 0])


def test_the_actors_loss_by_hand():
    # -(3 * 0.5 * 2) * (-1.2) - 0.01 * 0.7 = 3.6 - 0.007
    args = (-1.2, 0.7, 3.0, 0.5, 2.0, 0.01)
    np.testing.assert_allclose(actor_loss(*args), 3.593)
    np.testing.assert_allclose(gradients(actor_loss, *args)[:5], [-3.0, -0.01, 0, 0, 0])


def test_the_density_loss_by_hand():
    # 0.5 * (0.3 + 0.8 - 1.5)^2 + 0.1 * (1.2 - 1) * 1.5 = 0.08 + 0.03
    args = (1.5, 0.2, 0.3, 0.1, 1.2)
    np.testing.assert_allclose(density_loss(*args), 0.11)
    np.testing.assert_allclose(gradients(density_loss, *args)[[0, 2, 4]], [0.42, 0, 0])


def test_the_normaliser_descends_the_squared_distance_of_the_mean_from_one():
    """Leaving one out makes it unbiased, by enumeration of all batches of two."""
    c, p = jnp.array([0.2, 1.0, 3.5]), np.array([0.5, 0.3, 0.2])

    def batch_loss(c, j, k):
        pairs = ((j, k), (k, j))
        return sum(density_loss(c[a], 0.0, 1.0, 1.0, c[b]) for a, b in pairs) / 2

    def fit_loss(c, j, k):
        return sum(density_loss(c[a], 0.0, 1.0, 0.0, c[a]) for a in (j, k)) / 2

    found: Any = sum(
        p[j] * p[k] * (jax.grad(batch_loss)(c, j, k) - jax.grad(fit_loss)(c, j, k))
        for j in range(3)
        for k in range(3)
    )
    expected = jax.grad(lambda c: 0.5 * (jnp.asarray(p) @ c - 1.0) ** 2)(c)
    np.testing.assert_allclose(found, expected)


def fixed_point(problem, target, loss):
    """Where the semi-gradient of a tabular network ends, by the exact mean over transitions."""
    d, i, p = problem.stationary, problem.interest, problem.mdp.transition
    s, a, s_next = (axis.ravel() for axis in np.indices(p.shape))
    weight = jnp.asarray(d[s] * problem.behavior[s, a] * p.ravel())
    gamma = jnp.asarray(np.broadcast_to(problem.mdp.outcome(problem.mdp.discount), s.shape))
    rho, interest = jnp.asarray((target / problem.behavior)[s, a]), jnp.asarray(i[s_next])
    x, x_next = jnp.eye(len(d))[s], jnp.eye(len(d))[s_next]

    def mean_loss(layers, frozen):
        m_next = jax.vmap(positive, (None, 0))(layers, x_next)
        back = rho * jax.vmap(positive, (None, 0))(frozen, x)
        return weight @ jax.vmap(loss)(m_next, interest, gamma, back)

    def descend(_, w):
        layers = ((w, jnp.zeros(1)),)
        gradient = jax.grad(mean_loss)(layers, layers)[0][0]
        return w - gradient / (jnp.asarray(d)[:, None] * jax.nn.sigmoid(w) ** 2)

    descended = jax.jit(lambda w: jax.lax.fori_loop(0, 2000, descend, w))
    return np.asarray(jax.nn.softplus(descended(jnp.ones((len(d), 1)))[:, 0]))


def test_the_semi_gradient_emphasis_is_the_oracles():
    """On one-hot observations, with a discount that varies and with episodes that end."""
    varying, target = build((5, 3, 5, 4), 5, varying=True)
    varying = dataclasses.replace(varying, interest=np.array([0.5, 1.0, 2.0, 1.5, 0.7]))
    episodic = problems.random_walk()
    for problem, pi in ((varying, target), (episodic, episodic.target)):
        found = fixed_point(problem, pi, emphasis_loss)
        np.testing.assert_allclose(found, oracle.emphasis(problem, pi), rtol=1e-6)


def test_the_masked_loss_does_not_know_where_episodes_start():
    """Every restart is to the middle: masked, its m is that of the transitions within episodes."""
    problem = problems.random_walk()
    found, m = fixed_point(problem, problem.target, masked_emphasis_loss), oracle.emphasis(problem)
    assert abs(found[2] - m[2]) > 0.1 * m[2]
