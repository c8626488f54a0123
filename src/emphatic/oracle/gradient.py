"""The gradient of the objective, what COF-PAC follows instead, and the difference."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree
from numpy.typing import ArrayLike

from ..mdp import Problem
from ..types import Array, Params
from .chain import action_values, emphasis, stationary, weighted_emphasis
from .emphasis_systems import gem_system
from .linear import projection, weighted_norm
from .value_systems import gq2_system

PolicyFunction: TypeAlias = Callable[[PyTree], Float[Array, "s a"]]
"""A policy as a JAX function, from its parameters, a pytree, to (s, a) probabilities."""


def as_float64(tree: PyTree) -> Params:
    """Converts a pytree to float64 JAX arrays; call it inside `jax.enable_x64(True)`."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, dtype=np.float64)), tree)


def probabilities(policy: PolicyFunction, theta: PyTree) -> Float[np.ndarray, "s a"]:
    r"""The target $\pi_\theta(a|s)$ of a JAX policy in float64, whatever JAX is set to."""
    with jax.enable_x64(True):
        return np.asarray(policy(as_float64(theta)), dtype=np.float64)


def resolve(
    problem: Problem, target: ArrayLike | PolicyFunction | None, theta: PyTree
) -> tuple[PolicyFunction | None, Float[np.ndarray, "s a"]]:
    """Returns the policy, if the target is one, and the checked probabilities of the target."""
    if callable(target):
        if theta is None:
            raise ValueError("theta: not given; a policy that is a function needs its parameters")
        return target, problem.require_target(probabilities(target, theta))
    return None, problem.require_target(target)


def weighted_gradient(
    policy: PolicyFunction, theta: PyTree, weight: Float[np.ndarray, "s a"]
) -> Params:
    r"""$\sum_{s,a} w(s,a)\nabla\pi_\theta(a|s)$ for weights $w$, a pytree like theta.

    With $w = d_\mu m_\pi q_\pi$ it is the gradient of $J$; with $d_\mu q_\pi$, Off-PAC's direction.
    """
    with jax.enable_x64(True):
        _, vjp = jax.vjp(policy, as_float64(theta))
        (gradient,) = vjp(jnp.asarray(weight))
        return jax.tree.map(np.asarray, gradient)


def critics(
    problem: Problem, target: ArrayLike, ridge: float
) -> tuple[Float[np.ndarray, " s"], Float[np.ndarray, "s a"]]:
    r"""The limits of the critics, $Xw^*(\eta)$ and $\tilde Xu^*(\eta)$."""
    _, w = np.split(gem_system(problem, target, ridge).solution(), 2)
    _, u = np.split(gq2_system(problem, target, ridge).solution(), 2)
    return problem.x @ w, (problem.xa_rows @ u).reshape(problem.behavior.shape)


def policy_gradient(problem: Problem, policy: PolicyFunction, theta: PyTree) -> Params:
    r"""The gradient of the excursion objective (the off-policy policy gradient theorem).

    $$
    \nabla J(\theta) = \sum_s d_\mu(s)\,m_\pi(s)\sum_a q_\pi(s,a)\,\nabla\pi_\theta(a|s).
    $$

    The policy is any JAX function from theta, a pytree, to (s, a) probabilities, and the gradient
    is a pytree like theta, in float64.
    """
    target = problem.require_target(probabilities(policy, theta))
    weight = weighted_emphasis(problem, target)[:, None] * action_values(problem, target)
    return weighted_gradient(policy, theta, weight)


def limiting_update(
    problem: Problem, policy: PolicyFunction, theta: PyTree, ridge: float
) -> Params:
    r"""The direction in which COF-PAC moves theta once its critics have converged.

    $$
    \hat g(\theta) = \sum_s d_\mu(s)\,\big(x(s)^\top w^*_\theta(\eta)\big)
        \sum_a \mu(a|s)\,\psi_\theta(s,a)\,\big(\tilde x(s,a)^\top u^*_\theta(\eta)\big),
    $$

    where $\mu\psi_\theta = \nabla\pi_\theta$, and $w^*, u^*$ solve [gem_system] and [gq2_system].
    Arguments as in [policy_gradient], and the ridge $\eta$.
    """
    target = problem.require_target(probabilities(policy, theta))
    m, q = critics(problem, target, ridge)
    return weighted_gradient(policy, theta, (problem.stationary * m)[:, None] * q)


def bias(problem: Problem, policy: PolicyFunction, theta: PyTree, ridge: float) -> Params:
    r"""The bias $b(\theta) = \nabla J(\theta) - \hat g(\theta)$ of COF-PAC (Theorem 3)."""
    gradient = policy_gradient(problem, policy, theta)
    return jax.tree.map(np.subtract, gradient, limiting_update(problem, policy, theta, ridge))


@dataclass(frozen=True)
class BiasTerms:
    r"""The terms of the bound on the bias (the last proposition of Section 4).

    $\|b(\theta)\| \le C_0\eta + C_1 f\,\|m_\pi - \Pi m_\pi\|_D + C_2\tilde f\,\|q_\pi -
    \tilde\Pi q_\pi\|_{\tilde D}$ with $f = (1 + \gamma\kappa)/(1 - \gamma)$. The factors are
    None where the discount varies: the paper states them for a constant one.
    """

    emphasis_error: float
    """$\\|m_\\pi - \\Pi m_\\pi\\|_D$, what the state features cannot express."""
    value_error: float
    """$\\|q_\\pi - \\tilde\\Pi q_\\pi\\|_{\\tilde D}$, what the state-action features cannot."""
    emphasis_condition: float
    """$\\kappa(D^{-1/2}D_\\theta^{1/2})$."""
    value_condition: float
    """$\\kappa(\\tilde D^{-1/2}\\tilde D_\\theta^{1/2})$, infinite where $\\pi$ skips an action."""
    emphasis_factor: float | None
    """$f$ with the emphasis' condition number."""
    value_factor: float | None
    """$\\tilde f$ with the value's condition number."""


def projection_errors(problem: Problem, target: ArrayLike | None) -> tuple[float, float]:
    r"""$\|m_\pi - \Pi m_\pi\|_D$ and $\|q_\pi - \tilde\Pi q_\pi\|_{\tilde D}$."""
    m, q = emphasis(problem, target), action_values(problem, target).ravel()
    d, joint = problem.stationary, problem.stationary_actions.ravel()
    value_error = weighted_norm(joint, q - projection(problem, actions=True) @ q)
    return weighted_norm(d, m - projection(problem) @ m), value_error


def bias_terms(problem: Problem, target: ArrayLike | None = None) -> BiasTerms:
    r"""The projection errors and condition numbers in the bound on $\|b(\theta)\|$.

    The condition number of the diagonal $D^{-1/2}D_\theta^{1/2}$ is $\sqrt{\max_s r(s)/\min_s
    r(s)}$ with $r = d_\theta/d_\mu$, where $d_\theta$ is the target's own stationary
    distribution: its chain must be irreducible.
    """
    target = problem.require_target(target)
    d_target, joint = stationary(problem, target), problem.stationary_actions

    def condition(d_pi: Float[np.ndarray, "s *a"], d_mu: Float[np.ndarray, "s *a"]) -> float:
        ratio = d_pi[d_mu > 0] / d_mu[d_mu > 0]
        return float(np.sqrt(ratio.max() / ratio.min())) if ratio.min() > 0 else float("inf")

    def factor(kappa: float) -> float | None:
        gamma = problem.mdp.constant_discount
        return None if gamma is None else (1.0 + gamma * kappa) / (1.0 - gamma)

    kappa = condition(d_target, problem.stationary)
    kappa_actions = condition(d_target[:, None] * target, joint)
    errors, factors = projection_errors(problem, target), (factor(kappa), factor(kappa_actions))
    return BiasTerms(*errors, kappa, kappa_actions, *factors)
