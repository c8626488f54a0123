"""What is exact under a policy that changes, as JAX functions of its probabilities."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._markov import as_dense
from ..mdp import Problem

_BATCH = 512  # parameters at once


def _law(problem: Problem, pi: Any) -> tuple[Any, Any, Any]:
    r"""$\gamma P_\pi$, and the discounted kernel and mean rewards of (s, a)."""
    states, actions = problem.behavior.shape
    kernel = jnp.asarray(as_dense(problem.mdp.discounted()), pi.dtype)
    kernel = kernel.reshape(states, actions, states)
    reward = jnp.asarray(problem.mdp.mean_reward, pi.dtype)
    return jnp.einsum("sa,sat->st", pi, kernel), kernel, reward


def exact_emphasis(problem: Problem) -> Callable[[Any], Any]:
    r"""From (s, a) probabilities to $m_\pi = D^{-1}(I - \gamma P_\pi^\top)^{-1}Di$, a JAX function.

    As the emphasis of [actor_critic] it gives the ablation that knows the emphasis of the policy
    of the moment. It solves a linear system at every step: such agents run by scan.
    """

    def emphasis(pi: Any) -> Any:
        chain, _, _ = _law(problem, pi)
        d, i = (jnp.asarray(each, pi.dtype) for each in (problem.stationary, problem.interest))
        return jnp.linalg.solve(jnp.eye(len(d), dtype=pi.dtype) - chain.T, d * i) / d

    return emphasis


def exact_action_values(problem: Problem) -> Callable[[Any], Any]:
    r"""From (s, a) probabilities to $q_\pi = \tilde r + \gamma P v_\pi$, a JAX function."""

    def action_values(pi: Any) -> Any:
        chain, kernel, reward = _law(problem, pi)
        v = jnp.linalg.solve(jnp.eye(len(chain), dtype=pi.dtype) - chain, (pi * reward).sum(1))
        return reward + kernel @ v

    return action_values


def track(
    problem: Problem, policy: Any, theta: Any, ridge: float, w: Any = None, u: Any = None
) -> dict[str, np.ndarray]:
    r"""What the path of an agent means: exact quantities at recorded parameters, in float64.

    **Arguments:**

    - `problem`: The problem, of a size for which dense matrices are no burden.
    - `policy`: The policy, a JAX function from theta to (s, a) probabilities.
    - `theta`: Parameters, an array of (..., n) with any leading axes.
    - `ridge`: The ridge $\eta > 0$ of the critics.
    - `w`, `u`: The weights of GEM and GQ2 at the same times, (..., k) and (..., l), or None.

    **Returns:**

    By name, arrays of the leading axes: `objective` $J(\theta)$, `gradient_norm`
    $\|\nabla J(\theta)\|$, `bias_norm` $\|b(\theta)\|$, and where weights are given
    `emphasis_tracking` $\|w - w^*_\theta(\eta)\|$ and `critic_tracking` $\|u -
    u^*_\theta(\eta)\|$. All are NaN where a parameter is not finite.
    """
    theta = np.asarray(theta, np.float64)
    leading = theta.shape[:-1]
    x, xa = as_dense(problem.x), as_dense(problem.xa_rows)
    given = {"theta": theta, "w": w, "u": u}
    sizes = {"theta": theta.shape[-1], "w": x.shape[1], "u": xa.shape[1]}
    flat = {}
    for name, values in given.items():
        if values is None:
            continue
        if np.shape(values) != (*leading, sizes[name]):
            raise ValueError(
                f"{name}: got shape {np.shape(values)}; {(*leading, sizes[name])} is required"
            )
        flat[name] = np.asarray(values, np.float64).reshape(-1, sizes[name])
    with jax.enable_x64(True):
        of = jax.jit(jax.vmap(_quantities(problem, policy, ridge, x, xa)))
        parts = []
        for first in range(0, len(flat["theta"]), _BATCH):
            batch = {name: values[first : first + _BATCH] for name, values in flat.items()}
            parts.append(jax.tree.map(np.asarray, of(batch)))
    return {name: np.concatenate([p[name] for p in parts]).reshape(leading) for name in parts[0]}


def _quantities(problem: Problem, policy: Any, ridge: float, x: Any, xa: Any):
    """The quantities of one set of parameters."""
    emphasis_of, values_of = exact_emphasis(problem), exact_action_values(problem)
    law = problem.stationary, problem.stationary_actions.ravel(), problem.interest
    d, joint, i, x, xa = (jnp.asarray(each) for each in (*law, x, xa))
    C, C_actions = x.T @ (d[:, None] * x), xa.T @ (joint[:, None] * xa)

    def weights(C: Any, A: Any, b: Any) -> Any:
        """The second half of the solution of the mean field, (A'C^{-1}A + eta I)^{-1}A'C^{-1}b."""
        eye = jnp.eye(len(C))
        system = jnp.block([[C, A], [-A.T, ridge * eye]])
        return jnp.linalg.solve(system, jnp.concatenate([b, jnp.zeros(len(C))]))[len(C) :]

    def quantities(given: dict[str, Any]) -> dict[str, Any]:
        pi, pull = jax.vjp(policy, given["theta"])
        chain, kernel, reward = _law(problem, pi)
        m, q = emphasis_of(pi), values_of(pi)
        A = (x - chain @ x).T @ (d[:, None] * x)
        w = weights(C, A, x.T @ (d * i))
        average = jnp.einsum("sa,sal->sl", pi, xa.reshape(*pi.shape, -1))
        ahead = jnp.einsum("sat,tl->sal", kernel, average).reshape(xa.shape)
        u = weights(
            C_actions, xa.T @ (joint[:, None] * (xa - ahead)), xa.T @ (joint * reward.ravel())
        )
        (gradient,) = pull((d * m)[:, None] * q)
        (followed,) = pull((d * (x @ w))[:, None] * (xa @ u).reshape(pi.shape))
        found = {
            "objective": (d * i) @ (pi * q).sum(1),
            "gradient_norm": jnp.linalg.norm(gradient),
            "bias_norm": jnp.linalg.norm(gradient - followed),
        }
        if "w" in given:
            found["emphasis_tracking"] = jnp.linalg.norm(given["w"] - w)
        if "u" in given:
            found["critic_tracking"] = jnp.linalg.norm(given["u"] - u)
        finite = jnp.isfinite(given["theta"]).all()
        return {name: jnp.where(finite, value, jnp.nan) for name, value in found.items()}

    return quantities
