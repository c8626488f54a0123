"""Whether an implementation is the learner that it claims to be, and if not, by which slip."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import jax
import numpy as np

from ..types import Critic
from .claim import as_claim
from .comparison import (
    compute_right,
    describe_place,
    differs,
    find_slips,
    is_single,
    relative_difference,
    Right,
)
from .equation import Site
from .expected_step import ExpectedStep
from .implementation import as_implementation, Implementation, load, Run, run, Theirs
from .iterates import Mutant, Ours
from .plotted_error import check_error
from .trials import make_trial, SCALES

STEP_TOLERANCE = {"float64": 1e-11, "float32": 4e-6}
"""Of an expected step."""

EXPECTED = {
    (True, True): "Its expected step is the exact one.",
    (True, False): "Its expected step is the exact one: it differs in its noise, or elsewhere.",
    (False, True): "Its expected step is not the exact one.",
    (False, False): "Its expected step is not the exact one either.",
}
"""What is said of the expected step, if it is exact or not, and the predictions are ours or not."""


@dataclass(frozen=True)
class Slip:
    """A change of our learner that predicts what the implementation does, and where it is."""

    words: str
    sites: tuple[Site, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.words, *(f"  {site}" for site in self.sites)])


@dataclass(frozen=True)
class Verdict:
    """What was found out about an implementation.

    **Arguments:**

    - `learner`, `claim`: What was checked, and what it should be.
    - `conforms`: Whether it is that.
    - `reason`: The reason, in a line.
    - `num_steps`: How many steps were compared.
    - `difference`: The largest difference of predictions, relative to their size so far.
    - `precision`: The precision whose rounding explains the difference, if one does.
    - `expected_step`: Whether its expected step is the exact one.
    - `slips`: The changes of our learner that predict what it does.
    - `place`: Where differences begin, if that can be said.
    """

    learner: str
    claim: str
    conforms: bool
    reason: str
    num_steps: int = 0
    difference: float | None = None
    precision: str | None = None
    expected_step: bool | None = None
    slips: tuple[Slip, ...] = ()
    place: str | None = None

    def __str__(self) -> str:
        says = "conforms" if self.conforms else "does not conform"
        lines = [f"{self.learner} as {self.claim}: {says}", f"  {self.reason}"]
        if self.expected_step is not None:
            lines.append(f"  {EXPECTED[self.expected_step, self.precision is not None]}")
        lines += [f"  {self.place}"] if self.place else []
        if self.slips:
            lines.append("  Our learner predicts the same with")
            lines += [f"    {line}" for slip in self.slips for line in f"- {slip}".split("\n")]
        return "\n".join(lines)


def check(learner: Theirs | str, claim: Critic | str, seed: int = 0) -> Verdict:
    r"""Compares an implementation in plain Python with a learner of ours.

    Both run on the same streams of random problems, from the same weights. Where their
    predictions differ by more than rounding explains, the slips of a catalogue are tried on our
    learner, and those that predict the same are named.

    **Arguments:**

    - `learner`: A module, an object, a class or a [Learner], or its name: `module` or
      `module:name`.
    - `claim`: What it should be: a [Learner], or an expression such as `tdc(0.1)`.
    - `seed`: Of the random problems.

    **Returns:**

    A [Verdict], whose text is what `emphatic check` prints.
    """
    with jax.enable_x64(True):
        known = _know(claim, seed)
        theirs = as_implementation(load(learner) if isinstance(learner, str) else learner)
        name = learner if isinstance(learner, str) else getattr(learner, "__name__", "the learner")
        title = claim if isinstance(claim, str) else claim.name or "the claim"
        return _judge(theirs, known, name, title)


def assert_conforms(learner: Theirs | str, claim: Critic | str, seed: int = 0) -> None:
    """Raises an `AssertionError` with the [Verdict] unless an implementation conforms."""
    verdict = check(learner, claim, seed)
    if not verdict.conforms:
        raise AssertionError(str(verdict))


@dataclass(frozen=True)
class Known:
    """Our learner on the trials of a seed, what is right there, and its expected step."""

    ours: list[Ours]
    right: list[Right]
    expected: ExpectedStep


@lru_cache(maxsize=16)
def _know(claim: Critic | str, seed: int) -> Known:
    try:
        parsed = as_claim(claim)
        compiled = {}
        trials = [make_trial(seed, n, scale) for n, scale in enumerate(SCALES)]
        ours = [Ours(parsed, trial, compiled) for trial in trials]
    except ValueError as error:
        raise ValueError(f"as: {error}") from error
    return Known(ours, [compute_right(each) for each in ours], ExpectedStep(parsed, seed))


def _judge(theirs: Implementation, known: Known, name: str, claim: str) -> Verdict:
    """Runs an implementation on all trials and says how it compares."""
    runs = [run(theirs, o.trial, o.weights, is_tested=n == 0) for n, o in enumerate(known.ours)]
    num_steps = sum(int(each.is_known.sum()) for each in runs)
    fault = next((each.fault for each in runs if each.fault), None)
    if not num_steps:
        return Verdict(name, claim, False, f"{fault}.")
    working = "float32" if is_single(runs) else "float64"
    pairs = list(zip(runs, known.right, strict=True))
    far = [differs(*pair, working) for pair in pairs]
    slips, precision = (), working
    if any(each.any() for each in far):
        slips = _merge(find_slips(known.ours, known.right, runs, working))
        is_far = slips or any(differs(*pair, "float32").any() for pair in pairs)
        precision = None if is_far else "float32"
    difference = max(relative_difference(*pair) for pair in pairs)
    wrong, expected = fault, None
    if fault is None:
        expected = known.expected.difference(theirs) <= STEP_TOLERANCE[working]
        wrong = check_error(theirs, known.ours[0])
    if precision is None and fault is None:
        reason = _first_difference(pairs, far)
    elif wrong is not None:
        reason = wrong
    else:
        reason = f"It predicts what our learner does over {num_steps} steps"
        if difference:
            reason += f", to {difference:.0e}: rounding in {precision} explains that"
    return Verdict(
        learner=name,
        claim=claim,
        conforms=wrong is None and precision is not None,
        reason=f"{reason}.",
        num_steps=num_steps,
        difference=difference,
        precision=precision,
        expected_step=expected,
        slips=slips,
        place=describe_place(known.ours, far) if not (fault or precision or slips) else None,
    )


def _first_difference(pairs: Sequence[tuple[Run, Right]], far: Sequence[np.ndarray]) -> str:
    """Says when predictions differ for the first time, and in how many streams."""
    num_streams = sum(len(each) for each in far)
    num_different = sum(int(each.any(1).sum()) for each in far)
    streams = f"{num_different} of {num_streams} streams"
    step, n = min((int(each.any(0).argmax()), n) for n, each in enumerate(far) if each.any())
    (run, right), stream = pairs[n], int(far[n][:, step].argmax())
    numbers = f"{run.predictions[stream, step]:.6g}, not {right.predictions[stream, step]:.6g}"
    when = f"After {step} step{'s' * (step > 1)}" if step else "Before its first step"
    return f"{when} it predicts {numbers} ({streams} differ)"


def _merge(mutants: Sequence[Mutant]) -> tuple[Slip, ...]:
    """Returns the slips of changes: those of a part are left out where those of all are named."""
    sites: dict[str, tuple[Site, ...]] = {}
    for mutant in mutants:
        if mutant.of is None or mutant.words.partition(", in the update of ")[0] not in sites:
            sites.setdefault(mutant.words, mutant.sites)
    return tuple(Slip(words, lines) for words, lines in sites.items())
