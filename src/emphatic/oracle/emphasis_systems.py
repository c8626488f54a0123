"""Mean fields of learners of the emphasis: E[d_{t+1} - d_t] = alpha (vector - matrix d)."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .. import _validation as checks
from .._markov import Matrix, Vector
from ..mdp import Problem
from .chain import target_chain
from .followon import truncated_emphasis
from .linear import column_sizes, gradient_system, identity_like, LinearSystem, stack, weighted_gram


def backward_blocks(
    problem: Problem, chain: Matrix, interest: Float[np.ndarray, " s"]
) -> tuple[Matrix, Matrix, Vector]:
    r"""$X^\top DX$, $X^\top(I - Q^\top)DX$ and $X^\top Di$ for a chain $Q$ and an interest."""
    d, x = problem.stationary, problem.x
    A = weighted_gram(x, d, x - chain @ x).T
    return weighted_gram(x, d, x), A, x.T @ (d * interest)


def _blocks(
    problem: Problem, target: ArrayLike | None, decay: float | None
) -> tuple[Matrix, Matrix, Vector]:
    return backward_blocks(problem, target_chain(problem, target, decay).matrix, problem.interest)


def corrected_system(C: Matrix, A: Matrix, b: Vector, regularization: float) -> LinearSystem:
    r"""$G = [[C + \beta I, A], [C - A^\top, A]]$ and $h = [b; b]$."""
    sizes = column_sizes(C)
    regularised = np.sqrt(sizes**2 + regularization)
    blocks = [[C + regularization * identity_like(C), A], [C - A.T, A]]
    return stack(blocks, [b, b], [regularised, sizes])


def gem_system(
    problem: Problem,
    target: ArrayLike | None = None,
    ridge: float = 0.0,
    decay: float | None = None,
) -> LinearSystem:
    r"""The mean field of GEM in $[\kappa; w]$ (Section 3).

    $$
    \bar G = \begin{bmatrix} C & A \\ -A^\top & \eta I \end{bmatrix}, \quad
    \bar h = \begin{bmatrix} X^\top Di \\ 0 \end{bmatrix}, \quad
    C = X^\top DX, \quad A = X^\top(I - \gamma P_\pi^\top)DX.
    $$

    The second half of the solution is $w^*(\eta)$; with $\eta = 0$ it is $A^{-1}X^\top Di$. A decay
    $\beta$ replaces the discount where that is positive, as in [emphasis].
    """
    system = gradient_system(*_blocks(problem, target, decay), ridge)
    return replace(system, estimates="emphasis", label="GEM")


def reverse_td_system(
    problem: Problem, target: ArrayLike | None = None, decay: float | None = None
) -> LinearSystem:
    r"""The mean field of semi-gradient emphasis learning, which GEM makes convergent.

    $w$ moves by $(i(S_{t+1}) + \gamma\rho_tx_t^\top w - x_{t+1}^\top w)x_{t+1}$, so that
    $G = X^\top(I - \gamma P_\pi^\top)DX$ and $h = X^\top Di$. A decay is as for [gem_system].
    """
    C, A, b = _blocks(problem, target, decay)
    return LinearSystem(A, b, column_sizes(C), estimates="emphasis", label="reversed TD(0)")


def tderc_system(
    problem: Problem,
    target: ArrayLike | None = None,
    regularization: float = 1.0,
    decay: float | None = None,
) -> LinearSystem:
    r"""The mean field of TDERC in $[\kappa; w]$, both with the same step size.

    With $\bar\delta = i(S_{t+1}) + \gamma\rho_tx_t^\top w - x_{t+1}^\top w$, $\kappa$ moves by
    $(\bar\delta - x_{t+1}^\top\kappa)x_{t+1} - \beta\kappa$ and $w$ by
    $\bar\delta x_{t+1} - \gamma\rho_tx_tx_{t+1}^\top\kappa$, so that with $C$ and $A$ of GEM

    $$
    G = \begin{bmatrix} C + \beta I & A \\ C - A^\top & A \end{bmatrix}, \quad
    h = \begin{bmatrix} X^\top Di \\ X^\top Di \end{bmatrix},
    $$

    since $\mathbb E[\gamma\rho_tx_tx_{t+1}^\top] = C - A^\top$. Where $A$ and $A^\top + \beta I$
    are regular the fixed point is $\kappa = 0$ and $Aw = X^\top Di$, that of reversed TD and of GEM
    without a ridge. A $\kappa$ at rest moves $w$ by $(A^\top + \beta I)(C + \beta I)^{-1}(X^\top
    Di - Aw)$: the direction of GEM for $\beta = 0$, that of reversed TD for $\beta \to \infty$. A
    decay of the trace is as for [gem_system].
    """
    checks.ridge(regularization, "regularization")
    system = corrected_system(*_blocks(problem, target, decay), regularization)
    return replace(system, estimates="emphasis", label=f"TDERC({regularization:g})")


def tdec_system(
    problem: Problem, target: ArrayLike | None = None, decay: float | None = None
) -> LinearSystem:
    r"""The mean field of TDEC in $[\kappa; w]$: that of TDERC with $\beta = 0$.

    See [tderc_system]. Both weights have the same step size here.
    """
    return replace(tderc_system(problem, target, 0.0, decay), label="TDEC")


def expected_trace_system(
    problem: Problem, target: ArrayLike | None = None, length: int = 5, decay: float | None = None
) -> LinearSystem:
    r"""The mean field of the expected trace of X-ETD(n), n-step reversed TD, in $w$.

    The target of $x_{t+1}^\top w$ has the mean $m_{n-1} + (\gamma D^{-1}P_\pi^\top D)^nXw$ given
    $S_{t+1}$, with the emphasis $m_{n-1}$ that keeps $n - 1$ ratios ([truncated_emphasis]), so that

    $$
    G = X^\top\big(I - (\gamma P_\pi^\top)^n\big)DX, \quad h = X^\top Dm_{n-1}.
    $$

    With $n = 1$ it is that of reversed TD. As $n$ grows $G$ tends to $C = X^\top DX$ and the fixed
    point to the projection of $m_\pi$: the operator's $n$-th power contracts. The length is $n$; a
    decay is as for [gem_system].
    """
    checks.count("length", length)
    chain, d, x = target_chain(problem, target, decay).matrix, problem.stationary, problem.x
    ahead = x
    for _ in range(length):
        ahead = chain @ ahead
    b = x.T @ (d * truncated_emphasis(problem, target, length - 1, decay))
    return LinearSystem(
        weighted_gram(x, d, x - ahead).T,
        b,
        column_sizes(weighted_gram(x, d, x)),
        estimates="emphasis",
        label=f"expected trace({length})",
    )
