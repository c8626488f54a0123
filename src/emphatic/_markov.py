"""Finite nonnegative matrices: classes, periods, resolvents and stationary distributions.

Everything here takes a dense or csr matrix and answers in float64. For a matrix Q of
spectral radius below one, I - Q is an M-matrix: it is factorised without pivoting, which is
stable and keeps nonnegative solutions nonnegative.
"""

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

Matrix: TypeAlias = Any
"""A dense array or a csr array (SciPy carries no types)."""
Vector: TypeAlias = Float[np.ndarray, " n"]
"""A vector of float64 numbers."""
Columns: TypeAlias = Float[np.ndarray, "n *m"]
"""A vector of float64 numbers, or a matrix of several."""

RESIDUAL = 1e-13  # relative residual at which an iterative solution is accepted
SMALL = 3000  # states up to which a sparse factorisation is always cheap
DENSE = 1000  # states up to which all eigenvalues are computed
AT_ONCE = 300  # states up to which a stationary law is found by elimination
ELIMINATED = 10_000  # states up to which it is where other methods lose digits
BLOCK, ROWS = 128, 512  # columns and rows of the blocks in which this happens
ACCURATE, DOUBTFUL = 1e-9, 1e-6  # relative errors: up to which they are believed, or unsaid
ROUNDING = 8.0 * np.finfo(float).eps  # of an entry, at least
UNIT_RADIUS = (
    "target: the discounted chain has spectral radius 1 to rounding (what leaves it is below "
    "1e-16); it must be below 1"
)


def as_dense(matrix: Matrix) -> np.ndarray:
    """A matrix as a dense array."""
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def graph(matrix: Matrix) -> sparse.csr_array:
    """The positive entries of a matrix, as a graph."""
    edges = sparse.csr_array(matrix > 0)
    edges.eliminate_zeros()
    return edges


def strong_classes(matrix: Matrix) -> Int[np.ndarray, " s"]:
    """The number of the strongly connected class of each state."""
    from scipy.sparse.csgraph import connected_components

    return connected_components(graph(matrix), directed=True, connection="strong")[1]


def reachable(matrix: Matrix, sources: Bool[np.ndarray, " s"]) -> Bool[np.ndarray, " s"]:
    """The states that some source leads to, sources included."""
    from scipy.sparse.csgraph import breadth_first_order

    root = sparse.csr_array(sources[None, :])  # one extra node that leads to every source
    column = sparse.csr_array((len(sources) + 1, 1), dtype=bool)
    edges = sparse.hstack([column, sparse.vstack([root, graph(matrix)])], format="csr")
    order = breadth_first_order(edges, 0, return_predecessors=False)
    reached = np.zeros(len(sources), bool)
    reached[order[1:] - 1] = True
    return reached


def why_reducible(matrix: Matrix) -> str | None:
    """Says which state does not lead to which, or returns None for an irreducible matrix."""
    num_classes = int(strong_classes(matrix).max()) + 1
    if num_classes == 1:
        return None
    first = np.arange(matrix.shape[0]) == 0
    unreached = ~reachable(matrix, first)
    if unreached.any():
        reason = f"state {unreached.argmax()} is never reached from state 0"
    else:
        lost = ~reachable(matrix.T, first)
        reason = f"state 0 is never reached again from state {lost.argmax()}"
    return f"({num_classes} classes): {reason}; every state must lead to every other"


def closed(matrix: Matrix) -> Bool[np.ndarray, " s"]:
    """The states of the strongly connected classes that nothing leaves."""
    classes, edges = strong_classes(matrix), graph(matrix).tocoo()
    left = np.unique(classes[edges.row[classes[edges.row] != classes[edges.col]]])
    return ~np.isin(classes, left)


def _levels(matrix: Matrix, directed: bool) -> Int[np.ndarray, " s"]:
    """The number of steps from state 0 to each state, -1 where it does not lead."""
    from scipy.sparse.csgraph import dijkstra

    steps = dijkstra(graph(matrix), directed, indices=0, unweighted=True)
    return np.where(np.isfinite(steps), steps, -1).astype(int)


def period(matrix: Matrix) -> int:
    """The period of an irreducible matrix: the gcd of the lengths of its cycles."""
    levels, edges = _levels(matrix, directed=True), graph(matrix).tocoo()
    return int(np.gcd.reduce(levels[edges.row] + 1 - levels[edges.col]))


def spectral_radius(matrix: Matrix) -> float:
    """The largest modulus of an eigenvalue: the largest Perron root of a strong class."""
    classes = strong_classes(matrix)
    radius = float(matrix.diagonal().max(initial=0.0))
    ends = np.cumsum(np.bincount(classes, minlength=1))
    for states in np.split(np.argsort(classes, kind="stable"), ends[:-1]):
        if len(states) > 1:
            radius = np.maximum(radius, _perron_root(matrix[states][:, states]))  # keeps NaN
    return float(radius)


def _perron_root(matrix: Matrix) -> float:
    """The Perron root of an irreducible matrix; NaN if a large one does not settle.

    min(Qy/y) <= root <= max(Qy/y) for every y > 0. Powers narrow these bounds on a wide graph,
    which has a gap; elsewhere Noda's inverse iteration does, which converges quadratically.
    """
    num_states = matrix.shape[0]
    if num_states <= DENSE:
        return float(np.abs(np.linalg.eigvals(as_dense(matrix))).max(initial=0.0))
    y, wide = np.ones(num_states), is_wide(matrix)
    for _ in range(5000 if wide else 200):
        image = matrix @ y
        low, high = float((image / y).min()), float((image / y).max())
        if high - low <= 1e-12 * high:
            return high
        if wide:
            y = image + high * y  # the multiple of y: a periodic matrix would not settle
        else:
            y = np.abs(Resolvent(matrix / (high * (1.0 + 1e-14)), iterative=False).right(y))
        y = np.maximum(y / y.max(), np.finfo(float).tiny)
    return float("nan")


def is_wide(matrix: Matrix) -> bool:
    """Whether elimination would fill in: a large graph in which most states are near all others."""
    if not sparse.issparse(matrix) or matrix.shape[0] <= SMALL:
        return False
    levels = _levels(matrix, directed=False)
    return bool(np.bincount(levels[levels >= 0]).max() > matrix.shape[0] / 8)


def _krylov(apply: Callable[[Vector], Vector], rhs: Vector, scale: float) -> Vector | None:
    """GMRES to a residual of `RESIDUAL * scale`, or None as soon as it stagnates."""
    from scipy.sparse.linalg import gmres, LinearOperator

    operator = LinearOperator((len(rhs), len(rhs)), matvec=apply, dtype=float)
    y, previous, atol = np.zeros(len(rhs)), np.inf, 0.5 * RESIDUAL * scale
    while (residual := float(np.linalg.norm(rhs - apply(y)))) > RESIDUAL * scale:
        if residual > 0.1 * previous:
            return None
        previous = residual
        y, _ = gmres(operator, rhs, x0=y, rtol=0.0, atol=atol, restart=25, maxiter=1)
    return y


class Resolvent:
    r"""$(I - Q)^{-1}$ for a nonnegative matrix $Q$ of spectral radius below one.

    Both sides share one factorisation. A wide graph, whose factors would be dense, mixes
    fast, so that GMRES converges in a few steps: it is tried there first. A right-hand side is a
    vector, or a matrix of some.
    """

    def __init__(self, matrix: Matrix, iterative: bool | None = None):
        self.matrix = matrix
        self.iterative = is_wide(matrix) if iterative is None else iterative

    def right(self, b: Columns) -> Columns:
        """The solution of y = b + Q y."""
        return self._solve(b, self.matrix, transposed=True)

    def left(self, b: Columns) -> Columns:
        """The solution of y = b + Q' y."""
        return self._solve(b, self.matrix.T, transposed=False)

    def _solve(self, b: Columns, matrix: Matrix, transposed: bool) -> Columns:
        if self.iterative and b.ndim == 2:
            return np.stack([self._solve(column, matrix, transposed) for column in b.T], axis=1)
        if self.iterative and "_factor" not in self.__dict__:
            y = _krylov(lambda y: y - matrix @ y, b, float(np.linalg.norm(b)))
            if y is not None:
                return y
        y = self._factor(b, transposed)
        return y + self._factor(b - (y - matrix @ y), transposed)

    @cached_property
    def _factor(self) -> Callable[[Columns, bool], Columns]:
        # I - Q' has dominant columns when Q is substochastic: the pivots stay on the diagonal.
        if sparse.issparse(self.matrix):
            from scipy.sparse.linalg import splu

            eye = sparse.eye_array(self.matrix.shape[0], format="csr")
            try:
                factor = splu(
                    (eye - self.matrix).T.tocsc(),
                    permc_spec="MMD_AT_PLUS_A",
                    diag_pivot_thresh=0.0,
                    options={"SymmetricMode": True},
                )
            except RuntimeError:
                raise ValueError(UNIT_RADIUS) from None
            return lambda b, transposed: factor.solve(b, "T" if transposed else "N")
        from scipy.linalg import LinAlgWarning, lu_factor, lu_solve

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)
            lu = lu_factor((np.eye(len(self.matrix)) - self.matrix).T)
        if not lu[0].diagonal().all():
            raise ValueError(UNIT_RADIUS)
        return lambda b, transposed: lu_solve(lu, b, trans=int(transposed), check_finite=False)


def convergent_resolvent(matrix: Matrix) -> Resolvent | None:
    """The resolvent of a nonnegative matrix, or None unless its spectral radius is below one.

    A witness decides: some y > 0 with Q y < y exists exactly then, and y = (I - Q)^{-1} 1 is one.
    """
    resolvent = Resolvent(matrix)
    with np.errstate(all="ignore"):
        y = np.ones(matrix.shape[0])
        for _ in range(5):  # a longer walk gives a witness that rounding cannot hide
            try:
                y = resolvent.right(y)
            except ValueError:  # the factor is exactly singular
                return None
            if not (y > 0).all():
                return None
            if (matrix @ y < y).all():
                return resolvent
            y = y / y.max()
        return None


def stationary(matrix: Matrix) -> Vector:
    """The stationary distribution of an irreducible stochastic matrix.

    Up to 300 states by the elimination of Grassmann, Taksar and Heyman, which subtracts nothing:
    every entry is right to full relative precision, however weakly the chain is coupled. Beyond,
    it is the expected number of visits between two visits to one state, a solution with an
    M-matrix, or for a wide graph that of GMRES. Either comes with a bound on its relative errors:
    where it leaves less than nine digits, up to 10^4 states are eliminated too; beyond, a warning
    says how many digits are right if six are not.
    """
    num_states = matrix.shape[0]
    if num_states <= AT_ONCE:
        return _stationary_elimination(as_dense(matrix).copy())
    law, error = _stationary_krylov_pair(matrix) if is_wide(matrix) else (None, np.inf)
    if law is None:
        law, error = _stationary_visits(matrix)
    if error <= ACCURATE:
        return law
    if num_states <= ELIMINATED:
        return _stationary_elimination(np.array(as_dense(matrix)))
    if error > 0.1:
        raise ValueError(
            "policy: its chain nearly falls apart, and no digit of its stationary distribution is "
            f"sure; at most {ELIMINATED} states are possible then"
        )
    if error > DOUBTFUL:
        warnings.warn(
            f"the stationary distribution has {int(-np.log10(error))} sure digits: its chain of "
            f"{num_states} states mixes slowly",
            stacklevel=3,
        )
    return law


def _stationary_elimination(p: Float[np.ndarray, "s s"]) -> Vector:
    """Folds the last state into the others until one is left, then unfolds (in place).

    Beyond the first 300 states in blocks, so that most of the work is a product of matrices.
    """
    with np.errstate(all="ignore"):  # what underflows is refused by the caller
        for end in range(len(p), AT_ONCE, -BLOCK):
            start = max(end - BLOCK, AT_ONCE)
            for k in range(end - 1, start - 1, -1):  # what later states of the block have added
                later = slice(k + 1, end)
                p[k, :k] += p[k, later] @ p[later, :k]
                p[:k, k] += p[:k, later] @ p[later, k]
                p[:k, k] /= p[k, :k].sum()
            for first in range(0, start, ROWS):
                rows = slice(first, min(first + ROWS, start))
                p[rows, :start] += p[rows, start:end] @ p[start:end, :start]
        for k in range(min(len(p), AT_ONCE) - 1, 0, -1):
            p[:k, k] /= p[k, :k].sum()
            p[:k, :k] += np.outer(p[:k, k], p[k, :k])
    visits = np.ones(len(p))
    for k in range(1, len(p)):
        visits[k] = visits[:k] @ p[:k, k]
    return visits / visits.sum()


def _stationary_visits(matrix: Matrix) -> tuple[Vector, float]:
    """The law by the visits between two visits to one state, and a bound on relative errors.

    What rounding leaves of y = b + Q'y is some epsilon of (I + Q')y + b in each entry, and
    (I - Q')^{-1}, which is not negative, carries it to y. That is believed of an inverse with which
    the state is reached from all others with probability 1, as it is: where the chain leaves a part
    less often than numbers are rounded, both y and its bound are made up.
    """
    num_states = matrix.shape[0]
    d = np.full(num_states, 1.0 / num_states)
    for _ in range(10):
        d = d @ matrix
    pin = int(d.argmax())  # a state that is visited often keeps the system well conditioned
    others = np.delete(np.arange(num_states), pin)
    visits = np.ones(num_states)
    row, within = as_dense(matrix[[pin]][:, others])[0], matrix[others][:, others]
    try:
        resolvent = Resolvent(within, iterative=False)
        visits[others] = y = resolvent.left(row)
        with np.errstate(all="ignore"):
            size = y + within.T @ y + row
            residual = np.abs(row - (y - within.T @ y))
            epsilon = ROUNDING + float(np.nanmax(np.where(size > 0, residual / size, 0.0)))
            error = epsilon * float((resolvent.left(size) / y).max())
            reached = resolvent.right(as_dense(matrix[others][:, [pin]])[:, 0])
    except ValueError:  # the factor is exactly singular
        return visits, np.inf
    is_sound = np.abs(reached - 1.0).max() < 0.1 and (visits > 0).all()
    if not is_sound or not error >= 0:
        error = np.inf
    return visits / visits.sum(), error


def _stationary_krylov_pair(matrix: Matrix) -> tuple[Vector | None, float]:
    """The law by GMRES from two unlike points, and the largest relative difference between both.

    A small residual alone says nothing of a slow chain.
    """
    num_states = matrix.shape[0]
    first = _stationary_krylov(matrix, np.full(num_states, 1.0 / num_states))
    if first is None:
        return None, np.inf
    second = _stationary_krylov(matrix, np.eye(1, num_states, num_states // 2)[0])
    if second is None or np.abs(first - second).sum() >= 1e-10:
        return None, np.inf
    with np.errstate(all="ignore"):
        return first, float(np.abs(first / second - 1.0).max())


def _stationary_krylov(matrix: Matrix, guess: Vector) -> Vector | None:
    transposed = matrix.T.tocsr()
    scale = float(np.linalg.norm(guess))
    step = _krylov(lambda y: y - transposed @ y, transposed @ guess - guess, scale)
    if step is None:
        return None
    d = transposed @ np.maximum(guess + step, 0.0)  # a step of the chain removes rounding signs
    return d / d.sum()
