# SPDX-License-Identifier: Apache-2.0
"""A space of 48 configs in the form of the files that others measured: an eighth of it is invalid or has no row."""

import gzip
import itertools
from pathlib import Path

NAME = "convolution_tiny"
HEADER = "tile,threads,pad,unit,times_ms"


def write_tiny_space(folder: Path, name: str = NAME) -> Path:
    """Write the file below `folder`, and return the folder: 4 tiles, 4 counts of threads, 3 pads, 1 unit."""
    lines = [HEADER]
    for tile, threads, pad in itertools.product((16, 1, 4, 8), (2, 32, 8, 64), (0, 1, 2)):
        if tile == 16 and threads == 64:
            if pad:
                lines.append(f"{tile},{threads},{pad},7,")
            continue  # pad 0 has no row
        ms = 2.0 + 8.0 / tile + 0.1 * threads + pad
        lines.append(f"{tile},{threads},{pad},7,{ms:.2f} {ms + 0.02:.2f} {ms + 0.01:.2f}")
    path = folder / "measured" / f"{name}.csv.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return folder
