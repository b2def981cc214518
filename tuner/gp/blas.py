# SPDX-License-Identifier: Apache-2.0
"""Limit of the tuner's linear algebra to one BLAS thread.

The matrices are tiny: a second thread only spins and takes processor time from the training job.

The limit applies to the whole process. If several designers compute at the same time, the first sets the limit and the
last restores the original one. The BLAS libraries are searched for only once, because the search often takes longer
than the computation under the limit. threadpoolctl 3.8 and later accepts limits from one controlling thread only and
silently ignores the others, so each thread takes control before it sets the limit.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import scipy.linalg  # noqa: F401  (loads the BLAS library, which the controller must find)
import threadpoolctl


class SharedLimit:
    """Reference-counted limit to one BLAS thread, shared by concurrent users."""

    def __init__(self) -> None:
        """Start without users; the limit covers the libraries that are loaded now."""
        self._libraries = threadpoolctl.ThreadpoolController()
        self._lock = threading.Lock()
        self._users = 0
        self._limits: Any = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Limit BLAS to one thread inside the `with` block."""
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
    """Make this thread the controlling one, even if another thread set limits before."""
    give_up = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if give_up is not None:
        give_up(force=True)


ONE_BLAS_THREAD = SharedLimit()
