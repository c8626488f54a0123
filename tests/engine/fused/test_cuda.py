"""The driver of a GPU, as a stand-in: what it is asked for, and what is said when it fails."""

import ctypes
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from emphatic.engine.fused import cuda
from emphatic.engine.fused.device import Device
from emphatic.engine.fused.kernels import Kernel

ERRORS = {"CUDA_SUCCESS": 0, "CUDA_ERROR_OUT_OF_MEMORY": 2, "CUDA_ERROR_NO_DEVICE": 100}
ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MULTIPROCESSOR_COUNT": 132,
    "CLOCK_RATE": 1_980_000,
    "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": 2,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232_448,
}
POOL = {"RELEASE_THRESHOLD": 0, "RESERVED_MEM_CURRENT": 700, "USED_MEM_CURRENT": 500}
NUM_REGS, LOCAL_SIZE_BYTES, CUBIN = 56, 0, b"machine code"


class Driver(ModuleType):
    """As much of `cuda.bindings.driver` as is used: it remembers calls, and fails as it is told."""

    CU_STREAM_PER_THREAD = 2

    def __init__(self, **failures: int):
        super().__init__("driver")
        self.failures, self.calls = failures, list[Any]()
        self.CUresult = SimpleNamespace(**ERRORS)
        self.CUdevice_attribute = self._names("CU_DEVICE_ATTRIBUTE_", ATTRIBUTES)
        names = "NUM_REGS", "LOCAL_SIZE_BYTES", "MAX_DYNAMIC_SHARED_SIZE_BYTES"
        self.CUfunction_attribute = self._names("CU_FUNC_ATTRIBUTE_", names)
        self.CUmemPool_attribute = self._names("CU_MEMPOOL_ATTR_", POOL)
        self.CUjitInputType = SimpleNamespace(CU_JIT_INPUT_PTX="ptx")
        logs = "CU_JIT_ERROR_LOG_BUFFER", "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES"
        self.CUjit_option = SimpleNamespace(**{name: name for name in logs})
        self.cuuint64_t = int
        self.attributes, self.version, self.log = dict(ATTRIBUTES), 12_080, b""
        self._code = ctypes.create_string_buffer(CUBIN, len(CUBIN))

    @staticmethod
    def _names(prefix: str, names: Any) -> SimpleNamespace:
        return SimpleNamespace(**{prefix + name: name for name in names})

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            if name in self.failures:
                return (self.failures[name],)
            result = getattr(self, f"_{name}", lambda *arguments: ())(*arguments)
            return (0, *result)

        return call

    def num_calls(self, name: str) -> int:
        return sum(call[0] == name for call in self.calls)

    def _cuGetErrorName(self, error: int) -> Any:
        return (f"CUDA_ERROR_{error}".encode(),)

    def _cuDeviceGetCount(self) -> Any:
        return (1,)

    def _cuDeviceGet(self, number: int) -> Any:
        return (f"device {number}",)

    def _cuDeviceGetName(self, length: int, device: Any) -> Any:
        return (b"NVIDIA H200\0".ljust(length),)  # cuda-bindings fills its buffer with spaces

    def _cuDriverGetVersion(self) -> Any:
        return (self.version,)

    def _cuDeviceGetAttribute(self, name: str, device: Any) -> Any:
        return (self.attributes[name],)

    def _cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
        return ("context",)

    def _cuDeviceGetDefaultMemPool(self, device: Any) -> Any:
        return ("pool",)

    def _cuMemPoolGetAttribute(self, pool: str, name: str) -> Any:
        return (POOL[name],)

    def _cuMemGetInfo(self) -> Any:
        return (10**9, 2 * 10**9)

    def _cuMemAllocAsync(self, num_bytes: int, stream: Any) -> Any:
        return (4096,)

    def _cuLinkCreate(self, count: int, options: Any, values: Any) -> Any:
        values[0][: len(self.log)] = self.log
        return ("link",)

    def _cuLinkComplete(self, state: Any) -> Any:
        return ctypes.addressof(self._code), len(CUBIN)

    def _cuModuleLoadData(self, code: bytes) -> Any:
        assert code == CUBIN
        return ("module",)

    def _cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        return (name.decode(),)

    def _cuFuncGetAttribute(self, name: str, function: Any) -> Any:
        return ({"NUM_REGS": NUM_REGS, "LOCAL_SIZE_BYTES": LOCAL_SIZE_BYTES}[name],)

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, *arguments: Any) -> Any:
        return (3,)


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def kernel(shared_bytes: int = 0) -> Kernel:
    return Kernel("nothing", ["count"], [lambda f, thread: None], shared_bytes=shared_bytes)


def test_a_gpu_says_what_it_is():
    device = cuda.open_device(Driver())
    assert str(device) == "NVIDIA H200, compute capability 9.0, CUDA 12.8"
    assert device.free_bytes == 10**9 + 200  # which the process keeps and does not use
    assert 2 * (device.shared_bytes + 1024) <= 233_472  # two blocks and the driver's part of each
    assert isinstance(device, Device)


def test_gpus_are_counted_and_have_numbers(monkeypatch):
    driver = Driver()
    vars(driver)["_cuDeviceGetCount"] = lambda: (2,)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    assert cuda.count_devices() == 2
    assert str(cuda.find_device(1)) == str(cuda.find_device())
    assert [call[1] for call in driver.calls if call[0] == "cuDeviceGet"] == [1, 0]


def without(name: str) -> Driver:
    """A driver without a function; without the first one, its library is not there."""
    driver = Driver()

    def fail(*arguments: Any) -> Any:
        raise RuntimeError("not found")

    vars(driver)[f"_{name}"] = fail
    return driver


def old(**settings: Any) -> Driver:
    driver = Driver()
    driver.attributes |= {k: v for k, v in settings.items() if k in ATTRIBUTES}
    driver.version = settings.get("version", driver.version)
    return driver


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        (lambda: without("cuInit"), "no driver of NVIDIA is installed"),
        (
            lambda: without("cuMemPoolSetAttribute"),
            "the driver has no cuMemPoolSetAttribute: update it",
        ),
        (lambda: Driver(cuInit=100), "no GPU is to be seen"),
        (lambda: Driver(cuInit=803), "the GPU's driver failed in cuInit: CUDA_ERROR_803"),
        (lambda: old(version=10_020), "the driver knows CUDA 10.2; a GPU needs 11.2 or newer"),
        (
            lambda: old(COMPUTE_CAPABILITY_MAJOR=7, COMPUTE_CAPABILITY_MINOR=5),
            "NVIDIA H200 has compute capability 7.5; 8.0 or newer is required",
        ),
    ],
)
def test_a_gpu_that_cannot_be_used_is_an_error_that_says_what_to_do(driver, message):
    with pytest.raises(cuda.DeviceError, match=f"^device: {message}.*; device='cpu' needs none$"):
        cuda.open_device(driver())


def test_without_the_package_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings.driver", None)
    with pytest.raises(cuda.DeviceError, match="needs the package cuda-bindings, the extra 'cuda'"):
        cuda.find_device()


def test_memory_that_others_have_taken_is_one_clear_line():
    device = cuda.open_device(Driver(cuMemAllocAsync=2))
    with pytest.raises(cuda.DeviceError, match="the memory of the GPU is taken; run fewer seeds"):
        device.allocate(10**12)


def test_a_kernel_that_the_driver_refuses_is_shown_with_its_reason():
    driver = Driver(cuLinkAddData=218)
    driver.log = b"ptxas fatal: Unsupported .version 7.0\nand more"
    with pytest.raises(cuda.DeviceError, match="refuses a kernel: ptxas fatal: Unsupported") as e:
        cuda.open_device(driver).compile(kernel())
    assert "\n" not in str(e.value)
    assert driver.num_calls("cuLinkDestroy") == 1


def test_a_kernel_is_compiled_once_for_a_gpu_and_its_driver(tmp_path):
    first = Driver()
    loaded = cuda.open_device(first).compile(kernel())
    assert (loaded.num_registers, loaded.local_bytes) == (NUM_REGS, LOCAL_SIZE_BYTES)
    assert loaded.num_resident(128) == 3 * 128 * 132
    second, other = Driver(), old(version=13_000)
    cuda.open_device(second).compile(kernel())
    cuda.open_device(other).compile(kernel())
    calls = [driver.num_calls("cuLinkCreate") for driver in (first, second, other)]
    assert calls == [1, 0, 1]
    assert len(list(tmp_path.rglob("*.cubin"))) == 2


def test_a_damaged_kernel_in_the_cache_is_compiled_again(tmp_path):
    cuda.open_device(Driver()).compile(kernel())
    (path,) = tmp_path.rglob("*.cubin")
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:-1] + b"!"):
        path.write_bytes(damaged)
        driver = Driver()
        cuda.open_device(driver).compile(kernel())
        assert driver.num_calls("cuLinkCreate") == 1
        assert path.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cuda.open_device(Driver()).compile(kernel()).num_registers == NUM_REGS


def test_a_launch_has_threads_enough_and_passes_64_bit_numbers():
    driver = Driver()
    loaded = cuda.open_device(driver).compile(kernel(shared_bytes=100_000))
    loaded.launch(1000, 256, [2**40])
    name, function, *shape = driver.calls[-1]
    assert (name, function) == ("cuLaunchKernel", "nothing")
    assert shape == [4, 1, 1, 256, 1, 1, 100_000, 2, ((2**40,), (ctypes.c_int64,)), 0]
    assert (
        "cuFuncSetAttribute",
        "nothing",
        "MAX_DYNAMIC_SHARED_SIZE_BYTES",
        100_000,
    ) in driver.calls


def test_memory_is_free_again_when_nothing_refers_to_it():
    driver = Driver()
    device = cuda.open_device(driver)
    memory = device.allocate(64)
    device.upload(np.zeros(2), memory, 16)
    assert driver.calls[-1][:2] == ("cuMemcpyHtoDAsync", memory.address + 16)
    assert driver.num_calls("cuMemFreeAsync") == 0
    del memory
    assert driver.num_calls("cuMemFreeAsync") == 1


def test_every_call_is_made_in_the_context_of_the_gpu():
    driver = Driver()
    device = cuda.open_device(driver)
    device.allocate(1)
    names = [call[0] for call in driver.calls]
    begun = names.index("cuDevicePrimaryCtxRetain") + 1
    work = names[begun:]
    assert work[::2] == ["cuCtxSetCurrent"] * (len(work) // 2 + len(work) % 2)
