# SPDX-License-Identifier: Apache-2.0
"""Duration of an allreduce: one function per algorithm, in the order of the engine's registry.

Notation, in every function:

| symbol | meaning |
|---|---|
| S | bytes of the message on every rank |
| p, h, n | ranks of a host, hosts, all ranks: n = p h |
| C | bytes of a chunk |
| stretch | factor by which a thread's work takes longer because threads share cores, at least 1 |

A *wait* is a time in which a rank neither works nor moves bytes. All times are in milliseconds.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ringtune.tuner.engine_facts import ENGINE_FACTS
from ringtune.tuner.host_shares import even_time, skewed_time, skewed_traffic, skewed_turn_time
from ringtune.tuner.space.parameters import ROUNDED_SHARE

from .cluster import Cluster
from .knobs import Algorithm
from .machine import SimulatedMachine

S_TO_MS = 1e3
US_TO_MS = 1e-3


@dataclass(frozen=True)
class Task:
    """One allreduce.

    Attributes:
        machine: Cost constants.
        cluster: Cluster of the job.
        message_bytes: Size S of the message.
        chunk_bytes: Size C of a chunk.
        memory_share: Share of the message that is in no cache when the allreduce begins.
        is_skewed: Whether hosts reduce uneven shares.
        is_rounded: Whether hosts exchange the half of the bytes, rounded.
    """

    machine: SimulatedMachine
    cluster: Cluster
    message_bytes: int
    chunk_bytes: int
    memory_share: float = 0.0
    is_skewed: bool = False
    is_rounded: bool = False

    @property
    def exchanged_bytes(self) -> float:
        """Size of the message between hosts."""
        return self.message_bytes * (ROUNDED_SHARE if self.is_rounded else 1.0)

    def sync_ms(self, stretch: float) -> float:
        """Return the time to detect that all ranks of the host have finished a phase."""
        if self.cluster.ranks_per_host == 1:
            return 0.0
        return (self.machine.sync_us + self.machine.crowded_sync_us * (stretch - 1.0)) * US_TO_MS

    def memory_ms(self, traffic: float) -> float:
        """Return the time in which all ranks of a host move `traffic` times the message from and to memory."""
        moved = self.cluster.ranks_per_host * traffic * self.message_bytes * self.memory_share
        return moved / self.machine.memory_bytes_per_s * S_TO_MS


@dataclass(frozen=True)
class Duration:
    """Duration of an operation.

    Attributes:
        total_ms: Time from start to end, the same on all ranks.
        work_ms: Part of it in which a thread of each rank keeps a core busy.
    """

    total_ms: float
    work_ms: float


def allreduce_time(algorithm: Algorithm, task: Task, stretch: float) -> Duration:
    """Return the duration of one allreduce over all ranks; zero for a single rank."""
    if task.cluster.world_size == 1:
        return Duration(0.0, 0.0)
    return _ALGORITHMS[algorithm](task, stretch)


def _direct(task: Task, stretch: float) -> Duration:
    """Return the duration of direct: a rank posts S, waits once per post, and reduces all p contributions itself."""
    size, machine = task.message_bytes, task.machine
    core = size / machine.copy_bytes_per_s + task.cluster.ranks_per_host * size / machine.reduce_bytes_per_s
    posts = max(1, math.ceil(size / ENGINE_FACTS.posted_bytes))
    work = max(core * S_TO_MS * stretch, task.memory_ms(3.0))
    return Duration(work + posts * task.sync_ms(stretch), work)


def _registered(task: Task, stretch: float) -> Duration:
    """Return the duration of registered: a rank reduces its block of S / p in place, and writes it to all p ranks."""
    size, machine, ranks = task.message_bytes, task.machine, task.cluster.ranks_per_host
    copies = max(0, ranks - 2)  # a reduction writes its own and one more copy in one pass
    core = size / machine.reduce_bytes_per_s + copies / ranks * size / machine.copy_bytes_per_s
    work = max(core * S_TO_MS * stretch, task.memory_ms(2.0))
    return Duration(work + 2 * task.sync_ms(stretch), work)


def _reduce_scatter_allgather(task: Task, stretch: float) -> Duration:
    """Return the duration of reduce-scatter and allgather.

    Per chunk a rank copies (p - 1) / p of it in, reduces 1 / p of p contributions, and copies (p - 1) / p out.
    """
    chunks = max(1, math.ceil(task.message_bytes / task.chunk_bytes))
    work = _staged_ms(task, stretch)
    return Duration(work + 2 * (chunks + 1) * task.sync_ms(stretch), work)


def _staged_ms(task: Task, stretch: float) -> float:
    """Return the time of a rank's copies and reductions through the stages, for the whole message.

    The memory traffic is 3 S per rank: S read, S written, and S fetched before it is written.
    """
    machine, ranks, size = task.machine, task.cluster.ranks_per_host, task.message_bytes
    outside = 1.0 - min(
        1.0, machine.core_cache_bytes / (ENGINE_FACTS.stage_max_chunks * min(task.chunk_bytes, max(size, 1)))
    )
    slowness = 1.0 + (machine.beyond_core_cache_factor - 1.0) * outside
    copies = 2.0 * (ranks - 1) / ranks * size / machine.copy_bytes_per_s
    core = (copies + size / machine.reduce_bytes_per_s) * slowness
    return max(core * S_TO_MS * stretch, task.memory_ms(3.0))


def _ring(task: Task, stretch: float) -> Duration:
    """Return the duration of a ring: segments of n C travel twice around all ranks, in 2 (n - 1) exchanges of C.

    The link of the host's last rank, the only one that sends to another host, determines the time of an exchange. The
    block is then reduced or copied, without overlap with an exchange.
    """
    machine, ranks = task.machine, task.cluster.world_size
    segment_bytes = task.chunk_bytes * ranks
    full, rest = divmod(task.message_bytes, segment_bytes)
    total = work = 0.0
    for count, size in ((full, segment_bytes), (1, rest)):
        if count == 0 or size == 0:
            continue
        line_bytes = ENGINE_FACTS.cache_line_bytes
        block = math.ceil(size / ranks / line_bytes) * line_bytes
        sockets = (
            2 * block / machine.socket_bytes_per_s * S_TO_MS + 2 * machine.socket_message_us * US_TO_MS
        ) * stretch
        exchange = max(block / (_payload_bytes_per_s(task) * task.cluster.slow_link) * S_TO_MS, sockets)
        own = block * (1.0 / machine.copy_bytes_per_s + 2.0 / machine.reduce_bytes_per_s) * S_TO_MS * stretch
        total += count * 2 * (ranks - 1) * (exchange + _pause_ms(task, stretch) + own)
        work += count * 2 * (ranks - 1) * (sockets + own)
    return Duration(total, work)


def _hierarchical(task: Task, stretch: float) -> Duration:
    """Return the duration of a pipeline of stages per host: an owner exchanges its block of C / p with h - 1 others.

    Small blocks are exchanged whole, in one round; larger ones in one share per host, in two rounds. Meanwhile the next
    chunks are staged and reduced, if the stages hold enough of them. Between distant hosts more chunks are in flight.
    """
    cluster, machine, size = task.cluster, task.machine, task.message_bytes
    chunks = max(1, math.ceil(size / task.chunk_bytes))
    block = min(task.chunk_bytes, size) / cluster.ranks_per_host * task.exchanged_bytes / max(size, 1)
    is_whole = block <= ENGINE_FACTS.whole_block_max_bytes or cluster.hosts == 2
    rounds, others = (1 if is_whole else 2), cluster.hosts - 1
    sent_bytes, wire_bytes, turn_bytes = _between_hosts(task, is_whole=is_whole)
    messages = 2 * rounds * others * chunks * machine.socket_message_us * US_TO_MS
    copied = 2 * sent_bytes / cluster.ranks_per_host / machine.socket_bytes_per_s
    across = size / cluster.ranks_per_host * (cluster.hosts if is_whole else 1) / machine.reduce_bytes_per_s
    outside = messages + (copied + across) * S_TO_MS
    work = _staged_ms(task, stretch) + outside * stretch + 2 * (chunks + 1) * task.sync_ms(stretch)
    wire = wire_bytes / _payload_bytes_per_s(task) * S_TO_MS
    waits = chunks * rounds * _pause_ms(task, stretch)
    in_turn = work + turn_bytes / _payload_bytes_per_s(task) * S_TO_MS + waits
    in_flight_bytes = ENGINE_FACTS.in_flight_bytes(cluster.round_trip_us)
    if in_flight_bytes > 2 * task.chunk_bytes:
        stalls = rounds * _pause_ms(task, stretch) * ((chunks - 1) // math.ceil(in_flight_bytes / task.chunk_bytes))
    elif task.chunk_bytes > ENGINE_FACTS.overlapped_chunk_max_bytes:
        return Duration(in_turn, work)
    else:
        stalls = waits / 2.0  # two blocks are in flight at once
    overlapped = max(work, wire, stalls)
    return Duration(overlapped * (chunks - 1) / chunks + in_turn / chunks, work)


def _between_hosts(task: Task, *, is_whole: bool) -> tuple[float, float, float]:
    """Return the bytes that a host with a fast link sends, and those that this link could send until the last has.

    The last are counted with chunks that overlap, and with one after the other.

    Args:
        task: The allreduce.
        is_whole: Whether blocks are exchanged whole, in which hosts have no shares.
    """
    size, hosts, rates = task.exchanged_bytes, task.cluster.hosts, task.cluster.link_rates
    if is_whole:
        sent = size * (hosts - 1)
        return sent, sent / min(rates), sent / min(rates)
    if task.is_skewed:
        return size * skewed_traffic(rates), size * skewed_time(rates), size * skewed_turn_time(rates)
    return size * even_time((1.0,) * hosts), size * even_time(rates), size * even_time(rates)


def _payload_bytes_per_s(task: Task) -> float:
    return task.cluster.link.bytes_per_s * task.machine.link_payload_share


def _pause_ms(task: Task, stretch: float) -> float:
    """Return the time between a block's last byte on the wire and the next exchange."""
    return (task.cluster.link.latency_us + task.machine.exchange_us * stretch) * US_TO_MS


_ALGORITHMS: Mapping[Algorithm, Callable[[Task, float], Duration]] = MappingProxyType(
    {
        Algorithm.DIRECT: _direct,
        Algorithm.REGISTERED: _registered,
        Algorithm.REDUCE_SCATTER_ALLGATHER: _reduce_scatter_allgather,
        Algorithm.RING: _ring,
        Algorithm.HIERARCHICAL: _hierarchical,
    }
)
