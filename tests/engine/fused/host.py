"""A GPU that is the host: the bodies of kernels in loops over blocks and threads."""

import ctypes
from threading import RLock
from typing import Any

import numpy as np

from emphatic.engine.fused import cpu
from emphatic.engine.fused.device import DeviceError
from emphatic.engine.fused.kernels import Kernel, Thread, to_ptx
from emphatic.engine.fused.llvm import Function, Value

NUM_REGISTERS = 2**18  # of all cores
LAUNCH = ("num_blocks", "block_size", "shared")


class Memory:
    """Bytes of the host, aligned as those of a GPU are."""

    def __init__(self, num_bytes: int, device: "Device | None" = None):
        self._num_bytes, self._device = num_bytes, device
        self.bytes = np.zeros(num_bytes + 256, np.uint8)
        first = -self.bytes.ctypes.data % 256
        self.bytes = self.bytes[first : first + num_bytes]
        self.address = self.bytes.ctypes.data

    def __del__(self) -> None:
        if self._device is not None:
            self._device.take(-self._num_bytes)


class LoadedKernel:
    """A kernel of the host: each phase for all threads of a block, before the next one."""

    def __init__(self, kernel: Kernel, registers: int, local_bytes: int):
        f = Function(kernel.name, [*kernel.arguments, *LAUNCH])
        num_blocks, threads, _ = (f.arguments[name] for name in LAUNCH)

        def emit_block(block: Value, _: list[Value]) -> list[Value]:
            for phase in kernel.phases:

                def emit_thread(number: Value, _: Any, phase: Any = phase) -> list[Value]:
                    phase(f, Thread(number, block, threads, f.pointer("shared")))
                    return []

                f.loop(threads, [], emit_thread)
            return []

        f.loop(num_blocks, [], emit_block)
        self._run = cpu.compile_function(f)
        self._shared_bytes = kernel.shared_bytes
        self.num_registers, self.local_bytes = registers, local_bytes
        self.launches = list[Any]()

    def num_resident(self, block_size: int) -> int:
        return NUM_REGISTERS // (self.num_registers * block_size) * block_size

    def launch(self, num_threads: int, block_size: int, arguments: Any) -> None:
        num_blocks = -(-num_threads // block_size)
        self.launches.append((num_threads, block_size))
        shared = Memory(self._shared_bytes)  # of this launch: others may run at the same time
        shared.bytes[:] = 0xFF  # NaN, where nothing was copied
        self._run(*arguments, num_blocks, block_size, shared.address)


class Device:
    """A small GPU: of little memory, so that what happens at its limits can be seen."""

    def __init__(
        self,
        registers: dict[int, int] | None = None,  # of a thread, by how many lanes it has
        local_bytes: dict[int, int] | None = None,
        shared_bytes: int = 2**16,
        free_bytes: int = 2**28,
    ):
        self.registers, self.local_bytes = registers or {}, local_bytes or {}
        self.shared_bytes, self.free_bytes = shared_bytes, free_bytes
        self.lock, self.used, self.most_used = RLock(), 0, 0
        self.num_cores, self.double_ratio, self.cycles = 512, 2, 1e9
        self.kernels: list[tuple[Kernel, LoadedKernel]] = []

    def __str__(self) -> str:
        return "a GPU that is the host"

    def compile(self, kernel: Kernel) -> LoadedKernel:
        width = kernel.width
        registers, local_bytes = self.registers.get(width, 32), self.local_bytes.get(width, 0)
        loaded = LoadedKernel(kernel, registers, local_bytes)
        self.kernels.append((kernel, loaded))
        return loaded

    def ptx(self) -> str:
        """The PTX of the kernel that was compiled last."""
        return to_ptx(self.kernels[-1][0])

    def take(self, num_bytes: int) -> None:
        with self.lock:
            self.free_bytes -= num_bytes
            self.used += num_bytes
            self.most_used = max(self.used, self.most_used)

    def allocate(self, num_bytes: int) -> Memory:
        if num_bytes > self.free_bytes:
            raise DeviceError("device: the memory of the GPU is taken; device='cpu' needs none")
        self.take(num_bytes)
        return Memory(num_bytes, self)

    def upload(self, array: np.ndarray, memory: Any, offset: int = 0) -> None:
        assert offset + array.nbytes <= memory.bytes.nbytes
        ctypes.memmove(memory.address + offset, array.ctypes.data, array.nbytes)

    def download(self, memory: Any, array: np.ndarray, offset: int = 0) -> None:
        assert offset + array.nbytes <= memory.bytes.nbytes
        ctypes.memmove(array.ctypes.data, memory.address + offset, array.nbytes)

    def copy(self, source: Any, offset: int, target: Any, num_bytes: int) -> None:
        ctypes.memmove(target.address, source.address + offset, num_bytes)
