"""Exact moments of the followon trace, and of its truncations."""

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from scipy import sparse

from .. import _markov
from .._markov import Matrix, Resolvent
from ..mdp import policy_matrix, Problem
from .chain import decayed_discount, emphasis, target_chain, weighted_emphasis
from .linear import column_sizes, RANK_TOLERANCE, weighted_gram


def _second_moment_matrix(
    problem: Problem, target: ArrayLike | None, decay: float | None
) -> Matrix:
    r"""$B = \sum_a (\pi^2/\mu)\,\gamma^2 p$."""
    target, mu = problem.require_target(target), problem.behavior
    weight = np.divide(target**2, mu, out=np.zeros_like(mu), where=mu > 0)
    return policy_matrix(weight) @ problem.mdp.weighted(decayed_discount(problem, decay) ** 2)


def followon_radius(
    problem: Problem, target: ArrayLike | None = None, decay: float | None = None
) -> float:
    r"""The spectral radius of the recursion of the trace's second moment.

    It is that of $B = \sum_a(\pi^2/\mu)\gamma^2p$ on the states that interest leads to, and the
    trace has a finite variance everywhere iff it is below 1. Above 1000 states it is NaN where no
    iteration settles; [followon_variance] decides even then. Where the ratio's distribution and
    the discount are the same in all states, it is $\gamma^2\mathbb E_\mu[\rho^2]$. A decay is as
    for [emphasis].
    """
    B = _second_moment_matrix(problem, target, decay)
    active = np.flatnonzero(_markov.reachable(B, problem.interest > 0))
    return _markov.spectral_radius(B[active][:, active])


def followon_variance(
    problem: Problem, target: ArrayLike | None = None, decay: float | None = None
) -> Float[np.ndarray, " s"]:
    r"""The limiting variance of the followon trace $M_t$ given $S_t = s$, infinite where it is.

    With $B = \sum_a(\pi^2/\mu)\gamma^2p$ the second moment solves

    $$
    d\,\mathbb E[M^2] = d\,i\,(2m_\pi - i) + B^\top(d\,\mathbb E[M^2]),
    $$

    and the variance $V$ therefore $dV = c + B^\top(dV)$ with $c(s') = \sum_{s,a}d\,\mu\,p\,
    (\gamma\rho\,m_\pi(s) - (m_\pi - i)(s'))^2$, which is what is solved.

    It is infinite at every state that $B$ leads to from a strongly connected class of spectral
    radius at least 1 that interest leads to, and finite elsewhere. A decay is as for [emphasis].
    """
    B, d, i = _second_moment_matrix(problem, target, decay), problem.stationary, problem.interest
    m = emphasis(problem, target, decay)
    active = np.flatnonzero(_markov.reachable(B, i > 0))
    second_moment = B[active][:, active]
    infinite = np.zeros(len(active), bool)
    resolvent = _markov.convergent_resolvent(second_moment)
    if resolvent is None:
        infinite = _explodes(second_moment)
        resolvent = Resolvent(second_moment[~infinite][:, ~infinite])
    variance = np.zeros(len(d))
    variance[active[infinite]] = np.inf
    finite = active[~infinite]
    if len(finite):
        gamma = decayed_discount(problem, decay)
        added = _new_variance(problem, problem.require_target(target), m, gamma)
        variance[finite] = np.maximum(resolvent.left(added[finite]), 0.0) / d[finite]
    return variance


def _new_variance(
    problem: Problem, target: np.ndarray, m: np.ndarray, discount: float | np.ndarray
) -> np.ndarray:
    r"""$\sum_{s,a} d\mu p\,(\gamma\rho\,m(s) - (m - i)(s'))^2$ at each $s'$: what one step adds."""
    mdp, d = problem.mdp, problem.stationary
    kernel = sparse.csr_array(mdp.kernel)
    rows = np.repeat(np.arange(kernel.shape[0]), np.diff(kernel.indptr))
    gamma = mdp.outcome(discount)
    if not mdp.is_sparse:
        gamma = gamma[mdp.kernel.ravel() != 0]
    root = np.sqrt(problem.behavior)
    carried = np.divide(target * m[:, None], root, out=np.zeros_like(root), where=root > 0).ravel()
    change = gamma * carried[rows] - root.ravel()[rows] * (m - problem.interest)[kernel.indices]
    weight = np.repeat(d, mdp.num_actions)[rows] * kernel.data
    # A sum of squares: a trace that does not vary has variance 0, not a difference of numbers.
    return np.bincount(kernel.indices, weight * change**2, minlength=len(d))


def _explodes(B: Matrix) -> Bool[np.ndarray, " s"]:
    """The states in or behind a strongly connected class of radius at least one."""
    classes = _markov.strong_classes(B)
    sizes = np.bincount(classes)
    if len(sizes) == 1:
        return np.ones(len(classes), bool)
    source = (sizes[classes] == 1) & (B.diagonal() >= 1.0)  # the radius of a lone state
    order = np.argsort(classes, kind="stable")
    first = np.cumsum(sizes) - sizes
    for label in np.flatnonzero(sizes > 1):
        states = order[first[label] : first[label] + sizes[label]]
        source[states] = _markov.convergent_resolvent(B[states][:, states]) is None
    return _markov.reachable(B, source)


def truncated_emphasis(
    problem: Problem, target: ArrayLike | None = None, length: int = 0, decay: float | None = None
) -> Float[np.ndarray, " s"]:
    r"""The emphasis that keeps $n$ ratios, $m_n = \sum_{k=0}^n(\gamma D^{-1}P_\pi^\top D)^k\,i$.

    The length is $n$; with 0 it is the interest. A decay is as for [emphasis].
    """
    if length < 0 or length != int(length):
        raise ValueError(f"length: got {length}; the number of ratios must be a whole number >= 0")
    backward, d = target_chain(problem, target, decay).matrix.T, problem.stationary
    total = source = d * problem.interest
    for _ in range(int(length)):
        total = source + backward @ total
    return total / d


def truncation_length(problem: Problem, target: ArrayLike | None = None) -> int | None:
    r"""The smallest $n$ from which truncated emphatic TD is stable, or None.

    That is, the smallest $n$ such that $G_{n'} = X^\top D_{m_{n'}}(I - \gamma P_\pi)X$ is positive
    definite for every $n' \ge n$, with $D_{m_n} = \mathrm{diag}(d_\mu m_n)$; None if there is no
    such $n$. Being positive definite is not monotone in $n$, so each length is examined until
    $c_n = \max_s (m_\pi - m_n)(s)/m_\pi(s)$, which never grows, is too small to change the sign.
    """
    chain, total = target_chain(problem, target), weighted_emphasis(problem, target)
    x = _markov.as_dense(problem.x)
    step = x - chain.matrix @ x
    sizes = column_sizes(weighted_gram(x, total, x))
    x, step = x / sizes, step / sizes
    limit = weighted_gram(x, total, step)
    eigenvalues = np.linalg.eigvalsh(limit + limit.T)
    if eigenvalues[0] <= RANK_TOLERANCE * np.abs(eigenvalues).max():
        return None
    # In coordinates where the symmetric part of the limit is I, the tail of every length from n
    # on takes away at most c_n times the positive parts of what the states add.
    lower = np.linalg.cholesky((limit + limit.T) / 2.0)
    x, step = np.linalg.solve(lower, x.T).T, np.linalg.solve(lower, step.T).T
    bound = _largest_positive_part(x, step, total)
    present = total > 0
    backward, tail, length, first = chain.matrix.T, total, 0, 0
    while True:
        tail = backward @ tail  # d (m - m_n)
        if (tail[present] / total[present]).max() * bound < 1.0:
            return first
        gram = weighted_gram(x, total - tail, step)
        length += 1
        if not _is_positive_definite((gram + gram.T) / 2.0):
            first = length


def _largest_positive_part(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """The largest eigenvalue of the weighted sum of the positive parts of (x y' + y x') / 2."""
    norm_x, norm_y = np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1)
    eigenvalue = ((x * y).sum(1) + norm_x * norm_y) / 2.0  # the positive one of two
    vector = x * norm_y[:, None] + y * norm_x[:, None]
    norm = np.linalg.norm(vector, axis=1, keepdims=True)
    vector = np.divide(vector, norm, out=np.zeros_like(vector), where=norm > 0)
    return float(np.linalg.eigvalsh(weighted_gram(vector, weight * eigenvalue, vector))[-1])


def _is_positive_definite(matrix: np.ndarray) -> bool:
    """Whether a symmetric matrix near I has no eigenvalue below rounding."""
    try:
        np.linalg.cholesky(matrix - RANK_TOLERANCE * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True
