"""Results as JSON, which knows no NaN and no infinity."""

import dataclasses
import json
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """A value as JSON can hold it: infinities are strings, NaN is null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        if np.isnan(value):
            return None
        if np.isinf(value):
            return "inf" if value > 0 else "-inf"
    return value


def as_json(value: dict[str, Any]) -> str:
    """JSON without NaN or Infinity, one key on a line."""
    lines = [
        f"  {json.dumps(key)}: {json.dumps(entry, allow_nan=False)}"
        for key, entry in plain(value).items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}"
