"""The catalogue of slips, as changes of our learner that apply to any."""

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from typing import TypeAlias

import numpy as np

from .. import oracle
from ..mdp import Problem
from .equation import Site
from .iterates import Mutant, Ours
from .trials import Seen, Trial

Parts: TypeAlias = tuple[str, ...] | None
"""Parts of a state by name; None is all of them."""
PARTNERS = {name: f"{name}_next" for name in ("rho", "interest", "x", "xa")} | {
    f"{name}_next": name for name in ("rho", "interest", "x", "xa")
}


def shifted(array: np.ndarray, steps: int, first: float) -> np.ndarray:
    """Returns the values of earlier steps (or later ones, if negative), and a number beyond."""
    moved = np.roll(array, steps, axis=1)
    beyond = slice(None, steps) if steps > 0 else slice(steps, None)
    moved[:, beyond] = first
    return moved


def changed_fields(trial: Trial, name: str) -> Iterator[tuple[str, Seen]]:
    """Yields what a learner can take for a field of the transition, in words and in numbers."""
    array, end = trial.seen[name], trial.seen["discount"] == 0.0
    if array.dtype.kind != "f":
        return

    def replaced(values: np.ndarray) -> Seen:
        return {name: np.broadcast_to(values, array.shape)}

    if name in PARTNERS:
        yield f"`{PARTNERS[name]}` in place of `{name}`", {name: trial.seen[PARTNERS[name]]}
    if not name.endswith("_next"):
        for first in (0.0, 1.0):
            yield f"the last step's `{name}`", {name: shifted(array, 1, first)}
    if PARTNERS.get(name, "") in ("", name.removesuffix("_next")):
        yield f"the next step's `{name}`", {name: shifted(array, -1, 1.0)}
    if array.ndim == 2:
        yield f"no `{name}`: 1 in its place", replaced(np.ones(()))
        yield f"`{name}` twice: its square", replaced(array**2)
        with np.errstate(divide="ignore"):
            yield f"1/{name} in place of `{name}`", replaced(1.0 / array)
        yield f"`{name}` clipped at 1", replaced(np.minimum(array, 1.0))
        if not name.startswith("rho"):
            yield f"no `{name}`: 0 in its place", replaced(np.zeros(()))
    yield f"the other sign of `{name}`", replaced(-array)
    at_end = end.reshape(end.shape + (1,) * (array.ndim - 2))
    if name == "discount":
        yield from _changed_ends(array, end)
    else:
        yield f"0 for `{name}` at the ends of episodes", replaced(np.where(at_end, 0.0, array))
    if name == "rho" or name.endswith("_next"):
        yield from _changed_actions(trial, name)


def _changed_ends(discount: np.ndarray, end: np.ndarray) -> Iterator[tuple[str, Seen]]:
    """Yields other ends of episodes."""
    largest = np.where(end, 1.0, discount)
    words = "ends of episodes ignored: `discount` is not 0 there"
    yield words, {"discount": largest}
    yield words, {"discount": np.where(end, shifted(discount, 1, 1.0), discount)}
    late, early = shifted(end, 1, 0.0), shifted(end, -1, 0.0)
    yield "ends of episodes one step late", {"discount": np.where(late, 0.0, largest)}
    yield "ends of episodes one step early", {"discount": np.where(early, 0.0, largest)}
    yield (
        "ends of episodes a step longer: 0 at the next step, too",
        {"discount": np.where(late, 0.0, discount)},
    )
    yield "`discount` ignored but at the ends of episodes", {"discount": np.where(end, 0.0, 1.0)}


def _changed_actions(trial: Trial, name: str) -> Iterator[tuple[str, Seen]]:
    """Yields what is seen of other actions."""
    sample = trial.sample
    if name == "rho":
        num_actions = trial.problem.mdp.num_actions
        for other in range(1, num_actions):
            action = (sample.action + other) % num_actions
            view = trial.view(dataclasses.replace(sample, action=action))
            yield "`rho` of another action", {"rho": view["rho"]}
    if name in ("rho_next", "xa_next"):
        same = trial.view(dataclasses.replace(sample, action_next=sample.action))
        here = trial.view(dataclasses.replace(sample, state_next=sample.state))
        for words, view in (
            ("the action of this step taken for the next action", same),
            ("the next action taken at the wrong state, that of this step", here),
        ):
            yield f"`{name}`: {words}", {name: view[name]}
            both = {field: view[field] for field in ("rho_next", "xa_next")}
            yield f"`rho_next` and `xa_next`: {words}", both


def catalogue(ours: Ours) -> list[Mutant]:
    """Returns the changes to try, those with a name of their own first."""
    parts = list(ours.weights)
    groups: list[Parts] = [None]
    if len(parts) > 1:
        groups += [(part,) for part in parts]
    return [
        *_of_fields(ours, groups),
        *_of_parts(ours, parts),
        *_of_numbers(ours, groups),
        *_of_tables(ours.trial.problem),
        *_of_equations(ours, groups),
    ]


def _of_fields(ours: Ours, groups: Sequence[Parts]) -> Iterator[Mutant]:
    """Yields changes of what the update and the prediction see."""
    parts = list(ours.weights)
    for name in ours.trial.seen:
        number = ours.field_inputs(name)
        uses = {of: ours.step.uses(number, [parts.index(p) for p in of or parts]) for of in groups}
        views = ours.prediction.uses(number, [0])
        for words, seen in changed_fields(ours.trial, name) if uses[None] or views else ():
            for of, sites in uses.items():
                if sites:
                    yield Mutant(_in_update(words, of), seen=seen, of=of, sites=sites)
            if views:
                yield Mutant(f"{words}, in the prediction", viewed=seen, sites=views)
                if uses[None]:
                    yield Mutant(f"{words}, in the update and the prediction", seen, seen)


def _in_update(words: str, of: Parts) -> str:
    return words if of is None else f"{words}, in the update of {' and '.join(of)}"


def _site(ours: Ours, *parts: str) -> tuple[Site, ...]:
    """Returns the lines that compute these parts of the state."""
    names = list(ours.weights)
    sites = [ours.step.result(names.index(part)) for part in parts]
    return tuple(site for site in sites if site is not None)


def _of_parts(ours: Ours, parts: list[str]) -> Iterator[Mutant]:
    """Yields changes of the order and the size of updates, and of what episodes leave behind."""
    seen = ours.trial.seen
    for n in range(1, len(parts)):
        for of in combinations(parts, n):
            others = [part for part in parts if part not in of]
            words = f"the new {' and '.join(of)} instead of the old"
            sites = _site(ours, *others)
            yield Mutant(_in_update(words, tuple(others)), of=of, in_order=True, sites=sites)
    for n in range(1, len(parts) + 1):
        for of in combinations(parts, n):
            words, sites = f"{' and '.join(of)} wiped at the ends of episodes", _site(ours, *of)
            yield Mutant(words, of=of, wiped=0.0, sites=sites)
            yield Mutant(f"{words}: begun anew", of=of, wiped=1.0, sites=sites)
    for part in parts:
        of, sites = (part,), _site(ours, part)
        for words, factor in (
            ("never updated", 0.0),
            ("updated with the other sign", -1.0),
            ("updated by twice as much", 2.0),
            ("updated by half as much", 0.5),
            ("not updated at the ends of episodes", seen["discount"] != 0.0),
            ("not updated where `rho` is 0", seen["rho"] != 0.0),
        ):
            yield Mutant(f"{part} {words}", of=of, factor=factor, sites=sites)
        for name in ("rho", "discount", "interest", "rho_next"):
            words = f"the whole update of {part} multiplied by `{name}` once more"
            yield Mutant(words, of=of, factor=seen[name], sites=sites)
            words = f"`{name}` multiplies the whole update of {part}, not a part of it"
            ones = {name: np.ones_like(seen[name])}
            yield Mutant(words, seen=ones, of=of, factor=seen[name], sites=sites)


def _of_numbers(ours: Ours, groups: Sequence[Parts]) -> Iterator[Mutant]:
    """Yields other values of step sizes, ridges and decays."""
    numbers = ours.claim.numbers
    for name, value in numbers.items():
        for words, other in (
            (f"no {name}: 0", 0.0),
            (f"no {name}: 1", 1.0),
            (f"the {name} twice: its square", value**2),
            (f"twice the {name}", 2.0 * value),
            (f"half the {name}", value / 2.0),
            (f"1 minus the {name}", 1.0 - value),
        ):
            for of in groups if other else [None]:
                yield Mutant(_in_update(words, of), numbers={name: other}, of=of)
    for one, other in permutations(numbers, 2):
        changes = [
            (f"the {other} in place of the {one}", numbers[other]),
            (f"the {one} multiplied by the {other} once more", numbers[one] * numbers[other]),
        ]
        if numbers[other]:
            ratio = numbers[one] / numbers[other]
            changes.append((f"the {one} not multiplied by the {other}", ratio))
        yield from (Mutant(words, numbers={one: changed}) for words, changed in changes)
    for one, other in combinations(numbers, 2):
        both = {one: numbers[other], other: numbers[one]}
        yield Mutant(f"the {one} and the {other} exchanged", numbers=both)


def _of_tables(problem: Problem) -> Iterator[Mutant]:
    """Yields wrong tables of the exact emphasis."""
    m, i, d = oracle.emphasis(problem), np.asarray(problem.interest), problem.stationary
    discounted = problem.mdp.dense_discounted()
    P = np.einsum("sa,sat->st", problem.require_target(), discounted)
    Q = np.einsum("sa,sat->st", problem.behavior, discounted)
    one = np.eye(len(d))

    def solve(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
        return np.linalg.solve(one - matrix, vector)

    for words, table in (
        ("the inverse of I - gamma P applied to i: values, not an emphasis", solve(P, i)),
        ("the transposed inverse without D before and after it", solve(P.T, i)),
        ("the transposed inverse of D i, not divided by D", solve(P.T, d * i)),
        ("the inverse of I - gamma P applied to D i, divided by D", solve(P, d * i) / d),
        ("the emphasis of the behaviour", solve(Q.T, d * i) / d),
        ("the emphasis without the interest", solve(P.T, d) / d),
        ("the interest itself", i),
        ("the emphasis divided by its sum", m / m.sum()),
        ("the emphasis as a distribution", m / (d @ m)),
    ):
        yield Mutant(f"the exact emphasis is wrong: {words}", tables=(m, table))


def _of_equations(ours: Ours, groups: Sequence[Parts]) -> Iterator[Mutant]:
    """Yields the equations with a term or a factor less, or another sign."""
    parts = list(ours.weights)
    for number, change in enumerate(ours.step.changes, 1):
        reached = ours.step.reached(number)
        for of in groups:
            if of is None or (len(reached) > 1 and parts.index(of[0]) in reached):
                words = _in_update(change.words, of)
                yield Mutant(words, code=number, of=of, sites=change.sites)
    for number, change in enumerate(ours.prediction.changes, 1):
        words = f"{change.words}, in the prediction"
        yield Mutant(words, prediction_code=number, sites=change.sites)
