# SPDX-License-Identifier: Apache-2.0
"""The native engine, as `native/src/bindings` exposes it: no logic here, none there."""

from collections.abc import Sequence

class EngineConfig:
    """A value for every knob; `chunk_bytes=0` and `allreduce_algorithm="auto"` mean the engine's table."""

    fusion_bytes: int
    cycle_ms: float
    hierarchical_allreduce: bool
    hierarchical_allgather: bool
    response_cache: bool
    allreduce_algorithm: str
    chunk_bytes: int

    def __init__(
        self,
        *,
        fusion_bytes: int,
        cycle_ms: float,
        hierarchical_allreduce: bool,
        hierarchical_allgather: bool,
        response_cache: bool,
        allreduce_algorithm: str,
        chunk_bytes: int,
    ) -> None: ...
    def hash(self) -> int:
        """Return the 64-bit hash that ranks compare."""

class Window:
    """Consecutive steps measured under one config."""

    @property
    def epoch(self) -> int: ...
    @property
    def step_ms(self) -> list[float]: ...
    @property
    def bytes_per_step(self) -> int: ...
    @property
    def tensor_set(self) -> int: ...
    @property
    def void_reason(self) -> str | None:
        """None for a valid window, else `pause`, `tensor_set_changed`, `mixed_epochs` or `no_gradients`."""

    @property
    def was_cut(self) -> bool:
        """Whether the window was closed early because its steps ran over `limit_ms`."""

def create_segment(world_size: int) -> int:
    """Return a descriptor of a new shared-memory segment (memfd, fully allocated).

    Raises:
        ConfigError: If the memory cannot be had; names needed and available bytes.
    """

def allreduce_algorithms() -> list[str]:
    """Return the names in the allreduce registry, without `auto`."""

class Engine:
    """One rank's engine. Every call raises a class of `ringtune.errors` on failure.

    Dtypes are `DTYPES.index(name)` for ("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "bool"); operations are 0 for Average and 1 for Sum.
    """

    def __init__(
        self,
        *,
        rank: int,
        world_size: int,
        segment_fd: int,
        pidfds: Sequence[int],
        pids: Sequence[int],
        config: EngineConfig,
        stall_warn_s: float,
        timeout_s: float,
        log_level: str,
    ) -> None:
        """Join the world: map the segment, start the communication thread.

        Args:
            rank: This process, 0 <= rank < world_size.
            world_size: Number of ranks.
            segment_fd: From `create_segment`; the engine takes it over and closes it once mapped.
            pidfds: One descriptor per rank (own one included, -1 for "none"); the engine takes them over.
            pids: Process ids of the ranks, for messages.
            config: The config in force at epoch 0; equal on all ranks.
            stall_warn_s: After this a warning names ranks that have not submitted a tensor.
            timeout_s: After this the job ends with `CollectiveTimeout`.
            log_level: `debug`, `info`, `warning` or `error`: what the engine writes to stderr.
        """

    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    def allreduce_async(
        self,
        name: str,
        input_ptr: int,
        output_ptr: int,
        shape: Sequence[int],
        dtype: int,
        op: int,
        is_gradient: bool,
    ) -> int:
        """Submit a tensor; return its handle. Both buffers must live until the handle is done."""

    def broadcast_async(self, name: str, ptr: int, shape: Sequence[int], dtype: int, root_rank: int) -> int:
        """Overwrite the buffer with the root's; any dtype."""

    def allgather_async(self, name: str, input_ptr: int, output_ptr: int, shape: Sequence[int], dtype: int) -> int:
        """Gather equal shapes; the output holds `world_size` inputs in rank order."""

    def barrier(self) -> None:
        """Return when every rank has called it."""

    def poll(self, handle: int) -> bool:
        """Return whether `wait` would return at once."""

    def wait(self, handle: int) -> None:
        """Block until the handle is done (GIL released, Ctrl-C honoured); raise its error; forget the handle."""

    def mark_step(self) -> None:
        """Record the end of an optimizer step."""

    def apply_config(self, config: EngineConfig) -> int:
        """Rank 0: switch all ranks; return the config's epoch at once, before it is in force."""

    def config(self) -> EngineConfig: ...
    def config_epoch(self) -> int: ...
    def counters(self) -> dict[str, int]:
        """Return this rank's counters.

        They are cycles, responses, tensors, bytes_reduced, full_requests, cached_requests, chunks, config_switches,
        steps, and `algorithm.<name>` per row of the registry.
        """

    def begin_window(self, epoch: int, settle_steps: int, steps: int, limit_ms: float) -> None:
        """Start a window: wait for `epoch`, skip `settle_steps`, take `steps`.

        It is cut when its mean step time, over at least five steps, is above `limit_ms` (0: never).
        """

    def next_window(self, timeout_s: float) -> Window | None:
        """Return the finished window, or None after `timeout_s` (GIL released). Raises once the engine is shut down."""

    def shutdown(self) -> None:
        """Leave the world; idempotent. Pending handles fail; peers that still need this rank get PeerLostError."""

    def abandon_after_fork(self) -> None:
        """In a forked child: close the engine's descriptors; every later call raises ForkedProcessError."""
