"""Mean fields of learners of values: E[d_{t+1} - d_t] = alpha (vector - matrix d)."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ..mdp import policy_matrix, Problem
from .chain import emphasis as exact_emphasis
from .linear import column_sizes, gradient_system, LinearSystem, stack, state_blocks, weighted_gram


def gq2_system(
    problem: Problem, target: ArrayLike | None = None, ridge: float = 0.0
) -> LinearSystem:
    r"""The mean field of GQ2 in $[\tilde\kappa; u]$ (Section 3).

    $$
    \tilde G = \begin{bmatrix} \tilde C & \tilde A \\ -\tilde A^\top & \eta I \end{bmatrix}, \quad
    \tilde h = \begin{bmatrix} \tilde X^\top\tilde D\tilde r \\ 0 \end{bmatrix}, \quad
    \tilde C = \tilde X^\top\tilde D\tilde X, \quad
    \tilde A = \tilde X^\top\tilde D(I - \gamma\tilde P_\pi)\tilde X.
    $$
    """
    xa, mdp = problem.xa_rows, problem.mdp
    average = policy_matrix(problem.require_target(target))
    weight = problem.stationary_actions.ravel()
    A = weighted_gram(xa, weight, xa - mdp.discounted() @ (average @ xa))
    b = xa.T @ (weight * mdp.mean_reward.ravel())
    system = gradient_system(weighted_gram(xa, weight, xa), A, b, ridge)
    return replace(system, estimates="action_values", label="GQ2")


def gtd2_system(problem: Problem, target: ArrayLike | None = None) -> LinearSystem:
    r"""The mean field of GTD2 in $[\kappa; \nu]$.

    $\kappa$ moves by $(\rho_t\delta_t - x_t^\top\kappa)x_t$ and $\nu$ by $\rho_t(x_t -
    \gamma x_{t+1})x_t^\top\kappa$, so that with $A = X^\top D(I - \gamma P_\pi)X$

    $$
    G = \begin{bmatrix} C & A \\ -A^\top & 0 \end{bmatrix}, \quad
    h = \begin{bmatrix} X^\top Dr_\pi \\ 0 \end{bmatrix}.
    $$
    """
    system = gradient_system(*state_blocks(problem, target, problem.stationary), ridge=0.0)
    return replace(system, estimates="values", label="GTD2")


def tdc_system(problem: Problem, target: ArrayLike | None = None) -> LinearSystem:
    r"""The mean field of TDC in $[\kappa; \nu]$, both with the same step size.

    $\kappa$ moves by $(\rho_t\delta_t - x_t^\top\kappa)x_t$ and $\nu$ by $\rho_t(\delta_tx_t -
    \gamma x_{t+1}x_t^\top\kappa)$, so that with $A = X^\top D(I - \gamma P_\pi)X$

    $$
    G = \begin{bmatrix} C & A \\ C - A^\top & A \end{bmatrix}, \quad
    h = \begin{bmatrix} X^\top Dr_\pi \\ X^\top Dr_\pi \end{bmatrix}.
    $$
    """
    C, A, b = state_blocks(problem, target, problem.stationary)
    system = stack([[C, A], [C - A.T, A]], [b, b], [column_sizes(C)] * 2)
    return replace(system, estimates="values", label="TDC")


def etd_system(
    problem: Problem, target: ArrayLike | None = None, emphasis: ArrayLike | None = None
) -> LinearSystem:
    r"""The mean field of ETD(0) in $\nu$.

    $G = X^\top DM(I - \gamma P_\pi)X$ and $h = X^\top DMr_\pi$ with $M = \mathrm{diag}(m)$. The
    emphasis $m$, an (s,) array, is by default the exact $m_\pi$; a learned one, $Xw$, gives the
    mean field of GEM-ETD(0).
    """
    weight = exact_emphasis(problem, target) if emphasis is None else np.asarray(emphasis, float)
    if weight.shape != problem.interest.shape or not np.isfinite(weight).all():
        raise ValueError(
            f"emphasis: got shape {weight.shape}; {problem.interest.shape} finite numbers are "
            "required"
        )
    weight = problem.stationary * weight
    _, A, b = state_blocks(problem, target, weight)
    sizes = column_sizes(weighted_gram(problem.x, np.abs(weight), problem.x))
    return LinearSystem(A, b, sizes, estimates="values", label="ETD(0)")


def td_system(problem: Problem, target: ArrayLike | None = None) -> LinearSystem:
    r"""The mean field of TD(0): $G = X^\top D(I - \gamma P_\pi)X$ and $h = X^\top Dr_\pi$."""
    system = etd_system(problem, target, np.ones_like(problem.interest))
    return replace(system, label="TD(0)")
