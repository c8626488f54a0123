"""What work takes before it begins, in memory, time and disk space: what is too much is refused."""

import resource
import shutil
from collections.abc import Iterator
from os import sysconf
from pathlib import Path

DAY = 86_400.0  # seconds, from which on work begins only where it is confirmed


def available_memory() -> float:
    """How many bytes this process can still allocate, by the machine and by the limits set."""
    return min(_free_bytes(), *_group_bytes(), *_limit_bytes())


def require_memory(subject: str, num_bytes: float | int, advice: str = "") -> None:
    """A `ValueError` if that many bytes are more than there are; `advice` says what to reduce."""
    available = available_memory()
    if not num_bytes <= available:
        needed = f"{subject} would need {describe_bytes(num_bytes)} of memory"
        hint = f"; {advice}" if advice else ""
        raise ValueError(f"{needed}, and {describe_bytes(available)} are available{hint}")


def require_time(subject: str, seconds: float | int, confirmed: bool) -> None:
    """A `ValueError` if work takes more than a day and is not confirmed."""
    if seconds > DAY and not confirmed:
        raise ValueError(
            f"{subject} would take about {describe_duration(seconds)} on this machine; what takes "
            "more than a day begins only with --yes"
        )


def require_disk(folder: Path, num_bytes: float | int, confirmed: bool) -> None:
    """A `ValueError` if results are larger than the free space and this is not confirmed."""
    existing = next(
        path for path in (folder.absolute(), *folder.absolute().parents) if path.exists()
    )
    free = shutil.disk_usage(existing).free
    if num_bytes > free and not confirmed:
        raise ValueError(
            f"out: {folder} would need {describe_bytes(num_bytes)}, and {describe_bytes(free)} are "
            "free on its disk; what does not fit begins only with --yes"
        )


def describe_bytes(count: float | int) -> str:
    """Bytes as a person says them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"


def describe_duration(seconds: float | int) -> str:
    """A duration as a person says it."""
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (2 * DAY, 3600, "hours")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    days = seconds / DAY
    return f"{days:.0f} days" if days < 730 else f"{days / 365.25:.3g} years"


def _free_bytes() -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line[:13] == "MemAvailable:")
    except (OSError, StopIteration):  # no Linux: what the machine has
        return float(sysconf("SC_PHYS_PAGES") * sysconf("SC_PAGE_SIZE"))


def _group_bytes() -> Iterator[float]:
    """What the control groups of this process leave of their limits; file caches are given back."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        root = Path("/sys/fs/cgroup") / ("memory" if controllers else "")
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        names = names if controllers else ("memory.max", "memory.current")
        if controllers and "memory" not in controllers.split(","):
            continue
        folder = root / group.lstrip("/")
        for path in (folder, *(p for p in folder.parents if p == root or root in p.parents)):
            try:
                limit, used = (float((path / name).read_text()) for name in names)
                stat = dict(x.split() for x in (path / "memory.stat").read_text().splitlines())
                yield max(0.0, limit - used + float(stat.get("inactive_file", 0)))
            except (OSError, ValueError):  # no limit, which is the word "max"
                continue


def _limit_bytes() -> Iterator[float]:
    """What the limit of this process's address space leaves."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
        except OSError:
            pages = 0
        yield max(0.0, limit - float(pages * resource.getpagesize()))
