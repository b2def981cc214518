# SPDX-License-Identifier: Apache-2.0
"""What the work of a step costs on a machine: every constant of the simulator, and nothing else.

A fit replaces the constants (`dataclasses.replace`) and compares `predicted_step_ms` with what was measured.
"""

import math
from dataclasses import dataclass, fields

from ringtune.errors import ConfigError
from ringtune.tuner.space.parameters import MIB


@dataclass(frozen=True)
class Machine:
    """Speeds and times of one host and of the engine on it.

    The defaults are of two cores of a shared virtual machine with AVX2. Where nothing else is said they follow from
    the laps of an allreduce in docs/performance.md ("Where the time goes"), by the formulas of `collectives`.

    Attributes:
        copy_bytes_per_s: One core copies so much between its caches. 512 KiB of the 1 MiB message in 20 us.
        reduce_bytes_per_s: One core reduces so much of the ranks' contributions. 1 MiB of two ranks in 26 us.
        memory_bytes_per_s: All cores of a host move so much from and to memory. Two ranks read and write registered
            gradients once: 64 MiB in 5.0 ms, BERT-base's 418 MiB in 42 ms (benchmarks/README.md); a value between.
        cache_bytes: The last level of cache: gradients beyond it come from memory.
        core_cache_bytes: So much of the stages in work stays near a core: chunks of 512 KiB are not yet slow.
        beyond_core_cache_factor: How much longer copies and reductions take whose stages are beyond it. 16 MiB take
            1.4 times as long in chunks of 2 MiB as in those of 512 KiB.
        sync_us: To see that all ranks of the host are through a phase of a chunk, where each has a core. The waits of
            8 chunks, two phases each, take 4 us.
        crowded_sync_us: The same, further, for each thread in excess of the cores, as a share of the cores: the others
            must get to run first. 4 ranks on 2 cores, 4 MiB in benchmarks/README.md ("Allreduce by size").
        wake_us: Until a thread that sleeps runs. An allreduce by the communication thread takes 74 to 81 us instead of
            7, with three of them in turn (benchmarks/README.md, "polled").
        switch_us: Of that, what a thread that computes loses if it shares its core. Steps of 8 to 20 ms on two shared
            cores gain some 50 us for every batch less (benchmarks/README.md, "Examples as they are").
        hand_over_us: Until a thread that polls sees a message of its host. Negotiation of 1 KiB: two in 2.1 us.
        submit_us: What a gradient's submission takes from the thread that computes: front end, handle, queue. Steps of
            158 and 289 tensors in benchmarks/README.md, above the limit of as many bytes.
        request_us: To encode and send a batch's request.
        request_tensor_us: The same, further, for each of its tensors.
        message_us: For rank 0 or a leader to receive or send a control message of its host, or to relay one.
        local_id_us: For rank 0 or a leader to count a cached id of one rank of its host. Negotiation's table: 2 us more
            for each further rank with 161 ids.
        forwarded_id_us: For rank 0 to count a cached id of one rank of another host: 5 us for a host of 8 ranks.
        named_tensor_us: For rank 0 to read a tensor that a rank named in full; the second table of "How negotiation
            grows": 30 us for each rank with 161.
        named_leader_us: For a leader to pass it on; the same table.
        named_tensor_bytes: Length of such a name and signature on the wire; the same table.
        ready_tensor_us: For rank 0 to find a tensor complete and put it into a response.
        response_us: For a rank to read a response, to begin its collective, and to tell the callers.
        response_tensor_us: The same, further, for each of its tensors.
        socket_message_us: Processor time of a message through a socket, on each side.
        socket_bytes_per_s: One core copies so much into and out of sockets.
        exchange_us: Between a block's last byte and the next exchange, beside the link's latency: the peer's thread
            must notice. Assumed, of the order of a wake-up.
        link_payload_share: Of a link's rate, what carries data: 1448 bytes of a frame of 1514 (benchmarks/README.md).
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
        """Refuse speeds that are not above zero, and times below it."""
        for field in fields(self):
            value = getattr(self, field.name)
            is_time = field.name.endswith(("_us", "_bytes"))
            if not math.isfinite(value) or value < 0 or (value == 0 and not is_time):
                raise ConfigError(
                    f"{field.name}={value!r} is no {'time or size' if is_time else 'speed or factor'}; give a finite "
                    f"number {'of at least' if is_time else 'above'} 0"
                )
