# SPDX-License-Identifier: Apache-2.0
"""The number of cores that a process may use."""

import os
from pathlib import Path

import pytest

from ringtune.system.control_groups import ControlGroups
from ringtune.system.usable_cores import usable_cores
from tests.unit.ringtune.system.kernel_files import control_groups

ALL = len(os.sched_getaffinity(0))
V2, V1 = "0::/pods/job\n", "4:memory:/other\n3:cpu,cpuacct:/pods/job\n0::/\n"


@pytest.mark.parametrize(
    ("lines", "files", "expected"),
    [
        (V2, {}, ALL),
        (V2, {"pods/job/cpu.max": "max 100000\n"}, ALL),
        (V2, {"pods/job/cpu.max": "100000 100000\n"}, 1),
        (V2, {"pods/job/cpu.max": "150000 100000\n"}, min(2, ALL)),
        (V2, {"pods/job/cpu.max": "1000 100000\n"}, 1),
        (V2, {"pods/job/cpu.max": "max 100000\n", "pods/cpu.max": "50000 50000\n"}, 1),
        (V2, {"cpu.max": "100000 100000\n"}, 1),
        (V2, {"pods/job/cpu.max": "6400000 100000\n"}, ALL),
        (V1, {"cpu,cpuacct/pods/job/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/pods/job/cpu.cfs_period_us": "1\n"}, ALL),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "90000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 1),
        (V1, {"other/cpu.cfs_quota_us": "90000\n", "other/cpu.cfs_period_us": "100000\n"}, ALL),
    ],
)
def test_the_least_of_affinity_and_quotas_counts(
    tmp_path: Path, lines: str, files: dict[str, str], expected: int
) -> None:
    """A group's quota holds for all groups inside; groups outside of a container's view cannot be read."""
    assert expected == usable_cores(control_groups(tmp_path, lines, files))


def test_without_control_groups_the_affinity_counts(tmp_path: Path) -> None:
    """A kernel without them has no list."""
    assert ALL == usable_cores(ControlGroups(tmp_path / "none", tmp_path))
