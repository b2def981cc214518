# SPDX-License-Identifier: Apache-2.0
"""Shows a live line while it prints: lines, a given number, a progress bar that stays, and another line.

The live line is drawn anew after each, as its own thread does now and then: so no step here depends on time.
"""

import os
import sys

from ringtune.tuning.job.live_line import LiveLine, find_screen

STDOUT = 1

screen = find_screen()
assert screen is not None
live = LiveLine(screen)


def write(text: str, below: str) -> None:
    """Write as the training does, and have a live line below it."""
    os.write(STDOUT, text.encode())
    live.show(below)


long_text = f"live {'x' * 200}"
live.show(long_text)
for number in range(int(sys.argv[1])):
    write(f"epoch {number}\n", long_text)
write("\r 50% [#####     ]", long_text)
write("\r 60% [######    ]", "live")
write(" done\n", "live again")
write("last line\n", "live again")
live.close()
live.show("live once more")
live.close()
live.close()
os.write(STDOUT, b"over\n")
