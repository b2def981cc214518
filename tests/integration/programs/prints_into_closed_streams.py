# SPDX-License-Identifier: Apache-2.0
"""Joins without the standard streams that it closes first, lets C code print to them, and checks every sum.

Arguments: file to say it in, and the descriptors to close before the first `init()`. Joins twice, with a process set
and a timeline; descriptor 2 is closed again before the second time.
"""

import ctypes
import os
import sys
from pathlib import Path

from ringtune.session.process_sets import ProcessSet
from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce

STEPS = 200
NOISE = b"a C library warns " + b"x" * 4000


def streams() -> list[str]:
    """Return the kinds of descriptors 0 to 2."""
    return [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]  # noqa: PTH115  (a link of the kernel's)


def main(report: Path, closed: list[int]) -> None:
    """Print, reduce, and report the findings."""
    libc = ctypes.CDLL(None)
    found: list[str] = []
    wrong = 0
    for numbers in (closed, [2]):
        for number in numbers:
            os.close(number)
        SESSION.init([ProcessSet([0])])
        found += streams()
        world = SESSION.require()
        for _ in range(STEPS):
            libc.perror(NOISE)
            wrong += allreduce(world, "gradient", [1.0] * 1000) != [float(world.size)] * 1000
        SESSION.shutdown()
    report.write_text(f"{wrong} wrong; {' '.join(found)}\n", encoding="utf-8")


main(Path(f"{sys.argv[1]}.{os.environ['RINGTUNE_RANK']}"), [int(number) for number in sys.argv[2:]])
