# SPDX-License-Identifier: Apache-2.0
"""The tuner's config as the engine's: one field per parameter."""

from collections.abc import Mapping

from ringtune import _engine
from ringtune.tuner.space.config import Value
from ringtune.tuner.space.parameters import AUTO


def engine_config(config: Mapping[str, Value]) -> _engine.EngineConfig:
    """Return the engine's config; `auto` for `chunk_bytes` is 0 there."""
    chunk_bytes = config["chunk_bytes"]
    return _engine.EngineConfig(
        fusion_bytes=int(config["fusion_bytes"]),
        cycle_ms=float(config["cycle_ms"]),
        hierarchical_allreduce=bool(config["hierarchical_allreduce"]),
        hierarchical_allgather=bool(config["hierarchical_allgather"]),
        response_cache=bool(config["response_cache"]),
        allreduce_algorithm=str(config["allreduce_algorithm"]),
        chunk_bytes=0 if chunk_bytes == AUTO else int(chunk_bytes),
    )
