"""How long learning takes on a CPU and on a GPU, estimated from what is known before it runs.

A step on a GPU takes as many cycles as the slowest of three:

- *instructions*: those of all threads over the number of cores. A division or a root counts as ten,
  in double precision each as many times more as the GPU says;
- *rows*: the bytes that all threads read of their rows over the number of cores, because the shared
  memory of a multiprocessor gives in each cycle as many bytes as it has cores;
- *latency*: one thread's longest chain of instructions and loads, as many times as threads take
  turns: no more run at a time than the registers of a kernel allow, which the driver knows.

Before a run there is compilation, whose time was measured (LLVM and `ptxas`, on one core, as a
constant and a share of each instruction), and after it the results cross the bus. The walk of a
stream is a chain of loads. On a CPU, each core begins an instruction on a vector in each cycle.
"""

import numpy as np

from ..choice import Work
from ..stream import Stream
from .cpu import vector_bytes
from .device import Device
from .program import StepProgram
from .schedule import is_state, Node

CPU_CYCLES = 2.5e9  # of a core in a second
CPU_WALK = 100  # cycles of a core for a step of a stream
SLOW = {"div": 10, "sqrt": 10}  # instructions that are many in machine code
LATENCY = 4  # cycles until the result of an instruction can be used
LOAD = 40  # and of a load from memory that is near
OVERHEAD = 16  # instructions of a step of a thread that are no learner's
REGISTERS = 128  # of a thread, as long as its kernel is not compiled
RESIDENT = 512 // REGISTERS  # threads for each core then: it has 512 registers
COMPILATION, PER_INSTRUCTION = 0.3, 1e-3  # seconds: of all kernels, and for each instruction
BUS = 5e9  # bytes in a second, to memory that is not pinned


def _cost(node: Node) -> int:
    if is_state(node):
        return 0
    return SLOW.get(node.arguments[0], 1) if node.method == "apply" else 1


def num_instructions(step: StepProgram) -> int:
    """Returns how many instructions a step has, slow ones counted several times."""
    return sum(map(_cost, step.order))


def chain_length(step: StepProgram) -> int:
    """Returns how many of them the longest chain has, in which each needs the one before."""
    lengths: dict[Node, int] = {}
    for node in step.order:
        lengths[node] = _cost(node) + max((lengths[n] for n in node.operands), default=0)
    return max(lengths.values(), default=0)


def _ratio(device: Device, step: StepProgram) -> int:
    return device.double_ratio if step.batch.dtype == np.float64 else 1


def gpu_throughput(device: Device, step: StepProgram, width: int, num_threads: int) -> float:
    """Returns the cycles of a step of so many threads of `width` lanes, if they never wait."""
    row_bytes = step.tables["row"].num_columns * step.batch.dtype.itemsize
    instructions = _ratio(device, step) * width * num_instructions(step) + OVERHEAD
    return num_threads * max(instructions, row_bytes) / device.num_cores


def gpu_cycles(
    device: Device, step: StepProgram, width: int, num_threads: int, num_resident: int
) -> float:
    """Returns the cycles of a step of threads of `width` lanes, of which so many are resident."""
    chain = LATENCY * _ratio(device, step) * chain_length(step)
    latency = chain + 2 * LOAD  # a row's number, and the row
    turns = max(1.0, num_threads / num_resident)
    return max(gpu_throughput(device, step, width, num_threads), latency * turns)


def gpu_seconds(device: Device, step: StepProgram, stream: Stream, work: Work) -> float:
    """Estimates how long a GPU takes, with compilation and transfers."""
    batch, cells = step.batch, step.batch.num_lanes * work.num_seeds
    cycles = gpu_cycles(device, step, 1, cells, RESIDENT * device.num_cores)
    searches = (stream.most - 1).bit_length() + (stream.num_actions - 1).bit_length()
    walk = LOAD * (searches + 3)  # where the outcomes of a pair begin and end, and lead
    result_bytes = 8 * len(batch.measures) + 1
    result_bytes += work.keeps_states * batch.num_state * batch.dtype.itemsize
    transfer = cells * work.num_windows * result_bytes / BUS
    compilation = COMPILATION + PER_INSTRUCTION * num_instructions(step)
    return compilation + transfer + work.num_steps * max(cycles, walk) / device.cycles


def cpu_seconds(step: StepProgram, work: Work) -> float:
    """Estimates how long a CPU takes."""
    batch, busy = step.batch, min(work.num_threads, work.num_seeds)
    vectors = -(-batch.num_lanes * batch.dtype.itemsize // vector_bytes())
    cycles = vectors * num_instructions(step) + CPU_WALK
    return work.num_seeds / busy * work.num_steps * cycles / CPU_CYCLES
