"""Problems in files: one `.npz`, plain arrays, no pickle."""

import os

import numpy as np
from scipy import sparse

from .._files import atomic_write, checksum, read_npz, REAL, TEXT, WHOLE
from .._schema import show
from ..mdp import ArrayField, MDP, Problem

FORMAT = "emphatic problem 1"
ARRAYS = ("reward", "discount", "behavior", "interest", "start", "target", "labels")
MATRICES = ("transition", "x", "xa")  # dense under their name, csr as four arrays
PARTS = {"data": REAL, "indices": WHOLE, "indptr": WHOLE, "shape": WHOLE}
KINDS = {"format": TEXT} | dict.fromkeys((*ARRAYS, *MATRICES), REAL)
KINDS |= {f"{name}.{part}": kind for name in MATRICES for part, kind in PARTS.items()}
"""The arrays of a file, and the kinds of types that they may have."""


def save(problem: Problem, path: str | os.PathLike) -> None:
    """Writes a problem to a `.npz` file, atomically.

    The keys are `format`, `reward`, `discount`, `behavior`, `interest`, `start`, `labels`,
    `target` (if there is one) and the matrices `transition`, `x` and `xa`; a sparse matrix M is
    the four arrays `M.data`, `M.indices`, `M.indptr` and `M.shape` of its csr form. Shapes are
    those of [MDP] and [Problem].
    """
    with atomic_write(path) as file:
        np.savez_compressed(file, allow_pickle=False, **_contents(problem))


def digest(problem: Problem) -> str:
    """Computes the SHA-256 of all that [save] would write, which identifies a problem."""
    return checksum("problem", _contents(problem))


def require_digest(path: str | os.PathLike, expected: str) -> None:
    """Raises a `ValueError` unless a file has the problem with a digest, to the last bit."""
    if checksum("problem", read_npz(path, "path", KINDS)) != expected:
        raise ValueError(f"path: {path} is damaged: it is not the problem that it was")


def _contents(problem: Problem) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {"format": np.array(FORMAT)}
    for name in ARRAYS:
        value = getattr(problem.mdp if name in ("reward", "discount") else problem, name)
        if value is not None:
            arrays[name] = np.asarray(value)
    for name in MATRICES:
        matrix = getattr(problem.mdp if name == "transition" else problem, name)
        if sparse.issparse(matrix):
            arrays |= {f"{name}.{part}": np.asarray(getattr(matrix, part)) for part in PARTS}
        else:
            arrays[name] = matrix
    return arrays


def load(path: str | os.PathLike) -> Problem:
    """Reads a problem that [save] wrote, or any `.npz` file with the same keys.

    Required are `transition`, `reward`, `discount`, `behavior`, `interest` and `x`; the others
    have the defaults of [Problem]. Everything is checked as if it were given to [MDP] and
    [Problem].
    """
    arrays = read_npz(path, "path", KINDS)

    def read(name: str) -> ArrayField:
        if f"{name}.data" not in arrays:
            return arrays.get(name)
        try:
            data, indices, indptr, shape = (arrays[f"{name}.{part}"] for part in PARTS)
            entries = (np.asarray(data, np.float64), indices, indptr)
            matrix = sparse.csr_array(entries, shape=tuple(shape.tolist()))
            matrix.check_format(full_check=True)
            return matrix
        except KeyError as error:
            raise ValueError(f"path: {path} lacks the key {error} of a csr matrix") from None
        except (IndexError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"path: {path} has a broken csr matrix {name}: {error}") from None

    file_format = str(arrays.get("format", FORMAT))
    if file_format != FORMAT:
        raise ValueError(f"path: {path} has the format {show(file_format)}; {FORMAT!r} is required")
    fields = {name: read(name) for name in (*MATRICES, *ARRAYS)}
    for name in ("transition", "reward", "discount", "behavior", "interest", "x"):
        if fields[name] is None:
            raise ValueError(f"path: {path} lacks the key {name!r}")
    try:
        mdp = MDP(*(fields.pop(name) for name in ("transition", "reward", "discount")))
        return Problem(mdp, **fields)
    except ValueError as error:
        raise ValueError(f"path: {path}: {error}") from None
