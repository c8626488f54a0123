"""Recorded experience: generated once, saved to a file, and learned from many times."""

import dataclasses
import json
import os
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypedDict

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Integer

from .. import _validation as check
from .._files import checksum, read_arrays, write_arrays
from .._schema import Count, parse_json, Rule, Seed, show
from ..types import Array

Observation: TypeAlias = Float[Array, " o"]
"""An observation: a vector."""
Action: TypeAlias = Float[Array, " a"] | Integer[Array, ""]
"""An action: a vector, or the number of an action."""

FORMAT = "emphatic experience 1"
METADATA = ("environment", "seed", "num_actions", "provenance")


class Description(TypedDict):
    """What a file says of its experience; the checksum is of all else."""

    format: Annotated[str, Rule(repr(FORMAT), lambda text: text == FORMAT)]
    environment: str
    seed: Seed
    num_actions: Count | None
    provenance: dict[str, str]
    checksum: str


class Step(eqx.Module):
    r"""What happened at time $t$: $(O_t, A_t, R_{t+1}, O_{t+1})$, and where episodes begin and end.

    Arrays may have leading axes, usually (iteration, worker). `observation_next` is the true
    successor $O_{t+1}$, also where the episode ends and the next observation is that of a reset.
    If the task `terminated`, its value is 0; if a time limit `truncated` the episode, it has one.
    """

    observation: Float[Array, "*_batch _o"]
    action: Float[Array, "*_batch _a"] | Integer[Array, "*_batch"]
    reward: Float[Array, "*_batch"]
    observation_next: Float[Array, "*_batch _o"]
    terminated: Bool[Array, "*_batch"]
    truncated: Bool[Array, "*_batch"]
    start: Bool[Array, "*_batch"]


FIELDS = tuple(field.name for field in dataclasses.fields(Step))


@dataclass(frozen=True, eq=False)
class Experience:
    r"""What a fixed behaviour did in an environment: read-only NumPy arrays, all checked.

    The leading axes are (iteration, worker). Each worker is one stream: a step begins where the
    one before it led, or else an episode starts. Actions are vectors with bounds, or numbers
    $0, 1, \dots$; vectors, observations, rewards and densities are float32, numbers int32. The
    `behavior` is $\mu(A_t|S_t)$ of each step: a density for vectors, a probability for numbers.
    """

    steps: Step
    behavior: Float[np.ndarray, "*_batch"]
    environment: str
    seed: int
    low: Float[np.ndarray, " _a"] | None = None
    high: Float[np.ndarray, " _a"] | None = None
    num_actions: int | None = None
    provenance: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        check.seed(self.seed)
        leading = np.shape(self.behavior)
        size = np.shape(self.steps.observation)[2:3]
        if len(leading) != 2 or 0 in leading:
            raise ValueError(f"behavior: got shape {leading}; (iterations, workers) is required")
        if self.num_actions is None:
            low, high = _to_bounds(self.low, self.high)
            object.__setattr__(self, "low", low)
            object.__setattr__(self, "high", high)
            action_type = np.float32, low.shape
        elif self.low is not None or self.high is not None:
            raise ValueError("low, high: actions that are numbers have no bounds")
        else:
            check.count("num_actions", self.num_actions)
            action_type = np.int32, ()
        expected = dict.fromkeys(FIELDS, (np.bool_, ())) | {
            "observation": (np.float32, size),
            "action": action_type,
            "reward": (np.float32, ()),
            "observation_next": (np.float32, size),
        }
        arrays = {
            name: _to_array(name, getattr(self.steps, name), dtype, (*leading, *shape))
            for name, (dtype, shape) in expected.items()
        }
        object.__setattr__(self, "steps", Step(**arrays))
        behavior = _to_array("behavior", self.behavior, np.float32, leading)
        object.__setattr__(self, "behavior", behavior)
        _check_streams(self)

    @property
    def num_steps(self) -> int:
        """The number of steps of all workers together."""
        return self.behavior.size


def _to_bounds(
    low: object, high: object
) -> tuple[Float[np.ndarray, " a"], Float[np.ndarray, " a"]]:
    if low is None or high is None:
        raise ValueError("low, high: bounds of actions, or else num_actions, are required")
    low, high = (check.frozen(np.array(bound, np.float32)) for bound in (low, high))
    if low.ndim != 1 or low.shape != high.shape or not (low < high).all():
        raise ValueError(f"low: got {low} below {high}; vectors with low < high are required")
    return low, high


def _to_array(
    name: str, value: Array, dtype: type[np.generic], shape: tuple[int, ...]
) -> np.ndarray:
    value = np.asarray(value)
    if value.shape != shape:
        raise ValueError(f"{name}: got shape {value.shape}; {shape} is required")
    if value.dtype.kind not in {"b": "b", "i": "iu", "f": "iuf"}[np.dtype(dtype).kind]:
        raise ValueError(f"{name}: got {value.dtype}; {np.dtype(dtype)} is required")
    with np.errstate(over="ignore"):
        array = value.astype(dtype)
    if not np.isfinite(array).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}: entry {index} is {value[index]}; float32 must hold every entry")
    return check.frozen(array)


def _check_streams(experience: Experience) -> None:
    """Raises a `ValueError` unless each worker's steps are one stream of a possible behaviour."""
    steps, num_actions = experience.steps, experience.num_actions
    if not (experience.behavior > 0).all():
        raise ValueError("behavior: every action that was taken must have a positive density")
    if num_actions is not None and not ((steps.action >= 0) & (steps.action < num_actions)).all():
        raise ValueError(f"action: every action must be a number from 0 to {num_actions - 1}")
    ended = (steps.terminated | steps.truncated)[:-1]
    if (steps.start[1:] != ended).any():
        t, worker = np.argwhere(steps.start[1:] != ended)[0]
        raise ValueError(
            f"start: entry ({t + 1}, {worker}) is {steps.start[t + 1, worker]}; an episode starts "
            "exactly where the one before it has ended"
        )
    broken = (steps.observation[1:] != steps.observation_next[:-1]).any(-1) & ~ended
    if broken.any():
        t, worker = np.argwhere(broken)[0]
        raise ValueError(
            f"observation: entry ({t + 1}, {worker}) is not the successor of the step before it"
        )


def save_experience(experience: Experience, path: str | os.PathLike) -> None:
    """Writes experience to a safetensors file, atomically; equal experience gives equal bytes.

    The tensors are the fields of [Step], `behavior`, and `low` and `high` if actions are vectors.
    The metadata has one entry, `experience`, in JSON: `format`, `environment`, `seed`,
    `num_actions`, `provenance`, and as `checksum` the SHA-256 of all else.
    """
    arrays = {name: getattr(experience.steps, name) for name in FIELDS}
    arrays["behavior"] = experience.behavior
    if experience.num_actions is None:
        arrays |= {"low": experience.low, "high": experience.high}
    description = {"format": FORMAT} | {name: getattr(experience, name) for name in METADATA}
    description["checksum"] = checksum(description, arrays)
    write_arrays(path, arrays, {"experience": json.dumps(description, sort_keys=True)})


def load_experience(path: str | os.PathLike) -> Experience:
    """Reads experience that [save_experience] wrote; anything else is a `ValueError`."""
    try:
        arrays, metadata = read_arrays(path)
    except ValueError as error:
        raise ValueError(f"path: {path} cannot be read as experience: {error}") from None
    if "experience" not in metadata:
        raise ValueError(f"path: {path} holds tensors, but no experience")
    origin = f"path: {path}, its description"
    description = parse_json(metadata["experience"], Description, origin)
    content = {name: value for name, value in description.items() if name != "checksum"}
    if description["checksum"] != checksum(content, arrays):
        raise ValueError(f"path: {path} is damaged: its content has another checksum")
    required, optional = {*FIELDS, "behavior"}, {"low", "high"}
    for name in sorted(arrays.keys() ^ required):
        if name not in optional:
            problem = "lacks" if name in required else "has no use for"
            raise ValueError(f"path: {path} {problem} {show(name)}")
    fields: dict[str, Any] = {name: description[name] for name in METADATA}
    fields |= {name: arrays[name] for name in ("behavior", *sorted(optional & arrays.keys()))}
    try:
        return Experience(Step(**{name: arrays[name] for name in FIELDS}), **fields)
    except ValueError as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"path: {path}: {reason}") from None
