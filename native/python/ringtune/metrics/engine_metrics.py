# SPDX-License-Identifier: Apache-2.0
"""The engine's counters, its config and the job's facts, asked of the engine when somebody reads."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ringtune import _engine
from ringtune.tuner import readable_value
from ringtune.world.engine_config import tuner_config

from .families import Families, Labels

MS_TO_S = 1e-3
ALGORITHM_PREFIX = "algorithm."
CONNECTION_PREFIX = "connection."
COUNTERS: Mapping[str, tuple[str, str]] = {
    "steps": ("ringtune_engine_steps_total", "Optimizer steps that were marked."),
    "cycles": ("ringtune_engine_cycles_total", "Rounds in which the ranks agreed on what to do next."),
    "responses": ("ringtune_engine_responses_total", "Operations carried out, each of one tensor or several fused."),
    "tensors": ("ringtune_engine_tensors_total", "Tensors in these operations."),
    "bytes_reduced": ("ringtune_engine_reduced_bytes_total", "Bytes of this rank's tensors that were reduced."),
    "chunks": ("ringtune_engine_chunks_total", "Pieces in which these bytes were moved."),
    "allgathers": ("ringtune_engine_allgathers_total", "Allgathers carried out."),
    "nccl_responses": ("ringtune_engine_nccl_responses_total", "Collectives of GPUs' tensors carried out by NCCL."),
    "nccl_packed_tensors": ("ringtune_engine_nccl_packed_tensors_total", "GPUs' tensors packed for NCCL."),
    "nccl_limited_responses": (
        "ringtune_engine_nccl_limited_responses_total",
        "Collectives by NCCL under a limit on its thread blocks.",
    ),
    "nccl_hierarchical_responses": (
        "ringtune_engine_nccl_hierarchical_responses_total",
        "Allreduces by NCCL inside each host and the engine's network across.",
    ),
    "skewed_allreduces": (
        "ringtune_engine_skewed_allreduces_total",
        "Allreduces in which hosts reduced shares by the rates of their links.",
    ),
    "rounded_allreduces": (
        "ringtune_engine_rounded_allreduces_total",
        "Allreduces whose gradients were rounded to bfloat16 between hosts.",
    ),
    "config_switches": ("ringtune_engine_config_switches_total", "Switches to another config."),
}
REQUESTS: Mapping[str, str] = {"cached_requests": "cached", "full_requests": "full"}
"""The counters that are series of `ringtune_engine_requests_total`, by their label."""


class ReadableEngine(Protocol):
    """Part of `_engine.Engine` that is read."""

    def counters(self) -> dict[str, int]:
        """See `_engine.Engine`."""

    def config(self) -> _engine.EngineConfig:
        """See `_engine.Engine`."""

    def config_epoch(self) -> int:
        """See `_engine.Engine`."""

    @property
    def laps(self) -> _engine.LapTimes:
        """See `_engine.Engine`."""


class JobCollector(Collector):
    """Metrics that do not change while the job runs."""

    def __init__(self, families: Families, *, world_size: int, hosts: int, began_unix_s: float, facts: Labels) -> None:
        """Show these figures; `facts` are labels of one series more."""
        self._metrics = (
            families.gauge("ringtune_job_info", "Facts of the job, as labels; always 1.", 1.0, facts),
            families.gauge("ringtune_job_world_size", "Ranks of the job.", world_size),
            families.gauge("ringtune_job_hosts", "Hosts of the job.", hosts),
            families.gauge("ringtune_job_start_timestamp_seconds", "When this rank joined the job.", began_unix_s),
        )

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        return self._metrics


class EngineCollector(Collector):
    """Metrics of the engine's counters and of the config in force; reading them does not stop the engine."""

    def __init__(self, families: Families, engine: ReadableEngine) -> None:
        """Read `engine`, whose laps the caller has started."""
        self._families = families
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield from self._counts(self._engine.counters())
        laps = [({"lap": lap}, seconds) for lap, seconds in self._engine.laps.seconds().items()]
        text = "Where the time of this rank goes, by lap; all laps together are all the time."
        yield self._families.counters("ringtune_engine_seconds_total", text, laps)
        text = "Number of the config in force; 0 is the one that the job began with."
        yield self._families.gauge("ringtune_config_epoch", text, self._engine.config_epoch())
        yield from self._config(self._engine.config())

    def _counts(self, counts: Mapping[str, int]) -> Iterator[Metric]:
        for counter, (name, text) in COUNTERS.items():
            yield self._families.counter(name, text, counts[counter])
        requests = [({"kind": kind}, float(counts[counter])) for counter, kind in REQUESTS.items()]
        text = "Tensors requested, by number (cached) or with their whole signature (full)."
        yield self._families.counters("ringtune_engine_requests_total", text, requests)
        text = "Allreduces carried out, by algorithm."
        allreduces = _labelled(counts, ALGORITHM_PREFIX, "algorithm")
        yield self._families.counters("ringtune_engine_allreduces_total", text, allreduces)
        text = (
            "Bytes sent to other ranks by TCP: by connection 0 alone, and by those that share long messages, from 1 on."
        )
        sent = _labelled(counts, CONNECTION_PREFIX, "connection") or [({"connection": "0"}, 0.0)]
        yield self._families.counters("ringtune_engine_sent_bytes_total", text, sent)

    def _config(self, config: _engine.EngineConfig) -> Iterator[Metric]:
        for knob in _engine.KNOBS:
            value = getattr(config, knob.name)
            if not isinstance(value, str):
                name, number = _in_base_unit(knob.name, value)
                yield self._families.gauge(f"ringtune_config_{name}", knob.description, number)
        labels = {name: readable_value(name, value) for name, value in tuner_config(config).items()}
        text = "The config in force, as labels; always 1."
        yield self._families.gauge("ringtune_config_info", text, 1.0, labels)


def _labelled(counts: Mapping[str, int], prefix: str, label: str) -> list[tuple[dict[str, str], float]]:
    """Return the counters whose names begin with a prefix, the rest of the name as a label."""
    return [
        ({label: name.removeprefix(prefix)}, float(count)) for name, count in counts.items() if name.startswith(prefix)
    ]


def _in_base_unit(knob: str, value: float) -> tuple[str, float]:
    """Return a number's name and value in Prometheus's base unit: seconds for milliseconds."""
    if knob.endswith("_ms"):
        return f"{knob.removesuffix('_ms')}_seconds", value * MS_TO_S
    return knob, value
