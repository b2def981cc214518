# SPDX-License-Identifier: Apache-2.0
"""Cost constants of a machine: all constants of the simulator's model.

A fit replaces the constants (`dataclasses.replace`) and compares `predicted_step_ms` with measurements.
"""

import math
from dataclasses import dataclass, fields

from ringtune.errors import ConfigError
from ringtune.tuner.space.parameters import MIB


@dataclass(frozen=True)
class SimulatedMachine:
    """Speeds and times of one host and of the engine on it.

    The defaults hold for two cores of a shared virtual machine with AVX2. Unless noted otherwise they follow from the
    laps of an allreduce in docs/performance.md ("Where the time goes"), by the formulas of `collectives`.

    Attributes:
        copy_bytes_per_s: Copy rate of one core between its caches. 512 KiB of the 1 MiB message take 20 us.
        reduce_bytes_per_s: Reduction rate of one core over the ranks' contributions. 1 MiB of two ranks takes 26 us.
        memory_bytes_per_s: Memory bandwidth of all cores of a host. Two ranks read and write registered gradients once:
            64 MiB in 5.0 ms, BERT-base's 418 MiB in 42 ms (benchmarks/README.md); a value in between.
        cache_bytes: Size of the last-level cache; gradients beyond it come from memory.
        core_cache_bytes: Size of the stages in use that stay in a core's cache: chunks of 512 KiB are not yet slow.
        beyond_core_cache_factor: Slowdown of copies and reductions if the stages exceed it. 16 MiB take 1.4 times as
            long in chunks of 2 MiB as in chunks of 512 KiB.
        sync_us: Time to detect that all ranks of the host have finished a phase of a chunk, if each has a core. The
            waits of 8 chunks, two phases each, take 4 us.
        crowded_sync_us: Additional time per thread in excess of the cores, as a share of the cores: the others must
            run first. 4 ranks on 2 cores, 4 MiB in benchmarks/README.md ("Allreduce by size").
        wake_us: Time until a sleeping thread runs. An allreduce by the communication thread takes 74 to 81 us instead
            of 7, with three wake-ups in turn (benchmarks/README.md, "polled").
        switch_us: Part of it that a computing thread on the same core loses. Steps of 8 to 20 ms on two shared cores
            gain some 50 us for every batch less (benchmarks/README.md, "Examples as they are").
        hand_over_us: Time until a polling thread sees a message of its host. Negotiation of 1 KiB: two in 2.1 us.
        submit_us: Time of a gradient's submission on the computing thread: front end, handle, queue. Steps of 158 and
            289 tensors in benchmarks/README.md, above the limit of the same number of bytes.
        request_us: Time to encode and send a batch's request.
        request_tensor_us: Additional time for each tensor of the request.
        message_us: Time of rank 0 or a leader to receive, send or relay a control message of its host.
        local_id_us: Time of rank 0 or a leader to count a cached id of one rank of its host. Negotiation's table: 2 us
            more for each further rank with 161 ids.
        forwarded_id_us: Time of rank 0 to count a cached id of one rank of another host: 5 us for a host of 8 ranks.
        named_tensor_us: Time of rank 0 to read a tensor that a rank named in full; the second table of "How negotiation
            grows": 30 us for each rank with 161.
        named_leader_us: Time of a leader to pass such a tensor on; the same table.
        named_tensor_bytes: Length of such a name and signature on the wire; the same table.
        ready_tensor_us: Time of rank 0 to find a tensor complete and put it into a response.
        response_us: Time of a rank to read a response, begin its collective, and notify the callers.
        response_tensor_us: Additional time for each tensor of the response.
        socket_message_us: CPU time of a message through a socket, on each side.
        socket_bytes_per_s: Copy rate of one core into and out of sockets.
        exchange_us: Time between a block's last byte and the next exchange, beside the link's latency: the peer's
            thread must notice. Assumed, of the order of a wake-up.
        link_payload_share: Share of a link's rate that carries data: 1448 bytes of a frame of 1514
            (benchmarks/README.md).
    """

    copy_bytes_per_s: float = 26e9
    reduce_bytes_per_s: float = 40e9
    memory_bytes_per_s: float = 46e9
    cache_bytes: float = 32 * MIB
    core_cache_bytes: float = 2 * MIB
    beyond_core_cache_factor: float = 1.5
    sync_us: float = 0.25
    crowded_sync_us: float = 7.0
    wake_us: float = 25.0
    switch_us: float = 15.0
    hand_over_us: float = 1.0
    submit_us: float = 9.0
    request_us: float = 0.3
    request_tensor_us: float = 0.05
    message_us: float = 0.7
    local_id_us: float = 0.008
    forwarded_id_us: float = 0.003
    named_tensor_us: float = 0.19
    named_leader_us: float = 0.3
    named_tensor_bytes: float = 85.0
    ready_tensor_us: float = 0.085
    response_us: float = 1.0
    response_tensor_us: float = 0.3
    socket_message_us: float = 5.0
    socket_bytes_per_s: float = 2.5e9
    exchange_us: float = 30.0
    link_payload_share: float = 0.956

    def __post_init__(self) -> None:
        """Refuse speeds that are not positive, and negative times."""
        for field in fields(self):
            value = getattr(self, field.name)
            is_time = field.name.endswith(("_us", "_bytes"))
            if not math.isfinite(value) or value < 0 or (value == 0 and not is_time):
                raise ConfigError(
                    f"{field.name}={value!r} is no {'time or size' if is_time else 'speed or factor'}; give a finite "
                    f"number {'of at least' if is_time else 'above'} 0"
                )
