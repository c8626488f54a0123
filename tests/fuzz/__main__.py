"""Fuzzes the commands, and says what happened.

    python -m tests.fuzz [--inputs 100000] [--seed 0] [--workers 2] [--only NUMBER ...]

Each failing input is written to a folder, with the command that repeats it.
"""

import argparse
import shlex
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from . import seeds
from .commands import Odd
from .generate import generate
from .harness import run
from .judge import Outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", type=int, nargs="*", help="the numbers of inputs")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args()
    numbers = options.only or range(options.first, options.first + options.inputs)
    workers, outcomes = min(options.workers, len(numbers)), list[Outcome]()
    begun, said = time.monotonic(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for outcome in run(options.seed, numbers, workers, Path(folder)):
            outcomes.append(outcome)
            if options.only or outcome.failures:
                print(outcome, flush=True)
            if (passed := time.monotonic() - begun) > said + 60.0:
                said = passed
                failing = sum(bool(o.failures) for o in outcomes)
                print(f"{len(outcomes)} inputs, {passed:.0f} s, {failing} fail", flush=True)
    show(outcomes, time.monotonic() - begun)
    failed = [outcome for outcome in outcomes if outcome.failures]
    if failed:
        with tempfile.TemporaryDirectory() as folder:
            tree = seeds.make(Path(folder))
        for outcome in failed:
            keep(outcome, options.seed, tree, options.out / str(outcome.number))
        print(f"\nThey are in {options.out}; python -m tests.fuzz --only NUMBER runs one again.")
    return 1 if failed else 0


def show(outcomes: list[Outcome], seconds: float) -> None:
    """Prints what happened."""
    rate = len(outcomes) / seconds
    print(f"\n{len(outcomes)} inputs in {seconds:.0f} s, {rate:.0f} a second")
    for title, name in (("format", "format"), ("command", "command")):
        print(f"\n{title:24} inputs  status 0       1       2    fail  mean ms")
        kinds = Counter(getattr(outcome, name) for outcome in outcomes)
        for kind, count in kinds.most_common(24):
            own = [outcome for outcome in outcomes if getattr(outcome, name) == kind]
            statuses = [sum(o.status == s and not o.failures for o in own) for s in (0, 1, 2)]
            failing, mean = sum(bool(o.failures) for o in own), sum(o.seconds for o in own) / count
            cells = "".join(f"{n:8}" for n in (*statuses, failing))
            print(f"{kind[:24]!s:24} {count:6}{cells}{1e3 * mean:9.0f}")
    slowest = sorted(outcomes, key=lambda o: -o.seconds)[:5]
    print("\nslowest:", ", ".join(f"{o.number} ({o.command}) {o.seconds:.1f} s" for o in slowest))
    print(f"peak memory: {max(o.peak for o in outcomes) / 2**30:.2f} GiB")
    notes = Counter(text[:100] for outcome in outcomes for text in outcome.warnings)
    print(f"warnings: {notes.total()}")
    for text, count in notes.most_common(10):
        print(f"{count:7} {text}")
    failures = Counter(text for outcome in outcomes for text in outcome.failures)
    print(f"\nfailing inputs: {sum(bool(o.failures) for o in outcomes)}, in {len(failures)} ways")
    for text, count in failures.most_common():
        numbers = [o.number for o in outcomes if text in o.failures][:5]
        print(f"{count:7} {text} | {' '.join(map(str, numbers))}")


def keep(outcome: Outcome, seed: int, tree: seeds.Tree, folder: Path) -> None:
    """Writes a failing input to a folder: its files, its command and what happened."""
    case = generate(seed, outcome.number, tree)
    for name, content in case.files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Odd):
                path.with_name(f"{path.name}.{content.kind}").write_bytes(content.data)
            else:
                path.write_bytes(content)
        except OSError:
            continue
    folder.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["emphatic", *case.arguments])
    text = "\n".join((command, *outcome.failures, outcome.detail))
    (folder / "FAILURE").write_text(text, errors="replace")


if __name__ == "__main__":
    sys.exit(main())
