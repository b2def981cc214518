# SPDX-License-Identifier: Apache-2.0
"""Compiled-in sizes of the native engine that the cost model and the simulator assume.

The models also run without the engine: in the service, in `ringtune simulate`, in a review. The sizes are therefore
repeated here; a test compares each with `_engine.engine_facts()`.
"""

from dataclasses import dataclass

from .space.parameters import KIB, MIB


@dataclass(frozen=True)
class EngineFacts:
    """Sizes that decide how the engine moves a message, in bytes where the name ends in `_bytes`.

    Attributes:
        chunk_bytes: Chunk of an allreduce inside one host if `chunk_bytes` is auto.
        chunk_between_hosts_bytes: Chunk of an allreduce between hosts if `chunk_bytes` is auto.
        direct_max_bytes: Largest message that the direct algorithm reduces if the algorithm is auto.
        posted_bytes: Largest piece that a direct allreduce posts at once. Two ranks reduce messages up to this size
            directly: each reads the piece that the other has posted.
        whole_block_max_bytes: Largest block of a hierarchical allreduce that counterparts exchange whole. A larger
            one is reduced and gathered in shares, one per host.
        stage_bytes: Size of a rank's stage in shared memory.
        stage_max_chunks: Maximum number of chunks in a stage.
        overlapped_chunks: Chunks that a stage must hold so that some are exchanged between hosts while others are
            staged and reduced.
        cache_line_bytes: Cache line; the size of a block is a multiple of it.
        skewed_min_chunks: Chunks into which a message is cut at least if `chunk_bytes` is auto and hosts have uneven
            shares.
        skewed_chunk_min_bytes: Smallest chunk that follows from this.
        registered_min_bytes: Smallest gradient to which a front end gives registered memory.
        distant_round_trip_us: Shortest round trip of hosts that are distant: ready tensors wait for the rest of a step,
            and more than two chunks of an allreduce may be in flight.
        distant_link_bytes_per_s: Rate of a link that chunks in flight would fill.
        in_flight_max_bytes: Most bytes of a message in flight.
        hold_margin_divisor: Parts of a round trip, of which one is the tolerance of that wait.
    """

    chunk_bytes: int = 512 * KIB
    chunk_between_hosts_bytes: int = 1 * MIB
    direct_max_bytes: int = 16 * KIB
    posted_bytes: int = 256 * KIB
    whole_block_max_bytes: int = 16 * KIB
    stage_bytes: int = 8 * MIB
    stage_max_chunks: int = 4
    overlapped_chunks: int = 4
    cache_line_bytes: int = 64
    skewed_min_chunks: int = 32
    skewed_chunk_min_bytes: int = 64 * KIB
    registered_min_bytes: int = 64 * KIB
    distant_round_trip_us: int = 1000
    distant_link_bytes_per_s: int = 1_250_000_000
    in_flight_max_bytes: int = 16 * MIB
    hold_margin_divisor: int = 8

    def chunk_for(self, hosts: int) -> int:
        """Return the chunk of an allreduce across `hosts` hosts if `chunk_bytes` is auto."""
        return self.chunk_bytes if hosts == 1 else self.chunk_between_hosts_bytes

    @property
    def overlapped_chunk_max_bytes(self) -> int:
        """Largest chunk for which exchanges between hosts overlap with work inside the host."""
        return self.stage_bytes // self.overlapped_chunks

    def in_flight_bytes(self, round_trip_us: float) -> int:
        """Return how many bytes of an allreduce may be in flight between distant hosts; 0: no more than two chunks."""
        if round_trip_us < self.distant_round_trip_us:
            return 0
        return min(self.in_flight_max_bytes, int(round_trip_us / 2) * self.distant_link_bytes_per_s // 10**6)


ENGINE_FACTS = EngineFacts()
