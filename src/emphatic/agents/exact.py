"""What is exact under a policy that changes, as JAX functions of its probabilities."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._markov import as_dense
from .._names import unknown
from ..mdp import Problem

_BATCH = 512  # parameters at once
FIELDS = ("exact-gradient", "cof-pac", "ace", "off-pac")
"""The mean fields that [follow] knows."""


class _Law(NamedTuple):
    """A problem as dense arrays, of a size for which they are no burden."""

    d: Any  # d_mu
    interest: Any
    kernel: Any  # discounted, (s, a, s')
    reward: Any  # (s, a)

    def under(self, pi: Any) -> Any:
        r"""$\gamma P_\pi$."""
        return jnp.einsum("sa,sat->st", pi, self.kernel)

    def emphasis(self, pi: Any) -> Any:
        r"""$m_\pi = D^{-1}(I - \gamma P_\pi^\top)^{-1}Di$."""
        eye = jnp.eye(len(self.d), dtype=pi.dtype)
        return jnp.linalg.solve(eye - self.under(pi).T, self.d * self.interest) / self.d

    def action_values(self, pi: Any) -> Any:
        r"""$q_\pi = \tilde r + \gamma Pv_\pi$."""
        eye = jnp.eye(len(self.d), dtype=pi.dtype)
        v = jnp.linalg.solve(eye - self.under(pi), (pi * self.reward).sum(1))
        return self.reward + self.kernel @ v


def _law(problem: Problem, dtype: Any = np.float64) -> _Law:
    """The law of a problem in a working type."""
    kernel = as_dense(problem.mdp.discounted()).reshape(*problem.behavior.shape, -1)
    arrays = problem.stationary, problem.interest, kernel, problem.mdp.mean_reward
    return _Law(*(jnp.asarray(array, dtype) for array in arrays))


def exact_emphasis(problem: Problem) -> Callable[[Any], Any]:
    r"""From (s, a) probabilities to $m_\pi = D^{-1}(I - \gamma P_\pi^\top)^{-1}Di$, a JAX function.

    As the emphasis of [actor_critic] it gives the ablation that knows the emphasis of the policy
    of the moment. It solves a linear system at every step: such agents run by scan.
    """
    return lambda pi: _law(problem, pi.dtype).emphasis(pi)


def exact_action_values(problem: Problem) -> Callable[[Any], Any]:
    r"""From (s, a) probabilities to $q_\pi = \tilde r + \gamma P v_\pi$, a JAX function."""
    return lambda pi: _law(problem, pi.dtype).action_values(pi)


class _Critics(NamedTuple):
    """The features of both critics, and the inverses of their Gram matrices."""

    mu: Any
    x: Any
    xa: Any
    inverse: Any  # of C
    inverse_actions: Any  # of C~


def _critics(problem: Problem) -> _Critics:
    x, xa = as_dense(problem.x), as_dense(problem.xa_rows)
    laws = problem.stationary, problem.stationary_actions.ravel()
    inverses = [
        np.linalg.pinv(each.T @ (d[:, None] * each), hermitian=True)
        for each, d in zip((x, xa), laws, strict=True)
    ]
    return _Critics(*(jnp.asarray(array) for array in (problem.behavior, x, xa, *inverses)))


def _weights(inverse: Any, A: Any, b: Any, ridge: Any) -> Any:
    r"""$(A^\top C^{-1}A + \eta I)^{-1}A^\top C^{-1}b$, unique even where C is singular."""
    back = A.T @ inverse
    return jnp.linalg.solve(back @ A + ridge * jnp.eye(len(b)), back @ b)


def _limits(policy: Any, law: _Law, critics: _Critics, ridge: Any, theta: Any):
    """J, the limits of both critics, and the fields that agents follow."""
    pi, pull = jax.vjp(policy, theta)
    m, q, d, x, xa = law.emphasis(pi), law.action_values(pi), law.d, critics.x, critics.xa
    joint = (d[:, None] * critics.mu).ravel()
    A = (x - law.under(pi) @ x).T @ (d[:, None] * x)
    average = jnp.einsum("sa,sal->sl", pi, xa.reshape(*pi.shape, -1))
    ahead = jnp.einsum("sat,tl->sal", law.kernel, average).reshape(xa.shape)
    A_actions = xa.T @ (joint[:, None] * (xa - ahead))
    w = _weights(critics.inverse, A, x.T @ (d * law.interest), ridge)
    u = _weights(critics.inverse_actions, A_actions, xa.T @ (joint * law.reward.ravel()), ridge)
    q_hat = (xa @ u).reshape(pi.shape)
    followed = (m, q), (x @ w, q_hat), (m, q_hat), (law.interest, q_hat)
    fields = {
        name: pull((d * emphasis)[:, None] * values)[0]
        for name, (emphasis, values) in zip(FIELDS, followed, strict=True)
    }
    return (d * law.interest) @ (pi * q).sum(1), w, u, fields


@partial(jax.jit, static_argnames=("policy", "field"))
def _slope(policy: Any, field: str, law: _Law, critics: _Critics, ridge: Any, theta: Any) -> Any:
    return _limits(policy, law, critics, ridge, theta)[3][field]


@partial(jax.jit, static_argnames="policy")
def _quantities(
    policy: Any, law: _Law, critics: _Critics, ridge: Any, batch: dict[str, Any]
) -> dict[str, Any]:
    def quantities(given: dict[str, Any]) -> dict[str, Any]:
        objective, w, u, fields = _limits(policy, law, critics, ridge, given["theta"])
        gradient = fields["exact-gradient"]
        found = {
            "objective": objective,
            "gradient_norm": jnp.linalg.norm(gradient),
            "bias_norm": jnp.linalg.norm(gradient - fields["cof-pac"]),
        }
        if "w" in given:
            found["emphasis_tracking"] = jnp.linalg.norm(given["w"] - w)
        if "u" in given:
            found["critic_tracking"] = jnp.linalg.norm(given["u"] - u)
        finite = jnp.isfinite(given["theta"]).all()
        return {name: jnp.where(finite, value, jnp.nan) for name, value in found.items()}

    return jax.vmap(quantities)(batch)


def track(
    problem: Problem, policy: Any, theta: Any, ridge: float, w: Any = None, u: Any = None
) -> dict[str, np.ndarray]:
    r"""What the path of an agent means: exact quantities at recorded parameters, in float64.

    The policy itself at such parameters is `jax.vmap(policy)(theta)`.

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
    given = {"theta": theta, "w": w, "u": u}
    sizes = {"theta": theta.shape[-1], "w": problem.x.shape[1], "u": problem.xa_rows.shape[1]}
    flat = {}
    for name, values in given.items():
        if values is None:
            continue
        if np.shape(values) != (*leading, sizes[name]):
            raise ValueError(
                f"{name}: got shape {np.shape(values)}; {(*leading, sizes[name])} is required"
            )
        flat[name] = np.asarray(values, np.float64).reshape(-1, sizes[name])
    count, parts = len(flat["theta"]), []
    size = min(_BATCH, count)
    with jax.enable_x64(True):
        arrays = _law(problem), _critics(problem)
        for first in range(0, count, size):
            chosen = np.arange(first, first + size) % count  # batches of one size: compiled once
            batch = {name: values[chosen] for name, values in flat.items()}
            parts.append(jax.tree.map(np.asarray, _quantities(policy, *arrays, ridge, batch)))
    return {
        name: np.concatenate([part[name] for part in parts])[:count].reshape(leading)
        for name in parts[0]
    }


def follow(
    problem: Problem, policy: Any, theta: Any, field: str, times: Any, ridge: float = 0.0
) -> np.ndarray:
    r"""Where a mean field leads: the solution of $\dot\theta = g(\theta)$ from given parameters.

    An agent with step sizes $\beta_t$ and critics that keep up moves along it, with
    $\sum_{k<t}\beta_k$ as its time. The fields, each $\sum_sd_\mu(s)\hat m(s)\sum_a\hat q(s,a)
    \nabla\pi_\theta(a|s)$:

    - `exact-gradient`: $\nabla J$, with $m_\pi$ and $q_\pi$;
    - `cof-pac`: $Xw^*_\theta(\eta)$ and $\tilde Xu^*_\theta(\eta)$, the limits of GEM and GQ2;
    - `ace`: $m_\pi$, the mean of the trace, and $\tilde Xu^*_\theta(\eta)$;
    - `off-pac`: the interest $i$ and $\tilde Xu^*_\theta(\eta)$.

    **Arguments:**

    - `problem`: The problem, of a size for which dense matrices are no burden.
    - `policy`: The policy, a JAX function from theta to (s, a) probabilities.
    - `theta`: The first parameters, (n,).
    - `field`: Its name.
    - `times`: When to look, increasing and not negative.
    - `ridge`: The ridge $\eta$ of the critics.

    **Returns:**

    The parameters at the times, (times, n), in float64.
    """
    from scipy.integrate import solve_ivp

    if field not in FIELDS:
        raise unknown("field", field, FIELDS)
    times = np.atleast_1d(np.asarray(times, np.float64))
    if times[0] < 0 or (np.diff(times) <= 0).any():
        raise ValueError(f"times: got {times}; times that increase from 0 on are required")
    with jax.enable_x64(True):
        arrays = _law(problem), _critics(problem), ridge
        found = solve_ivp(
            lambda _, point: np.asarray(_slope(policy, field, *arrays, point)),
            (0.0, times[-1]),
            np.asarray(theta, np.float64),
            method="LSODA",  # slow at first, and stiff at the end
            t_eval=times,
            rtol=1e-7,
            atol=1e-9,
        )
    if not found.success:
        raise ValueError(f"field: {field} cannot be followed: {found.message}")
    return found.y.T
