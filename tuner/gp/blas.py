# SPDX-License-Identifier: Apache-2.0
"""One thread for the tuner's algebra: its matrices are tiny, and a second thread only spins, at the expense of the job.

The limit is the process's. Where two designers compute at the same time, the first sets it and the last takes it back.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits


class SharedLimit:
    """A limit to one thread that several threads may want at once."""

    def __init__(self) -> None:
        """Begin without users."""
        self._lock = threading.Lock()
        self._users = 0
        self._limits: Any = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep to one thread while the block lasts."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._limits = threadpool_limits(1, user_api="blas")
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._limits.restore_original_limits()


ONE_BLAS_THREAD = SharedLimit()
