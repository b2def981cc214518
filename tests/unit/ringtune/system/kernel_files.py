# SPDX-License-Identifier: Apache-2.0
"""Files in which the kernel shows the control groups of a process."""

from collections.abc import Mapping
from pathlib import Path

from ringtune.system.control_groups import ControlGroups


def control_groups(folder: Path, lines: str, files: Mapping[str, str]) -> ControlGroups:
    """Write files of control groups by name, and the list of the groups that the process is in."""
    for name, text in files.items():
        path = folder / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    (folder / "cgroup").write_text(lines, encoding="ascii")
    return ControlGroups(folder / "cgroup", folder / "mount")
