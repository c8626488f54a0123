"""NVIDIA's driver: finds a GPU, compiles PTX for it and keeps the result, moves memory, launches.

Every thread of ours has a stream of the driver, in which all that it begins happens in order: two
threads keep a GPU busy, one copies while the other's kernel runs. The package `cuda-bindings` is
imported when a GPU is asked for.
"""

import ctypes
import hashlib
import importlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Shaped

from ..._files import atomic_write
from . import device as protocols
from .device import DeviceError
from .kernels import ARCHITECTURE, Kernel, to_ptx

CAPABILITY = divmod(int(ARCHITECTURE.removeprefix("sm_")), 10)  # that kernels need
DRIVER = 11_020  # the version of CUDA that knows their PTX and has pools of memory
STATIC_SHARED = 48 * 1024  # bytes that a block may share without asking for more
SYSTEM_SHARED = 1024  # bytes of every block that the driver keeps for itself
CORES = {(8, 0): 64}  # of a multiprocessor, for single precision
NEWER_CORES = 128  # of those of another compute capability
ATTRIBUTES = {
    "device": ("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_"),
    "function": ("CUfunction_attribute", "CU_FUNC_ATTRIBUTE_"),
    "pool": ("CUmemPool_attribute", "CU_MEMPOOL_ATTR_"),
}
DIGEST = hashlib.sha256().digest_size
CPU = "device='cpu' needs none"

Handle: TypeAlias = Any
"""What the driver gives out and takes back; only the driver looks inside."""


class Memory:
    """Memory of a GPU."""

    def __init__(self, device: "Device", num_bytes: int):
        self._device = device
        self.address = int(device.call("cuMemAllocAsync", max(num_bytes, 1), device.stream))

    def __del__(self) -> None:
        if hasattr(self, "address"):
            with suppress(DeviceError):  # a GPU that has failed, or is gone at exit
                self._device.call("cuMemFreeAsync", self.address, self._device.stream)


class LoadedKernel:
    """A kernel on a GPU."""

    def __init__(self, device: "Device", kernel: Kernel, module: Handle):
        self._device, self._kernel, self._module = device, kernel, module
        self._function = device.call("cuModuleGetFunction", module, kernel.name.encode())
        if kernel.shared_bytes > STATIC_SHARED:
            attribute = device.constant("function", "MAX_DYNAMIC_SHARED_SIZE_BYTES")
            device.call("cuFuncSetAttribute", self._function, attribute, kernel.shared_bytes)
        self.num_registers = self._attribute("NUM_REGS")
        self.local_bytes = self._attribute("LOCAL_SIZE_BYTES")

    def _attribute(self, name: str) -> int:
        attribute = self._device.constant("function", name)
        return self._device.call("cuFuncGetAttribute", attribute, self._function)

    def num_resident(self, block_size: int) -> int:
        """Returns how many threads the whole GPU runs at the same time, in such blocks."""
        blocks = self._device.call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            *(self._function, block_size, self._kernel.shared_bytes),
        )
        return blocks * block_size * self._device.num_multiprocessors

    def launch(self, num_threads: int, block_size: int, arguments: Sequence[int]) -> None:
        """Begins to run so many threads at least, after all that this thread of ours began."""
        grid, block = (-(-num_threads // block_size), 1, 1), (block_size, 1, 1)
        shared, stream = self._kernel.shared_bytes, self._device.stream
        values = tuple(arguments), (ctypes.c_int64,) * len(arguments)
        self._device.call(
            "cuLaunchKernel", self._function, *grid, *block, shared, stream, values, 0
        )


class Device:
    """A GPU and its driver, for the life of a process."""

    def __init__(self, driver: ModuleType, number: int = 0):
        self._driver, self._context = driver, None
        self.stream = driver.CU_STREAM_PER_THREAD
        self._handle = self.call("cuDeviceGet", number)
        self.name = self.call("cuDeviceGetName", 128, self._handle).partition(b"\0")[0].decode()
        self.driver_version = self.call("cuDriverGetVersion")
        if self.driver_version < DRIVER:
            raise DeviceError(
                f"device: the driver knows CUDA {_version(self.driver_version)}; a GPU needs "
                f"{_version(DRIVER)} or newer: update the driver; {CPU}"
            )
        self.capability = (
            self._attribute("COMPUTE_CAPABILITY_MAJOR"),
            self._attribute("COMPUTE_CAPABILITY_MINOR"),
        )
        if self.capability < CAPABILITY:
            raise DeviceError(
                f"device: {self.name} has compute capability {_dotted(self.capability)}; "
                f"{_dotted(CAPABILITY)} or newer is required; {CPU}"
            )
        self.num_multiprocessors = self._attribute("MULTIPROCESSOR_COUNT")
        self.num_cores = CORES.get(self.capability, NEWER_CORES) * self.num_multiprocessors
        self.double_ratio = self._attribute("SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO")
        self.cycles = 1e3 * self._attribute("CLOCK_RATE")  # which is in kHz
        largest = self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self.shared_bytes = (largest + SYSTEM_SHARED) // 2 - SYSTEM_SHARED  # of two, side by side
        self._context = self.call("cuDevicePrimaryCtxRetain", self._handle)
        self._pool = self.call("cuDeviceGetDefaultMemPool", self._handle)
        unlimited = driver.cuuint64_t(2**64 - 1)  # memory is kept for the next slice
        self.call(
            "cuMemPoolSetAttribute",
            self._pool,
            self.constant("pool", "RELEASE_THRESHOLD"),
            unlimited,
        )

    def __str__(self) -> str:
        """Names the GPU, its compute capability, and what its driver knows."""
        version = _version(self.driver_version)
        return f"{self.name}, compute capability {_dotted(self.capability)}, CUDA {version}"

    def constant(self, kind: str, name: str) -> Handle:
        """Returns an attribute's name as the driver knows it; `kind` is one of [ATTRIBUTES]."""
        names, prefix = ATTRIBUTES[kind]
        return getattr(getattr(self._driver, names), prefix + name)

    def _attribute(self, name: str) -> int:
        return self.call("cuDeviceGetAttribute", self.constant("device", name), self._handle)

    def call(self, name: str, *arguments: Handle) -> Handle:
        """Calls the driver for this GPU, and returns its result, several as a tuple."""
        if self._context is not None:  # of the thread of ours that calls
            check(self._driver, "cuCtxSetCurrent", self._driver.cuCtxSetCurrent(self._context))
        try:
            results = getattr(self._driver, name)(*arguments)
        except RuntimeError:  # that the driver has none
            raise DeviceError(f"device: the driver has no {name}: update it; {CPU}") from None
        return check(self._driver, name, results)

    @property
    def free_bytes(self) -> int:
        """How much memory is free, or kept by this process and not in use."""
        names = "RESERVED_MEM_CURRENT", "USED_MEM_CURRENT"
        attributes = [self.constant("pool", name) for name in names]
        kept, used = (self.call("cuMemPoolGetAttribute", self._pool, a) for a in attributes)
        return self.call("cuMemGetInfo")[0] + int(kept) - int(used)

    def compile(self, kernel: Kernel) -> LoadedKernel:
        """Compiles a kernel, or loads what was compiled before."""
        ptx = to_ptx(kernel).encode()
        identity = "\n".join([str(self), ptx.decode()])
        path = cache_folder() / f"{hashlib.sha256(identity.encode()).hexdigest()}.cubin"
        with suppress(OSError, DeviceError):
            digest, code = (stored := path.read_bytes())[:DIGEST], stored[DIGEST:]
            if hashlib.sha256(code).digest() == digest:
                return LoadedKernel(self, kernel, self.call("cuModuleLoadData", code))
        code = self._link(ptx)
        with suppress(OSError):  # a full or a read-only disk
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(hashlib.sha256(code).digest() + code)
        return LoadedKernel(self, kernel, self.call("cuModuleLoadData", code))

    def _link(self, ptx: bytes) -> bytes:
        """Compiles PTX to machine code of this GPU."""
        option, log = self._driver.CUjit_option, bytearray(8192)
        options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        state = self.call("cuLinkCreate", len(options), options, [log, len(log)])
        try:
            kind = self._driver.CUjitInputType.CU_JIT_INPUT_PTX
            text = ptx + b"\0"
            self.call("cuLinkAddData", state, kind, text, len(text), b"kernel", 0, [], [])
            return ctypes.string_at(*self.call("cuLinkComplete", state))
        except DeviceError as error:
            reason = log.rstrip(b"\0").decode(errors="replace").strip().partition("\n")[0] or error
            raise DeviceError(
                f"device: the driver of {self.name} refuses a kernel: {reason}; {CPU}"
            ) from None
        finally:
            self.call("cuLinkDestroy", state)

    def allocate(self, num_bytes: int) -> Memory:
        """Returns memory that is all zero."""
        memory = Memory(self, num_bytes)
        self.call("cuMemsetD8Async", memory.address, 0, max(num_bytes, 1), self.stream)
        return memory

    def upload(
        self, array: Shaped[np.ndarray, "..."], memory: protocols.Memory, offset: int = 0
    ) -> None:
        """Copies an array to memory, from an offset in bytes on."""
        if array.nbytes:
            place = memory.address + offset, array.ctypes.data, array.nbytes
            self.call("cuMemcpyHtoDAsync", *place, self.stream)

    def download(
        self, memory: protocols.Memory, array: Shaped[np.ndarray, "..."], offset: int = 0
    ) -> None:
        """Waits until all is done that this thread began, and copies from memory to an array."""
        if array.nbytes:
            place = array.ctypes.data, memory.address + offset, array.nbytes
            self.call("cuMemcpyDtoHAsync", *place, self.stream)
        self.call("cuStreamSynchronize", self.stream)

    def copy(
        self, source: protocols.Memory, offset: int, target: protocols.Memory, num_bytes: int
    ) -> None:
        """Copies memory from an offset in bytes on to the beginning of other memory."""
        if num_bytes:
            place = target.address, source.address + offset, num_bytes
            self.call("cuMemcpyDtoDAsync", *place, self.stream)


def check(driver: ModuleType, name: str, results: tuple[Handle, ...]) -> Handle:
    """Returns the result of a call of the driver; an error of the driver is a [DeviceError]."""
    error, *values = results
    if error == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise DeviceError(
            "device: the memory of the GPU is taken; run fewer seeds or lanes at a time, "
            f"or wait until it is free; {CPU}"
        )
    if error != driver.CUresult.CUDA_SUCCESS:
        code = driver.cuGetErrorName(error)[1]
        text = code.decode() if isinstance(code, bytes) else error
        raise DeviceError(f"device: the GPU's driver failed in {name}: {text}; {CPU}")
    return values[0] if len(values) == 1 else tuple(values)


def find_device(number: int = 0) -> Device:
    """Returns a GPU that this process may use, the first one by default; a [DeviceError] where
    there is none."""
    return open_device(_find_driver(), number)


def count_devices() -> int:
    """Returns how many GPUs this process may use; a [DeviceError] where there is none."""
    return _count(_find_driver())


def open_device(driver: ModuleType, number: int = 0) -> Device:
    """Returns a GPU of a driver."""
    _count(driver)
    return Device(driver, number)


def _find_driver() -> ModuleType:
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError:
        raise DeviceError(
            f"device: a GPU needs the package cuda-bindings, the extra 'cuda'; {CPU}"
        ) from None


def _count(driver: ModuleType) -> int:
    """Begins to use a driver, and returns how many GPUs it has."""
    try:
        results = driver.cuInit(0)
    except RuntimeError:  # its library is not there
        raise DeviceError(f"device: no driver of NVIDIA is installed; {CPU}") from None
    count = 0
    if results[0] != driver.CUresult.CUDA_ERROR_NO_DEVICE:
        check(driver, "cuInit", results)
        count = check(driver, "cuDeviceGetCount", driver.cuDeviceGetCount())
    if count == 0:
        raise DeviceError(f"device: no GPU is to be seen (CUDA_VISIBLE_DEVICES?); {CPU}")
    return count


def cache_folder() -> Path:
    """Returns where compiled kernels are kept."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "emphatic" / "kernels"


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))
