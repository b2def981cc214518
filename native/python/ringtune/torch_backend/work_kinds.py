# SPDX-License-Identifier: Apache-2.0
"""Works that are no calls of a whole group: messages, and several works in one."""

from datetime import timedelta

from ringtune.errors import RingtuneError

from .works import EngineWork, FutureKeeper


class MessageWork(EngineWork):
    """A message; knows its sender."""

    source = -1
    sources: list[int] | None = None

    def _source_rank(self) -> int:
        return self.sources[0] if self.sources else self.source

    source_rank = _source_rank


class Unnumbered:
    """Surroundings of messages, which are not calls of the whole group; see `works.Surroundings`."""

    def __init__(self, futures: FutureKeeper) -> None:
        """Serve messages.

        Args:
            futures: Keeper of the futures that no caller drives.
        """
        self.futures = futures

    def check(self) -> None:
        """Return at once: a message concerns two ranks alone, so that there is no comparison."""

    def explained(self, work: EngineWork, error: RingtuneError) -> RingtuneError:
        """Return the error as it is."""
        del work
        return error

    def forget(self, work: EngineWork) -> None:
        """Keep no list."""


class Together(EngineWork):
    """Several works that are waited for together."""

    def _pursue(self, limit_s: float | None) -> None:
        timeout = None if limit_s is None else timedelta(seconds=limit_s)
        for work in self._pending:
            work.wait(timeout)  # type: ignore[attr-defined]
        self._end(None)

    def try_to_end(self) -> bool:
        """See `EngineWork`."""
        if not self._is_over and all(work.is_completed() for work in self._pending):  # type: ignore[attr-defined]
            self.wait()
        return self._is_over
