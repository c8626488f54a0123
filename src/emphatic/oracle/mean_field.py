"""What is exact under a policy that changes: as JAX functions for agents, and along their paths."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._markov import as_dense
from .._names import unknown
from ..mdp import Problem

FIELDS = ("exact-gradient", "cof-pac", "ace", "off-pac")
"""The mean fields that [follow] knows."""
_BATCH = 1024  # parameters at once


def exact_emphasis(problem: Problem) -> Callable[[Any], Any]:
    r"""From (s, a) probabilities to $m_\pi = D^{-1}(I - \gamma P_\pi^\top)^{-1}Di$, a JAX function.

    As the emphasis of [actor_critic] it gives the ablation that knows the emphasis of the policy
    of the moment. It solves a linear system at every step: such agents run by scan.
    """

    def emphasis(pi: Any) -> Any:
        d, i = (jnp.asarray(each, pi.dtype) for each in (problem.stationary, problem.interest))
        chain = jnp.einsum("sa,sat->st", pi, jnp.asarray(_kernel(problem), pi.dtype))
        return _solve(chain.T, d * i) / d

    return emphasis


def exact_action_values(problem: Problem) -> Callable[[Any], Any]:
    r"""From (s, a) probabilities to $q_\pi = \tilde r + \gamma P v_\pi$, a JAX function."""

    def action_values(pi: Any) -> Any:
        kernel = jnp.asarray(_kernel(problem), pi.dtype)
        reward = jnp.asarray(problem.mdp.mean_reward, pi.dtype)
        return reward + kernel @ _solve(jnp.einsum("sa,sat->st", pi, kernel), (pi * reward).sum(1))

    return action_values


def _kernel(problem: Problem) -> np.ndarray:
    r"""$\gamma(s,a,s')p(s'|s,a)$, dense."""
    return as_dense(problem.mdp.discounted()).reshape(*problem.behavior.shape, -1)


def _solve(chain: Any, b: Any) -> Any:
    r"""$(I - Q)^{-1}b$ for a chain or its transpose: an M-matrix needs no pivots.

    By our own elimination, since LAPACK's, called for many lanes by few threads, can wait forever.
    """
    size = len(b)
    rows = jnp.concatenate([jnp.eye(size, dtype=b.dtype) - chain, b[:, None]], axis=1)

    def eliminate(k: Any, rows: Any) -> Any:
        row = rows[k] / rows[k, k]
        return (rows - jnp.outer(rows[:, k], row)).at[k].set(row)

    return jax.lax.fori_loop(0, size, eliminate, rows)[:, -1]


class _Limits:
    """A problem, a policy and a ridge as dense arrays, in float64."""

    def __init__(self, problem: Problem, policy: Any, ridge: float):
        self.policy, self.ridge = policy, ridge
        self.d, self.interest = problem.stationary, problem.interest
        self.kernel, self.reward = _kernel(problem), problem.mdp.mean_reward
        self.joint = problem.stationary_actions.ravel()
        self.x, self.xa = as_dense(problem.x), as_dense(problem.xa_rows)
        self.inverse, self.inverse_actions = (
            np.linalg.pinv(x.T @ (law[:, None] * x), hermitian=True)
            for x, law in ((self.x, self.d), (self.xa, self.joint))
        )

    def at(self, theta: np.ndarray) -> "_At":
        """The same at a batch of parameters, (batch, n)."""
        return _At(self, theta, np.asarray(_probabilities(self.policy, theta)))


@dataclass(frozen=True)
class _At:
    """What is exact at parameters, what GEM and GQ2 tend to there, and what agents follow."""

    of: _Limits
    theta: np.ndarray
    pi: np.ndarray

    @cached_property
    def under(self) -> np.ndarray:
        return np.einsum("nsa,sat->nst", self.pi, self.of.kernel)

    @cached_property
    def m(self) -> np.ndarray:
        of = self.of
        return _solved(np.eye(len(of.d)) - self.under.swapaxes(1, 2), of.d * of.interest) / of.d

    @cached_property
    def q(self) -> np.ndarray:
        of = self.of
        v = _solved(np.eye(len(of.d)) - self.under, (self.pi * of.reward).sum(2))
        return of.reward + np.einsum("sat,nt->nsa", of.kernel, v)

    @cached_property
    def w(self) -> np.ndarray:
        of = self.of
        A = (of.x - self.under @ of.x).swapaxes(1, 2) @ (of.d[:, None] * of.x)
        return self._weights(of.inverse, A, of.x.T @ (of.d * of.interest))

    @cached_property
    def u(self) -> np.ndarray:
        of = self.of
        average = np.einsum("nsa,sal->nsl", self.pi, of.xa.reshape(*self.pi.shape[1:], -1))
        ahead = np.einsum("sat,ntl->nsal", of.kernel, average).reshape(-1, *of.xa.shape)
        A = (of.xa.T * of.joint) @ (of.xa - ahead)
        return self._weights(of.inverse_actions, A, of.xa.T @ (of.joint * of.reward.ravel()))

    def _weights(self, inverse: np.ndarray, A: np.ndarray, b: np.ndarray) -> np.ndarray:
        r"""$(A^\top C^{-1}A + \eta I)^{-1}A^\top C^{-1}b$, unique even where C is singular."""
        back = A.swapaxes(1, 2) @ inverse
        return _solved(back @ A + self.of.ridge * np.eye(len(b)), back @ b)

    def field(self, name: str) -> np.ndarray:
        r"""$\sum_sd_\mu(s)\hat m(s)\sum_a\hat q(s,a)\nabla\pi_\theta(a|s)$, (batch, n)."""
        of = self.of
        m = {
            "cof-pac": lambda: self.w @ of.x.T,
            "off-pac": lambda: np.broadcast_to(of.interest, self.pi.shape[:2]),
        }.get(name, lambda: self.m)()
        exact = name == "exact-gradient"
        q = self.q if exact else (self.u @ of.xa.T).reshape(self.pi.shape)
        return np.asarray(_pulled(of.policy, self.theta, (of.d * m)[..., None] * q))


def _solved(matrix: np.ndarray, b: np.ndarray) -> np.ndarray:
    b = np.broadcast_to(b, matrix.shape[:2])
    return np.linalg.solve(matrix, b[..., None])[..., 0]


@partial(jax.jit, static_argnames="policy")
def _probabilities(policy: Any, theta: Any) -> Any:
    return jax.vmap(policy)(theta)


@partial(jax.jit, static_argnames="policy")
def _pulled(policy: Any, theta: Any, weight: Any) -> Any:
    return jax.vmap(lambda point, c: jax.vjp(policy, point)[1](c)[0])(theta, weight)


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
    sizes = {"theta": theta.shape[-1], "w": problem.x.shape[1], "u": problem.xa_rows.shape[1]}
    given = {"theta": theta, "w": w, "u": u}
    flat = {}
    for name, values in given.items():
        if values is None:
            continue
        if np.shape(values) != (*leading, sizes[name]):
            raise ValueError(
                f"{name}: got shape {np.shape(values)}; {(*leading, sizes[name])} is required"
            )
        flat[name] = np.asarray(values, np.float64).reshape(-1, sizes[name])
    limits, count, parts = _Limits(problem, policy, ridge), len(flat["theta"]), []
    size = min(_BATCH, count)
    for first in range(0, count, size):
        chosen = np.arange(first, first + size) % count  # batches of one size: compiled once
        parts.append(_tracked(limits, {name: values[chosen] for name, values in flat.items()}))
    return {
        name: np.concatenate([part[name] for part in parts])[:count].reshape(leading)
        for name in parts[0]
    }


def _tracked(limits: _Limits, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    finite = np.asarray(np.isfinite(given["theta"]).all(axis=1))
    theta = np.where(finite[:, None], given["theta"], 0.0)
    with jax.enable_x64(True):
        at = limits.at(theta)
        gradient, followed = at.field("exact-gradient"), at.field("cof-pac")
    found = {
        "objective": (limits.d * limits.interest) @ (at.pi * at.q).sum(2).T,
        "gradient_norm": np.linalg.norm(gradient, axis=1),
        "bias_norm": np.linalg.norm(gradient - followed, axis=1),
    }
    for name, weights in (("emphasis_tracking", "w"), ("critic_tracking", "u")):
        if weights in given:
            found[name] = np.linalg.norm(given[weights] - getattr(at, weights), axis=1)
    return {name: np.where(finite, values, np.nan) for name, values in found.items()}


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
    steps = np.diff(times, prepend=0.0)
    if not (times.size and np.isfinite(times).all() and steps[0] >= 0 and (steps[1:] > 0).all()):
        raise ValueError(f"times: got {times}; finite times that increase from 0 on are required")
    limits = _Limits(problem, policy, ridge)

    def slope(_: float, point: np.ndarray) -> np.ndarray:
        return limits.at(point[None]).field(field)[0]

    with jax.enable_x64(True):
        found = solve_ivp(
            slope,
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
