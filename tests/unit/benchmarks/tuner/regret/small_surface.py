# SPDX-License-Identifier: Apache-2.0
"""A recorded surface of four configs, written to a file."""

from pathlib import Path

from ringtune.bench.surface_file import SCHEMA, RecordedWindow, SurfaceJournal, write_surface
from ringtune.tuner import default_config

HEADER = {
    "schema": SCHEMA,
    "gradient_bytes": [4096, 1 << 20],
    "ranks_per_host": [2],
    "baseline": default_config().to_json(),
    "calls": [],
}
CALLS = [[1 << power, 1e-5 + 1e-9 * (1 << power)] for power in range(10, 24, 2)]
CONFIGS: list[dict[str, int | float]] = [
    {},
    {"cycle_ms": 5.0},
    {"fusion_bytes": 0},
    {"fusion_bytes": 1 << 20, "cycle_ms": 5.0},
]


def surface(folder: Path, slower_by_ms: float = 0.0) -> Path:
    """Write a surface of four configs, the default's steps so much slower."""
    journal = SurfaceJournal(folder / "j", HEADER)
    journal.begin(CALLS)
    for number in range(len(CONFIGS)):
        first_ms = 10.0 + number + slower_by_ms * (number == 0)
        journal.add(RecordedWindow(number, 0, 0, 0.0, (first_ms, first_ms + 1.0)))
    write_surface(folder / "small.jsonl.gz", journal, CONFIGS)
    return folder / "small.jsonl.gz"
