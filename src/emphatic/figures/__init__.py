"""The paper's figures: the experiments behind each, their summary in numbers, and the drawing."""

from .figure import Figure as Figure, Part as Part
from .reproduction import FIGURES as FIGURES, reproduce as reproduce
from .verdicts import Statement as Statement
