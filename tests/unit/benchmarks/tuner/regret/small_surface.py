# SPDX-License-Identifier: Apache-2.0
"""A recorded surface of a few configs, written to a file."""

from collections.abc import Sequence
from pathlib import Path

from ringtune.measuring.bench.surface_file import SCHEMA, RecordedWindow, SurfaceJournal, write_surface
from ringtune.tuner import default_config

HEADER = {
    "schema": SCHEMA,
    "gradient_bytes": [4096, 1 << 20],
    "ranks_per_host": [2],
    "baseline": default_config().to_json(),
    "calls": [],
}
CALLS = [[1 << power, 1e-5 + 1e-9 * (1 << power)] for power in range(10, 24, 2)]
Configs = list[dict[str, int | float]]
CONFIGS: Configs = [
    {},
    {"cycle_ms": 5.0},
    {"fusion_bytes": 0},
    {"fusion_bytes": 1 << 20, "cycle_ms": 5.0},
]


def surface(
    folder: Path, slower_by_ms: float = 0.0, ranks_per_host: Sequence[int] = (2,), configs: Configs = CONFIGS
) -> Path:
    """Write a surface of some configs, the recorded baseline's steps so much slower.

    That baseline is the default of one host in any layout, as it was before the hierarchical allreduce was the default.
    """
    journal = SurfaceJournal(folder / "j", {**HEADER, "ranks_per_host": list(ranks_per_host)})
    journal.begin(CALLS)
    for number in range(len(configs)):
        first_ms = 10.0 + number + slower_by_ms * (number == 0)
        journal.add(RecordedWindow(number, 0, 0, 0.0, (first_ms, first_ms + 1.0)))
    write_surface(folder / "small.jsonl.gz", journal, configs)
    return folder / "small.jsonl.gz"
