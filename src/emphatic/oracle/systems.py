"""Mean fields of the linear learners: E[d_{t+1} - d_t] = alpha (vector - matrix d)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import sparse

from .. import _checks as checks
from .._markov import Matrix
from ..mdp import policy_matrix, Problem
from .chain import emphasis as exact_emphasis
from .chain import target_chain

RANK_TOLERANCE = 1e-12
DENSE = 1000  # features up to which a matrix of theirs is stored dense
SPECTRUM = 600  # unknowns up to which eigenvalues are computed


def weighted_gram(left, weight: np.ndarray, right):
    r"""$L^\top \mathrm{diag}(w) R$, dense unless it is large and sparse."""
    product = left.T @ (sparse.diags_array(weight) @ right)
    if sparse.issparse(product) and product.shape[0] <= DENSE:
        return product.toarray()
    return product


def column_sizes(C) -> np.ndarray:
    """The sizes of the features behind a Gram matrix (1 for a feature that is 0 everywhere).

    A rank is decided after division by them: rare states and small features are not dependent.
    """
    sizes = np.sqrt(np.maximum(C.diagonal(), 0.0))
    return np.where(sizes > 0, sizes, 1.0)


def weighted_norm(weight: np.ndarray, y: np.ndarray) -> float:
    r"""$\sqrt{\sum_s w(s)y(s)^2}$, without overflow."""
    largest = float(np.abs(y).max(initial=0.0))
    return largest * float(np.sqrt(weight @ (y / largest) ** 2)) if largest > 0 else 0.0


@dataclass(frozen=True, eq=False)
class LinearSystem:
    r"""A mean field $d \mapsto h - Gd$: what a linear learner does on average.

    **Arguments:**

    - `matrix`: $G$, dense, or csr where thousands of sparse features make it large.
    - `vector`: $h$.
    - `sizes`: The size of each unknown's feature: the rank is that of $G_{jk}/(c_jc_k)$, where a
      singular value below 1e-12 is rounding. By default 1 for all, and the rank is relative to the
      largest singular value.
    """

    matrix: Matrix
    vector: np.ndarray
    sizes: np.ndarray | None = None

    def drift(self, d: ArrayLike) -> Float[np.ndarray, " n"]:
        r"""The mean direction $h - Gd$ at $d$."""
        return self.vector - self.matrix @ np.asarray(d)

    def rank(self) -> int:
        """The numerical rank of the matrix (relative tolerance 1e-12)."""
        sigma = np.linalg.svd(self._scaled(self._dense("rank")), compute_uv=False)
        return int((sigma > RANK_TOLERANCE * max(sigma[0], self._least())).sum())

    def solution(self) -> Float[np.ndarray, " n"]:
        r"""The fixed point $G^{-1}h$; a `ValueError` if $G$ is singular."""
        size = len(self.vector)
        singular = ValueError(
            f"matrix: the mean matrix is singular, so that the fixed point is not unique "
            f"({size} unknowns); least_norm_solution() gives the shortest one"
        )
        if sparse.issparse(self.matrix):
            from scipy.sparse.linalg import splu

            try:
                factor = splu(sparse.csc_array(self._scaled(self.matrix)))
            except RuntimeError:
                raise singular from None
            pivots = np.abs(factor.U.diagonal())
            if pivots.min() <= RANK_TOLERANCE * max(pivots.max(), self._least()):
                raise singular
            return self._unscaled(factor.solve)
        if self.rank() < size:
            raise singular
        matrix = self._scaled(self.matrix)
        return self._unscaled(lambda vector: np.linalg.solve(matrix, vector))

    def least_norm_solution(self) -> Float[np.ndarray, " n"]:
        r"""The shortest $d$ among those that minimise $\|h - Gd\|$, namely $G^+h$."""
        U, sigma, Vt = np.linalg.svd(self._dense("least_norm_solution"))
        rank = min(self.rank(), int((sigma > np.finfo(float).eps * sigma[0]).sum()))
        return Vt[:rank].T @ (U[:, :rank].T @ self.vector / sigma[:rank])

    def slowest_mode(self) -> float | None:
        r"""The smallest real part of an eigenvalue of $G$: negative, and the learner diverges.

        None above 600 unknowns.
        """
        if sparse.issparse(self.matrix) or len(self.vector) > SPECTRUM:
            return None
        slowest = float(np.linalg.eigvals(self.matrix).real.min())
        return slowest if abs(slowest) > RANK_TOLERANCE else 0.0

    def _scaled(self, matrix: Matrix) -> Matrix:
        if self.sizes is None:
            return matrix
        if sparse.issparse(matrix):
            inverse = sparse.diags_array(1.0 / self.sizes)
            return inverse @ matrix @ inverse
        return matrix / self.sizes[:, None] / self.sizes

    def _unscaled(self, solve) -> np.ndarray:
        sizes = 1.0 if self.sizes is None else self.sizes
        return solve(self.vector / sizes) / sizes

    def _least(self) -> float:
        return 0.0 if self.sizes is None else 1.0

    def _dense(self, need: str) -> np.ndarray:
        if sparse.issparse(self.matrix):
            raise ValueError(
                f"matrix: {need}() needs the singular values of a sparse system of "
                f"{len(self.vector)} unknowns; at most {DENSE} features are supported"
            )
        return self.matrix


def _stack(blocks, vectors, sizes) -> LinearSystem:
    vector, sizes = np.concatenate(vectors), np.concatenate(sizes)
    if any(sparse.issparse(block) for row in blocks for block in row):
        return LinearSystem(sparse.csr_array(sparse.block_array(blocks)), vector, sizes)
    return LinearSystem(np.block(blocks), vector, sizes)


def _gradient_system(C, A, b, ridge: float) -> LinearSystem:
    r"""$G = [[C, A], [-A^\top, \eta I]]$ and $h = [b; 0]$."""
    checks.ridge(ridge)
    size = C.shape[0]
    eye = sparse.eye_array(size, format="csr") if sparse.issparse(C) else np.eye(size)
    sizes = column_sizes(C)
    regularised = np.sqrt(sizes**2 + ridge)
    return _stack([[C, A], [-A.T, ridge * eye]], [b, np.zeros(size)], [sizes, regularised])


def _state_blocks(problem: Problem, target: ArrayLike | None, weight: np.ndarray):
    r"""$X^\top D_w X$, $X^\top D_w(I - \gamma P_\pi)X$ and $X^\top D_w r_\pi$ for weights $w$."""
    chain, x = target_chain(problem, target), problem.x
    return (
        weighted_gram(x, weight, x),
        weighted_gram(x, weight, x - chain.matrix @ x),
        x.T @ (weight * chain.reward),
    )


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
    C, forward, _ = _state_blocks(problem, target, d)
    return _gradient_system(C, forward.T, problem.x.T @ (d * problem.interest), ridge)


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
    return _gradient_system(weighted_gram(xa, weight, xa), A, b, ridge)


def gtd2_system(problem: Problem, target: ArrayLike | None = None) -> LinearSystem:
    r"""The mean field of GTD2 in $[\kappa; \nu]$.

    $\kappa$ moves by $(\rho_t\delta_t - x_t^\top\kappa)x_t$ and $\nu$ by $\rho_t(x_t -
    \gamma x_{t+1})x_t^\top\kappa$, so that with $A = X^\top D(I - \gamma P_\pi)X$

    $$
    G = \begin{bmatrix} C & A \\ -A^\top & 0 \end{bmatrix}, \quad
    h = \begin{bmatrix} X^\top Dr_\pi \\ 0 \end{bmatrix}.
    $$
    """
    return _gradient_system(*_state_blocks(problem, target, problem.stationary), ridge=0.0)


def tdc_system(problem: Problem, target: ArrayLike | None = None) -> LinearSystem:
    r"""The mean field of TDC in $[\kappa; \nu]$, both with the same step size.

    $\kappa$ moves by $(\rho_t\delta_t - x_t^\top\kappa)x_t$ and $\nu$ by $\rho_t(\delta_tx_t -
    \gamma x_{t+1}x_t^\top\kappa)$, so that with $A = X^\top D(I - \gamma P_\pi)X$

    $$
    G = \begin{bmatrix} C & A \\ C - A^\top & A \end{bmatrix}, \quad
    h = \begin{bmatrix} X^\top Dr_\pi \\ X^\top Dr_\pi \end{bmatrix}.
    $$
    """
    C, A, b = _state_blocks(problem, target, problem.stationary)
    return _stack([[C, A], [C - A.T, A]], [b, b], [column_sizes(C)] * 2)


def etd_system(
    problem: Problem, target: ArrayLike | None = None, emphasis: ArrayLike | None = None
) -> LinearSystem:
    r"""The mean field of ETD(0) in $\nu$.

    $G = X^\top DM(I - \gamma P_\pi)X$ and $h = X^\top DMr_\pi$ with $M = \mathrm{diag}(m)$.

    **Arguments:**

    - `problem`, `target`: The problem and the target policy.
    - `emphasis`: What weights the updates, an (s,) array; by default the exact $m_\pi$.
      A learned emphasis $Xw$ gives the mean field of GEM-ETD(0).
    """
    if emphasis is None:
        emphasis = exact_emphasis(problem, target)
    weight = np.asarray(emphasis, dtype=np.float64)
    if weight.shape != problem.interest.shape or not np.isfinite(weight).all():
        raise ValueError(
            f"emphasis: got shape {weight.shape}; {problem.interest.shape} finite numbers are "
            "required"
        )
    weight = problem.stationary * weight
    _, A, b = _state_blocks(problem, target, weight)
    return LinearSystem(A, b, column_sizes(weighted_gram(problem.x, np.abs(weight), problem.x)))


def td_system(problem: Problem, target: ArrayLike | None = None) -> LinearSystem:
    r"""The mean field of TD(0): $G = X^\top D(I - \gamma P_\pi)X$ and $h = X^\top Dr_\pi$."""
    return etd_system(problem, target, np.ones_like(problem.interest))


def reverse_td_system(problem: Problem, target: ArrayLike | None = None) -> LinearSystem:
    r"""The mean field of semi-gradient emphasis learning, which GEM makes convergent.

    $w$ moves by $(i(S_{t+1}) + \gamma\rho_tx_t^\top w - x_{t+1}^\top w)x_{t+1}$, so that
    $G = X^\top(I - \gamma P_\pi^\top)DX$ and $h = X^\top Di$.
    """
    d = problem.stationary
    C, forward, _ = _state_blocks(problem, target, d)
    b = problem.x.T @ (d * problem.interest)
    return LinearSystem(forward.T, b, column_sizes(C))


def projection(problem: Problem, actions: bool = False):
    r"""The projection $\Pi = X(X^\top DX)^{-1}X^\top D$ on the features, as a linear operator.

    `projection(problem) @ y` is $\Pi y$, the closest point of the span of $X$ in the norm
    $\|\cdot\|_D$. It exists for dependent features too, where the inverse is a pseudo-inverse.

    **Arguments:**

    - `problem`: The problem.
    - `actions`: Whether to project (s*a,) vectors on the state-action features by
      $\tilde\Pi = \tilde X(\tilde X^\top\tilde D\tilde X)^{-1}\tilde X^\top\tilde D$ instead.

    **Returns:**

    A `scipy.sparse.linalg.LinearOperator`; `projection(problem) @ np.eye(s)` is the matrix.
    """
    from scipy.sparse.linalg import LinearOperator, splu

    x = problem.xa_rows if actions else problem.x
    weight = (problem.stationary_actions if actions else problem.stationary).ravel()
    C = weighted_gram(x, weight, x)
    inverse = sparse.diags_array(1.0 / column_sizes(C))
    x, C = x @ inverse, inverse @ C @ inverse
    if sparse.issparse(C):
        try:
            factor = splu(sparse.csc_array(C))
        except RuntimeError:
            factor = None
        if factor is None or np.abs(factor.U.diagonal()).min() <= RANK_TOLERANCE:
            raise ValueError(
                f"{'xa' if actions else 'x'}: {C.shape[0]} features are linearly dependent, and "
                "too many for a pseudo-inverse; drop some"
            )
        invert = factor.solve
    else:
        invert = np.linalg.pinv(C, rcond=RANK_TOLERANCE, hermitian=True).__matmul__
    size = len(weight)

    def project(y):
        return x @ invert(x.T @ (sparse.diags_array(weight) @ y))

    def adjoint(y):
        return sparse.diags_array(weight) @ (x @ invert(x.T @ y))

    return LinearOperator(
        (size, size), matvec=project, matmat=project, rmatvec=adjoint, rmatmat=adjoint, dtype=float
    )
