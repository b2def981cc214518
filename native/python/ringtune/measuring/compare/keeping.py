# SPDX-License-Identifier: Apache-2.0
"""The newest comparisons of this user, in one small file of the cache folder; `ringtune doctor` shows them."""

import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from ringtune.system.cache_files import user_cache_folder
from ringtune.system.whole_file import PRIVATE_MODE, replace_whole

FILE_NAME = "comparisons.json"
MAX_ENTRIES = 20
MAX_FILE_BYTES = 1 << 18
MAX_TITLE_CHARACTERS = 100


@dataclass(frozen=True)
class KeptComparison:
    """A comparison that was made.

    Attributes:
        unix_time_s: When it ended.
        hardware: Fingerprint of the machine that started it.
        title: Name of the script or file that was compared.
        ranks: Number of ranks.
        hosts: The `-H` option; empty for one machine.
        pairs: Number of pairs.
        ddp_steps_per_s: Median of DDP's runs.
        ringtune_steps_per_s: Median of ringtune's.
        ratio: Ratio of ringtune's steps per second to DDP's.
        low: Lower end of its 90 % interval.
        high: Upper end.
        version: Version of ringtune.
        baseline: Name of the other arm.
    """

    unix_time_s: float
    hardware: str
    title: str
    ranks: int
    hosts: str
    pairs: int
    ddp_steps_per_s: float
    ringtune_steps_per_s: float
    ratio: float
    low: float
    high: float
    version: str
    baseline: str = "DDP"

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "KeptComparison":
        """Return an entry of the file; raises TypeError or ValueError for a malformed one."""
        entry = cls(**value)
        for name, kind in cls.__annotations__.items():
            if kind is float:
                float(getattr(entry, name))
            elif not isinstance(getattr(entry, name), kind):
                raise TypeError(f"{name} is no {kind.__name__}")
        return entry


class ComparisonStore:
    """The file of comparisons."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Use the user's cache folder; it is made with the first comparison."""
        self.path = user_cache_folder(environ) / FILE_NAME

    def entries(self) -> Sequence[KeptComparison]:
        """Return the kept comparisons, the newest first; unreadable ones are left out."""
        found = []
        for value in self._values():
            with suppress(TypeError, ValueError):
                found.append(KeptComparison.from_json(value))
        return sorted(found, key=lambda entry: -entry.unix_time_s)

    def keep(self, entry: KeptComparison) -> None:
        """Add a comparison, and drop the oldest above `MAX_ENTRIES`; OSError where the file cannot be written."""
        entries = sorted([*self.entries(), entry], key=lambda kept: -kept.unix_time_s)[:MAX_ENTRIES]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(self.path, json.dumps([asdict(kept) for kept in entries], indent=1).encode(), PRIVATE_MODE)

    def _values(self) -> list[Any]:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return []
        with open(descriptor, "rb") as file:  # noqa: PTH123  (opened without waiting for a pipe's writer)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return []
            try:
                values = json.loads(file.read(MAX_FILE_BYTES))
            except (OSError, ValueError, RecursionError):
                return []
        return values if isinstance(values, list) else []
