# SPDX-License-Identifier: Apache-2.0
"""Cost of a message: inside a host, around a flat ring of all ranks, or hierarchically between hosts.

In a flat ring the message passes all ranks twice, with one chunk per rank in flight (Patarasu & Yuan 2009,
"Bandwidth optimal all-reduce algorithms"). A hierarchical allreduce reduces inside each host first. Each rank then
exchanges its block with its counterparts on all other hosts, chunk by chunk; transfers overlap with the work on other
chunks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.engine_facts import ENGINE_FACTS
from ringtune.tuner.host_shares import are_uneven, skewed_time, skewed_traffic, skewed_turn_time
from ringtune.tuner.space.parameters import KIB, ROUNDED_SHARE

from .costs import Constant, EngineCosts
from .job import JobShape, KnobColumns

Array = NDArray[np.float64]

S_TO_US = 1e6
CACHE_BYTES = 1024 * KIB
"""Largest chunk, bytes, that stays in the cache between its write and its read."""
OUT_OF_CACHE = 1.3
"""Cost of a byte in a larger chunk, as a multiple of that in a smaller one."""
OVERLAP_NORM_ORDER = 10
"""Order p of the p-norm that combines overlapping durations (work, wire, waiting).

The limit p → ∞ is max(); at 10, three equal durations cost 1.12 times one.
"""


@dataclass(frozen=True)
class Message:
    """A message of a job under m configs, before any cost constant applies; every array has shape (m,).

    Attributes:
        job: Shape of the job.
        bytes: Size of the message.
        slowness: Cost of a byte inside a host, as a multiple of that in a chunk that stays in the cache.
        chunks: Number of chunks, each with one synchronization.
        turns: Number of allreduces around a flat ring, each of one chunk per rank.
        is_hierarchical: Whether the allreduce is hierarchical.
        chunk_bytes: Size of a chunk.
        pieces: Number of chunks exchanged between counterparts, at least one.
        rounds: Communication rounds of a chunk's exchange: 2 for shares of a block there and back, 1 for whole blocks.
        sent_bytes: Bytes that all ranks of a host send in an exchange between counterparts.
        wire_bytes: Bytes that the slowest link could carry until every host has sent its own.
        turn_bytes: The same if a host's two rounds do not overlap.
        rank_messages: Messages that a rank sends and receives in this exchange.
        rank_bytes: Bytes that a rank sends and receives in this exchange.
    """

    job: JobShape
    bytes: Array
    slowness: Array
    chunks: Array
    turns: Array
    is_hierarchical: NDArray[np.bool_]
    chunk_bytes: Array
    pieces: Array
    rounds: Array
    sent_bytes: Array
    wire_bytes: Array
    turn_bytes: Array
    rank_messages: Array
    rank_bytes: Array

    @classmethod
    def of(cls, job: JobShape, message_bytes: Array, knobs: KnobColumns) -> "Message":
        """Return a message of `message_bytes`, shape (m,), under the knobs."""
        hosts, owners, rates = len(job.ranks_per_host), min(job.ranks_per_host), job.link_rates
        is_skewed = (knobs.is_skewed > 0) & are_uneven(rates)
        smaller = np.maximum(ENGINE_FACTS.skewed_chunk_min_bytes, message_bytes / ENGINE_FACTS.skewed_min_chunks)
        chunk_bytes = np.where(
            is_skewed & (knobs.is_chunk_auto > 0), np.minimum(knobs.chunk_bytes, smaller), knobs.chunk_bytes
        )
        chunks = np.ceil(message_bytes / chunk_bytes)
        pieces = np.maximum(chunks, 1.0)
        is_rounded = knobs.is_rounded > 0
        share = np.where(is_rounded, ROUNDED_SHARE, 1.0)
        block_bytes = share * np.minimum(chunk_bytes, message_bytes) / owners
        is_whole = (block_bytes <= ENGINE_FACTS.whole_block_max_bytes) | (hosts == 2)
        rounds = np.where(is_whole, 1.0, 2.0)
        sent_bytes = wire_bytes = turn_bytes = np.where(is_whole, 1.0, 2.0 / hosts) * (hosts - 1) * message_bytes
        if np.any(is_skewed):
            slow_bytes, has_shares = message_bytes * min(rates) / max(rates), is_skewed & ~is_whole
            sent_bytes = np.where(has_shares, skewed_traffic(rates) * message_bytes, sent_bytes)
            wire_bytes = np.where(has_shares, skewed_time(rates) * slow_bytes, wire_bytes)
            turn_bytes = np.where(has_shares, skewed_turn_time(rates) * slow_bytes, turn_bytes)
        return cls(
            job=job,
            bytes=message_bytes,
            slowness=np.where(chunk_bytes > CACHE_BYTES, OUT_OF_CACHE, 1.0),
            chunks=chunks,
            turns=np.maximum(np.ceil(message_bytes / (job.world_size * chunk_bytes)), 1.0),
            is_hierarchical=(knobs.is_hierarchical > 0) | is_rounded,
            chunk_bytes=chunk_bytes,
            pieces=pieces,
            rounds=rounds,
            sent_bytes=share * sent_bytes,
            wire_bytes=share * wire_bytes,
            turn_bytes=share * turn_bytes,
            rank_messages=2.0 * pieces * rounds * (hosts - 1),
            rank_bytes=2.0 * share * sent_bytes / owners,
        )

    def durations_s(self, costs: EngineCosts) -> tuple[Array, Array]:
        """Return the duration of the message, and the processor time of a rank in it, seconds."""
        if len(self.job.ranks_per_host) == 1:
            inside_s = self._through_stages_s(costs, costs.byte_s * self.slowness)
            return inside_s, inside_s
        flat_s, flat_work_s = self._around_ring_s(costs)
        exchanged_s, exchanged_work_s = self._between_counterparts_s(costs)
        taken_s: Array = np.where(self.is_hierarchical, exchanged_s, flat_s)
        work_s: Array = np.where(self.is_hierarchical, exchanged_work_s, flat_work_s)
        return taken_s, work_s

    def _through_stages_s(self, costs: EngineCosts, byte_s: Array) -> Array:
        """Return the duration of copies and reductions inside a host, seconds."""
        staged_s: Array = costs.call_s + self.bytes * byte_s + self.chunks * costs.chunk_s
        return staged_s

    def _around_ring_s(self, costs: EngineCosts) -> tuple[Array, Array]:
        """Return duration and processor time in a flat ring, in which each rank copies and sends to the next."""
        ranks, link = self.job.world_size, costs.link
        copied_s, share_bytes = self.bytes * costs.byte_s, self.bytes / ranks
        on_links_s = 2.0 * (ranks - 1) * (self.turns * wait_s(self.job, costs) + share_bytes * link.byte_s)
        at_socket_s = 2.0 * (ranks - 1) * (self.turns * link.message_s + share_bytes * link.copied_byte_s)
        return copied_s + on_links_s, copied_s + at_socket_s

    def _between_counterparts_s(self, costs: EngineCosts) -> tuple[Array, Array]:
        """Return duration and processor time of a hierarchical allreduce.

        The exchange of a block begins before the wait for the block before it, in both rounds. A chunk therefore pays
        r / (r + 1) of the latency of r rounds. Work, wire and waiting overlap, and the longest dominates. All three
        vary, so equal durations combine to a little more than one (p-norm). The first chunk pays the sum of all three.
        Chunks that are too large to overlap pay `costs.unoverlapped_share` of the time that overlap would hide. Between
        distant hosts, if more than two may be in flight, chunks of any size overlap, and wait once for all of these.
        """
        link = costs.link
        byte_s = np.maximum(costs.byte_s * self.slowness, min(self.job.ranks_per_host) * costs.memory_byte_s)
        at_socket_s = self.rank_messages * link.message_s + self.rank_bytes * link.copied_byte_s
        work_s = self._through_stages_s(costs, byte_s) + at_socket_s
        wire_s = self.wire_bytes * link.contention * link.byte_s
        waits_s = self.pieces * self.rounds * wait_s(self.job, costs)
        in_flight_bytes = _in_flight_bytes(2.0 * S_TO_US * link.latency_s)
        is_distant = in_flight_bytes > 2 * self.chunk_bytes
        stalls = np.floor((self.pieces - 1.0) / np.ceil(np.maximum(1.0, in_flight_bytes / self.chunk_bytes)))
        near_s = (wire_s + waits_s) / (self.rounds + 1.0)
        stalls_s = np.where(is_distant, stalls * self.rounds * wait_s(self.job, costs), near_s)
        overlapped_s = _overlapped(work_s, wire_s, stalls_s)
        turn_s = self.turn_bytes * link.contention * link.byte_s
        hideable_s = work_s + turn_s + waits_s - overlapped_s
        is_overlapped = is_distant | (self.chunk_bytes <= ENGINE_FACTS.overlapped_chunk_max_bytes)
        paid_share = np.where(is_overlapped, 1.0 / self.pieces, costs.unoverlapped_share)
        return overlapped_s + paid_share * hideable_s, work_s


def wait_s(job: JobShape, costs: EngineCosts) -> Constant:
    """Return the wait of a rank for an empty message from another host, seconds."""
    return costs.link.latency_s + (costs.crowded_wait_s if job.is_crowded else 0.0)


_in_flight_bytes = np.vectorize(ENGINE_FACTS.in_flight_bytes, otypes=[np.float64])
"""The same for round trips of any shape."""


def _overlapped(*durations_s: Array) -> Array:
    """Return the p-norm of overlapping durations: the longest, or up to an eighth more if others are as long."""
    longest = np.maximum.reduce(durations_s)
    shares = sum((duration_s / longest) ** OVERLAP_NORM_ORDER for duration_s in durations_s)
    combined: Array = longest * np.asarray(shares) ** (1.0 / OVERLAP_NORM_ORDER)
    return combined
