"""Mean fields of learners of the emphasis: E[d_{t+1} - d_t] = alpha (vector - matrix d)."""

from dataclasses import replace

from numpy.typing import ArrayLike

from ..mdp import Problem
from .linear import column_sizes, gradient_system, LinearSystem, state_blocks


def gem_system(
    problem: Problem, target: ArrayLike | None = None, ridge: float = 0.0
) -> LinearSystem:
    r"""The mean field of GEM in $[\kappa; w]$ (Section 3).

    $$
    \bar G = \begin{bmatrix} C & A \\ -A^\top & \eta I \end{bmatrix}, \quad
    \bar h = \begin{bmatrix} X^\top Di \\ 0 \end{bmatrix}, \quad
    C = X^\top DX, \quad A = X^\top(I - \gamma P_\pi^\top)DX.
    $$

    The second half of the solution is $w^*(\eta)$; with $\eta = 0$ it is $A^{-1}X^\top Di$.
    """
    d = problem.stationary
    C, forward, _ = state_blocks(problem, target, d)
    system = gradient_system(C, forward.T, problem.x.T @ (d * problem.interest), ridge)
    return replace(system, estimates="emphasis", label="GEM")


def reverse_td_system(problem: Problem, target: ArrayLike | None = None) -> LinearSystem:
    r"""The mean field of semi-gradient emphasis learning, which GEM makes convergent.

    $w$ moves by $(i(S_{t+1}) + \gamma\rho_tx_t^\top w - x_{t+1}^\top w)x_{t+1}$, so that
    $G = X^\top(I - \gamma P_\pi^\top)DX$ and $h = X^\top Di$.
    """
    C, forward, _ = state_blocks(problem, target, problem.stationary)
    b = problem.x.T @ (problem.stationary * problem.interest)
    return LinearSystem(forward.T, b, column_sizes(C), estimates="emphasis", label="reversed TD(0)")
