"""The order of instructions: a step is recorded first, and then emitted on a machine.

In the order of a jaxpr one sum after the other runs over the state, which is loaded again for each
of them when registers do not hold it. Only the order changes here, never a result.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .values import Constant, Machine, MachineValue

STATE = "state"  # how the names of inputs begin that change with every step


@dataclass(frozen=True, eq=False)
class Node:
    """A call of a machine's method that is yet to be made, or an input."""

    method: str
    arguments: tuple[MachineValue, ...]
    number: int
    operands: tuple["Node", ...]  # those that change with the state


class Recorder:
    """A machine that records the instructions it is given, equal ones only once."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Hashable, ...], Node] = {}

    def _record(self, method: str, *arguments: MachineValue) -> Node:
        key = method, *(repr(value) if isinstance(value, float) else value for value in arguments)
        if key not in self._nodes:
            operands = dict.fromkeys(value for value in arguments if isinstance(value, Node))
            changing = tuple(node for node in operands if node.operands or is_state(node))
            self._nodes[key] = Node(method, arguments, len(self._nodes), changing)
        return self._nodes[key]

    def inputs(self, name: str, count: int) -> list[Node]:
        """Returns the numbers of an array that is known before the step."""
        return [self._record(name, index) for index in range(count)]

    def constant(self, value: Constant, dtype: np.dtype) -> Node:
        return self._record("constant", np.asarray(value).item(), np.dtype(dtype))

    def uniform(self, table: str, column: int) -> Node:
        return self._record("uniform", table, column)

    def load(self, array: int, index: MachineValue, dtype: np.dtype) -> Node:
        return self._record("load", array, index, np.dtype(dtype))

    def apply(self, name: str, dtype: np.dtype, *operands: MachineValue) -> Node:
        return self._record("apply", name, np.dtype(dtype), *operands)

    def convert(self, value: MachineValue, source: np.dtype, dtype: np.dtype) -> Node:
        return self._record("convert", value, np.dtype(source), np.dtype(dtype))

    def reinterpret(self, value: MachineValue, dtype: np.dtype) -> Node:
        return self._record("reinterpret", value, np.dtype(dtype))


def is_state(node: Node) -> bool:
    """Whether a node is a number of the state."""
    return node.method.startswith(STATE)


def order_nodes(outputs: Sequence[Node]) -> list[Node]:
    """Returns what the outputs need of the state, with the uses of each number close together.

    The numbers of the state become known one after the other, first those that are first in their
    arrays, and whatever can then be computed follows. So sums over the same numbers advance side
    by side, and only their partial sums are held.
    """
    num_waiting, users = dict[Node, int](), dict[Node, list[Node]]()
    unvisited, order = list(outputs), list[Node]()
    while unvisited:
        node = unvisited.pop()
        if node not in num_waiting:
            num_waiting[node] = len(node.operands)
            for operand in node.operands:
                users.setdefault(operand, []).append(node)
            unvisited.extend(node.operands)
    state = sorted(filter(is_state, num_waiting), key=lambda node: (node.arguments, node.number))
    for number in state:
        ready = [number]
        while ready:
            node = ready.pop()
            order.append(node)
            for user in sorted(users.get(node, ()), key=lambda user: -user.number):
                num_waiting[user] -= 1
                if not num_waiting[user]:
                    ready.append(user)
    return order


def emit(
    order: Sequence[Node],
    outputs: Sequence[Node],
    machine: Machine,
    inputs: Mapping[Node, MachineValue],
) -> list[MachineValue]:
    """Emits the instructions on a machine, and returns its values of the outputs."""
    values = dict(inputs)

    def value(node: Node) -> MachineValue:  # what is no function of the state: at its first use
        if node not in values:
            arguments = [value(a) if isinstance(a, Node) else a for a in node.arguments]
            values[node] = getattr(machine, node.method)(*arguments)
        return values[node]

    for node in order:
        value(node)
    return [value(node) for node in outputs]
