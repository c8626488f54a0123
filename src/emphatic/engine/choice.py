"""Which engine and which device run a learner, and why."""

import warnings
from typing import Literal, NamedTuple, TYPE_CHECKING, TypeAlias

from ..types import DeviceName
from . import scan
from .batch import Batch
from .experience import Experience, Program
from .fused.values import FusionError
from .stream import Stream
from .tasks import Job

if TYPE_CHECKING:
    from .fused.device import Device

BLOCK, GPU_BLOCK = 4096, 2**20  # lanes that one call advances on a CPU, and on a GPU

Engine: TypeAlias = Literal["auto", "fused", "scan"]
"""What runs learners: `fused` is native code, `scan` is JAX, `auto` chooses."""


class Choice(NamedTuple):
    """The engine that runs a learner, and the reason why."""

    engine: str
    reason: str


class Work(NamedTuple):
    """How much there is to do, as far as it decides where: for the lanes of one learner."""

    num_seeds: int = 1
    num_steps: int = 1
    num_threads: int = 1


def count_gpus(device: DeviceName, engine: Engine = "auto", number: int = 0) -> tuple[int, str]:
    """Counts the GPUs that fused learners may use, if any is asked for and the one of this number
    can be used; or says why not, in a `ValueError` where it has to be one."""
    if device == "cpu" or (device == "auto" and engine == "scan"):
        return 0, ""
    from .fused.cuda import count_devices, DeviceError, find_device

    try:
        find_device(number)
        return count_devices(), ""
    except DeviceError as error:
        if device == "gpu":
            raise
        return 0, str(error).removeprefix("device: ").partition(";")[0]


class Compiler:
    """Chooses an engine and a device for each learner, compiles it, and remembers the choice."""

    def __init__(
        self,
        stream: Stream,
        engine: Engine,
        device: DeviceName = "cpu",
        work: Work | None = None,
        gpu: int = 0,  # its number, if there are several
    ):
        self.stream, self.engine, self.device, self.work = stream, engine, device, work or Work()
        self.experience: dict[str, Experience] = {}  # one for each engine and device
        self.choices: dict[str, Choice] = {}
        self.places: dict[str, str] = {}  # of learners: whose experience they learn from
        self.gpu, self._no_gpu = self._find_gpu(gpu)

    @property
    def device_name(self) -> str:
        """What runs the learners."""
        names = {place: "CPU" if place == "cpu" else str(self.gpu) for place in ("cpu", "gpu")}
        names["scan"] = "JAX"
        return " and ".join(names[place] for place in dict.fromkeys(self.places.values()))

    def _find_gpu(self, number: int) -> "tuple[Device | None, str]":
        """Returns the GPU, if one is asked for, or why there is none."""
        if self.device == "cpu" or self.engine == "scan":
            if self.device == "gpu":
                raise ValueError("device: 'gpu' runs the fused engine; engine is 'scan'")
            return None, ""
        from .fused.cuda import DeviceError, find_device

        try:
            return find_device(number), ""
        except DeviceError as error:
            if self.device == "gpu":
                raise
            return None, f"; no GPU ({str(error).removeprefix('device: ').partition(';')[0]})"

    def compile(self, name: str, target: int, batch: Batch) -> Job:
        """Compiles a batch for the engine and the device that run it."""
        program, place, reason = None, "scan", "asked for"
        if self.engine != "scan":
            try:
                program, place = self._fuse(name, batch)
                if self.engine == "auto":
                    numbers = f"every primitive lowers, and a state has {batch.num_state} numbers"
                    reason = numbers + self._no_gpu
            except ImportError:
                reason = "llvmlite is not installed"
                if self.engine == "auto" and not self.choices:
                    warnings.warn(f"the fused engine is not used: {reason}", stacklevel=3)
            except FusionError as error:
                reason = str(error)
            if program is None and self.device == "gpu":
                raise ValueError(
                    f"device: {name!r} cannot be fused for a GPU: {reason}; device='cpu' scans it"
                )
            if program is None and self.engine == "fused":
                raise ValueError(f"engine: {name!r} cannot be fused: {reason}; scan would run it")
        self.choices[name] = Choice("fused" if program else "scan", reason)
        self.places[name] = place
        if program is None:
            program = scan.Program(batch, self.stream)
            if place not in self.experience:
                self.experience[place] = scan.Experience(self.stream)
        return Job(name, target, batch, program, self.experience[place])

    def _fuse(self, name: str, batch: Batch) -> tuple[Program, str]:
        """Returns a fused program, and whose experience it learns from."""
        from .fused import cpu

        if self.gpu is not None and self.places.get(name) != "cpu":
            from .fused import gpu

            program = gpu.Program(batch, self.stream, self.gpu)
            there = program.estimate_seconds(self.work.num_seeds, self.work.num_steps)
            here = cpu.estimate_seconds(program.step, *self.work)
            if self.device == "gpu" or there < here:
                if "gpu" not in self.experience:
                    self.experience["gpu"] = gpu.Experience(self.stream, self.gpu)
                return program, "gpu"
        if "cpu" not in self.experience:
            self.experience["cpu"] = cpu.Experience(self.stream)
        return cpu.Program(batch, self.stream), "cpu"
