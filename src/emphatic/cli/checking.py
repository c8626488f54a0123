"""The command that compares an implementation with a learner: check."""

import dataclasses

from .parsing import parse_path

REQUIRED = "the module of an implementation, or module:name"


@dataclasses.dataclass
class CheckOptions:
    """Check an implementation in plain Python against a learner, and name its slip.

    It is a module of the current folder with init, step and predict, or module:name for a class.
    The exit status is 0 if it conforms, else 1."""

    as_: str = ""
    """What it should be: an expression as in compare, such as "tdc(0.1)"."""
    seed: int = 0
    """The seed of the random problems on which both run."""
    json: bool = False
    """Print JSON."""


def check_command(arguments: list[str]) -> int:
    """Prints what is found out about an implementation; the exit status is 0 if it conforms."""
    reference, options = parse_path("check", CheckOptions, arguments, "module", REQUIRED)
    if not options.as_:
        raise ValueError('as: not given; say what it should be, such as --as "tdc(0.1)"')
    from ..conformance import check
    from . import tables
    from .output import console

    verdict = check(reference, options.as_, options.seed)
    if options.json:
        print(tables.as_json(dataclasses.asdict(verdict)))
    else:
        out = console()
        for line in str(verdict).split("\n"):
            out.print(line, soft_wrap=True)
    return 0 if verdict.conforms else 1
