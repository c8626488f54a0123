"""Mean fields of learners of the density ratio: E[d_{t+1} - d_t] = alpha (vector - matrix d)."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from .. import _validation as checks
from .._markov import Matrix, Vector
from ..mdp import Problem
from .chain import continuing_chain
from .emphasis_systems import backward_blocks
from .linear import column_sizes, gradient_system, identity_like, LinearSystem, stack

DEFAULT_DISCOUNT = 0.9  # of a ratio, where that of the problem varies


def choose_discount(problem: Problem, discount: float | None = None) -> float:
    """Returns a ratio's discount: by default that of the problem, or 0.9 where that varies."""
    if discount is not None:
        return discount
    own = problem.mdp.constant_discount
    return DEFAULT_DISCOUNT if own is None else own


def _blocks(
    problem: Problem, target: ArrayLike | None, discount: float
) -> tuple[Matrix, Matrix, Vector]:
    r"""$C = X^\top DX$, $A = X^\top(I - \hat\gamma P_\pi^\top)DX$ and $X^\top d_\mu$."""
    chain = continuing_chain(problem, target, discount)
    return backward_blocks(problem, chain.matrix, np.ones_like(problem.interest))


def _require_below_one(discount: float) -> None:
    required = "a number in [0, 1) is required"
    checks.number("discount", discount, required, lambda known: 0.0 <= known < 1.0)


def cop_td_system(
    problem: Problem, target: ArrayLike | None = None, discount: float | None = None
) -> LinearSystem:
    r"""The mean field of discounted COP-TD in $w$.

    $w$ moves by $(1 - \hat\gamma + \hat\gamma\rho_tx_t^\top w - x_{t+1}^\top w)x_{t+1}$, so that
    $G = X^\top(I - \hat\gamma P_\pi^\top)DX$ and $h = (1 - \hat\gamma)X^\top d_\mu$, with the whole
    chain $P_\pi$ of the target. The discount $\hat\gamma$ is by default the problem's own, and 0.9
    where that varies.
    """
    discount = choose_discount(problem, discount)
    _require_below_one(discount)
    C, A, b = _blocks(problem, target, discount)
    sizes, label = column_sizes(C), f"COP-TD({discount:g})"
    return LinearSystem(A, (1.0 - discount) * b, sizes, estimates="ratio", label=label)


def gradient_cop_td_system(
    problem: Problem,
    target: ArrayLike | None = None,
    ridge: float = 0.0,
    discount: float | None = None,
) -> LinearSystem:
    r"""The mean field of gradient COP-TD in $[\kappa; w]$.

    It is that of GEM ([gem_system]) with the $A$ and the $h$ of [cop_td_system].
    """
    discount = choose_discount(problem, discount)
    _require_below_one(discount)
    C, A, b = _blocks(problem, target, discount)
    system = gradient_system(C, A, (1.0 - discount) * b, ridge)
    return replace(system, estimates="ratio", label=f"gradient COP-TD({discount:g})")


def gradient_dice_system(
    problem: Problem,
    target: ArrayLike | None = None,
    ridge: float = 0.0,
    discount: float | None = None,
    penalty: float = 1.0,
) -> LinearSystem:
    r"""The mean field of GradientDICE in $[\kappa; u; w]$.

    With $C$ and $A$ as for [cop_td_system] and the mean features $\bar x = X^\top d_\mu$,

    $$
    G = \begin{bmatrix} C & 0 & A \\ 0 & \lambda & -\lambda\bar x^\top \\
        -A^\top & \lambda\bar x & \xi I \end{bmatrix}, \quad
    h = \begin{bmatrix} (1 - \hat\gamma)\bar x \\ -\lambda \\ 0 \end{bmatrix}.
    $$

    Its symmetric part is never negative, so that it diverges at no $\hat\gamma \in [0, 1]$. Where
    $Xw$ can be the exact [density_ratio] of the discount, that is the fixed point for $\xi = 0$,
    with $\kappa = 0$ and $u = 0$; elsewhere it depends on $\lambda$.
    """
    discount = choose_discount(problem, discount)
    checks.ridge(ridge)
    checks.positive("penalty", penalty, "a positive and finite number is required")
    C, A, b = _blocks(problem, target, discount)
    size, sizes = len(b), column_sizes(C)
    mean, none = penalty * b[:, None], np.zeros((size, 1))
    system = stack(
        [
            [C, none, A],
            [none.T, np.array([[penalty]]), -mean.T],
            [-A.T, mean, ridge * identity_like(C)],
        ],
        [(1.0 - discount) * b, np.array([-penalty]), np.zeros(size)],
        [sizes, np.array([np.sqrt(penalty)]), np.sqrt(sizes**2 + ridge)],
    )
    return replace(system, estimates="ratio", label=f"GradientDICE({discount:g})")
