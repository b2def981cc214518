# SPDX-License-Identifier: Apache-2.0
"""Inputs of the cost model: the shape of a job, and the knobs of the engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.engine_facts import ENGINE_FACTS
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.parameters import AUTO, goes_by_host, is_rounded

Array = NDArray[np.float64]


@dataclass(frozen=True)
class JobShape:
    """Shape of a job: the gradients of a step, and the layout of the ranks.

    Attributes:
        gradient_bytes: Size of each gradient tensor of a step; at least one.
        ranks_per_host: Number of ranks on each host.
        is_crowded: Whether every core computes, so that the work of communication delays backward.
        link_rates: Rate of each host's link, in any unit; empty if they are not known to differ.
    """

    gradient_bytes: tuple[int, ...]
    ranks_per_host: tuple[int, ...]
    is_crowded: bool = True
    link_rates: tuple[float, ...] = ()

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return sum(self.ranks_per_host)

    @cached_property
    def fusable(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of tensors that may be fused with each other: those in registered memory, and the others."""
        least = ENGINE_FACTS.registered_min_bytes
        kinds = [tuple(s for s in self.gradient_bytes if (s >= least) == large) for large in (False, True)]
        return tuple(sizes for sizes in kinds if sizes)


@dataclass(frozen=True)
class KnobColumns:
    """Values of m configs by knob, shape (m,) each; `fusion_bytes` 0 means off."""

    fusion_bytes: Array
    cycle_s: Array
    is_hierarchical: Array
    is_cached: Array
    chunk_bytes: Array
    is_chunk_auto: Array
    is_skewed: Array
    is_rounded: Array

    @classmethod
    def of(cls, configs: Sequence[Config], job: JobShape) -> "KnobColumns":
        """Return the knobs of m configs; `auto` is resolved for the job."""
        auto_bytes = ENGINE_FACTS.chunk_for(len(job.ranks_per_host))
        chunks = [auto_bytes if c["chunk_bytes"] == AUTO else float(c["chunk_bytes"]) for c in configs]
        return cls(
            np.array([float(config["fusion_bytes"]) for config in configs]),
            np.array([float(config["cycle_ms"]) * 1e-3 for config in configs]),
            np.array([goes_by_host(config, job.ranks_per_host) for config in configs], dtype=float),
            np.array([bool(config["response_cache"]) for config in configs], dtype=float),
            np.array(chunks, dtype=float),
            np.array([config["chunk_bytes"] == AUTO for config in configs], dtype=float),
            np.array([bool(config.get("skew")) for config in configs], dtype=float),
            np.array([is_rounded(config) for config in configs], dtype=float),
        )
