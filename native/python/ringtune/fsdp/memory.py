# SPDX-License-Identifier: Apache-2.0
"""Peak of a rank's memory, and its limit.

On a GPU the peak is PyTorch's own (`torch.cuda.max_memory_allocated`). In CPU memory, which PyTorch does not count, it
is the resident memory of the process (`VmHWM`), with its libraries and the files that it has mapped. Both are reset.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import torch

from ringtune.system.control_groups import OWN_GROUPS, ControlGroups
from ringtune.tuning.model.live_model import MemoryWatch

SPARE_SHARE = 0.1
"""Share of a device's memory, or of a host's free memory, that a limit of our own leaves: fragments, longer batches."""
RESET_PEAK = "5"  # see proc(5), clear_refs
KIB = 1024
_PROCESS = Path("/proc/self")
_MEMORY = Path("/proc/meminfo")
_LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""Files of a control group's limit and use, in version 2 and in version 1."""


def memory_watch(device: torch.device, limit_bytes: int | None, ranks_on_host: int) -> MemoryWatch:
    """Return a watch over the memory that a rank's parameters are in.

    Args:
        device: Device of the parameters.
        limit_bytes: Limit that the user set; None takes the device's memory, less a tenth.
        ranks_on_host: Number of ranks that share the host's memory.
    """
    if device.type == "cuda":
        return CudaMemory(device, limit_bytes)
    return HostMemory(limit_bytes, ranks_on_host)


class CudaMemory:
    """See `MemoryWatch`; the memory of one GPU."""

    def __init__(self, device: torch.device, limit_bytes: int | None) -> None:
        """Begin with the peak at zero; without a limit take all that other processes leave, less a tenth of the GPU."""
        self._device = device
        self.limit_bytes = limit_bytes or self._allowed()
        self.reset()

    def room_bytes(self) -> int:
        """Return the limit less the peak since the last `reset`."""
        return self.limit_bytes - int(torch.cuda.max_memory_allocated(self._device))

    def reset(self) -> None:
        """Forget the peak so far."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def _allowed(self) -> int:
        free, total = torch.cuda.mem_get_info(self._device)
        return int(free + torch.cuda.memory_reserved(self._device) - SPARE_SHARE * total)


class HostMemory:
    """See `MemoryWatch`; the resident memory of this process."""

    def __init__(self, limit_bytes: int | None, ranks_on_host: int) -> None:
        """Begin with the peak at the resident memory; without a limit take a share of nine tenths of the free one."""
        share = (1.0 - SPARE_SHARE) * available_bytes() / ranks_on_host
        self.limit_bytes = limit_bytes or int(_status_bytes("VmRSS") + share)
        self.reset()

    def room_bytes(self) -> int:
        """Return the limit less the peak since the last `reset`."""
        return self.limit_bytes - _status_bytes("VmHWM")

    def reset(self) -> None:
        """Forget the peak so far; where the kernel does not allow that, the peak is the process's."""
        with suppress(OSError):
            (_PROCESS / "clear_refs").write_text(RESET_PEAK, encoding="ascii")


def available_bytes(groups: ControlGroups = OWN_GROUPS) -> int:
    """Return the memory that new work can have on this host: the free memory, within the limits of the control groups.

    Args:
        groups: Folder in which the kernel shows control groups.
    """
    free = _numbers(_MEMORY).get("MemAvailable", 0) * KIB
    return max(0, min([free, *(left for folder in groups.folders("memory") for left in _left_bytes(folder))]))


def _left_bytes(folder: Path) -> Iterator[int]:
    """Yield the rest of a control group's limit, where it has one."""
    for limit, use in _LIMITS:
        with suppress(OSError, ValueError):  # no such file, or the word "max"
            yield int((folder / limit).read_text(encoding="ascii")) - int((folder / use).read_text(encoding="ascii"))


def _status_bytes(name: str) -> int:
    return _numbers(_PROCESS / "status").get(name, 0) * KIB


def _numbers(path: Path) -> dict[str, int]:
    """Return the lines of a file of the kernel that have a number of kibibytes, by name; none if it cannot be read."""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return {name: int(value.split()[0]) for name, value in pairs if value.strip().endswith("kB")}
