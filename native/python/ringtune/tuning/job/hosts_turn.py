# SPDX-License-Identifier: Apache-2.0
"""The turn of a job on several hosts: the lock of every host, or none.

Rank 0 takes its host's lock, and then asks for the others by its beacon; on every other host the first rank tries that
host's lock once and answers by its own. If one is busy, rank 0 gives all of them back and tries again after a random
pause. Two jobs that hold a host of each other therefore do not block each other. The engine's heartbeats carry the
beacons, or the rounds of DDP and FSDP2.
"""

import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from ringtune.errors import RingtuneError
from ringtune.tuner.policy.turn import Turn

from .host_lock import HostLock

IDLE, WANTED, HELD, BUSY = range(4)
"""Beacons: no wish; rank 0 wants the locks; a host's lock is held for the job; it is another job's."""
POLL_S = 0.25  # interval between two looks at a beacon, seconds: that of the heartbeats, which carry them
ASK_LIMIT_S = 5.0  # longest wait for the answers of the hosts, seconds: ten times their usual way
LEAST_PAUSE_S, MOST_PAUSE_S = 1.0, 4.0  # pause after a refusal, seconds; random, so that one of two jobs is first


class Beacons(Protocol):
    """One rank's beacons, such as those of `_engine.Engine`. They may raise `RingtuneError` once the world is over."""

    def set_beacon(self, beacon: int) -> None:
        """Show a number to rank 0; on rank 0 to the ranks that answer."""

    def beacon_of(self, rank: int) -> int:
        """Return the number that a rank shows."""


class HostsTurn:
    """Rank 0's part; see `ringtune.tuner.policy.turn.Turn`."""

    def __init__(
        self,
        lock: HostLock,
        beacons: Beacons,
        leaders: Sequence[int],
        closing: threading.Event,
        limit_s: float = ASK_LIMIT_S,
    ) -> None:
        """Take turns with other jobs on several hosts.

        Args:
            lock: The lock of rank 0's host.
            beacons: Rank 0's.
            leaders: The rank of each other host that answers.
            closing: Set when the job ends.
            limit_s: Longest wait for the answers, seconds.
        """
        self._limit_s = limit_s
        self._lock = lock
        self._beacons = beacons
        self._leaders = tuple(leaders)
        self._closing = closing
        self._is_held = False
        self._next_s = 0.0
        self._random = random.Random()  # noqa: S311  (a pause, not a secret)

    def try_take(self) -> bool:
        """Return whether the job has the locks of all hosts now; takes as long as they need to answer."""
        if self._is_held:
            return True
        try:
            if time.monotonic() < self._next_s or any(self._answers()) or not self._lock.try_take():
                return False
            self._beacons.set_beacon(WANTED)
            self._is_held = self._are_all_held()
        except RingtuneError:  # the world is over
            return False
        if not self._is_held:
            self.release()
            self._next_s = time.monotonic() + self._random.uniform(LEAST_PAUSE_S, MOST_PAUSE_S)
        return self._is_held

    def release(self) -> None:
        """Give the locks of all hosts back; the others learn of it with the next heartbeat."""
        self._is_held = False
        with suppress(RingtuneError):  # the leaders of a world that is over give theirs back by themselves
            self._beacons.set_beacon(IDLE)
        self._lock.release()

    def _are_all_held(self) -> bool:
        """Return whether every host's lock is held; wait until all have answered, or one is busy."""
        end_s = time.monotonic() + self._limit_s
        while time.monotonic() < end_s and not self._closing.wait(POLL_S / 2):
            answers = self._answers()
            if BUSY in answers:
                return False
            if all(answer == HELD for answer in answers):
                return True
        return False

    def _answers(self) -> list[int]:
        return [self._beacons.beacon_of(leader) for leader in self._leaders]


class LockAnswers:
    """Another host's part, on its first rank: a thread that tries the host's lock when rank 0 wants it."""

    def __init__(self, lock: Turn, beacons: Beacons) -> None:
        """Prepare; no lock is taken before `start`.

        Args:
            lock: The lock of this host.
            beacons: This rank's.
        """
        self._lock = lock
        self._beacons = beacons
        self._closing = threading.Event()
        self._answer = IDLE
        self._thread = threading.Thread(target=self._run, name="ringtune-tuning-lock", daemon=True)

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Give the lock back, and answer no more."""
        self._closing.set()
        self._lock.release()

    def _run(self) -> None:
        with suppress(RingtuneError):  # the world is over
            while not self._closing.wait(POLL_S):
                self.look()
        self._lock.release()

    def look(self) -> None:
        """Answer the wish of rank 0."""
        is_wanted = self._beacons.beacon_of(0) == WANTED
        if is_wanted and self._answer == IDLE:
            self._answer = HELD if self._lock.try_take() else BUSY
        elif not is_wanted and self._answer != IDLE:
            self._lock.release()
            self._answer = IDLE
        self._beacons.set_beacon(self._answer)
