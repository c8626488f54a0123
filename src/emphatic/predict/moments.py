"""The recursion of the second moments, as a matrix or matrix-free, and its powers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from .._work import require_memory
from .affine import AffineMap, NUM_VECTORS

DENSE = 3000  # unknowns up to which the recursion is a matrix
MIN_VECTORS, MAX_VECTORS = NUM_VECTORS, 2048  # vectors of a Krylov basis: at first, and at most
AGREEMENT = 1e-7  # relative, of two bases of which one is twice as large as the other
EXHAUSTED = 1e-14  # the relative remainder of a vector that adds nothing to a basis


@dataclass(frozen=True, eq=False)
class Recursion:
    r"""$M'_{z'} = \sum_{y: z \to z'}\Pr(y|z)\,T(y)M_zT(y)^\top$, on symmetric matrices $M_z$.

    Of each matrix the lower half is stored, and all halves are one vector of unknowns. The map
    takes positive semidefinite matrices to such matrices.
    """

    maps: Float[np.ndarray, "y n n"]
    probability: Float[np.ndarray, " y"]
    source: Int[np.ndarray, " y"]
    destination: Int[np.ndarray, " y"]
    count: int

    @cached_property
    def half(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the lower half of a matrix."""
        return np.tril_indices(self.maps.shape[1])

    @property
    def size(self) -> int:
        """The number of unknowns."""
        return self.count * len(self.half[0])

    def pack(self, matrices: Float[np.ndarray, "z n n"]) -> Float[np.ndarray, " m"]:
        """Returns the unknowns of matrices."""
        return matrices[:, *self.half].ravel()

    def unpack(self, unknowns: Float[np.ndarray, " m"]) -> Float[np.ndarray, "z n n"]:
        """Returns the matrices of unknowns."""
        i, j = self.half
        matrices = np.empty((self.count, *self.maps.shape[1:]))
        matrices[:, i, j] = matrices[:, j, i] = unknowns.reshape(self.count, -1)
        return matrices

    def functional(self, weights: Float[np.ndarray, "z n n"]) -> Float[np.ndarray, " m"]:
        r"""Returns the row $g$ with $g^\top v = \sum_z\langle G_z, M_z\rangle$."""
        i, j = self.half
        return (weights[:, i, j] * np.where(i == j, 1.0, 2.0)).ravel()

    @cached_property
    def _arrivals(self) -> sparse.csr_array:
        rows = len(self.probability)
        index = (self.destination, np.arange(rows))
        return sparse.csr_array((self.probability, index), shape=(self.count, rows))

    def __call__(self, unknowns: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """Applies one step, without the matrix."""
        moved = self.maps @ self.unpack(unknowns)[self.source] @ self.maps.swapaxes(1, 2)
        arrived = self._arrivals @ moved.reshape(len(moved), -1)
        return self.pack(arrived.reshape(self.count, *moved.shape[1:]))

    def matrix(self) -> Float[np.ndarray, "m m"]:
        """Returns one step as a matrix."""
        i, j = self.half
        operator = np.zeros((self.count, len(i), self.count, len(i)))
        for T, p, z, z_next in zip(
            self.maps, self.probability, self.source, self.destination, strict=True
        ):
            product = T[i][:, i] * T[j][:, j] + T[i][:, j] * T[j][:, i] * (i != j)
            operator[z_next, :, z] += p * product
        return operator.reshape(self.size, self.size)


def recursion(affine: AffineMap) -> Recursion:
    r"""Returns the recursion of $M_z = \mathbb E[[1; d_t][1; d_t]^\top 1\{Z_t = z\}]$."""
    return _recursion(affine, affine.augmented)


def homogeneous(affine: AffineMap) -> Recursion:
    r"""Returns that of $\mathbb E[e_te_t^\top1\{Z_t = z\}]$ where $e_{t+1} = B(Y_t)e_t$."""
    return _recursion(affine, affine.matrix)


def _recursion(affine: AffineMap, maps: np.ndarray) -> Recursion:
    chain = affine.probability, affine.source, affine.destination
    operator = Recursion(maps, *chain, len(affine.start))
    require_memory(f"problem: {operator.size:,} second moments", solver_bytes(operator.size))
    return operator


def solver_bytes(unknowns: int) -> int:
    """Returns the memory for the matrix of so many unknowns, or for two Krylov spaces."""
    return 8 * unknowns * (3 * unknowns if unknowns <= DENSE else 5 * MIN_VECTORS)


def mean_operator(affine: AffineMap) -> Float[np.ndarray, "m m"]:
    r"""Returns the matrix of $f'(z') = \sum_{y: z\to z'}\Pr(y|z)B(y)f(z)$."""
    count, size = len(affine.start), affine.matrix.shape[1]
    require_memory(f"problem: the mean of {count * size:,} unknowns", 24 * (count * size) ** 2)
    operator = np.zeros((count, size, count, size))
    for B, p, z, z_next in zip(
        affine.matrix, affine.probability, affine.source, affine.destination, strict=True
    ):
        operator[z_next, :, z] += p * B
    return operator.reshape(count * size, count * size)


def arrivals(affine: AffineMap, values: Float[np.ndarray, "y *n"]) -> Float[np.ndarray, "z *n"]:
    r"""Returns $\sum_{y: z\to z'}\Pr(y|z)g(y)$ for every $z'$."""
    arrived = np.zeros((len(affine.start), *values.shape[1:]))
    shape = (-1,) + (1,) * (values.ndim - 1)
    np.add.at(arrived, affine.destination, affine.probability.reshape(shape) * values)
    return arrived


def initial_moments(affine: AffineMap) -> Float[np.ndarray, "z n n"]:
    """Returns the moments at time 0."""
    size = len(affine.mean)
    joint = np.zeros((size + 1, size + 1))
    joint[0, 0], joint[0, 1:], joint[1:, 0] = 1.0, affine.mean, affine.mean
    joint[1:, 1:] = affine.covariance + np.outer(affine.mean, affine.mean)
    return affine.start[:, None, None] * joint


def weight_scale(affine: AffineMap) -> float:
    """Returns the largest weight of the mean field's root and of the initial mean, at least 1."""
    probability = affine.stationary[affine.source] * affine.probability
    center = np.linalg.lstsq(affine.mean_field, -(probability @ affine.vector), rcond=1e-12)[0]
    return float(max(1.0, np.abs(center).max(initial=0.0), np.abs(affine.mean).max(initial=0.0)))


def mass(operator: Recursion) -> Float[np.ndarray, " m"]:
    r"""Returns the row that gives $\sum_z\Pr(Z_t = z)$, which every step conserves."""
    corner = np.zeros_like(operator.maps[0])
    corner[0, 0] = 1.0
    return operator.functional(np.broadcast_to(corner, (operator.count, *corner.shape)))


@dataclass(frozen=True, eq=False)
class Path:
    r"""$v_t = V\,H^t\,h$: all moments at all times, by a matrix of moderate size.

    **Arguments:**

    - `matrix`: $H$; the recursion itself if it is small.
    - `start`: $h$.
    - `basis`: The rows $V^\top$ of a Krylov space, or None for the identity.
    - `mass`: A row $\mu$ with $\mu^\top H = \mu^\top$, total probability.
    """

    matrix: Float[np.ndarray, "m m"]
    start: Float[np.ndarray, " m"]
    basis: Float[np.ndarray, "m l"] | None
    mass: Float[np.ndarray, " m"]

    def row(self, functional: Float[np.ndarray, " l"]) -> Float[np.ndarray, " m"]:
        """Returns a functional of the moments as one of the path's coordinates."""
        return functional if self.basis is None else self.basis @ functional

    def coordinates(self, times: Int[np.ndarray, " t"]) -> Float[np.ndarray, "m t"]:
        """Computes $H^th$ at times."""
        return powers(self.matrix, self.start, times, self.mass)

    def moments(self, times: Int[np.ndarray, " t"]) -> Float[np.ndarray, "t l"]:
        """Computes $v_t$ at times."""
        coordinates = self.coordinates(times)
        return (coordinates if self.basis is None else self.basis.T @ coordinates).T

    def values(
        self, functional: Float[np.ndarray, " l"], times: Int[np.ndarray, " t"]
    ) -> Float[np.ndarray, " t"]:
        r"""Computes $g^\top v_t$ at times; NaN where it overflows."""
        with np.errstate(invalid="ignore"):
            return self.row(functional) @ self.coordinates(times)

    def limit(self) -> Float[np.ndarray, " l"]:
        r"""Computes $v_\infty$, the fixed point of total probability 1 of a stable recursion.

        One of the equations $v = Lv$ follows from the others, and makes room for the mass.
        """
        size = len(self.start)
        system, unit = np.eye(size) - self.matrix, np.zeros(size)
        system[0], unit[0] = self.mass, 1.0
        solution = np.linalg.solve(system, unit)
        return solution if self.basis is None else self.basis.T @ solution

    def totals(
        self, functional: Float[np.ndarray, " l"], times: Int[np.ndarray, " t"]
    ) -> Float[np.ndarray, " t"]:
        r"""Computes $\sum_{\tau<t}g^\top v_\tau$ at times, as one more unknown."""
        size = len(self.start)
        bordered = np.zeros((size + 1, size + 1))
        bordered[:size, :size], bordered[size, :size] = self.matrix, self.row(functional)
        bordered[size, size] = 1.0
        start, conserved = np.append(self.start, 0.0), np.append(self.mass, 0.0)
        return powers(bordered, start, times, conserved)[-1]


def path(
    operator: Recursion,
    start: Float[np.ndarray, "z n n"],
    times: Int[np.ndarray, " t"],
    scale: float = 1.0,
) -> Path:
    """Returns the moments from a start on, by the matrix if it is small, or in a Krylov space.

    The space is doubled until twice as many vectors agree at all times. In it lengths are
    measured with weights divided by their `scale`, so that rounding in the large second moments
    does not drown the small numbers that drive them.
    """
    first, conserved = operator.pack(start), mass(operator)
    if operator.size <= DENSE:
        return Path(operator.matrix(), first, None, conserved)
    scales = np.append(1.0, np.full(len(start[0]) - 1, scale))
    units = np.tile(np.outer(scales, scales)[operator.half], operator.count)
    space = Krylov(lambda v: operator(v * units) / units, first / units)
    before, growth, size = np.zeros((0, len(times))), np.nan, MIN_VECTORS
    while True:
        space.grow(size)
        origin = np.zeros(len(space.matrix))
        origin[0] = np.linalg.norm(first / units)
        result = Path(space.matrix, origin, space.basis * units, space.basis @ (conserved * units))
        after = result.coordinates(times)
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            change = after - np.pad(before, ((0, len(after) - len(before)), (0, 0)))
            agrees = np.linalg.norm(change, axis=0) <= AGREEMENT * np.linalg.norm(after, axis=0)
        overflows = ~np.isfinite(after).all(0)
        if overflows.any():  # truly, if two spaces have the same growth
            previous, growth = growth, np.abs(np.linalg.eigvals(space.matrix)).max()
            agrees = np.where(overflows, abs(growth - previous) <= 1e-3 * (growth - 1.0), agrees)
        if space.exhausted or agrees.all():
            return result
        if size >= min(MAX_VECTORS, operator.size):
            last_time = times[agrees].max(initial=0)
            raise ValueError(
                f"times: with {size} vectors the moments of {operator.size} unknowns are known at "
                f"{last_time} steps, and no later; ask for fewer steps"
            )
        before, size = after, 2 * size


class Krylov:
    """An orthonormal basis of the span of $v, Lv, L^2v, \\dots$, that can grow."""

    def __init__(self, step: Callable[[np.ndarray], np.ndarray], start: np.ndarray):
        self.step, self.exhausted, self.residual = step, False, 0.0
        self.rows = start[None] / np.linalg.norm(start)
        self.projected = np.zeros((1, 0))

    @property
    def basis(self) -> np.ndarray:
        """The vectors, as rows."""
        return self.rows[: self.projected.shape[1]]

    @property
    def matrix(self) -> np.ndarray:
        r"""$H = V^\top LV$."""
        return self.projected[: self.projected.shape[1]]

    def grow(self, size: int) -> None:
        """Grows to that many vectors, or fewer if they already span all that can be reached."""
        count = self.projected.shape[1]
        size = min(size, self.rows.shape[1])
        require_memory(
            f"problem: {size} vectors of {self.rows.shape[1]:,} moments",
            16 * size * self.rows.shape[1],
        )
        rows, H = np.zeros((size + 1, self.rows.shape[1])), np.zeros((size + 1, size))
        rows[: count + 1], H[: count + 1, :count] = self.rows, self.projected
        while count < size and not self.exhausted:
            vector = self.step(rows[count])
            length = np.linalg.norm(vector)
            for _ in range(2):  # once is not orthogonal to rounding
                components = rows[: count + 1] @ vector
                vector = vector - components @ rows[: count + 1]
                H[: count + 1, count] += components
            count += 1
            H[count, count - 1] = self.residual = np.linalg.norm(vector)
            self.exhausted = bool(self.residual <= EXHAUSTED * length)
            rows[count] = 0.0 if self.exhausted else vector / self.residual
        self.rows, self.projected = rows[: count + 1], H[: count + 1, :count]


def powers(
    matrix: Float[np.ndarray, "m m"],
    start: Float[np.ndarray, " m"],
    times: Int[np.ndarray, " t"],
    conserved: Float[np.ndarray, " m"],
) -> Float[np.ndarray, "m t"]:
    r"""Returns $H^th$ at all times at once, with one squaring for each binary digit.

    A row $\mu^\top = \mu^\top H$ is restored after each squaring: otherwise an eigenvalue that
    should be one would drift by $10^{-16}$ a step.
    """
    result, digits = np.repeat(start[:, None], len(times), axis=1), np.array(times)
    back = conserved / (conserved @ conserved)
    with np.errstate(over="ignore", invalid="ignore"):
        while digits.any():
            odd = digits % 2 == 1
            result[:, odd] = matrix @ result[:, odd]
            digits = digits // 2
            if digits.any():
                matrix = matrix @ matrix
                matrix += np.outer(back, conserved - conserved @ matrix)
                if not np.isfinite(matrix).all():
                    result[:, digits > 0] = np.inf
                    break
    return np.where(np.isfinite(result), result, np.inf)
