# SPDX-License-Identifier: Apache-2.0
"""One thread for the tuner's algebra: its matrices are tiny, and a second thread only spins, at the expense of the job.

The limit is the process's. Where two designers compute at the same time, the first sets it and the last takes it back.
The libraries are looked for once: to find them takes longer than much of what is computed under the limit. From 3.8 on
threadpoolctl lets one thread alone set limits and ignores all others without a word, although the limit is everybody's:
so each that sets it takes control first.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import scipy.linalg  # noqa: F401  (its library must be loaded before libraries are looked for)
import threadpoolctl


class SharedLimit:
    """A limit to one thread that several threads may want at once."""

    def __init__(self) -> None:
        """Begin without users; the libraries that are loaded now are the ones that will be limited."""
        self._libraries = threadpoolctl.ThreadpoolController()
        self._lock = threading.Lock()
        self._users = 0
        self._limits: Any = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep to one thread while the block lasts."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                _take_control()
                self._limits = self._libraries.limit(limits=1, user_api="blas")
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    _take_control()
                    self._limits.restore_original_limits()


def _take_control() -> None:
    """Let this thread set limits, also where another has set some before."""
    give_up = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if give_up is not None:
        give_up(force=True)


ONE_BLAS_THREAD = SharedLimit()
