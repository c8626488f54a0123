"""Predictions of theirs beside ours: what rounding explains, what a slip does, and where."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from .implementation import Run
from .iterates import Mutant, Ours
from .mutants import catalogue
from .trials import NUM_STEPS, Seen

DIGITS = {"float64": 2.0**-53, "float32": 2.0**-24}
"""The relative error of one rounding."""
NUM_DISTURBED = 8
SAFETY = 64.0
"""What rounding may do: this many times what a rounding of all that ours sees does to it."""
NEARBY = {"float64": 1e-9, "float32": 2e-3}
"""How near a slip must come to the predictions, relative to their size so far."""
EXPLAINED = 0.02
"""How much of the difference may remain under a slip that explains it."""
AS_NEAR = 1.5
"""How much further than the nearest slip others may be: what is the same differs by rounding."""
LARGEST = 1e30
"""Predictions beyond this are not compared: single precision ends at 1e38."""


@dataclass(frozen=True)
class Right:
    """Our predictions, their size so far, and what rounding can do to them, by precision."""

    predictions: Float[np.ndarray, "streams steps"]
    size: Float[np.ndarray, "streams steps"]
    tolerance: dict[str, Float[np.ndarray, "streams steps"]]

    @property
    def is_compared(self) -> Bool[np.ndarray, "streams steps"]:
        """Where the predictions are of a size that every precision has."""
        return self.size < LARGEST


def compute_right(ours: Ours) -> Right:
    """Returns our predictions, and what roundings do to them."""
    rng = np.random.default_rng(0)
    mutants = [Mutant("")]
    for digit in DIGITS.values():
        for _ in range(NUM_DISTURBED):
            seen = {
                name: array * (1.0 + digit * rng.uniform(-1, 1, array.shape))
                for name, array in ours.trial.seen.items()
                if array.dtype.kind == "f"
            }
            mutants.append(Mutant("", seen, seen))
    predictions = ours.iterate(mutants)
    right = predictions[0]
    size, tolerance = _size(right), dict[str, np.ndarray]()
    for n, (name, digit) in enumerate(DIGITS.items()):
        moved = predictions[1 + n * NUM_DISTURBED :][:NUM_DISTURBED] - right
        spread = np.maximum.accumulate(np.abs(moved).max(0), axis=1)
        tolerance[name] = SAFETY * (spread + digit * size)
    return Right(right, size, tolerance)


def _size(predictions: np.ndarray) -> np.ndarray:
    """Returns the size of predictions so far; what is not finite has an infinite one."""
    return np.maximum.accumulate(np.nan_to_num(np.abs(predictions), nan=np.inf), axis=1)


def differs(run: Run, right: Right, precision: str) -> Bool[np.ndarray, "streams steps"]:
    """Where predictions differ by more than rounding of a precision explains."""
    with np.errstate(invalid="ignore"):
        agrees = np.abs(run.predictions - right.predictions) <= right.tolerance[precision]
    return run.is_known & right.is_compared & ~agrees


def relative_difference(run: Run, right: Right) -> float:
    """Returns the largest difference, relative to the size of the predictions so far."""
    compared = run.is_known & right.is_compared
    return _largest(run.predictions, right.predictions, right.size, compared)


def _largest(a: np.ndarray, b: np.ndarray, size: np.ndarray, compared: np.ndarray) -> float:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.abs(a - b) / np.maximum(size, 1e-300)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return float(np.nan_to_num(np.where(compared & ~same, ratio, 0.0), nan=np.inf).max())


def is_single(runs: Sequence[Run]) -> bool:
    """Whether all predictions are numbers of single precision."""
    numbers = np.concatenate([run.predictions[run.is_known] for run in runs])
    with np.errstate(over="ignore"):
        return np.array_equal(numbers, numbers.astype(np.float32), equal_nan=True)


def find_slips(
    ours: Sequence[Ours], right: Sequence[Right], runs: Sequence[Run], precision: str
) -> list[Mutant]:
    """Returns the changes of our learner whose predictions are theirs in all trials."""
    mutants = catalogue(ours[0])
    alive, remaining = np.arange(len(mutants)), np.zeros(len(mutants))
    for each, run in zip(ours, runs, strict=True):
        if not len(alive):
            return []
        tried = mutants if each is ours[0] else catalogue(each)
        predictions = each.iterate([tried[n] for n in alive])
        remaining = np.maximum(remaining, [_distance(run, p) for p in predictions])
        is_near = remaining < NEARBY[precision]
        alive, remaining = alive[is_near], remaining[is_near]
    difference = max(map(relative_difference, runs, right))
    nearest = max(remaining.min(initial=np.inf) * AS_NEAR, NEARBY["float64"])
    return [mutants[n] for n in alive[remaining <= min(EXPLAINED * difference, nearest)]]


def _distance(run: Run, predictions: np.ndarray) -> float:
    """Returns how far changed predictions are from theirs, relative to their size so far."""
    size = np.minimum(_size(predictions), _size(run.predictions))
    compared = run.is_known & ((size < LARGEST) | ~np.isfinite(size))
    return _largest(run.predictions, predictions, size, compared)


# Where differences begin

KINDS: dict[str, Callable[[Seen], np.ndarray]] = {
    "the discount is 0": lambda y: y["discount"] == 0.0,
    "the discount is not 0": lambda y: y["discount"] != 0.0,
    "the discount is 1": lambda y: y["discount"] == 1.0,
    "rho is 0": lambda y: y["rho"] == 0.0,
    "rho is not 0": lambda y: y["rho"] != 0.0,
    "rho is above 1": lambda y: y["rho"] > 1.0,
    "rho is below 1": lambda y: y["rho"] < 1.0,
    "rho_next is 0": lambda y: y["rho_next"] == 0.0,
    "rho_next is above 1": lambda y: y["rho_next"] > 1.0,
    "the interest is 0": lambda y: y["interest"] == 0.0,
    "the next interest is 0": lambda y: y["interest_next"] == 0.0,
    "the features do not change": lambda y: (y["x"] == y["x_next"]).all(-1),
    "the reward is negative": lambda y: y["reward"] < 0.0,
    "the reward is positive": lambda y: y["reward"] > 0.0,
}
RARE = 0.7  # of the other steps


def describe_place(ours: Sequence[Ours], differences: Sequence[np.ndarray]) -> str | None:
    """Says what all steps have in common after which predictions differ for the first time."""
    hits: dict[str, list[np.ndarray]] = {}
    misses: dict[str, list[np.ndarray]] = {}
    for each, different in zip(ours, differences, strict=True):
        first = np.where(different.any(1), different.argmax(1), NUM_STEPS)
        steps = np.arange(NUM_STEPS)
        is_cause, is_other = steps == first[:, None] - 1, steps < first[:, None] - 1
        for words, is_one in KINDS.items():
            now = is_one(each.trial.seen)
            before = np.concatenate([np.zeros_like(now[:, :1]), now[:, :-1]], 1)
            for text, kind in ((f"where {words}", now), (f"one step after {words}", before)):
                hits.setdefault(text, []).append(kind[is_cause])
                misses.setdefault(text, []).append(kind[is_other])
    common = {text: np.concatenate(kinds) for text, kinds in hits.items()}
    others = {text: np.concatenate(misses[text]) for text in common}
    if not any(map(len, common.values())) or not any(map(len, others.values())):
        return None
    if not (some := {text: others[text].mean() for text, hit in common.items() if hit.all()}):
        return None
    text = min(some, key=lambda text: some[text])
    is_known = len(common[text]) > 2 and len(others[text]) > 2 and some[text] < RARE
    return f"Differences begin only {text}." if is_known else None
