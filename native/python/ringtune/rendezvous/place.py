# SPDX-License-Identifier: Apache-2.0
"""Where a process stands in the world, and what it brings to the meeting of the ranks."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringtune.errors import ConfigError, RingtuneError


@dataclass(frozen=True)
class Place:
    """One rank's place, as the launcher or torch told it.

    Attributes:
        rank: This process.
        world_size: Number of ranks.
        address: Name of rank 0's abstract socket, without the leading NUL; empty in a world of one.
        job_key: Secret that all ranks of the job share; empty in a world of one.
        generation: How often this process has called `init()` before.
        source: Who told, for messages: `RINGTUNE_RANK`, `torch.distributed`, `torchrun` or `alone`.
    """

    rank: int
    world_size: int
    generation: int
    source: str
    address: str = ""
    job_key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Offer:
    """What a rank brings to the meeting.

    Attributes:
        given: Job-wide variables that are set on this rank, parsed: JSON values by variable name.
        effective: Every job-wide variable's value on this rank, defaults included.
        failure: Why this rank cannot start; the others are told and raise it as well.
    """

    given: Mapping[str, Any]
    effective: Mapping[str, Any]
    failure: RingtuneError | None = None


@dataclass(frozen=True)
class Agreement:
    """What all ranks hold when the meeting went well. The receiver owns the descriptors.

    Attributes:
        given: Rank 0's given variables, which hold for all.
        segment_fd: The shared-memory segment.
        pidfds: One pidfd per rank.
        pids: One process id per rank.
    """

    given: Mapping[str, Any]
    segment_fd: int
    pidfds: tuple[int, ...]
    pids: tuple[int, ...]

    def close(self) -> None:
        """Close the descriptors, where nobody took them over."""
        for descriptor in (self.segment_fd, *self.pidfds):
            if descriptor >= 0:
                os.close(descriptor)


def host_identity() -> str:
    """Return what two processes share exactly if they run on one booted host and see each other's process ids.

    Raises:
        ConfigError: If `/proc` is not mounted.
    """
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        pid_namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError as error:
        raise ConfigError(f"/proc cannot be read ({error}); ringtune needs it to tell hosts apart") from error
    return f"{boot_id}/{pid_namespace}"
