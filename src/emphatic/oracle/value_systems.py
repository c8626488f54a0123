"""Mean fields of learners of values: E[d_{t+1} - d_t] = alpha (vector - matrix d).

With a trace $z$ they contain its mean given $S_t$, a resolvent $(I - \\lambda K)^{-1}$. Every $K$
here is at most the $\\gamma P$ of the target or of the behaviour, entry by entry, so that the mean
is finite for every $\\lambda$ in [0, 1].
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import sparse

from .. import _validation as checks
from .._markov import as_dense, Matrix, Resolvent
from ..mdp import policy_matrix, Problem
from .chain import emphasis as exact_emphasis, target_chain, TargetChain
from .linear import (
    column_sizes,
    DENSE,
    gradient_system,
    identity_like,
    LinearSystem,
    stack,
    weighted_gram,
)

COLUMNS = 64  # of features whose traces are followed at once


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


def gtd2_system(
    problem: Problem, target: ArrayLike | None = None, trace_decay: float = 0.0
) -> LinearSystem:
    r"""The mean field of GTD2($\lambda$) in $[\kappa; \nu]$.

    $\kappa$ moves by $\delta_tz_t - x_tx_t^\top\kappa$ and $\nu$ by $\rho_tx_tx_t^\top\kappa -
    (1-\lambda)\gamma x_{t+1}z_t^\top\kappa$. Since $\mathbb E[\rho_tx_tz_t^\top/\rho_t] = C +
    \lambda\mathbb E[\gamma x_{t+1}z_t^\top]$, with $A$ and $b$ of [td_system]

    $$
    G = \begin{bmatrix} C & A \\ -A^\top & 0 \end{bmatrix}, \quad
    h = \begin{bmatrix} b \\ 0 \end{bmatrix}.
    $$
    """
    system = gradient_system(*value_blocks(problem, target, trace_decay), ridge=0.0)
    return replace(system, estimates="values", label=_label("GTD2", trace_decay))


def tdc_system(
    problem: Problem, target: ArrayLike | None = None, trace_decay: float = 0.0
) -> LinearSystem:
    r"""The mean field of TDC($\lambda$) in $[\kappa; \nu]$, both with the same step size.

    $\kappa$ moves by $\delta_tz_t - x_tx_t^\top\kappa$ and $\nu$ by $\delta_tz_t -
    (1-\lambda)\gamma x_{t+1}z_t^\top\kappa$, so that with $A$ and $b$ of [td_system]

    $$
    G = \begin{bmatrix} C & A \\ C - A^\top & A \end{bmatrix}, \quad
    h = \begin{bmatrix} b \\ b \end{bmatrix}.
    $$
    """
    system = tdrc_system(problem, target, 0.0, trace_decay)
    return replace(system, label=_label("TDC", trace_decay))


def tdrc_system(
    problem: Problem,
    target: ArrayLike | None = None,
    regularization: float = 1.0,
    trace_decay: float = 0.0,
) -> LinearSystem:
    r"""The mean field of TDRC($\lambda$) in $[\kappa; \nu]$.

    $\kappa$ moves by $\beta\kappa$ less than with TDC: the first $C$ of [tdc_system] is $C +
    \beta I$.

    Its fixed point is that of TDC, $\kappa = 0$ and $A\nu = b$, if $\beta I + A^\top$ is not
    singular.
    """
    checks.ridge(regularization, "regularization")
    C, A, b = value_blocks(problem, target, trace_decay)
    sizes, first = column_sizes(C), C
    regularized = sizes
    if regularization:
        first = C + regularization * identity_like(C)
        regularized = np.sqrt(sizes**2 + regularization)
    system = stack([[first, A], [C - A.T, A]], [b, b], [regularized, sizes])
    return replace(system, estimates="values", label=_label("TDRC", trace_decay))


def htd_system(
    problem: Problem, target: ArrayLike | None = None, trace_decay: float = 0.0
) -> LinearSystem:
    r"""The mean field of HTD($\lambda$) in $[\kappa; \nu]$, both with the same step size.

    $\kappa$ moves by $\delta_tz_t - (x_t - \gamma x_{t+1})z^{\mu\top}_t\kappa$ and $\nu$ by
    $\delta_tz_t + (x_t - \gamma x_{t+1})(z_t - z^\mu_t)^\top\kappa$, so that with $A$ and $b$ of
    [td_system], and with the same for the behaviour, $A_\mu = X^\top D(I - \lambda\gamma
    P_\mu)^{-1}(I - \gamma P_\mu)X$,

    $$
    G = \begin{bmatrix} A_\mu^\top & A \\ A_\mu^\top - A^\top & A \end{bmatrix}, \quad
    h = \begin{bmatrix} b \\ b \end{bmatrix}.
    $$
    """
    C, A, b = value_blocks(problem, target, trace_decay)
    own = TargetChain(problem, problem.behavior)
    A_mu, _ = _follow(problem, own, trace_decay, problem.stationary)
    system = stack([[A_mu.T, A], [A_mu.T - A.T, A]], [b, b], [column_sizes(C)] * 2)
    return replace(system, estimates="values", label=_label("HTD", trace_decay))


def etd_system(
    problem: Problem,
    target: ArrayLike | None = None,
    emphasis: ArrayLike | None = None,
    trace_decay: float = 0.0,
) -> LinearSystem:
    r"""The mean field of ETD($\lambda$) in $\nu$.

    $G = X^\top DM(I - \lambda\gamma P_\pi)^{-1}(I - \gamma P_\pi)X$ and $h = X^\top DM(I -
    \lambda\gamma P_\pi)^{-1}r_\pi$ with $M = \mathrm{diag}(\lambda i + (1-\lambda)m)$. The emphasis
    $m$, an (s,) array, is by default the exact $m_\pi$; a learned one, $Xw$, gives the mean field
    of GEM-ETD($\lambda$), and the mean of a followon trace with a decay $\beta$ that of
    ETD($\lambda$, $\beta$).
    """
    weight = exact_emphasis(problem, target) if emphasis is None else np.asarray(emphasis, float)
    if weight.shape != problem.interest.shape or not np.isfinite(weight).all():
        raise ValueError(
            f"emphasis: got shape {weight.shape}; {problem.interest.shape} finite numbers are "
            "required"
        )
    checks.probability("trace_decay", trace_decay, "a number")
    if trace_decay:
        weight = trace_decay * problem.interest + (1.0 - trace_decay) * weight
    system = _weighted_system(problem, target, weight, trace_decay)
    return replace(system, label=f"ETD({trace_decay:g})")


def td_system(
    problem: Problem, target: ArrayLike | None = None, trace_decay: float = 0.0
) -> LinearSystem:
    r"""The mean field of TD($\lambda$).

    Given $S_t$ the trace has the mean $D\,\mathbb E[z_t/\rho_t|S_t] = (I - \lambda\gamma
    P_\pi^\top)^{-1}DX$, so that $G = A = X^\top D(I - \lambda\gamma P_\pi)^{-1}(I - \gamma P_\pi)X$
    and $h = b = X^\top D(I - \lambda\gamma P_\pi)^{-1}r_\pi$.
    """
    system = _weighted_system(problem, target, np.ones_like(problem.interest), trace_decay)
    return replace(system, label=f"TD({trace_decay:g})")


def vtrace_system(
    problem: Problem,
    target: ArrayLike | None = None,
    trace_decay: float = 0.0,
    trace_threshold: float = 1.0,
    threshold: float = 1.0,
) -> LinearSystem:
    r"""The mean field of V-trace($\lambda$).

    With $\omega = \min(\pi, \bar\rho\mu)$ and $c = \min(\pi, \bar c\mu)$, whose rows sum to at
    most 1, $\gamma P_\omega = \sum_a\omega(a|s)\gamma p$, and the diagonal matrix $\Omega$ of
    $\sum_a\omega$,

    $$
    G = X^\top D(I - \lambda\gamma P_c)^{-1}(\Omega - \gamma P_\omega)X, \quad
    h = X^\top D(I - \lambda\gamma P_c)^{-1}r_\omega.
    $$
    """
    for name, value in (("trace_threshold", trace_threshold), ("threshold", threshold)):
        checks.number(name, value, "a number above 0 is required", lambda known: known > 0.0)
    pi, mu = problem.require_target(target), problem.behavior

    def clip(at: float) -> Float[np.ndarray, "s a"]:
        return pi if np.isinf(at) else np.minimum(pi, at * mu)

    system = _cut_system(problem, target, trace_decay, clip(trace_threshold), clip(threshold))
    return replace(system, label=_label("V-trace", trace_decay))


def tree_backup_system(
    problem: Problem, target: ArrayLike | None = None, trace_decay: float = 0.0
) -> LinearSystem:
    r"""The mean field of tree backup($\lambda$).

    With $K = \sum_a\mu(a|s)\pi(a|s)\gamma p$, $G = X^\top D(I - \lambda K)^{-1}(I - \gamma P_\pi)X$
    and $h = X^\top D(I - \lambda K)^{-1}r_\pi$.
    """
    pi = problem.require_target(target)
    system = _cut_system(problem, target, trace_decay, problem.behavior * pi, pi)
    return replace(system, label=_label("tree backup", trace_decay))


def abtd_system(
    problem: Problem,
    target: ArrayLike | None = None,
    zeta: float = 0.0,
    xi_0: float = 1.0,
    xi_max: float = 2.0,
) -> LinearSystem:
    r"""The mean field of ABTD($\zeta$).

    With $\xi = 2\zeta\xi_0 + \max(0, 2\zeta-1)(\xi_{\max} - 2\xi_0)$ and $K = \sum_a\mu\pi
    \min(\xi, 1/\max(\pi, \mu))\gamma p$, $G = X^\top D(I - K)^{-1}(I - \gamma P_\pi)X$ and
    $h = X^\top D(I - K)^{-1}r_\pi$.
    """
    checks.probability("zeta", zeta, "a number")
    for name, value in (("xi_0", xi_0), ("xi_max", xi_max)):
        checks.positive(name, value, "a positive and finite number is required")
    pi, mu = problem.require_target(target), problem.behavior
    xi = 2.0 * zeta * xi_0 + max(0.0, 2.0 * zeta - 1.0) * (xi_max - 2.0 * xi_0)
    larger = np.maximum(pi, mu)
    cut = np.divide(mu * pi, larger, out=np.zeros_like(pi), where=larger > 0)
    cut = np.minimum(xi * mu * pi, cut)
    system = _cut_system(problem, target, float(zeta > 0), cut, pi)
    return replace(system, label=_label("ABTD", zeta))


def _label(name: str, decay: float) -> str:
    """A learner's name in tables, with the decay of its trace if it has one."""
    return f"{name}({decay:g})" if decay else name


def value_blocks(
    problem: Problem, target: ArrayLike | None, decay: float = 0.0
) -> tuple[Matrix, Matrix, Float[np.ndarray, " k"]]:
    r"""$C$, and $A$ and $b$ of TD($\lambda$)."""
    d, x = problem.stationary, problem.x
    return weighted_gram(x, d, x), *_follow(problem, target_chain(problem, target), decay, d)


def _weighted_system(
    problem: Problem, target: ArrayLike | None, weight: Float[np.ndarray, " s"], decay: float
) -> LinearSystem:
    r"""TD($\lambda$) with features that are weighted as they enter the trace."""
    weight = problem.stationary * weight
    A, b = _follow(problem, target_chain(problem, target), decay, weight)
    sizes = column_sizes(weighted_gram(problem.x, np.abs(weight), problem.x))
    return LinearSystem(A, b, sizes, estimates="values")


def _cut_system(
    problem: Problem,
    target: ArrayLike | None,
    decay: float,
    cut: Float[np.ndarray, "s a"],
    update: Float[np.ndarray, "s a"],
) -> LinearSystem:
    r"""TD($\lambda$) with $\mu c$ for the target in the trace, and $\mu\omega$ in the update."""
    chain, d, x = target_chain(problem, target), problem.stationary, problem.x
    A, b = _follow(
        problem, chain, decay, d, TargetChain(problem, cut), TargetChain(problem, update)
    )
    return LinearSystem(A, b, column_sizes(weighted_gram(x, d, x)), estimates="values")


def _follow(
    problem: Problem,
    chain: TargetChain,
    decay: float,
    weight: Float[np.ndarray, " s"],
    trace: TargetChain | None = None,
    update: TargetChain | None = None,
) -> tuple[Matrix, Float[np.ndarray, " k"]]:
    r"""$X^\top D_w(I - \lambda K)^{-1}$ times $(\Omega - \gamma P_\omega)X$ and $r_\omega$."""
    checks.probability("trace_decay", decay, "a number")
    trace, update = trace or chain, update or chain
    x, mass = problem.x, update.target.sum(1)
    step = (x if update is chain else sparse.diags_array(mass) @ x) - update.matrix @ x
    if not decay:
        return weighted_gram(x, weight, step), x.T @ (weight * update.reward)
    if x.shape[1] > DENSE:
        raise ValueError(
            f"trace_decay: got {decay:g} with {x.shape[1]} features; with a trace their matrix is "
            f"dense, and at most {DENSE} are supported"
        )
    resolvent = chain.resolvent  # refuses what is close to a radius of 1, also for less than it
    if decay < 1.0 or trace is not chain:
        resolvent = Resolvent(decay * trace.matrix)
    parts = [
        weighted_gram(x, weight, resolvent.right(as_dense(step[:, first : first + COLUMNS])))
        for first in range(0, x.shape[1], COLUMNS)
    ]
    return np.concatenate(parts, axis=1), x.T @ (weight * resolvent.right(update.reward))
