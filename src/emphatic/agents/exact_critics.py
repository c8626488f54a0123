"""Exact critics: JAX functions of the current policy that stand in for what an agent learns."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Float, Integer

from ..mdp import Problem
from ..types import Array

Probabilities: TypeAlias = Float[Array, "s a"]


def exact_emphasis(problem: Problem) -> Callable[[Probabilities], Float[Array, " s"]]:
    r"""From (s, a) probabilities to $m_\pi = D^{-1}(I - \gamma P_\pi^\top)^{-1}Di$, a JAX function.

    As the emphasis of [actor_critic] it gives the ablation that knows the emphasis of the current
    policy. It solves a linear system at every step: such agents run by scan.
    """

    def emphasis(pi: Probabilities) -> Float[Array, " s"]:
        d, i = (jnp.asarray(array, pi.dtype) for array in (problem.stationary, problem.interest))
        kernel = jnp.asarray(problem.mdp.dense_discounted(), pi.dtype)
        return _solve(jnp.einsum("sa,sat->st", pi, kernel).T, d * i) / d

    return emphasis


def exact_action_values(problem: Problem) -> Callable[[Probabilities], Probabilities]:
    r"""From (s, a) probabilities to $q_\pi = \tilde r + \gamma P v_\pi$, a JAX function."""

    def action_values(pi: Probabilities) -> Probabilities:
        kernel = jnp.asarray(problem.mdp.dense_discounted(), pi.dtype)
        reward = jnp.asarray(problem.mdp.mean_reward, pi.dtype)
        return reward + kernel @ _solve(jnp.einsum("sa,sat->st", pi, kernel), (pi * reward).sum(1))

    return action_values


def _solve(chain: Float[Array, "s s"], b: Float[Array, " s"]) -> Float[Array, " s"]:
    r"""$(I - Q)^{-1}b$ for a chain or its transpose: an M-matrix needs no pivots.

    By our own elimination, since LAPACK's, called for many lanes by few threads, can wait forever.
    """
    size = len(b)
    rows = jnp.concatenate([jnp.eye(size, dtype=b.dtype) - chain, b[:, None]], axis=1)

    def eliminate(
        k: Integer[jax.Array, ""], rows: Float[jax.Array, "s n"]
    ) -> Float[jax.Array, "s n"]:
        row = rows[k] / rows[k, k]
        return (rows - jnp.outer(rows[:, k], row)).at[k].set(row)

    return jax.lax.fori_loop(0, size, eliminate, rows)[:, -1]
