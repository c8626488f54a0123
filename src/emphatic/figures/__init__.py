"""The paper's figures: the experiments behind each, what they say in numbers, and the drawing."""

from types import ModuleType

from . import convergence, emphasis_error, policy_evaluation

FIGURES: dict[str, ModuleType] = {
    figure.NAME: figure for figure in (emphasis_error, policy_evaluation, convergence)
}
"""The figures by name: each has EXPERIMENTS, AUTHORS, summarise, table and plot."""
