# SPDX-License-Identifier: Apache-2.0
"""The turn of a job on several hosts: all locks or none, and no deadlock between jobs that share hosts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ringtune.errors import EngineError
from ringtune.tuning.job import hosts_turn as module
from ringtune.tuning.job.host_lock import HostLock
from ringtune.tuning.job.hosts_turn import HostsTurn, LockAnswers


@dataclass
class Beacons:
    """The heartbeats of one job.

    Attributes:
        shown: Each rank's number.
        is_over: True once the world is over.
    """

    shown: dict[int, int] = field(default_factory=dict)
    is_over: bool = False


@dataclass
class RankEngine:
    """One rank's engine.

    Attributes:
        rank: Its number.
        beacons: Those of its job.
    """

    rank: int
    beacons: Beacons

    def set_beacon(self, beacon: int) -> None:
        """Show a number."""
        if self.beacons.is_over:
            raise EngineError("the world is over")
        self.beacons.shown[self.rank] = beacon

    def beacon_of(self, rank: int) -> int:
        """Return a rank's number."""
        if self.beacons.is_over:
            raise EngineError("the world is over")
        return self.beacons.shown.get(rank, 0)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often, and pause for a moment."""
    monkeypatch.setattr(module, "POLL_S", 0.002)
    monkeypatch.setattr(module, "LEAST_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "MOST_PAUSE_S", 0.05)


@dataclass
class Job:
    """A job on several hosts, each with a lock file.

    Attributes:
        turn: Turn of rank 0.
        answers: Answers of the other hosts.
        beacons: Heartbeats between them.
    """

    turn: HostsTurn
    answers: list[LockAnswers]
    beacons: Beacons


@contextmanager
def job_on(hosts: list[Path], name: str = "") -> Iterator[Job]:
    """Start a job whose rank 0 is on the first of `hosts`."""
    beacons = Beacons()
    locks = [HostLock(host, pytest.fail, name) for host in hosts]
    ranks = range(1, len(hosts))
    answers = [LockAnswers(locks[rank], RankEngine(rank, beacons)) for rank in ranks]
    turn = HostsTurn(locks[0], RankEngine(0, beacons), ranks, threading.Event())
    for answer in answers:
        answer.start()
    try:
        yield Job(turn, answers, beacons)
    finally:
        turn.release()
        for answer in answers:
            answer.stop()


def is_free(host: Path) -> bool:
    """Return whether a host's lock is free."""
    lock = HostLock(host, pytest.fail)
    try:
        return lock.try_take()
    finally:
        lock.release()


def wait_for(turn: HostsTurn) -> None:
    """Ask until the turn comes; the test's own limit ends it else."""
    event = threading.Event()
    while not turn.try_take():
        event.wait(0.001)


def wait_until_free(host: Path) -> None:
    """Look until a host's lock is free."""
    event = threading.Event()
    while not is_free(host):
        event.wait(0.001)


@pytest.fixture
def hosts(tmp_path: Path) -> list[Path]:
    """Lock files of three hosts."""
    return [tmp_path / f"host{number}" for number in range(3)]


def test_a_turn_has_the_locks_of_all_hosts(hosts: list[Path]) -> None:
    """All are held until the turn is given up, and free soon after."""
    with job_on(hosts) as job:
        wait_for(job.turn)
        held = [not is_free(host) for host in hosts]
        job.turn.release()
        for host in hosts:
            wait_until_free(host)

    assert [True] * 3 == held


def test_one_busy_host_makes_all_others_free(hosts: list[Path]) -> None:
    """Another job tunes on the last host: this one holds none while it waits, and gets its turn afterwards."""
    other = HostLock(hosts[2], pytest.fail)
    assert other.try_take()
    with job_on(hosts) as job:
        assert not any(job.turn.try_take() for _ in range(5))
        for host in hosts[:2]:
            wait_until_free(host)
        other.release()
        wait_for(job.turn)

        assert not any(map(is_free, hosts))


def test_jobs_that_share_hosts_all_get_their_turn(hosts: list[Path]) -> None:
    """Three jobs begin on different hosts of a circle, and each has all three: none waits for ever, none is beside."""
    inside, beside, turns = threading.Lock(), [], [0, 0, 0]

    def take_turns(number: int) -> None:
        with job_on(hosts[number:] + hosts[:number]) as job:
            for _ in range(4):
                wait_for(job.turn)
                if not inside.acquire(blocking=False):
                    beside.append(number)
                    return
                turns[number] += 1
                inside.release()
                job.turn.release()

    threads = [threading.Thread(target=take_turns, args=(number,), daemon=True) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert [] == beside
    assert [4, 4, 4] == turns


def test_hosts_on_one_machine_share_its_lock(tmp_path: Path) -> None:
    """RINGTUNE_TRANSPORT=tcp makes every rank a host: the job does not wait for itself, and others do for it."""
    machine = tmp_path / "machine"
    with job_on([machine] * 3, "a job") as job, job_on([machine] * 2, "another job") as other:
        wait_for(job.turn)
        assert not any(other.turn.try_take() for _ in range(5))
        job.turn.release()
        wait_for(other.turn)


def test_a_world_that_is_over_holds_nothing(hosts: list[Path]) -> None:
    """The answering ranks give their locks back by themselves, and rank 0 asks no more."""
    with job_on(hosts) as job:
        wait_for(job.turn)
        job.beacons.is_over = True
        for host in hosts[1:]:
            wait_until_free(host)
        job.turn.release()

        assert not job.turn.try_take()
        assert is_free(hosts[0])
