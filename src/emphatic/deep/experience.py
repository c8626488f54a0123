"""Recorded experience: generated once, saved, and learned from as often as one likes."""

import dataclasses
import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import safe_open, SafetensorError
from safetensors.numpy import save as serialized

from .. import _checks as check
from .._files import checksum, replacing
from .environment import Step

FORMAT = "emphatic experience 1"
DESCRIBED = ("environment", "seed", "num_actions", "provenance")
FIELDS = tuple(field.name for field in dataclasses.fields(Step))


@dataclass(frozen=True, eq=False)
class Experience:
    r"""What a fixed behaviour did in an environment: NumPy arrays, read-only, all checked.

    The leading axes are (iteration, worker). Each worker is one stream: a step begins where the
    one before it led, or else an episode starts. Actions are vectors with bounds, or numbers
    $0, 1, \dots$; vectors, observations, rewards and densities are float32, numbers int32.

    **Arguments:**

    - `steps`: The [Step]s.
    - `behavior`: $\mu(A_t|S_t)$ of each step: a density for vectors, a probability for numbers.
    - `environment`: The id of the environment.
    - `seed`: The seed that it was recorded with.
    - `low`, `high`: The bounds of an action, if actions are vectors.
    - `num_actions`: How many actions there are, if actions are numbers.
    - `provenance`: What else it depends on, such as versions of packages.
    """

    steps: Step
    behavior: Any
    environment: str
    seed: int
    low: Any = None
    high: Any = None
    num_actions: int | None = None
    provenance: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        check.seed(self.seed)
        leading, seen = np.shape(self.behavior), np.shape(self.steps.observation)
        if len(leading) != 2 or 0 in leading:
            raise ValueError(f"behavior: got shape {leading}; (iterations, workers) is required")
        if self.num_actions is None:
            low, high = _bounds(self.low, self.high)
            object.__setattr__(self, "low", low)
            object.__setattr__(self, "high", high)
            kind = np.float32, low.shape
        elif self.low is not None or self.high is not None:
            raise ValueError("low, high: actions that are numbers have no bounds")
        else:
            check.count("num_actions", self.num_actions)
            kind = np.int32, ()
        kinds = dict.fromkeys(FIELDS, (np.bool_, ())) | {
            "observation": (np.float32, seen[2:3]),
            "action": kind,
            "reward": (np.float32, ()),
            "observation_next": (np.float32, seen[2:3]),
        }
        arrays = {
            name: _array(name, getattr(self.steps, name), dtype, (*leading, *shape))
            for name, (dtype, shape) in kinds.items()
        }
        object.__setattr__(self, "steps", Step(**arrays))
        object.__setattr__(self, "behavior", _array("behavior", self.behavior, np.float32, leading))
        _coherent(self)

    @property
    def num_steps(self) -> int:
        """How many steps the workers took together."""
        return self.behavior.size


def _bounds(low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    if low is None or high is None:
        raise ValueError("low, high: bounds of actions, or else num_actions, are required")
    low, high = (check.frozen(np.array(bound, np.float32)) for bound in (low, high))
    if low.ndim != 1 or low.shape != high.shape or not (low < high).all():
        raise ValueError(f"low: got {low} below {high}; vectors with low < high are required")
    return low, high


def _array(name: str, value: Any, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    given = np.asarray(value)
    if given.shape != shape:
        raise ValueError(f"{name}: got shape {given.shape}; {shape} is required")
    if given.dtype.kind not in {"b": "b", "i": "iu", "f": "iuf"}[np.dtype(dtype).kind]:
        raise ValueError(f"{name}: got {given.dtype}; {np.dtype(dtype)} is required")
    with np.errstate(over="ignore"):
        array = given.astype(dtype)
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}: entry {where} is {given[where]}; float32 must hold every entry")
    return check.frozen(array)


def _coherent(experience: Experience) -> None:
    """A `ValueError` unless each worker's steps are one stream of a possible behaviour."""
    steps, count = experience.steps, experience.num_actions
    if not (experience.behavior > 0).all():
        raise ValueError("behavior: every action that was taken must have a positive density")
    if count is not None and not ((steps.action >= 0) & (steps.action < count)).all():
        raise ValueError(f"action: every action must be a number from 0 to {count - 1}")
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


def save(experience: Experience, path: str | os.PathLike) -> None:
    """Writes experience to a safetensors file, atomically. Equal experience is equal bytes.

    The tensors are the fields of [Step], `behavior`, and `low` and `high` if actions are vectors.
    The metadata has one entry, `experience`, in JSON: `format`, `environment`, `seed`,
    `num_actions`, `provenance`, and as `checksum` the SHA-256 of all else.
    """
    arrays = {name: getattr(experience.steps, name) for name in FIELDS}
    arrays["behavior"] = experience.behavior
    if experience.num_actions is None:
        arrays |= {"low": experience.low, "high": experience.high}
    description = {"format": FORMAT} | {name: getattr(experience, name) for name in DESCRIBED}
    description["checksum"] = checksum(description, arrays)
    data = serialized(arrays, {"experience": json.dumps(description, sort_keys=True)})
    with replacing(path) as file:
        file.write(data)


def load(path: str | os.PathLike) -> Experience:
    """Reads experience that [save] wrote; whatever is not exactly that is a `ValueError`.

    **Arguments:**

    - `path`: The file.
    """
    try:
        with safe_open(os.fspath(path), "np") as file:
            names, metadata = file.keys(), file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in names}
    except FileNotFoundError:
        raise ValueError(f"path: {path} does not exist") from None
    except (OSError, SafetensorError) as error:
        raise ValueError(f"path: {path} cannot be read as experience: {error}") from None
    try:
        description = json.loads(metadata["experience"])
        written, expected = description["format"], description.pop("checksum")
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"path: {path} holds tensors, but no experience") from None
    if written != FORMAT:
        raise ValueError(f"path: {path} has the format {written!r}; {FORMAT!r} is required")
    if expected != checksum(description, arrays):
        raise ValueError(f"path: {path} is damaged: its content has another checksum")
    try:
        steps = Step(**{name: arrays.pop(name) for name in FIELDS})
        described = {name: description[name] for name in DESCRIBED}
        return Experience(steps, **arrays, **described)
    except KeyError as error:
        raise ValueError(f"path: {path} lacks {error}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"path: {path}: {error}") from None
