"""Expectations enumerate the stationary law."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given

from emphatic import oracle

from .plainly import plainly
from .strategies import problems_and_targets


@given(problems_and_targets())
def test_expectation_enumerates_the_stationary_law(pair):
    problem, target = pair
    is_ = plainly(problem, target)
    states, actions = problem.behavior.shape

    def fn(y):
        return {
            "one": jnp.ones(()),
            "state": jax.nn.one_hot(y.state, states),
            "next": jax.nn.one_hot(y.state_next, states),
            "action": jax.nn.one_hot(y.action, actions),
            "action_next": jax.nn.one_hot(y.action_next, actions),
            "reward": y.reward,
            "discount": y.discount,
        }

    mean = oracle.expectation(problem, fn)
    mdp, joint = problem.mdp, is_.d[:, None] * problem.behavior
    np.testing.assert_allclose(mean["one"], 1.0)
    np.testing.assert_allclose(mean["state"], is_.d, rtol=1e-9)
    np.testing.assert_allclose(mean["next"], is_.d, rtol=1e-9)
    np.testing.assert_allclose(mean["action"], joint.sum(0))
    np.testing.assert_allclose(mean["action_next"], joint.sum(0))
    np.testing.assert_allclose(mean["reward"], joint.ravel() @ is_.r_actions, atol=1e-12)
    gamma = np.einsum(
        "sa,sat,sat->", joint, mdp.transition, mdp.discount * np.ones_like(mdp.transition)
    )
    np.testing.assert_allclose(mean["discount"], gamma)
