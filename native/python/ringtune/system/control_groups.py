# SPDX-License-Identifier: Apache-2.0
"""Control groups of this process: where the kernel keeps the limits of a container, a pod or a job of Slurm."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ControlGroups:
    """Folder in which the kernel shows control groups, of version 1 or 2.

    Attributes:
        groups: The kernel's list of this process's control groups.
        mount: Folder where the control groups are mounted.
    """

    groups: Path = Path("/proc/self/cgroup")
    mount: Path = Path("/sys/fs/cgroup")

    def folders(self, controller: str) -> Iterator[Path]:
        """Yield the folders of this process's group and of those around it; a container shows the inner ones alone.

        Args:
            controller: The kernel's name for the limited resource, such as "cpu" or "memory".
        """
        try:
            lines = self.groups.read_text(encoding="utf-8").splitlines()
        except OSError:
            return
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            root = self.mount / controllers if controllers else self.mount
            folder = root / path.lstrip("/")
            yield from (folder, *(parent for parent in folder.parents if parent.is_relative_to(root)))


OWN_GROUPS = ControlGroups()
