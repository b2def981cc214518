# SPDX-License-Identifier: Apache-2.0
"""Cores that a process may use at once: its CPU affinity, cut by the CPU quotas of its control groups.

A container with a limit of two CPUs on a machine of 64 cores has the affinity of all 64 and the time of two: as many
threads as the affinity allows would stop each other.
"""

import math
import os
from pathlib import Path

from ringtune.system.control_groups import OWN_GROUPS, ControlGroups


def usable_cores(groups: ControlGroups = OWN_GROUPS) -> int:
    """Return the number of cores that this process may use at once, at least 1; a quota of 1.5 CPUs counts as two.

    Args:
        groups: Folder in which the kernel shows control groups.
    """
    quotas = [quota for folder in groups.folders("cpu") if (quota := _quota(folder)) is not None]
    return max(1, min(len(os.sched_getaffinity(0)), *(math.ceil(quota) for quota in quotas), 1 << 30))


def _quota(folder: Path) -> float | None:
    """Return the quota of a control group in CPUs; None where it has none."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = (
                (folder / f"cpu.cfs_{name}_us").read_text(encoding="ascii").strip() for name in ("quota", "period")
            )
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or the word "max"
        return None
