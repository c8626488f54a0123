"""Linear systems: what linear learners do on average, and the matrices that they are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import sparse

from .. import _validation as checks
from .._markov import as_dense, Matrix, Vector
from ..mdp import Problem
from ..types import Estimand
from .chain import target_chain

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

RANK_TOLERANCE = 1e-12
DENSE = 1000  # features up to which a matrix of theirs is stored dense
SPECTRUM = 600  # unknowns up to which eigenvalues are computed


def weighted_gram(left: Matrix, weight: Vector, right: Matrix) -> Matrix:
    r"""$L^\top \mathrm{diag}(w) R$, dense unless it is large and sparse."""
    product = left.T @ (sparse.diags_array(weight) @ right)
    return as_dense(product) if product.shape[0] <= DENSE else product


def column_sizes(C: Matrix) -> Vector:
    """The sizes of the features behind a Gram matrix (1 for a feature that is 0 everywhere).

    A rank is decided after division by them: rare states and small features are not dependent.
    """
    sizes = np.sqrt(np.maximum(C.diagonal(), 0.0))
    return np.where(sizes > 0, sizes, 1.0)


def weighted_norm(weight: Vector, y: Vector) -> float:
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
    - `estimates`: What the learner estimates, if the system is that of a learner.
    - `label`: The learner's name in tables.
    """

    matrix: Matrix
    vector: Vector
    sizes: Vector | None = None
    estimates: Estimand | None = None
    label: str = ""

    def drift(self, d: ArrayLike) -> Vector:
        r"""The mean direction $h - Gd$ at $d$."""
        return self.vector - self.matrix @ np.asarray(d)

    def rank(self) -> int:
        """The numerical rank of the matrix (relative tolerance 1e-12)."""
        sigma = np.linalg.svd(self._scaled(self._dense("rank")), compute_uv=False)
        return int((sigma > RANK_TOLERANCE * max(sigma[0], self._least())).sum())

    def solution(self) -> Vector:
        r"""The fixed point $G^{-1}h$; a `ValueError` if $G$ is singular."""
        singular = ValueError(
            f"matrix: the mean matrix is singular, so that the fixed point is not unique "
            f"({len(self.vector)} unknowns); least_norm_solution() gives the shortest one"
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
        if self.rank() < len(self.vector):
            raise singular
        return self._unscaled(lambda vector: np.linalg.solve(self._scaled(self.matrix), vector))

    def least_norm_solution(self) -> Vector:
        r"""The shortest $d$ among those that minimise $\|h - Gd\|$, namely $G^+h$."""
        U, sigma, Vt = np.linalg.svd(self._dense("least_norm_solution"))
        rank = min(self.rank(), int((sigma > np.finfo(float).eps * sigma[0]).sum()))
        return Vt[:rank].T @ (U[:, :rank].T @ self.vector / sigma[:rank])

    def slowest_mode(self) -> float | None:
        r"""The least real part of $G$'s eigenvalues (below 0 it diverges); None above 600."""
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

    def _unscaled(self, solve: Callable[[Vector], Vector]) -> Vector:
        sizes = 1.0 if self.sizes is None else self.sizes
        return solve(self.vector / sizes) / sizes

    def _least(self) -> float:
        return 0.0 if self.sizes is None else 1.0

    def _dense(self, need: str) -> Float[np.ndarray, "n n"]:
        if sparse.issparse(self.matrix):
            raise ValueError(
                f"matrix: {need}() needs the singular values of a sparse system of "
                f"{len(self.vector)} unknowns; at most {DENSE} features are supported"
            )
        return self.matrix


def stack(
    blocks: list[list[Matrix]],
    vectors: Sequence[Float[np.ndarray, " _"]],
    sizes: Sequence[Float[np.ndarray, " _"]],
) -> LinearSystem:
    is_sparse = any(sparse.issparse(block) for row in blocks for block in row)
    matrix = sparse.csr_array(sparse.block_array(blocks)) if is_sparse else np.block(blocks)
    return LinearSystem(matrix, np.concatenate(vectors), np.concatenate(sizes))


def gradient_system(C: Matrix, A: Matrix, b: Vector, ridge: float) -> LinearSystem:
    r"""$G = [[C, A], [-A^\top, \eta I]]$ and $h = [b; 0]$."""
    checks.ridge(ridge)
    sizes = column_sizes(C)
    regularised = np.sqrt(sizes**2 + ridge)
    zeros = np.zeros(C.shape[0])
    return stack([[C, A], [-A.T, ridge * identity_like(C)]], [b, zeros], [sizes, regularised])


def identity_like(C: Matrix) -> Matrix:
    """The identity of a Gram matrix's size, stored as it is."""
    size = C.shape[0]
    return sparse.eye_array(size, format="csr") if sparse.issparse(C) else np.eye(size)


def state_blocks(
    problem: Problem, target: ArrayLike | None, weight: Float[np.ndarray, " s"]
) -> tuple[Matrix, Matrix, Float[np.ndarray, " k"]]:
    r"""$X^\top D_w X$, $X^\top D_w(I - \gamma P_\pi)X$ and $X^\top D_w r_\pi$ for weights $w$."""
    chain, x = target_chain(problem, target), problem.x
    A = weighted_gram(x, weight, x - chain.matrix @ x)
    return weighted_gram(x, weight, x), A, x.T @ (weight * chain.reward)


def projection(problem: Problem, actions: bool = False) -> "LinearOperator":
    r"""The projection $\Pi = X(X^\top DX)^{-1}X^\top D$ on the features, as a linear operator.

    `projection(problem) @ y` is $\Pi y$, the closest point of the span of $X$ in the norm
    $\|\cdot\|_D$, and `projection(problem) @ np.eye(s)` is the matrix. It exists for dependent
    features too, where the inverse is a pseudo-inverse. With `actions` it projects (s*a,) vectors
    on the state-action features by $\tilde\Pi = \tilde X(\tilde X^\top\tilde D\tilde X)^{-1}
    \tilde X^\top\tilde D$ instead.
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

    def project(y: Float[np.ndarray, "n *m"]) -> Float[np.ndarray, "n *m"]:
        return x @ invert(x.T @ (sparse.diags_array(weight) @ y))

    def adjoint(y: Float[np.ndarray, "n *m"]) -> Float[np.ndarray, "n *m"]:
        return sparse.diags_array(weight) @ (x @ invert(x.T @ y))

    shape = (len(weight), len(weight))
    return LinearOperator(
        shape, matvec=project, matmat=project, rmatvec=adjoint, rmatmat=adjoint, dtype=float
    )
