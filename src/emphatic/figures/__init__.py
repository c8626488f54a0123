"""The paper's figures: the experiments behind each, what they say in numbers, and the drawing."""

from types import ModuleType

from . import control, convergence, emphasis_error, policy_evaluation

FIGURES: dict[str, ModuleType] = {
    figure.NAME: figure for figure in (emphasis_error, policy_evaluation, convergence, control)
}
"""The figures by name: each has EXPERIMENTS and AUTHORS, or else parts; summarise, table, plot."""
