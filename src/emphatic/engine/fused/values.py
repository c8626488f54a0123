"""What variables of a jaxpr become: lanes, arrays in memory or uniform expressions."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import JaxprEqn

MachineValue: TypeAlias = Any
"""A value of a machine, such as an LLVM value; only the machine looks inside."""
LaneArray: TypeAlias = np.ndarray
"""An array of objects, each a [Lane]."""
JaxValue: TypeAlias = Any
"""Whatever JAX takes for an array: of NumPy or JAX, traced or not, or a random key."""
Constant: TypeAlias = float | int | np.generic
"""A number that is the same for all lanes, and known."""


class FusionError(Exception):
    """A step that cannot be fused; the message says why."""


@runtime_checkable
class Machine(Protocol):
    """What the interpreter needs of a machine; types of numbers are NumPy's."""

    def constant(self, value: Constant, dtype: np.dtype) -> MachineValue: ...
    def uniform(self, table: str, column: int) -> MachineValue: ...
    def load(self, array: int, index: MachineValue, dtype: np.dtype) -> MachineValue: ...
    def apply(self, name: str, dtype: np.dtype, *operands: MachineValue) -> MachineValue: ...
    def convert(self, value: MachineValue, source: np.dtype, dtype: np.dtype) -> MachineValue: ...
    def reinterpret(self, value: MachineValue, dtype: np.dtype) -> MachineValue: ...


@dataclass(frozen=True)
class Lane:
    """One lane value; a product remembers its factors, so that adding to it is one rounding."""

    raw: MachineValue
    dtype: np.dtype
    factors: tuple["Lane", "Lane"] | None = None


@dataclass(frozen=True)
class IndexedArray:
    """An array in memory that lanes read by index."""

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class Uniform:
    """An array that is the same for all lanes: an input, or a primitive of other ones."""

    shape: tuple[int, ...]
    dtype: Any  # of NumPy, or of a random key
    varies: bool  # with the experience; otherwise it is fixed for the run
    timed: bool  # with the time itself, so that equal samples do not have equal values
    eqn: JaxprEqn | None = None
    inputs: tuple["Uniform | JaxValue", ...] = ()
    output: int = 0


Slot: TypeAlias = tuple[Uniform, int]
"""An entry of a uniform array, by its index."""
Value: TypeAlias = LaneArray | IndexedArray | Uniform | JaxValue
"""What a variable of a jaxpr may stand for."""


def evaluate(nodes: Sequence[Uniform], inputs: Mapping[Uniform, JaxValue]) -> list[JaxValue]:
    """Returns the arrays that uniform expressions stand for, from those of their inputs."""
    results: dict[tuple[int, int], Sequence[JaxValue]] = {}

    def value(node: Uniform | JaxValue) -> JaxValue:
        if not isinstance(node, Uniform):
            return node
        if node in inputs:
            return inputs[node]
        if node.eqn is None:
            raise KeyError(node)
        key = id(node.eqn), id(node.inputs)  # all empty inputs are one tuple
        if key not in results:
            eqn, operands = node.eqn, [value(operand) for operand in node.inputs]
            bound = eqn.primitive.get_bind_params(eqn.params)  # JAX 0.11 dropped the functions
            functions, parameters = bound if isinstance(bound, tuple) else ((), bound)
            result = eqn.primitive.bind(*functions, *operands, **parameters)
            results[key] = result if eqn.primitive.multiple_results else [result]
        return results[key][node.output]

    return [value(node) for node in nodes]


def find_inputs(nodes: Sequence[Uniform]) -> set[Uniform]:
    """Returns the inputs that uniform expressions depend on."""
    visited, unvisited = set[Uniform](), list[Uniform | JaxValue](nodes)
    while unvisited:
        node = unvisited.pop()
        if isinstance(node, Uniform) and node not in visited:
            visited.add(node)
            unvisited += node.inputs
    return {node for node in visited if node.eqn is None}


def identity(value: Uniform | JaxValue) -> Hashable:
    """Returns what is equal for equal values: a node itself, or the bytes of a known array."""
    if isinstance(value, Uniform):
        return value
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return id(value)
    return np.shape(value), value.dtype, np.asarray(value).tobytes()


def is_lane(value: Value) -> bool:
    """Whether a value may differ between lanes."""
    is_array = isinstance(value, np.ndarray) and value.dtype == object
    return is_array or isinstance(value, IndexedArray)
