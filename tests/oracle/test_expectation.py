"""Expectations enumerate the stationary law."""

import dataclasses
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given

from emphatic import oracle

from ..plainly import plainly
from ..strategies import build, COMPILED, problems_and_targets


@COMPILED
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
            "step": jnp.zeros((states, actions, states, actions))
            .at[y.state, y.action, y.state_next, y.action_next]
            .set(1.0),
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
    step = np.einsum("sa,sat,tb->satb", joint, mdp.transition, problem.behavior)
    np.testing.assert_allclose(mean["step"], step, rtol=1e-9, atol=1e-15)


def test_expectation_sums_over_chunks_under_the_stationary_law(monkeypatch):
    """In many chunks, and whatever the law of the first state is."""
    problem, _ = build((5, 3, 5, 4), 0, False)

    def fn(y):
        return jax.nn.one_hot(y.state, 5)

    monkeypatch.setattr(import_module("emphatic.oracle.expectation"), "CHUNK", 7)
    elsewhere = dataclasses.replace(problem, start=np.eye(5)[0])
    np.testing.assert_allclose(oracle.expectation(elsewhere, fn), problem.stationary, rtol=1e-12)
