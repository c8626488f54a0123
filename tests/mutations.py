"""Values of JSON that are changed everywhere: what is read from a file has to bear it."""

import copy
from collections.abc import Iterator
from typing import Any

DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]
REMOVED = object()
VALUES = [None, True, 5, -1, 1e400, 10**400, "x", "../../x", "\ud800", [], {}, DEEP]


def changed(value: Any, most: int = 1) -> Iterator[tuple[str, Any]]:
    """Yields copies, in each of which one entry is removed or another; with what was done.

    Of lists only the first `most` entries are changed.
    """
    for path in _places(value, most):
        for other in (REMOVED, *VALUES):
            result = copy.deepcopy(value)
            holder = result
            for key in path[:-1]:
                holder = holder[key]
            if other is REMOVED:
                del holder[path[-1]]
            else:
                holder[path[-1]] = other
            what = "removed" if other is REMOVED else str(other)[:20]
            yield f"{'.'.join(map(str, path))}: {what}", result


def _places(value: Any, most: int) -> Iterator[tuple[Any, ...]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value[:most])
    for key, inner in entries:
        yield (key,)
        if isinstance(inner, dict | list):
            for path in _places(inner, most):
                yield key, *path


def require_one_line(error: ValueError, *names: str) -> None:
    """An error is one line, not long, that names all these."""
    assert "\n" not in str(error), error
    assert len(str(error)) < 1000, error
    assert all(name in str(error) for name in names), error
