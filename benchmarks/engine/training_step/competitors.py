# SPDX-License-Identifier: Apache-2.0
"""Competing processes: a known load beside a measurement."""

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

PERIOD_S = 0.02
"""Period in which a competing process computes for its share, seconds."""


def compute(duty: float) -> None:
    """Compute for a share of every period, for ever."""
    while True:
        begun_s = time.perf_counter()
        while time.perf_counter() - begun_s < duty * PERIOD_S:
            pass
        time.sleep((1 - duty) * PERIOD_S)


@contextmanager
def competitors(duty: float) -> Iterator[None]:
    """Run a competing process per core meanwhile; none where `duty` is 0.

    Args:
        duty: Share of a core that each of them uses, 0 to 1.
    """
    context = multiprocessing.get_context("spawn")
    count = len(os.sched_getaffinity(0)) if duty > 0 else 0
    processes = [context.Process(target=compute, args=(duty,), daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()
