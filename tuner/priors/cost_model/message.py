# SPDX-License-Identifier: Apache-2.0
"""What a message costs: inside a host, and between hosts around a ring or between counterparts.

Between hosts it goes twice around a ring of all ranks, a chunk per rank at once (Patarasu & Yuan 2009, "Bandwidth
optimal all-reduce algorithms"); or it is reduced inside each host first, and what each rank has reduced is exchanged
with its counterparts on all other hosts at once, there and back, chunk by chunk, of which some are on their way while
others are worked on.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.engine_facts import ENGINE_FACTS
from ringtune.tuner.space.parameters import KIB

from .costs import Constant, EngineCosts
from .job import JobShape, Knobs

Array = NDArray[np.float64]

CACHE_BYTES = 1024 * KIB
"""Chunks beyond this leave the cache between being written and being read."""
OUT_OF_CACHE = 1.3
"""What a byte of such a chunk costs, in those of a smaller one."""
SIDE_BY_SIDE_ORDER = 10
"""Of the norm of what goes on side by side; without bound it would be the longest."""


@dataclass(frozen=True)
class Message:
    """A message of a job under m configs, as far as no constant decides; every array is of shape (m,).

    Attributes:
        job: Who reduces it.
        bytes: Its size.
        slowness: What a byte costs inside a host, in those of a chunk that stays in the cache.
        chunks: So many synchronizations.
        turns: So often it goes around a flat ring, a chunk of every rank at a time.
        is_hierarchical: Whether it is reduced inside each host before it is exchanged.
        is_overlapped: Whether chunks are staged and reduced while others are exchanged.
        pieces: Chunks that counterparts exchange, one at least.
        rounds: Of a chunk's exchange: shares of a block go there and back, or whole blocks there alone.
        sent_bytes: By all ranks of a host, of an exchange between counterparts.
        rank_messages: That a rank sends and receives in it.
        rank_bytes: The same, bytes.
    """

    job: JobShape
    bytes: Array
    slowness: Array
    chunks: Array
    turns: Array
    is_hierarchical: NDArray[np.bool_]
    is_overlapped: NDArray[np.bool_]
    pieces: Array
    rounds: Array
    sent_bytes: Array
    rank_messages: Array
    rank_bytes: Array

    @classmethod
    def of(cls, job: JobShape, message_bytes: Array, knobs: Knobs) -> "Message":
        """Return the message of so many bytes, shape (m,)."""
        hosts, owners, chunk_bytes = len(job.ranks_per_host), min(job.ranks_per_host), knobs.chunk_bytes
        chunks = np.ceil(message_bytes / chunk_bytes)
        pieces = np.maximum(chunks, 1.0)
        block_bytes = np.minimum(chunk_bytes, message_bytes) / owners
        is_whole = (block_bytes <= ENGINE_FACTS.whole_block_max_bytes) | (hosts == 2)
        rounds = np.where(is_whole, 1.0, 2.0)
        sent_bytes = np.where(is_whole, 1.0, 2.0 / hosts) * (hosts - 1) * message_bytes
        return cls(
            job=job,
            bytes=message_bytes,
            slowness=np.where(chunk_bytes > CACHE_BYTES, OUT_OF_CACHE, 1.0),
            chunks=chunks,
            turns=np.maximum(np.ceil(message_bytes / (job.world_size * chunk_bytes)), 1.0),
            is_hierarchical=knobs.is_hierarchical > 0,
            is_overlapped=chunk_bytes <= ENGINE_FACTS.overlapped_chunk_max_bytes,
            pieces=pieces,
            rounds=rounds,
            sent_bytes=sent_bytes,
            rank_messages=2.0 * pieces * rounds * (hosts - 1),
            rank_bytes=2.0 * sent_bytes / owners,
        )

    def durations_s(self, costs: EngineCosts) -> tuple[Array, Array]:
        """Return what it takes from begin to end, and what of that a rank computes, seconds."""
        if len(self.job.ranks_per_host) == 1:
            inside_s = self._through_stages_s(costs, costs.byte_s * self.slowness)
            return inside_s, inside_s
        flat_s, flat_work_s = self._around_ring_s(costs)
        exchanged_s, exchanged_work_s = self._between_counterparts_s(costs)
        taken_s: Array = np.where(self.is_hierarchical, exchanged_s, flat_s)
        work_s: Array = np.where(self.is_hierarchical, exchanged_work_s, flat_work_s)
        return taken_s, work_s

    def _through_stages_s(self, costs: EngineCosts, byte_s: Array) -> Array:
        """Return copies and reductions inside a host."""
        staged_s: Array = costs.call_s + self.bytes * byte_s + self.chunks * costs.chunk_s
        return staged_s

    def _around_ring_s(self, costs: EngineCosts) -> tuple[Array, Array]:
        """Return the durations in a flat ring of all ranks, each of which copies, and sends to the next."""
        ranks, link = self.job.world_size, costs.link
        copied_s, share_bytes = self.bytes * costs.byte_s, self.bytes / ranks
        on_links_s = 2.0 * (ranks - 1) * (self.turns * wait_s(self.job, costs) + share_bytes * link.byte_s)
        at_socket_s = 2.0 * (ranks - 1) * (self.turns * link.message_s + share_bytes * link.copied_byte_s)
        return copied_s + on_links_s, copied_s + at_socket_s

    def _between_counterparts_s(self, costs: EngineCosts) -> tuple[Array, Array]:
        """Return the durations where it is reduced inside the hosts, then exchanged between counterparts.

        A block's exchange is begun before the one of the block before is waited for, and so in the second round, so
        that of the latency of r rounds a chunk pays r / (r + 1). Work, wire and waiting go on side by side, and the
        longest counts; all vary, so that where two are as long as each other their sum is a little longer. The first
        chunk pays for each, and so do all that are too large to be overlapped, as far as `costs.in_turn` says.
        """
        link = costs.link
        byte_s = np.maximum(costs.byte_s * self.slowness, min(self.job.ranks_per_host) * costs.memory_byte_s)
        at_socket_s = self.rank_messages * link.message_s + self.rank_bytes * link.copied_byte_s
        work_s = self._through_stages_s(costs, byte_s) + at_socket_s
        wire_s = self.sent_bytes * link.together * link.byte_s
        waits_s = self.pieces * self.rounds * wait_s(self.job, costs)
        side_by_side_s = _longest(work_s, wire_s, (wire_s + waits_s) / (self.rounds + 1.0))
        hideable_s = work_s + wire_s + waits_s - side_by_side_s
        paid_share = np.where(self.is_overlapped, 1.0 / self.pieces, costs.in_turn)
        return side_by_side_s + paid_share * hideable_s, work_s


def wait_s(job: JobShape, costs: EngineCosts) -> Constant:
    """Return what a rank waits for a message of nothing from another host, seconds."""
    return costs.link.latency_s + (costs.crowded_wait_s if job.is_crowded else 0.0)


def _longest(*durations_s: Array) -> Array:
    """Return the longest of things that go on side by side; up to an eighth more where others are as long."""
    longest = np.maximum.reduce(durations_s)
    shares = sum((of / longest) ** SIDE_BY_SIDE_ORDER for of in durations_s)
    mixed: Array = longest * np.asarray(shares) ** (1.0 / SIDE_BY_SIDE_ORDER)
    return mixed
