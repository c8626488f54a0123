"""The mean fields of actor-critic agents: where they lead, and what a recorded path means."""

from dataclasses import dataclass
from functools import cached_property, partial

import jax
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._markov import as_dense
from .._validation import unknown
from ..mdp import Problem
from ..types import Array
from .gradient import PolicyFunction

FIELDS = ("exact-gradient", "cof-pac", "ace", "off-pac")
"""The mean fields that [follow] knows."""
BATCH = 1024  # parameters at once


class _Setting:
    """A problem, a policy and a ridge as dense arrays, in float64."""

    def __init__(self, problem: Problem, policy: PolicyFunction, ridge: float):
        self.policy, self.ridge = policy, ridge
        self.d, self.interest = problem.stationary, problem.interest
        self.kernel, self.reward = problem.mdp.dense_discounted(), problem.mdp.mean_reward
        self.joint = problem.stationary_actions.ravel()
        self.x, self.xa = as_dense(problem.x), as_dense(problem.xa_rows)
        self.inverse, self.inverse_actions = (
            np.linalg.pinv(x.T @ (weight[:, None] * x), hermitian=True)
            for x, weight in ((self.x, self.d), (self.xa, self.joint))
        )

    def evaluate(self, theta: Float[np.ndarray, "batch n"]) -> "_Limits":
        """The limits of the critics at a batch of parameters."""
        return _Limits(self, theta, np.asarray(_probabilities(self.policy, theta)))


@dataclass(frozen=True)
class _Limits:
    """The exact quantities at a batch of parameters, and the limits of GEM and GQ2 there."""

    setting: _Setting
    theta: Float[np.ndarray, "batch n"]
    pi: Float[np.ndarray, "batch s a"]

    @cached_property
    def chain(self) -> Float[np.ndarray, "batch s s"]:
        return np.einsum("nsa,sat->nst", self.pi, self.setting.kernel)

    @cached_property
    def m(self) -> Float[np.ndarray, "batch s"]:
        d, interest = self.setting.d, self.setting.interest
        return _solve(np.eye(len(d)) - self.chain.swapaxes(1, 2), d * interest) / d

    @cached_property
    def q(self) -> Float[np.ndarray, "batch s a"]:
        kernel, reward = self.setting.kernel, self.setting.reward
        v = _solve(np.eye(len(kernel)) - self.chain, (self.pi * reward).sum(2))
        return reward + np.einsum("sat,nt->nsa", kernel, v)

    @cached_property
    def w(self) -> Float[np.ndarray, "batch k"]:
        x, d, interest = self.setting.x, self.setting.d, self.setting.interest
        A = (x - self.chain @ x).swapaxes(1, 2) @ (d[:, None] * x)
        return self._weights(self.setting.inverse, A, x.T @ (d * interest))

    @cached_property
    def u(self) -> Float[np.ndarray, "batch l"]:
        xa, joint = self.setting.xa, self.setting.joint
        average = np.einsum("nsa,sal->nsl", self.pi, xa.reshape(*self.pi.shape[1:], -1))
        ahead = np.einsum("sat,ntl->nsal", self.setting.kernel, average).reshape(-1, *xa.shape)
        A = (xa.T * joint) @ (xa - ahead)
        b = xa.T @ (joint * self.setting.reward.ravel())
        return self._weights(self.setting.inverse_actions, A, b)

    def _weights(
        self,
        inverse: Float[np.ndarray, "k k"],
        A: Float[np.ndarray, "batch k k"],
        b: Float[np.ndarray, " k"],
    ) -> Float[np.ndarray, "batch k"]:
        r"""$(A^\top C^{-1}A + \eta I)^{-1}A^\top C^{-1}b$, unique even where C is singular."""
        back = A.swapaxes(1, 2) @ inverse
        return _solve(back @ A + self.setting.ridge * np.eye(len(b)), back @ b)

    def field(self, name: str) -> Float[np.ndarray, "batch n"]:
        r"""$\sum_sd_\mu(s)\hat m(s)\sum_a\hat q(s,a)\nabla\pi_\theta(a|s)$."""
        setting = self.setting
        if name == "cof-pac":
            m = self.w @ setting.x.T
        elif name == "off-pac":
            m = np.broadcast_to(setting.interest, self.pi.shape[:2])
        else:
            m = self.m
        q = self.q if name == "exact-gradient" else (self.u @ setting.xa.T).reshape(self.pi.shape)
        return np.asarray(_pull_back(setting.policy, self.theta, (setting.d * m)[..., None] * q))


def _solve(
    matrix: Float[np.ndarray, "batch n n"], b: Float[np.ndarray, "*batch n"]
) -> Float[np.ndarray, "batch n"]:
    return np.linalg.solve(matrix, np.broadcast_to(b, matrix.shape[:2])[..., None])[..., 0]


@partial(jax.jit, static_argnames="policy")
def _probabilities(
    policy: PolicyFunction, theta: Float[Array, "batch n"]
) -> Float[Array, "batch s a"]:
    return jax.vmap(policy)(theta)


@partial(jax.jit, static_argnames="policy")
def _pull_back(
    policy: PolicyFunction, theta: Float[Array, "batch n"], weight: Float[Array, "batch s a"]
) -> Float[Array, "batch n"]:
    return jax.vmap(lambda point, c: jax.vjp(policy, point)[1](c)[0])(theta, weight)


def track(
    problem: Problem,
    policy: PolicyFunction,
    theta: ArrayLike,
    ridge: float,
    w: ArrayLike | None = None,
    u: ArrayLike | None = None,
) -> dict[str, Float[np.ndarray, "..."]]:
    r"""Computes exact quantities along the recorded path of an agent, in float64.

    All matrices are dense. The policy itself at such parameters is `jax.vmap(policy)(theta)`.

    The parameters `theta`, (..., n), have any leading axes; `w` and `u` are the weights of GEM and
    GQ2 at the same times, (..., k) and (..., l), or None; $\eta > 0$ is the critics' ridge.

    Returns arrays of the leading axes by name: `objective` $J(\theta)$, `gradient_norm`
    $\|\nabla J(\theta)\|$, `bias_norm` $\|b(\theta)\|$, and where weights are given
    `emphasis_tracking` $\|w - w^*_\theta(\eta)\|$ and `critic_tracking` $\|u -
    u^*_\theta(\eta)\|$. All are NaN where a parameter is not finite.
    """
    theta = np.asarray(theta, np.float64)
    leading_axes = theta.shape[:-1]
    sizes = {"theta": theta.shape[-1], "w": problem.x.shape[1], "u": problem.xa_rows.shape[1]}
    flat: dict[str, np.ndarray] = {}
    for name, values in {"theta": theta, "w": w, "u": u}.items():
        if values is None:
            continue
        if np.shape(values) != (*leading_axes, sizes[name]):
            raise ValueError(
                f"{name}: got shape {np.shape(values)}; {(*leading_axes, sizes[name])} is required"
            )
        flat[name] = np.asarray(values, np.float64).reshape(-1, sizes[name])
    setting, count = _Setting(problem, policy, ridge), len(flat["theta"])
    size = min(BATCH, count)
    batches: list[dict[str, np.ndarray]] = []
    for first in range(0, count, size):
        rows = np.arange(first, first + size) % count  # batches of one size: compiled once
        batches.append(_track_batch(setting, **{name: array[rows] for name, array in flat.items()}))
    return {
        name: np.concatenate([batch[name] for batch in batches])[:count].reshape(leading_axes)
        for name in batches[0]
    }


def _track_batch(
    setting: _Setting,
    theta: Float[np.ndarray, "batch n"],
    w: Float[np.ndarray, "batch k"] | None = None,
    u: Float[np.ndarray, "batch l"] | None = None,
) -> dict[str, Float[np.ndarray, " batch"]]:
    finite = np.asarray(np.isfinite(theta).all(axis=1))
    with jax.enable_x64(True):
        limits = setting.evaluate(np.where(finite[:, None], theta, 0.0))
        gradient, update = limits.field("exact-gradient"), limits.field("cof-pac")
    quantities = {
        "objective": (setting.d * setting.interest) @ (limits.pi * limits.q).sum(2).T,
        "gradient_norm": np.linalg.norm(gradient, axis=1),
        "bias_norm": np.linalg.norm(gradient - update, axis=1),
    }
    if w is not None:
        quantities["emphasis_tracking"] = np.linalg.norm(w - limits.w, axis=1)
    if u is not None:
        quantities["critic_tracking"] = np.linalg.norm(u - limits.u, axis=1)
    return {name: np.where(finite, values, np.nan) for name, values in quantities.items()}


def follow(
    problem: Problem,
    policy: PolicyFunction,
    theta: ArrayLike,
    field: str,
    times: ArrayLike | float,
    ridge: float = 0.0,
) -> Float[np.ndarray, "times n"]:
    r"""Follows a mean field from given parameters: solves $\dot\theta = g(\theta)$.

    An agent with step sizes $\beta_t$ and critics that keep up moves along it, with
    $\sum_{k<t}\beta_k$ as its time. The fields, each $\sum_sd_\mu(s)\hat m(s)\sum_a\hat q(s,a)
    \nabla\pi_\theta(a|s)$:

    - `exact-gradient`: $\nabla J$, with $m_\pi$ and $q_\pi$;
    - `cof-pac`: $Xw^*_\theta(\eta)$ and $\tilde Xu^*_\theta(\eta)$, the limits of GEM and GQ2;
    - `ace`: $m_\pi$, the mean of the trace, and $\tilde Xu^*_\theta(\eta)$;
    - `off-pac`: the interest $i$ and $\tilde Xu^*_\theta(\eta)$.

    Starts at `theta`, (n,), and returns the parameters at the `times`, which increase and are not
    negative, as (times, n) in float64. The ridge $\eta$ is that of the critics.
    """
    from scipy.integrate import solve_ivp

    if field not in FIELDS:
        raise unknown("field", field, FIELDS)
    times = np.atleast_1d(np.asarray(times, np.float64))
    steps = np.diff(times, prepend=0.0)
    if not (times.size and np.isfinite(times).all() and steps[0] >= 0 and (steps[1:] > 0).all()):
        raise ValueError(f"times: got {times}; finite times that increase from 0 on are required")
    setting = _Setting(problem, policy, ridge)

    def slope(_: float, point: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return setting.evaluate(point[None]).field(field)[0]

    with jax.enable_x64(True):
        span, start = (0.0, times[-1]), np.asarray(theta, np.float64)
        # LSODA: the path is slow at first, and stiff at the end.
        path = solve_ivp(slope, span, start, "LSODA", t_eval=times, rtol=1e-7, atol=1e-9)
    if not path.success:
        raise ValueError(f"field: {field} cannot be followed: {path.message}")
    return path.y.T
