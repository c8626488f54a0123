"""What a figure is made from: parts, each of which ends in a dataset."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.tasks import Progress
from ..experiment import Experiment
from ..experiment_file import read

if TYPE_CHECKING:
    import xarray

CHECKPOINTS = "checkpoints"  # the folder that is there until all parts are finished


@dataclass(frozen=True)
class Part:
    """What a part is called, how many updates it takes, and what makes it in a figure's folder."""

    name: str
    num_updates: int
    make: Callable[[Path, Progress], "xarray.Dataset"]


def shipped(name: str) -> Experiment:
    """An experiment of the package: a TOML file, as anyone may write one."""
    return read(Path(__file__).parent / "experiments" / f"{name}.toml")
