"""The order of instructions: a step is noted first, and then given to a machine.

In the order of a jaxpr one sum after the other runs over the state, which is loaded again for each
of them when registers do not hold it. Only the order changes here, never a result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .lower import Machine

STATE = "state"  # how the names of arrays begin that change with every step


@dataclass(frozen=True, eq=False)
class Node:
    """A call of a machine that is yet to be made, or a value from outside."""

    method: str
    arguments: tuple[Any, ...]
    number: int
    operands: tuple["Node", ...]  # those that change with the state


class Notes:
    """A machine that notes what is asked of it, and the same only once."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Any, ...], Node] = {}

    def _note(self, method: str, *arguments: Any) -> Node:
        key = method, *(repr(each) if isinstance(each, float) else each for each in arguments)
        if key not in self._nodes:
            operands = dict.fromkeys(each for each in arguments if isinstance(each, Node))
            moving = tuple(each for each in operands if each.operands or is_state(each))
            self._nodes[key] = Node(method, arguments, len(self._nodes), moving)
        return self._nodes[key]

    def outside(self, name: str, count: int) -> list[Node]:
        """The numbers of an array that is known before the step."""
        return [self._note(name, place) for place in range(count)]

    def constant(self, value: Any, dtype: np.dtype) -> Node:
        return self._note("constant", np.asarray(value).item(), np.dtype(dtype))

    def uniform(self, table: str, column: int) -> Node:
        return self._note("uniform", table, column)

    def load(self, table: int, index: Any, dtype: np.dtype) -> Node:
        return self._note("load", table, index, np.dtype(dtype))

    def apply(self, name: str, dtype: np.dtype, *operands: Any) -> Node:
        return self._note("apply", name, np.dtype(dtype), *operands)

    def convert(self, value: Any, source: np.dtype, dtype: np.dtype) -> Node:
        return self._note("convert", value, np.dtype(source), np.dtype(dtype))

    def reinterpret(self, value: Any, source: np.dtype, dtype: np.dtype) -> Node:
        return self._note("reinterpret", value, np.dtype(source), np.dtype(dtype))


def is_state(node: Node) -> bool:
    """Whether a node is a number of the state."""
    return node.method.startswith(STATE)


def ordered(outputs: Sequence[Node]) -> list[Node]:
    """What the outputs compute from the state, with the uses of each number close together.

    The numbers of the state become known one after the other, first those that are first in their
    arrays, and whatever can then be computed follows. So sums over the same numbers advance side
    by side, and only their partial sums are kept.
    """
    waits: dict[Node, int] = {}
    users: dict[Node, list[Node]] = {}
    left, order = list(outputs), []
    while left:
        node = left.pop()
        if node not in waits:
            waits[node] = len(node.operands)
            for operand in node.operands:
                users.setdefault(operand, []).append(node)
            left.extend(node.operands)
    state = sorted(filter(is_state, waits), key=lambda node: (node.arguments, node.number))
    for number in state:
        ready = [number]
        while ready:
            node = ready.pop()
            order.append(node)
            for user in sorted(users.get(node, ()), key=lambda user: -user.number):
                waits[user] -= 1
                if not waits[user]:
                    ready.append(user)
    return order


def give(
    order: Sequence[Node], outputs: Sequence[Node], machine: Machine, known: Mapping[Node, Any]
) -> list[Any]:
    """The outputs on a machine, given what is known from outside."""
    values = dict(known)

    def value(node: Node) -> Any:  # what does not change with the state is made at its first use
        if node not in values:
            arguments = [value(each) if isinstance(each, Node) else each for each in node.arguments]
            values[node] = getattr(machine, node.method)(*arguments)
        return values[node]

    for node in order:
        value(node)
    return [value(node) for node in outputs]
