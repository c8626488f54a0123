"""The command `emphatic` with two Garnets, in place of twenty, in the figure on convergence."""

import dataclasses
import sys

from emphatic import cli
from emphatic.figures import FIGURES
from emphatic.figures.convergence import figure, summary
from emphatic.figures.convergence.agents import GARNETS, NUM_GARNETS, SETTINGS
from emphatic.figures.figure import parts_from

FEW = GARNETS[0], GARNETS[NUM_GARNETS]  # tabular, and aliased
LEFT_OUT = set(GARNETS) - set(FEW)


def leave_garnets_out() -> None:
    """Changes the figure in this process."""
    settings = {name: s for name, s in summary._NAMED_SETTINGS.items() if s not in LEFT_OUT}
    experiments = [each for each in summary.EXPERIMENTS if each.name in settings]
    for module, name, value in (
        (summary, "SETTINGS", tuple(setting for setting in SETTINGS if setting not in LEFT_OUT)),
        (summary, "GARNETS", FEW),
        (summary, "_NAMED_SETTINGS", settings),
        (figure, "GARNETS", FEW),
        (figure, "NUM_GARNETS", len(FEW) // 2),
    ):
        setattr(module, name, value)
    parts = parts_from(figure.NAME, experiments)
    FIGURES[figure.NAME] = dataclasses.replace(figure.FIGURE, parts=parts)


if __name__ == "__main__":
    leave_garnets_out()
    sys.exit(cli.main())
