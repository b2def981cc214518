# SPDX-License-Identifier: Apache-2.0
"""Compiled-in sizes of the native engine, which the cost model and the simulator assume.

The models also run where there is no engine: in the service, in `ringtune simulate`, in a review. So the sizes stand
here as numbers; a test compares each with what `_engine.engine_facts()` exports.
"""

from dataclasses import dataclass

from .space.parameters import KIB, MIB


@dataclass(frozen=True)
class EngineFacts:
    """Sizes that decide how the engine moves a message, bytes where the name says so.

    Attributes:
        chunk_bytes: Chunk of an allreduce inside one host, where `chunk_bytes` is auto.
        chunk_between_hosts_bytes: The same between hosts.
        direct_max_bytes: Largest message that the direct algorithm reduces, where the algorithm is auto.
        posted_bytes: Largest piece that a direct allreduce posts at once. Two ranks reduce messages up to this size
            directly: each reads what the other has posted.
        whole_block_max_bytes: Largest block of a hierarchical allreduce that counterparts exchange whole, instead of a
            share for each host and back.
        stage_bytes: Size of a rank's stage in shared memory.
        stage_max_chunks: Most chunks that a stage holds at once.
        overlapped_chunks: Chunks that a stage must hold so that some are exchanged between hosts while others are
            staged and reduced.
        cache_line_bytes: Blocks are whole cache lines.
        registered_min_bytes: Smallest gradient to which a front end gives registered memory.
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
    registered_min_bytes: int = 64 * KIB

    def chunk_for(self, hosts: int) -> int:
        """Return the chunk of an allreduce in a world of so many hosts, where `chunk_bytes` is auto."""
        return self.chunk_bytes if hosts == 1 else self.chunk_between_hosts_bytes

    @property
    def overlapped_chunk_max_bytes(self) -> int:
        """Largest chunk of which a stage holds enough for exchanges to overlap with work inside the host."""
        return self.stage_bytes // self.overlapped_chunks


ENGINE_FACTS = EngineFacts()
