# SPDX-License-Identifier: Apache-2.0
"""Trains for a number of seconds, or until the engine's config has changed for good after a search.

Arguments: seconds; then optionally a file that is there once a verdict was reached.
"""

import sys
import time
from pathlib import Path

import numpy as np

from ringtune import arrays
from tests.integration.plain_rank import say

STEPS_AT_ONCE = 20
arrays.init()
end_s = time.monotonic() + float(sys.argv[1])
verdict = Path(sys.argv[2]) if len(sys.argv) > 2 else None
goes_on = np.ones(1)
while goes_on[0]:
    for _ in range(STEPS_AT_ONCE):
        handles = [arrays.allreduce_async(np.ones(2000), name=f"gradient.{n}") for n in range(6)]
        for handle in handles:
            arrays.synchronize(handle)
        arrays.mark_step()
    is_decided = verdict is not None and '"type": "result"' in verdict.read_text(encoding="utf-8")
    goes_on[:] = time.monotonic() < end_s and not is_decided
    goes_on = arrays.broadcast(goes_on, 0, name="goes on")
say(f"tuning is finished: {arrays.tuning_finished()}")
arrays.shutdown()
