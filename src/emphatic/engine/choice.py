"""Which engine and which device run a learner, and why."""

import warnings
from typing import cast, Literal, NamedTuple, TYPE_CHECKING, TypeAlias

from ..types import DeviceName
from . import scan
from .batch import Batch
from .experience import Experience, Program
from .fused.values import FusionError
from .stream import Stream
from .tasks import Job, seed_load

if TYPE_CHECKING:
    from .fused import gpu as on_gpu
    from .fused.device import Device, DeviceError

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
    num_windows: int = 1
    keeps_states: bool = False  # those after each window
    num_threads: int = 1  # of the CPU


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
        self.gpu: Device | None = None
        self._gpu_name, self._no_gpu = "", ""  # or why there is none, where one is asked for
        self._find_gpu(gpu)

    @property
    def device_name(self) -> str:
        """What runs the learners."""
        names = {"cpu": "CPU", "gpu": self._gpu_name, "scan": "JAX"}
        return " and ".join(names[place] for place in dict.fromkeys(self.places.values()))

    def _find_gpu(self, number: int) -> None:
        """Finds the GPU, if one is asked for."""
        if self.device == "cpu" or self.engine == "scan":
            if self.device == "gpu":
                raise ValueError("device: 'gpu' runs the fused engine; engine is 'scan'")
            return
        from .fused.cuda import DeviceError, find_device

        try:
            self.gpu = find_device(number)
            self._gpu_name = str(self.gpu)
        except DeviceError as error:
            self._do_without(error)

    def _do_without(self, error: "DeviceError") -> None:
        """Goes on without a GPU, unless it has to be one."""
        if self.device == "gpu":
            raise error
        self.gpu = None
        self._no_gpu = f"; no GPU ({str(error).removeprefix('device: ').partition(';')[0]})"

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

    def lanes_per_task(self, job: Job, num_lanes: int) -> int:
        """Returns how many of a learner's lanes a program on the GPU has; see [gpu.Experience]."""
        source = cast("on_gpu.Experience", job.experience)
        return source.lanes_per_task(num_lanes, self.work.num_seeds, seed_load([job]))

    def _fuse(self, name: str, batch: Batch) -> tuple[Program, str]:
        """Returns a fused program, and whose experience it learns from."""
        from .fused import cpu
        from .fused.device import DeviceError

        if self.gpu is not None and self.places.get(name) != "cpu":
            try:
                program = self._fuse_for_gpu(self.gpu, batch)
            except DeviceError as error:
                self._do_without(error)
            else:
                if program is not None:
                    return program, "gpu"
        if "cpu" not in self.experience:
            self.experience["cpu"] = cpu.Experience(self.stream)
        return cpu.Program(batch, self.stream), "cpu"

    def _fuse_for_gpu(self, device: "Device", batch: Batch) -> Program | None:
        """Returns a program of the GPU, compiled, if that is asked for or faster."""
        from .fused import gpu
        from .fused.estimate import cpu_seconds, gpu_seconds

        program = gpu.Program(batch, self.stream, device)
        there = gpu_seconds(device, program.step, self.stream, self.work)
        if self.device == "auto" and there >= cpu_seconds(program.step, self.work):
            return None
        program.choose_width(self.work.num_seeds)
        source = cast("on_gpu.Experience | None", self.experience.get("gpu"))
        source = source or gpu.Experience(self.stream, device)
        load = seed_load([Job("", 0, batch, program, source)])
        source.require_memory(load.row_bytes + load.num_bytes // load.num_lanes)
        self.experience["gpu"] = source
        return program
