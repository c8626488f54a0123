"""What a prediction will take, in memory and time, before it is computed."""

import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from .._work import require_memory
from . import moments
from .affine import AffineMap
from .exponent import NUM_CHAINS, NUM_STEPS

MANY = 100_000  # unknowns above which the stability is found only if it is asked for
LARGEST = 1e140  # of the coefficients of an update
NUM_MARGINS = 30  # stabilities that are decided to find the stable step sizes, in each sense
EIGENVALUES = 100.0  # floating-point operations for all of a matrix, relative to its size cubed

OnStart: TypeAlias = Callable[["Cost"], None]
"""A callback, called with what a prediction will take before it begins."""


@dataclass(frozen=True)
class Cost:
    """What a prediction takes.

    **Arguments:**

    - `unknowns`: The number of second moments.
    - `num_bytes`: The memory.
    - `seconds`: The time on this machine, roughly; more where many Krylov vectors are required.
    - `has_stability`: Whether the stability is found.
    """

    unknowns: int
    num_bytes: int
    seconds: float
    has_stability: bool


def predict_cost(
    affine: AffineMap, num_steps: int, stability: bool | None, num_sizes: int = 0
) -> Cost:
    """Predicts the cost of a curve, the stability, and the errors at that many step sizes.

    A stability of None is that of up to 100 000 unknowns. A `ValueError` if the memory is more than
    there is, or if numbers would overflow from the first step on.
    """
    largest = max(np.abs(part).max(initial=0.0) for part in (affine.matrix, affine.vector))
    if not largest <= LARGEST:
        advice = f"at most {LARGEST:g} can be squared: reduce it, the features or the rewards"
        raise ValueError(f"step_size: updates have coefficients up to {largest:.3g}; {advice}")
    count, (rows, size) = len(affine.start), affine.vector.shape
    unknowns, differences = (count * n * (n + 1) // 2 for n in (size + 1, size))
    has_stability = unknowns <= MANY if stability is None else stability
    num_bytes = 48 * rows * (size + 1) ** 2 + moments.solver_bytes(unknowns)
    require_memory(f"problem: {unknowns:,} second moments", num_bytes)
    speed = _flops_per_second()
    squarings = 2 * unknowns**3 * np.log2(num_steps + 1)
    operations = (2 + num_sizes) * (squarings if unknowns <= moments.DENSE else _krylov(affine))
    seconds = operations / speed
    if has_stability:
        mean = 24 * (count * size) ** 2
        require_memory(f"problem: the mean of {count * size:,} unknowns", mean)
        num_bytes = max(num_bytes, mean)
        is_dense = differences <= moments.DENSE
        operations = differences**3 if is_dense else _krylov(affine)
        operations += EIGENVALUES * (count * size) ** 3
        seconds += NUM_MARGINS * operations / speed
        seconds += NUM_STEPS * (1e-5 + NUM_CHAINS * size**2 * 2e-9)
    return Cost(unknowns, int(num_bytes), float(seconds), has_stability)


def _krylov(affine: AffineMap) -> float:
    """Returns the operations for a Krylov space: its products, and making them orthogonal."""
    rows, size = affine.vector.shape
    unknowns, vectors = len(affine.start) * (size + 1) * (size + 2) / 2, 2 * moments.MIN_VECTORS
    return vectors * (8.0 * rows * size**3 + 20.0 * vectors * unknowns)


def _flops_per_second() -> float:
    """Measures how fast this machine multiplies matrices."""
    matrix, durations = np.ones((400, 400)), []
    for _ in range(4):
        start = clock.perf_counter()
        np.dot(matrix, matrix)
        durations.append(clock.perf_counter() - start)
    return 2 * 400**3 / float(np.median(durations))
