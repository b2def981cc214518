# SPDX-License-Identifier: Apache-2.0
"""Parameters of the simulated engine, typed, and the resolution of `auto` by its registry and compiled-in table."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ringtune.errors import ConfigError
from ringtune.tuner.engine_facts import ENGINE_FACTS
from ringtune.tuner.host_shares import are_uneven
from ringtune.tuner.space.config import Value
from ringtune.tuner.space.parameters import AUTO, is_rounded

from .cluster import Cluster


class Algorithm(str, Enum):
    """Algorithms in the engine's registry of allreduces."""

    DIRECT = "direct"
    REGISTERED = "registered"
    REDUCE_SCATTER_ALLGATHER = "reduce_scatter_allgather"
    RING = "ring"
    HIERARCHICAL = "hierarchical"


CONFIGURABLE_ALGORITHMS = (Algorithm.DIRECT.value, Algorithm.REDUCE_SCATTER_ALLGATHER.value)
"""Algorithms that a config may select instead of `auto`."""


@dataclass(frozen=True)
class Knobs:
    """Typed parameters of the engine.

    Attributes:
        fusion_bytes: Largest fused message; 0 sends every tensor alone.
        cycle_ms: Maximum time for which a ready tensor waits for others, milliseconds.
        hierarchical_allreduce: Whether an allreduce between hosts uses shared memory inside each, not one ring of all
            ranks.
        response_cache: Whether a tensor is sent by name only once, not in every step.
        algorithm: Algorithm inside one host; None is `auto`.
        chunk_bytes: Size of a chunk, which is moved at once; None is `auto`.
        skew: Whether hosts reduce shares in proportion to the rates of their links.
        is_rounded: Whether gradients are rounded between hosts.
    """

    fusion_bytes: int
    cycle_ms: float
    hierarchical_allreduce: bool
    response_cache: bool
    algorithm: Algorithm | None
    chunk_bytes: int | None
    skew: bool = False
    is_rounded: bool = False

    @classmethod
    def of(cls, config: Mapping[str, Value]) -> "Knobs":
        """Read a config of the engine's search space.

        Raises:
            ConfigError: If a parameter is missing or the algorithm is unknown.
        """
        try:
            algorithm, chunk = config["allreduce_algorithm"], config["chunk_bytes"]
            if algorithm not in (AUTO, *CONFIGURABLE_ALGORITHMS):
                raise ConfigError(
                    f"allreduce_algorithm={algorithm!r} is not simulated; there are "
                    f"{', '.join((AUTO, *CONFIGURABLE_ALGORITHMS))}"
                )
            return cls(
                fusion_bytes=int(config["fusion_bytes"]),
                cycle_ms=float(config["cycle_ms"]),
                hierarchical_allreduce=bool(config["hierarchical_allreduce"]),
                response_cache=bool(config["response_cache"]),
                algorithm=None if algorithm == AUTO else Algorithm(algorithm),
                chunk_bytes=None if chunk == AUTO else int(chunk),
                skew=bool(config["skew"]),
                is_rounded=is_rounded(config),
            )
        except KeyError as error:
            raise ConfigError(f"the config lacks {error}; give a value for every parameter of the engine") from error

    def algorithm_for(self, cluster: Cluster, message_bytes: int, *, is_registered: bool) -> Algorithm:
        """Return the algorithm that the coordinator selects for a message.

        Args:
            cluster: Cluster of the job; between hosts of several ranks `hierarchical_allreduce` decides, inside one
                host `algorithm` and the size.
            message_bytes: Total size of the fused tensors.
            is_registered: Whether all of them are in registered memory.
        """
        if cluster.hosts > 1:
            is_by_host = self.hierarchical_allreduce or cluster.ranks_per_host == 1 or self.is_rounded
            return Algorithm.HIERARCHICAL if is_by_host else Algorithm.RING
        if self.algorithm is not None:
            return self.algorithm
        is_posted_whole = not is_registered and cluster.world_size == 2
        if message_bytes <= (ENGINE_FACTS.posted_bytes if is_posted_whole else ENGINE_FACTS.direct_max_bytes):
            return Algorithm.DIRECT
        return Algorithm.REGISTERED if is_registered else Algorithm.REDUCE_SCATTER_ALLGATHER

    def is_skewed(self, cluster: Cluster) -> bool:
        """Return whether hosts reduce uneven shares of a message."""
        return self.skew and are_uneven(cluster.link_rates)

    def chunk_for(self, cluster: Cluster, message_bytes: int) -> int:
        """Return the size of a chunk of a message, in bytes."""
        if self.chunk_bytes is not None:
            return self.chunk_bytes
        chunk_bytes = ENGINE_FACTS.chunk_for(cluster.hosts)
        if not self.is_skewed(cluster):
            return chunk_bytes
        smaller = message_bytes // ENGINE_FACTS.skewed_min_chunks
        return min(chunk_bytes, max(ENGINE_FACTS.skewed_chunk_min_bytes, smaller))
