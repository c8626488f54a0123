"""What numbers and arrays from a person must satisfy; a `ValueError` says what does not."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from math import isfinite
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from scipy import sparse

from ._schema import show

ROW_TOLERANCE = 1e-8
SMALLEST, LARGEST = 1e-100, 1e100  # of the largest feature, reward and interest


def is_number(value: object) -> bool:
    """Whether it is one real number of Python, NumPy or JAX; a bool is none."""
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        is_real = jnp.issubdtype(value.dtype, jnp.integer) or jnp.issubdtype(
            value.dtype, jnp.floating
        )
        return value.ndim == 0 and is_real
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_traced(value: object) -> bool:
    """Whether JAX is tracing the value, which is then not known."""
    return isinstance(value, Tracer)


def number(
    name: str, value: Any, required: str, is_allowed: Callable[[float], bool] = isfinite
) -> None:
    """A `ValueError` unless the value is one allowed number, or is traced and so not known."""
    if is_traced(value):
        return
    try:
        allowed = is_number(value) and is_allowed(float(value))
    except OverflowError:  # a whole number beyond 1e308
        allowed = False
    if not allowed:
        seen = show(value) if isinstance(value, str | int) else f"{value}"[:60]
        raise ValueError(f"{name}: got {seen}; {required}")


def positive(name: str, value: Any, required: str) -> None:
    """A `ValueError` unless the value is a finite number above 0, or traced."""
    number(name, value, required, lambda known: 0.0 < known < np.inf)


def frozen(array: np.ndarray) -> np.ndarray:
    """The array itself, from now on read-only."""
    array.flags.writeable = False
    return array


def finite(name: str, value: Any) -> np.ndarray:
    """A read-only float64 copy of numbers that are all finite."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: got {type(value).__name__}; numbers are required") from None
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}: entry {where} is {array[where]}; every entry must be finite")
    return frozen(array)


def shaped(name: str, value: Any, shape: tuple[int, ...], axes: str) -> np.ndarray:
    """Finite numbers of one shape; `axes` says in words what it means."""
    array = finite(name, value)
    if array.shape != shape:
        raise ValueError(f"{name}: got shape {array.shape}; {shape} ({axes}) is required")
    return array


def ranged(name: str, array: np.ndarray) -> np.ndarray:
    """The array, whose largest entry must be 0 or such that products of entries are numbers."""
    largest = np.abs(array).max(initial=0.0)
    if largest and not SMALLEST <= largest <= LARGEST:
        raise ValueError(
            f"{name}: the largest entry is {largest:.3g} in size; from {SMALLEST:g} to {LARGEST:g} "
            "is accepted, so that products are numbers: divide all entries by a constant"
        )
    return array


def nonnegative(name: str, array: np.ndarray) -> np.ndarray:
    """The array, which must have no negative entry."""
    if (array < 0).any():
        where = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise ValueError(f"{name}: entry {where} is {array[where]:g}; no entry may be negative")
    return array


def stochastic(name: str, rows: Any, row: Callable[[int], str]) -> Any:
    """The rows of a dense or csr matrix, divided by their sums where these miss 1.

    A row that misses it by rounding keeps its bits, by which stores know a problem; one that misses
    it by more than 1e-8 is refused. `row(k)` says in words which row k is.
    """
    sums = np.asarray(rows.sum(1))
    misses = np.abs(sums - 1.0)
    if (misses > ROW_TOLERANCE).any():
        k = int((misses > ROW_TOLERANCE).argmax())
        required = f"every row must sum to 1 within {ROW_TOLERANCE:g}"
        raise ValueError(f"{name}: the row of {row(k)} sums to {sums[k]:.10g}; {required}")
    inexact = misses > np.finfo(float).eps * (4.0 + np.sqrt(rows.shape[1]))
    if not inexact.any():
        return rows
    divisors = np.where(inexact, sums, 1.0)
    if not sparse.issparse(rows):
        return frozen(rows / divisors[:, None])
    data = frozen(rows.data / np.repeat(divisors, np.diff(rows.indptr)))
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def policy(name: str, value: Any, shape: tuple[int, int]) -> np.ndarray:
    """An (s, a) array of probabilities."""
    rows = nonnegative(name, shaped(name, value, shape, "states, actions"))
    return stochastic(name, rows, lambda s: f"state {s}")


def csr(name: str, matrix: Any, merge: bool = True) -> sparse.csr_array:
    """A read-only float64 csr copy with finite entries, equal positions merged."""
    try:
        copy = sparse.csr_array(matrix, dtype=np.float64, copy=True)
        copy.check_format(full_check=True)  # an index out of range would end the process
        if copy.nnz < 0:  # which that lets pass
            raise ValueError(f"its indptr ends in {copy.nnz}")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: not a sound sparse matrix: {error}") from None
    if copy.ndim != 2:
        raise ValueError(f"{name}: got shape {copy.shape}; a sparse matrix is required")
    if merge:
        copy.sum_duplicates()
    copy.data = finite(f"{name}.data", copy.data)
    frozen(copy.indices)
    frozen(copy.indptr)
    return copy


def probability(name: str, value: Any, kind: str = "a probability") -> None:
    """A `ValueError` unless the value is a number in [0, 1], or traced."""
    number(name, value, f"{kind} in [0, 1] is required", lambda known: 0.0 <= known <= 1.0)


def count(name: str, value: Any, least: int = 1) -> None:
    """A `ValueError` unless that many of something can exist in memory."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise ValueError(f"{name}: got {show(value)}; a whole number is required")
    if value < least:
        raise ValueError(f"{name}: got {value}; at least {least} is required")
    if value > 10**9:
        raise ValueError(f"{name}: got {show(value)}; at most 10^9 is possible")


def seed(value: int) -> None:
    """A `ValueError` unless the seed is a whole number that is not negative."""
    if value < 0:
        raise ValueError(f"seed: got {value}; at least 0 is required")


def ridge(value: Any, name: str = "ridge") -> None:
    """A `ValueError` unless the ridge is a finite number >= 0, or traced."""
    required = "it must be a finite number >= 0"
    number(name, value, required, lambda known: 0.0 <= known < np.inf)


def unknown(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """The error for an unknown name, which suggests the nearest known one."""
    known = list(known)
    close = get_close_matches(name[:60], known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    names = ", ".join(known)
    choice = (
        f"known: {names if len(names) < 300 else names[:300] + '...'}" if known else "none is known"
    )
    return ValueError(f"{kind}: unknown name {show(name)}; {hint}{choice}")
