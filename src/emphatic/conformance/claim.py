"""What an implementation claims to be: a learner of ours, whose numbers can be changed."""

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..engine import grammar
from ..engine.arguments import find_kinds, NUMBER
from ..engine.expressions import parse_learner, parse_numbers
from ..learners import LEARNERS
from ..mdp import Problem
from ..types import Critic, LearnerFactory


@dataclass(frozen=True)
class Claim:
    """A learner: what makes it for a problem from numbers, and these numbers by their names."""

    build: Callable[[Problem], LearnerFactory]
    numbers: Mapping[str, float]
    """Such as `step_size`, or `step_size of gem` where there are several."""

    def make(self, problem: Problem, values: Mapping[str, typing.Any]) -> Critic:
        """Makes the learner with these values of its numbers."""
        arguments = {f"number_{n}": values[name] for n, name in enumerate(self.numbers)}
        return self.build(problem)(**arguments)


def as_claim(claim: Critic | str) -> Claim:
    """Returns the claim of a learner, or of an expression such as `tdc(0.1)`."""
    if not isinstance(claim, str):
        return Claim(lambda problem: lambda: claim, {})
    found = list(_numbers(claim, grammar.parse(claim).node))
    text = claim
    for n, (start, end, *_) in reversed(list(enumerate(found))):
        text = f"{text[:start]}number_{n}{text[end:]}"
    functions = [function for *_, function, _, _ in found]
    names = [
        f"{parameter} of {function}" if len(set(functions)) > 1 else parameter
        for *_, function, parameter, _ in found
    ]
    names = [
        name if names.count(name) == 1 else f"{name} ({n + 1})" for n, name in enumerate(names)
    ]
    build = parse_learner(text, tuple(f"number_{n}" for n in range(len(found))))

    def checked(problem: Problem) -> LearnerFactory:
        make = build(problem)
        required = inspect.signature(make).parameters.values()
        missing = [p.name for p in required if p.default is p.empty and p.kind != p.KEYWORD_ONLY]
        if missing:
            raise ValueError(f"{claim} lacks {', '.join(missing)}, as in {claim}(0.1)")
        return make

    return Claim(checked, dict(zip(names, (number for *_, number in found), strict=True)))


def _numbers(text: str, node: object) -> Iterator[tuple[int, int, str, str, float]]:
    """Yields the numbers that are arguments: start, end, function, parameter and value."""
    if not isinstance(node, grammar.Call):
        return
    function = LEARNERS.get(node.function)
    parameters = list(inspect.signature(function).parameters) if function else []
    hints = typing.get_type_hints(function, include_extras=True) if function else {}
    for argument, position in zip(
        node.arguments, [*parameters, *[""] * len(node.arguments)], strict=False
    ):
        name = argument.keyword or position
        if isinstance(argument.value, grammar.Call):
            yield from _numbers(text, argument.value)
        elif name in hints and NUMBER in find_kinds(hints[name], {}):
            try:
                (number,) = parse_numbers(text[argument.start : argument.end])
            except ValueError:  # a schedule, a name, None
                continue
            yield argument.start, argument.end, node.function, name, number
