# SPDX-License-Identifier: Apache-2.0
"""Scenarios: named jobs on clusters, for tests and comparisons of designers.

They begin at the default that ships. Eight have no gain: three communicate little, the others already optimally.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ringtune.tuner.space.config import Config
from ringtune.tuner.space.parameters import default_config

from .cluster import Cluster, parse_link
from .job import SimulatedJob
from .machine import SimulatedMachine
from .model_jobs import model_job
from .noise import Noise
from .target import SimulatedTarget

QUIET = Noise(step=0.01, window=0.003)
ORDINARY = Noise(step=0.03, window=0.006, late_chance=2e-3, late_factor=1.3)
BUSY = Noise(step=0.06, window=0.01, late_chance=5e-3, late_factor=1.6, pause_chance=5e-4, drift=0.02)
LARGE_WORLD = Noise(step=0.03, window=0.006, late_chance=2e-4, late_factor=1.4, drift=0.01)
"""Noise of hundreds of ranks: every few steps one of them is late."""


@dataclass(frozen=True)
class Scenario:
    """Scenario: a job with its cluster and noise.

    Attributes:
        name: Name made of model, layout and link.
        job: Workload of every rank.
        cluster: Cluster of the job.
        noise: Noise of the steps.
        machine: Cost constants.
        baseline: User's own settings, which differ from the engine's default in that layout.
        is_flat: Whether no config is more than 2 % faster than the baseline, so that keeping it is the right decision.
    """

    name: str
    job: SimulatedJob
    cluster: Cluster
    noise: Noise = ORDINARY
    machine: SimulatedMachine = field(default_factory=SimulatedMachine)
    baseline: Config = field(default_factory=lambda: Config({}))
    is_flat: bool = False

    def target(self, seed: int) -> SimulatedTarget:
        """Return the job as a new target."""
        baseline = default_config(self.cluster.layout).replace(self.baseline)
        return SimulatedTarget(
            self.job, self.cluster, machine=self.machine, noise=self.noise, baseline=baseline, seed=seed
        )


def _accelerated(model: str, compute_ms: float) -> SimulatedJob:
    return model_job(model, compute_ms, compute_threads=0.0)


def _hosts(hosts: int, ranks_per_host: int, link: str, cores_per_host: int) -> Cluster:
    return Cluster(hosts, ranks_per_host, cores_per_host, parse_link(link))


def _scenarios() -> tuple[Scenario, ...]:
    poor = Config({"fusion_bytes": 0, "cycle_ms": 20.0})
    two, four, eight = Cluster(1, 2, 2), Cluster(1, 4, 2), Cluster(1, 8, 16)
    slow, fast = _hosts(2, 2, "100mbit", 2), _hosts(2, 2, "1gbit", 4)
    rack, hall = _hosts(8, 8, "25gbit", 32), _hosts(64, 8, "25gbit", 32)
    return (
        Scenario("mobilenet_v2_np2", model_job("mobilenet_v2", 12.0, home_bytes=None), two),
        Scenario("manysmall_np2", model_job("manysmall", 20.0), two, BUSY),
        Scenario("resnet50_np2_poor", model_job("resnet50", 60.0, home_bytes=None), two, baseline=poor),
        Scenario("mobilenet_v2_np4_crowded", model_job("mobilenet_v2", 20.0, home_bytes=None), four, BUSY),
        Scenario("mobilenet_v2_2x2_100mbit", model_job("mobilenet_v2", 150.0), slow, is_flat=True),
        Scenario("mobilenet_v2_2x2_1gbit", model_job("mobilenet_v2", 60.0), fast, is_flat=True),
        Scenario("resnet50_2x2_1gbit", _accelerated("resnet50", 300.0), fast, QUIET, is_flat=True),
        Scenario("manysmall_8x8_25gbit", _accelerated("manysmall", 40.0), rack, BUSY),
        Scenario("resnet50_8x8_25gbit", _accelerated("resnet50", 120.0), rack),
        Scenario("bert_base_8x8_25gbit", _accelerated("bert_base", 200.0), rack),
        Scenario("resnet50_64x8_25gbit", _accelerated("resnet50", 120.0), hall, LARGE_WORLD),
        Scenario("bert_base_64x8_25gbit", _accelerated("bert_base", 250.0), hall, LARGE_WORLD),
        Scenario("resnet50_8x8_25gbit_poor", _accelerated("resnet50", 120.0), rack, baseline=poor),
        Scenario("manysmall_4x4_10gbit", _accelerated("manysmall", 30.0), _hosts(4, 4, "10gbit", 16), BUSY),
        Scenario("bert_base_16x4_10gbit", _accelerated("bert_base", 250.0), _hosts(16, 4, "10gbit", 16), is_flat=True),
        Scenario("manysmall_64x8_100gbit", _accelerated("manysmall", 40.0), _hosts(64, 8, "100gbit", 32), LARGE_WORLD),
        Scenario("manysmall_np4_crowded", model_job("manysmall", 30.0), four),
        Scenario("resnet50_8x8_25gbit_quiet", _accelerated("resnet50", 120.0), rack, QUIET),
        Scenario("manysmall_8x8_25gbit_quiet", _accelerated("manysmall", 40.0), rack, QUIET),
        Scenario("bert_base_64x8_25gbit_quiet", _accelerated("bert_base", 250.0), hall, QUIET),
        Scenario("bert_base_np8_flat", _accelerated("bert_base", 90.0), eight, QUIET, is_flat=True),
        Scenario("mobilenet_v2_np8_flat", _accelerated("mobilenet_v2", 400.0), eight, is_flat=True),
        Scenario("resnet50_np2_flat", _accelerated("resnet50", 1500.0), Cluster(1, 2, 8), BUSY, is_flat=True),
        Scenario(
            "mobilenet_v2_2x1_25gbit_flat", _accelerated("mobilenet_v2", 900.0), _hosts(2, 1, "25gbit", 8), is_flat=True
        ),
    )


SCENARIOS: Mapping[str, Scenario] = MappingProxyType({scenario.name: scenario for scenario in _scenarios()})
"""All scenarios by name."""
