# SPDX-License-Identifier: Apache-2.0
"""Step times of programs that `ringtune tune` launches: one printed line per step, which it reads.

Uses the standard library alone, so that the file can also be copied to where ringtune is not installed. A program in
another language prints the same line: `ringtune: step_ms=12.345`.

On a GPU a step has to wait for the device (`torch.cuda.synchronize()` inside of `step()`), or `took` gets the time
between two events of the device.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class StepReport:
    """Times steps and prints them; ranks other than 0 are silent."""

    def __init__(self, rank: int = 0, *, skip: int = 0, stream: TextIO | None = None) -> None:
        """Prepare.

        Args:
            rank: This process's rank.
            skip: Steps at the beginning that are not printed: caches are cold.
            stream: Output stream; standard output by default.
        """
        self._is_reporter = rank == 0
        self._skip = skip
        self._stream = sys.stdout if stream is None else stream

    @contextmanager
    def step(self) -> Iterator[None]:
        """Time the block inside, and print the time; a step that raises prints none."""
        begin_s = time.perf_counter()
        yield
        self.took((time.perf_counter() - begin_s) * 1e3)

    def took(self, step_ms: float) -> None:
        """Print a step that the program has timed itself, milliseconds."""
        if not self._is_reporter:
            return
        if self._skip > 0:
            self._skip -= 1
            return
        self._write(f"ringtune: step_ms={step_ms:.6g}")

    def result(self, value: float) -> None:
        """Print a result that does not depend on the tuned knobs, such as a loss or a sum of gradients.

        Every launch has to print the same ones: a config whose results differ from the baseline's is given up.
        """
        if self._is_reporter:
            self._write(f"ringtune: result={value:.17g}")

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()
