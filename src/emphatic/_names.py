"""Names that a person typed."""

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """The error for an unknown name, which suggests the nearest known one."""
    known = list(known)
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return ValueError(f"{kind}: unknown name {name!r}; {hint}known: {', '.join(known)}")
