# SPDX-License-Identifier: Apache-2.0
"""The native engine, as `native/src/bindings` exposes it: no logic here, none there."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ringtune._engine_parts import TlsKeyring as TlsKeyring
from ringtune._engine_parts import TlsSession as TlsSession
from ringtune._engine_parts import Window as Window

DTYPES: tuple[str, ...]
"""Names of the element types, in the order of the engine's numbers."""

SUBMISSION_VERSION: int
"""Version of the ABI of `Engine.submission_door`; a front end's compiled part must have been built for the same."""

PAUSE_MEDIANS: float
PAUSE_MIN_MS: float
RECENT_STEPS: int
MIN_RECENT_STEPS: int
"""Numbers of the rule of pauses: those of `ringtune.tuner.pauses`."""

KnobValue: TypeAlias = bool | int | float | str

class Knob:
    """A row of the engine's table of knobs, `RINGTUNE_KNOBS` in `native/src/base/config.h`.

    Attributes:
        name: Name with its unit: that of the parameter in `ringtune.tuner.space.parameters`.
        default: Value in a job that sets no knob, of the knob's type.
        low, high: Smallest and largest number; None for switches and names.
        special: Meaning of the value 0, which lies outside the range: 0 (off) or "auto"; None where 0 is refused.
        description: One sentence for people.
    """

    name: str
    default: KnobValue
    low: float | None
    high: float | None
    special: int | str | None
    description: str

KNOBS: tuple[Knob, ...]
"""The table, in the order of the wire format."""

class EngineConfig:
    """A value for every knob: an attribute and a keyword argument for each row of `KNOBS`, all required.

    A number whose row has a `special` meaning has the value 0 for it: `chunk_bytes=0` is `auto`.
    """

    def __init__(self, **values: KnobValue) -> None: ...
    def __getattr__(self, name: str) -> KnobValue: ...
    def hash(self) -> int:
        """Return the 64-bit hash that ranks compare."""

def engine_facts() -> dict[str, int]:
    """Return the compiled-in sizes that decide how a message moves: the fields of `ringtune.tuner`'s `EngineFacts`."""

def tell_exit_code(fd: int, words: Sequence[bytes], tls: TlsSession | None = None) -> None:
    """Hand a socket over, on which the end of this process sends the word of its exit code, unless that is empty.

    Args:
        fd: A connected socket.
        words: One for each exit code.
        tls: The socket's TLS session; None for clear text.
    """

def call_after_success(address: int) -> None:
    """Call a C function without arguments at this process's end if its exit code is 0; a forked child does not."""

def create_segment(local_size: int) -> int:
    """Return a new shared-memory segment for the ranks of one host, a memfd; `ConfigError` if memory is missing."""

def has_cuda() -> bool:
    """Return whether there is a CUDA driver with a GPU that this process may use.

    The driver is loaded and initialized, without a context on any GPU. Like every use of CUDA, it makes forked children
    unable to use CUDA themselves.
    """

def allreduce_algorithms() -> list[str]:
    """Return the names in the allreduce registry that a config may ask for, without `auto`."""

def is_over_limit(step_ms: Sequence[float], limit_ms: float) -> bool:
    """Return whether a window of these steps, milliseconds, is cut; the rule of `ringtune.tuner.cutting`."""

def default_algorithm_table(hosts: Sequence[int]) -> list[tuple[int | None, str, int]]:
    """Return the compiled-in rows for a layout, given by each rank's host: (max_bytes, algorithm, chunk_bytes)."""

def choices_of_auto(hosts: Sequence[int], is_hierarchical: bool) -> list[str]:
    """Return the algorithms that a table may name under a value of `hierarchical_allreduce`; for hosts, see above."""

class Result:
    """Result of an operation that has no output buffer of the caller's.

    Attributes:
        memory: The gathered bytes, writable, aligned to a cache line; owned by this object's memory. Empty if they are
            on a GPU.
        bytes_on_device: Size of a result that is on a GPU and was not moved yet, else 0.
        rows: Rows that came from each rank; for `join`, the rank that joined last, alone.
    """

    memory: npt.NDArray[np.uint8]
    bytes_on_device: int
    rows: list[int]
    def move_to(self, memory_ptr: int, stream: int) -> None:
        """Enqueue a copy to memory of the same GPU, once, on the stream that was given to `wait`; free the result."""

class Engine:
    """One rank's engine. Every call raises a class of `ringtune.errors` on failure.

    Dtypes are `DTYPES.index(name)`. Reduce operations are 0 Average, 1 Sum, 2 Adasum, 3 Min, 4 Max, 5 Product; the
    result is `postscale * op(prescale * x)`. Reductions take integers of 8 to 64 bits, floats of 16 to 64, and bool;
    the other collectives take all dtypes. 16-bit floats are accumulated in float32; bool takes Sum and Max (or),
    Product and Min (and). Tensors that name one `group` are reduced together once all `group_size` of them are ready on
    all ranks, or fail together.
    """

    def __init__(
        self,
        *,
        rank: int,
        world_size: int,
        hosts: Sequence[int],
        segment_fd: int,
        pidfds: Sequence[int],
        pids: Sequence[int],
        control_fds: Sequence[int],
        data_fds: Sequence[int],
        mpi_plugin: str,
        mpi_communicator: int,
        config: EngineConfig,
        stall_warn_s: float,
        timeout_s: float,
        log_level: str,
        gpu_operations: str = "auto",
        nccl_library: str = "",
        tls: Mapping[int, TlsSession] = {},
    ) -> None:
        """Join the world: map the segment, start the communication thread; take all descriptors over, also in failure.

        Args:
            rank: This process, 0 <= rank < world_size.
            world_size: Number of ranks.
            hosts: Each rank's host, numbered from 0 by their first ranks; ranks of one host share one segment.
            segment_fd: Descriptor from `create_segment` with the number of ranks on this host.
            pidfds: One descriptor per rank, -1 for ranks on other hosts and for "none".
            pids: Process ids of the ranks, for messages.
            control_fds: One socket per rank, -1 for none: rank 0 to and from ranks of other hosts; empty for one host.
            data_fds: One socket per rank, -1 for the own; empty for one host, and where an MPI carries the data.
            mpi_plugin: File of the MPI transport's shared library; empty for none.
            mpi_communicator: Fortran handle of a communicator of exactly these ranks, for the plugin's own use.
            config: The config in force at epoch 0; equal on all ranks.
            stall_warn_s: After this a warning names ranks that have not submitted a tensor.
            timeout_s: After this the job ends with `CollectiveTimeout`.
            log_level: `debug`, `info`, `warning` or `error`: lowest level of the engine's lines on stderr.
            gpu_operations: `auto`, `nccl` or `host`: how tensors of GPUs are reduced; equal on all ranks.
            nccl_library: File of NCCL, where the process has none loaded; empty: the system's.
            tls: Sessions of the control and data sockets by descriptor; one without a session carries clear text.
        """

    rank: int
    world_size: int
    def allreduce_async(
        self,
        name: str,
        input_ptr: int,
        output_ptr: int,
        shape: Sequence[int],
        dtype: int,
        op: int,
        is_gradient: bool,
        prescale: float = 1.0,
        postscale: float = 1.0,
        group: str = "",
        group_size: int = 0,
        device: int = -1,
        stream: int = 0,
    ) -> int:
        """Submit a tensor; return its handle. Both buffers must live until the handle is done.

        Addresses are of the memory of GPU `device`, as CUDA counts those that the process sees, or of the host (-1). A
        GPU's tensor is read after all work that `stream`, the caller's current CUDA stream, has been given by now, and
        its buffers must live until `is_drained`. The same holds for all operations.

        Raises:
            DeviceError: If the GPU or its driver cannot be used.
            ConfigError: If the stream is being captured into a CUDA graph.
        """

    def reducescatter_async(
        self,
        name: str,
        input_ptr: int,
        output_ptr: int,
        shape: Sequence[int],
        dtype: int,
        op: int,
        prescale: float = 1.0,
        postscale: float = 1.0,
        group: str = "",
        group_size: int = 0,
        device: int = -1,
        stream: int = 0,
    ) -> int:
        """Reduce, and keep an even share of the rows; the first `rows % world_size` ranks keep one more."""

    def broadcast_async(
        self, name: str, ptr: int, shape: Sequence[int], dtype: int, root_rank: int, device: int = -1, stream: int = 0
    ) -> int:
        """Overwrite the buffer with the root's; any dtype."""

    def allgather_async(
        self,
        name: str,
        input_ptr: int,
        shape: Sequence[int],
        dtype: int,
        group: str = "",
        group_size: int = 0,
        is_gradient: bool = False,
        device: int = -1,
        stream: int = 0,
        output_ptr: int = 0,
        output_bytes: int = 0,
    ) -> int:
        """Gather all ranks' rows in rank order; first dimensions may differ. The `Result` holds them.

        With `is_gradient` it counts as gradient bytes of the step: it is a part of a sparse gradient. The rows go to
        the output, if they have exactly its size, and the `Result` shows them there.
        """

    def alltoall_async(
        self,
        name: str,
        input_ptr: int,
        shape: Sequence[int],
        dtype: int,
        splits: Sequence[int],
        device: int = -1,
        stream: int = 0,
        output_ptr: int = 0,
        output_bytes: int = 0,
    ) -> int:
        """Send `splits[r]` rows to each rank r; result and output as for `allgather_async`."""

    def join_async(self) -> int:
        """Say that this rank has no more data: it takes part in allreduces with zeros until every rank has joined."""

    def allocate_registered(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Return memory, its content undefined, that all ranks of this host can reduce where it is.

        An allreduce in place needs no copy where every rank's tensor lies at the same offset of its own such memory,
        as equal sequences of calls give it. For worlds of one host; the memory outlives the engine. `ConfigError` names
        needed and available bytes where the memory cannot be had, or this world has none.
        """

    def barrier(self) -> None:
        """Return when every rank has called it."""

    def poll(self, handle: int) -> bool:
        """Return whether the operation has ended, with its result in place: of a GPU's tensor, in the GPU's memory."""

    def is_drained(self, handle: int) -> bool:
        """Return whether no copy of a GPU's tensor is under way any more, after `wait`; true for an unknown handle."""

    def wait(self, handle: int, device: int = -1, stream: int = 0) -> Result | None:
        """Block until the handle is done (GIL released, Ctrl-C honoured); raise its error; forget the handle.

        After Ctrl-C the handle stays. Where a collective is under way, it has a second to move; one that does not is
        left, by which the world is lost.
        The result of a GPU's tensor may still be on its way to the GPU: the given stream of the given GPU goes on once
        it is there. Without a GPU named, the caller waits for that, too. Reductions and broadcasts return None.
        """

    def wait_within(self, handle: int, limit_s: float) -> tuple[bool, Result | None]:
        """Wait as `wait` does for a limited time; return whether the operation has ended, and its result if so."""

    def start_timeline(self, path: str, mark_cycles: bool) -> None:
        """Begin to write a Chrome trace of this rank's operations; raises `ConfigError` if the file cannot be."""

    def stop_timeline(self) -> None:
        """Finish the trace, if one is written."""

    def timeline_event(self, name: str, detail: str) -> None:
        """Put an instant event into the trace, if one is written: the tuner's actions, beside the engine's."""

    def mark_step(self) -> int:
        """Record the end of an optimizer step, and return its number."""

    def add_gradients(self, tensor_set: int, bytes: int) -> None:  # noqa: A002
        """Count gradients of a step where no submission says that it is one: a hash of their set, and their bytes."""

    def mark_rounds(self) -> None:
        """Take each round of calls that repeats for a step, until one is marked."""

    def round_of_calls(self) -> list[tuple[str, list[int]]] | None:
        """Return dtype and shape of a round's calls, none until there is one; None where rounds are no steps."""

    def mark_device_step(self) -> int:
        """Record an optimizer step that a device is still at, and return its number for `time_device_step`."""

    def time_device_step(self, step: int, end_ns: int) -> None:
        """Tell when a device ended a step that was marked so, nanoseconds; in the order of the steps."""

    def submission_door(self) -> int:
        """Return the address, valid to the process's end, by which compiled code submits; see `submission_abi.h`."""

    def set_algorithm_table(self, rows: Sequence[tuple[int | None, str, int]]) -> None:
        """Rank 0: define the meaning of `auto` from now on.

        Args:
            rows: (max_bytes, algorithm, chunk_bytes); the first that holds a message is used, None holds any.

        Raises:
            ConfigError: If the rows cannot serve every message of this world; the table is as it was.
        """

    def begin_timing(self, max_bytes: int) -> bool:
        """Rank 0, others in `follow_timing`: make room for messages of that size; False, where a rank has none."""

    def time_allreduce(self, size_bytes: int, algorithm: str, chunk_bytes: int, calls: int) -> float:
        """Rank 0, after `begin_timing`: return the seconds of float32 allreduces in place; or `ConfigError`."""

    def end_timing(self) -> None:
        """Rank 0: let the other ranks return from `follow_timing`, with or without `begin_timing` before."""

    def follow_timing(self) -> None:
        """Any other rank: run rank 0's timed collectives until it ends. No tensor may be submitted meanwhile."""

    def tell_tuning(self, is_finished: bool) -> None:
        """Rank 0: let all ranks know whether tuning has finished."""

    def is_tuning_finished(self) -> bool:
        """Return rank 0's last `tell_tuning`, False before; the answer changes after the same step on every rank."""

    def apply_config(self, config: EngineConfig) -> int:
        """Rank 0: switch all ranks; return the config's epoch at once, before it is in force."""
    def measure_host_rates(self) -> None: ...  # rank 0: all ranks measure their links before the next collective
    def host_rates(self) -> tuple[list[int], int, bool]: ...  # bytes/s by host, number of measurements, can `skew` act
    def config(self) -> EngineConfig: ...
    def config_epoch(self) -> int: ...
    def set_beacon(self, beacon: int) -> None: ...  # 0 to 255, between rank 0 and ranks of other hosts; in a second
    def beacon_of(self, rank: int) -> int: ...
    laps: LapTimes
    """Stopwatch of this rank's engine."""

    def counters(self) -> dict[str, int]:
        """Return this rank's counters: those of `telemetry/counters.h`, and `algorithm.<name>` per registry row."""

    def begin_window(self, epoch: int, settle_steps: int, steps: int, limit_ms: float) -> None:
        """Start a window: wait for `epoch`, skip `settle_steps`, take `steps`; cut it by `limit_ms`, if above 0."""

    def next_window(self, timeout_s: float) -> Window | None:
        """Return the finished window, or None after `timeout_s` (GIL released). Raises once the engine is shut down."""

    def shutdown(self) -> None:
        """Leave the world; idempotent. Pending handles fail; peers that still need this rank get PeerLostError."""

    def abandon_after_fork(self) -> None:
        """In a forked child: close the engine's descriptors; every later call raises ForkedProcessError."""

class LapTimes:
    """A stopwatch with laps: where the time of an engine's work goes. Off until it is started."""

    def start(self) -> None: ...  # begins to count, from zero
    def seconds(self) -> dict[str, float]:
        """Return the seconds per lap, by name.

        The laps are elsewhere (the caller), request, negotiation, post, await_posts, copy_in, await_staged, reduce,
        await_reduced, copy_out, await_room and completion; together they are all the time since `start`, up to the end
        of the last one.
        """

class CollectiveLayer:
    """One rank's collectives over its host's shared memory, with no engine above them; `ringtune bench` times them."""

    def __init__(self, segment_fd: int, rank: int, world_size: int, timeout_s: float) -> None:
        """Map the segment that all ranks share, from `create_segment(world_size)`; the descriptor stays the caller's.

        Raises:
            ConfigError: If the segment is another version's or for another number of ranks.
        """

    laps: LapTimes
    """Stopwatch of this rank's collectives."""

    def allocate_registered(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """Return memory that all ranks reach; all ask for the same sizes in one order; `ConfigError` without any."""

    def allreduce(self, data_ptr: int, elements: int, dtype: int, calls: int) -> None:
        """Sum in place over all ranks, `calls` times, by `auto`; `CollectiveTimeout` if one stops for `timeout_s`."""

def is_pause(gap_ms: float, recent_ms: Sequence[float]) -> bool:
    """Return whether a gap between steps, milliseconds, is a pause; the rule of `ringtune.tuner.pauses`."""
