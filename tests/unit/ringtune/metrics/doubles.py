# SPDX-License-Identifier: Apache-2.0
"""An engine that stands still, and metrics as a scraper reads them."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from ringtune import _engine
from ringtune.tuner import default_config
from ringtune.tuner.space.config import Value
from ringtune.world.engine_config import engine_config

IDENTITY = {"training_job": "abc", "model": "digits", "host": "node1", "rank": "0", "local_rank": "0"}


class StandingLaps:
    """A stopwatch that was read already."""

    def start(self) -> None:
        """Ignore the start: both laps are fixed."""

    def seconds(self) -> dict[str, float]:
        """Return two laps."""
        return {"elsewhere": 3.5, "reduce": 0.5}


class StandingEngine:
    """An engine whose counters count themselves: the first is 1, the second 2, and so on."""

    laps = StandingLaps()

    def counters(self) -> dict[str, int]:
        """Return every counter."""
        names = (
            "cycles", "responses", "tensors", "bytes_reduced", "full_requests", "cached_requests", "chunks",
            "config_switches", "steps", "allgathers", "nccl_responses", "nccl_packed_tensors",
            "nccl_limited_responses", "nccl_hierarchical_responses", "skewed_allreduces", "rounded_allreduces",
            "algorithm.direct", "algorithm.ring", "connection.0",
        )  # fmt: skip
        return {name: number for number, name in enumerate(names, start=1)}

    def config(self) -> _engine.EngineConfig:
        """Return a config."""
        changed: dict[str, Value] = {"fusion_bytes": 0, "cycle_ms": 2.5, "response_cache": True, "chunk_bytes": "auto"}
        return engine_config(default_config().replace(changed))

    def config_epoch(self) -> int:
        """Return an epoch."""
        return 7


def series_of(collector: Collector) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return every series that a scraper would read, without the labels of `IDENTITY`, which all must have."""
    registry = CollectorRegistry()
    registry.register(collector)
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            assert IDENTITY.items() <= sample.labels.items()
            found[sample.name, frozenset(sample.labels.items() - IDENTITY.items())] = sample.value
    return found


def labelled(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """Return the key of a series."""
    return name, frozenset(labels.items())
