"""Compatible features: critics on them leave the policy gradient without a bias."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float, PyTree
from numpy.typing import ArrayLike

from ..mdp import Problem
from .chain import action_values, emphasis
from .gradient import as_float64, PolicyFunction, probabilities


@dataclass(frozen=True)
class CompatibleCritics:
    r"""The projections of $m_\pi$ and $q_\pi$ on the compatible features of a policy."""

    emphasis_features: Float[np.ndarray, "s n"]
    """$\\phi_1^\\theta(s) = \\sum_a\\nabla\\pi_\\theta(a|s)\\hat q_\\theta(s,a)$."""
    value_features: Float[np.ndarray, "s a n"]
    """$\\phi_2^\\theta(s,a) = \\psi_\\theta(s,a) = \\nabla\\pi_\\theta(a|s)/\\mu(a|s)$."""
    emphasis: Float[np.ndarray, " s"]
    """$\\hat m_\\theta$, a projection of $m_\\pi$ on $\\phi_1$."""
    values: Float[np.ndarray, "s a"]
    """$\\hat q_\\theta$, a projection of $q_\\pi$ on $\\phi_2$."""
    emphasis_bias: Float[np.ndarray, " n"]
    """$b_1(\\theta) = \\sum_sd_\\mu(s)(m_\\pi(s) - \\hat m_\\theta(s))\\phi_1^\\theta(s)$."""
    value_bias: Float[np.ndarray, " n"]
    """$b_2(\\theta) = \\sum_{s,a}d_\\mu(s)m_\\pi(s)\\mu(a|s)\\phi_2^\\theta(s,a)(q_\\pi -
    \\hat q_\\theta)(s,a)$."""


def compatible_critics(
    problem: Problem, policy: PolicyFunction, theta: PyTree, value_weight: ArrayLike | None = None
) -> CompatibleCritics:
    r"""The critics that compatible features give, and the bias that they leave (Section 4).

    The bias is $\nabla J(\theta) - \hat g(\theta) = b_1(\theta) + b_2(\theta)$. Projected in
    $\langle y,y'\rangle = \sum d_\mu yy'$ the emphasis makes $b_1$ vanish, and projected in
    $\sum d_\mu m_\pi\mu\,yy'$ the action values make $b_2$ vanish: then $\hat g = \nabla J$,
    whatever the problem is.

    The policy is as in [policy_gradient], with a vector theta. A `value_weight`, (s,), takes the
    place of $m_\pi$ in the second inner product: with the interest, as ETD(1) has it, $b_2$ stays.
    """
    target = problem.require_target(probabilities(policy, theta))
    d, mu = problem.stationary, problem.behavior
    m, q = emphasis(problem, target), action_values(problem, target)
    with jax.enable_x64(True):
        gradient = np.asarray(jax.jacrev(policy)(as_float64(theta)))
    psi = np.divide(gradient, mu[..., None], where=mu[..., None] > 0, out=np.zeros_like(gradient))
    weight = m if value_weight is None else np.asarray(value_weight, np.float64)
    q_hat = _project(q, psi, (d * weight)[:, None] * mu)
    phi = np.einsum("san,sa->sn", gradient, q_hat)
    m_hat = _project(m, phi, d)
    return CompatibleCritics(
        emphasis_features=phi,
        value_features=psi,
        emphasis=m_hat,
        values=q_hat,
        emphasis_bias=np.einsum("s,s,sn->n", d, m - m_hat, phi),
        value_bias=np.einsum("s,san,sa->n", d * m, gradient, q - q_hat),
    )


def _project(
    y: Float[np.ndarray, "s *a"],
    features: Float[np.ndarray, "s *a n"],
    weight: Float[np.ndarray, "s *a"],
) -> Float[np.ndarray, "s *a"]:
    """Projects on features (last axis) in a weighted norm; they may be dependent."""
    root = np.sqrt(weight.ravel())
    rows = root[:, None] * features.reshape(len(root), -1)
    u = np.linalg.lstsq(rows, root * y.ravel(), rcond=None)[0]
    return (features.reshape(len(root), -1) @ u).reshape(y.shape)
