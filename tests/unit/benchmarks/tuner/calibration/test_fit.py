# SPDX-License-Identifier: Apache-2.0
"""The simulator is fitted to the measured steps of another machine, and predicts other steps."""

import numpy as np
import pytest

from benchmarks.tuner.calibration.fit import GROUPS, MeasuredSurface, calibrate, scaled
from ringtune.tuner import default_config
from ringtune.tuner.simulator import Cluster, SimulatedMachine
from ringtune.tuner.simulator.step import predicted_step_ms
from tests.unit.tuner.simulator.jobs import job_of

JOB = job_of(*[1 << 16, 1 << 20, 4096, 1 << 22] * 6)
CLUSTER = Cluster(1, 2, 2)
CONFIGS = [
    default_config().replace({"fusion_bytes": fusion, "cycle_ms": cycle})
    for fusion in (0, 1 << 20, 1 << 24)
    for cycle in (0.1, 1.0, 5.0, 20.0)
]


def test_another_machine_is_recognised_from_a_few_configs() -> None:
    """Steps at those that were held out are predicted, though the documented constants are far off."""
    slower = scaled(SimulatedMachine(), {"speed of memory": 3.0, "work per tensor": 2.0})
    measured = MeasuredSurface(JOB, CLUSTER, {c: predicted_step_ms(slower, CLUSTER, JOB, c) for c in CONFIGS})

    found = calibrate(measured, CONFIGS[::2])

    assert len(CONFIGS) // 2 == found.fitted == len(found.errors)
    assert np.median(np.abs(found.errors)) < 0.2 * np.median(np.abs(found.errors_before))
    assert {*GROUPS, "computing"} - {"sockets"} == set(found.scales)


def test_scales_are_of_time() -> None:
    """Twice as long is half the speed."""
    slower = scaled(SimulatedMachine(), {"speed of memory": 2.0, "waiting for others": 3.0})

    assert SimulatedMachine().copy_bytes_per_s / 2 == pytest.approx(slower.copy_bytes_per_s)
    assert 3 * SimulatedMachine().sync_us == pytest.approx(slower.sync_us)


def test_a_header_says_what_is_simulated() -> None:
    """The header gives the layout, the link and the computing time; between hosts no gradient is registered."""
    header = {
        "workload": "w",
        "gradient_bytes": [4096, 1 << 20],
        "compute_ms": 30.0,
        "ranks_per_host": [2, 2],
        "link_bits_per_s": 10**9,
        "machine": {"cores": 2},
    }

    measured = MeasuredSurface.of(header, {})

    assert (2, 2, 1, 1.25e8) == (
        measured.cluster.hosts,
        measured.cluster.ranks_per_host,
        measured.cluster.cores_per_host,
        measured.cluster.link.bytes_per_s,
    )
    assert 30.0 == pytest.approx(measured.job.compute_ms)
    assert measured.job.home_bytes is None
