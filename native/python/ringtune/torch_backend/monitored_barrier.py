# SPDX-License-Identifier: Apache-2.0
"""Monitored barrier: rank 0 learns through torch's store which ranks have come, and names the missing ones."""

import time

from ringtune.errors import CollectiveTimeout

from .meeting import Member

_SLACK_S = 10.0  # other ranks wait so much longer for rank 0's word: it may have to wait for all of them in turn
_LOOK_S = 0.002  # between two looks into the store


class MonitoredBarrier:
    """The monitored barriers of one group, in their order."""

    def __init__(self, member: Member) -> None:
        """Serve a group.

        Args:
            member: This rank's part in it.
        """
        self._member = member
        self._number = 0

    def meet(self, limit_s: float, *, waits_for_all: bool) -> None:
        """Return once every rank has come.

        Args:
            limit_s: Longest wait, seconds.
            waits_for_all: Whether rank 0 names every missing rank, and not only the first.

        Raises:
            CollectiveTimeout: If a rank has not come in time; rank 0's names it.
        """
        self._number += 1
        prefix = f"ringtune/monitored/{self._number}"
        if self._member.rank == 0:
            self._collect(prefix, limit_s, waits_for_all=waits_for_all)
        else:
            self._report(prefix, limit_s)

    def _collect(self, prefix: str, limit_s: float, *, waits_for_all: bool) -> None:
        store = self._member.store
        if limit_s <= 0.0:
            raise CollectiveTimeout("Rank 0 timed out in monitoredBarrier after 0 ms; give it more time")
        end_s = time.monotonic() + limit_s
        missing, readers = [], 0
        for rank in range(1, self._member.size):
            if self._has_come(f"{prefix}/{rank}", end_s):
                readers += 1
            else:
                missing.append(rank)
                if not waits_for_all:
                    break
        store.set(f"{prefix}/answer", "missing" if missing else "all")
        end_s = time.monotonic() + _SLACK_S
        while store.add(f"{prefix}/readers", 0) < readers and time.monotonic() < end_s:
            time.sleep(_LOOK_S)  # the store may end with this rank
        if missing:
            names = ", ".join(map(str, missing))
            raise CollectiveTimeout(
                f"Rank{'s' if waits_for_all else ''} {names} failed to pass monitoredBarrier in {limit_s * 1000:.0f} "
                "ms; check the log of each, or raise the timeout"
            )

    def _report(self, prefix: str, limit_s: float) -> None:
        store, rank = self._member.store, self._member.rank
        store.set(f"{prefix}/{rank}", "1")
        key = f"{prefix}/answer"
        answer = store.get(key) if self._has_come(key, time.monotonic() + limit_s + _SLACK_S) else b""
        store.add(f"{prefix}/readers", 1)
        if answer == b"all":
            return
        raise CollectiveTimeout(
            f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
            "rank 0. Please check rank 0 logs for faulty rank."
        )

    def _has_come(self, key: str, end_s: float) -> bool:
        while not self._member.store.check([key]):
            if time.monotonic() >= end_s:
                return False
            time.sleep(_LOOK_S)
        return True
