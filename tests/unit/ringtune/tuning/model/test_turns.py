# SPDX-License-Identifier: Apache-2.0
"""Turns of a PyTorch job on several hosts: beacons that travel in rounds."""

import threading
from pathlib import Path

import pytest

from ringtune.tuning.job import hosts_turn
from ringtune.tuning.job.host_lock import HostLock
from ringtune.tuning.job.hosts_turn import BUSY, HELD, IDLE, WANTED, HostsTurn, LockAnswers
from ringtune.tuning.model.rounds import Round
from ringtune.tuning.model.turns import RoundBeacons, TurnWords

WORLD = 5


class Rounds:
    """Rounds of a job of five ranks on three hosts, in a thread, until it is closed.

    Attributes:
        ranks: Each rank's beacons; ranks 2 and 4 answer for their hosts.
    """

    def __init__(self, hosts: list[Path]) -> None:
        self.ranks = [RoundBeacons(rank) for rank in range(WORLD)]
        for rank, host in zip((2, 4), hosts[1:], strict=True):
            self.ranks[rank].answers = LockAnswers(HostLock(host, pytest.fail), self.ranks[rank])
        self.closing = threading.Event()
        self.turn = HostsTurn(HostLock(hosts[0], pytest.fail), self.ranks[0], [2], self.closing, 60.0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self.closing.wait(0.001):
            rounds = [Round(1, None, None, beacons.words()).words(WORLD, 2) for beacons in self.ranks]
            agreed = Round.from_words([max(words) for words in zip(*rounds, strict=True)], WORLD)
            for beacons in self.ranks:
                beacons.agree(agreed.beacons)
        for beacons in self.ranks:
            beacons.leave()

    def close(self) -> None:
        """End the rounds."""
        self.turn.release()
        self.closing.set()
        self._thread.join(60)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often, and pause for a moment."""
    monkeypatch.setattr(hosts_turn, "POLL_S", 0.002)
    monkeypatch.setattr(hosts_turn, "LEAST_PAUSE_S", 0.001)
    monkeypatch.setattr(hosts_turn, "MOST_PAUSE_S", 0.01)


def wait_for(turn: HostsTurn) -> None:
    """Ask until the turn comes; the test's own limit ends it else."""
    event = threading.Event()
    while not turn.try_take():
        event.wait(0.001)


def test_the_turn_comes_when_every_host_is_free(tmp_path: Path) -> None:
    """Another job holds one of three hosts: the turn comes once that one is free, and has all of them then."""
    hosts = [tmp_path / str(number) for number in range(3)]
    other = HostLock(hosts[2], pytest.fail)
    assert other.try_take()
    rounds = Rounds(hosts)
    try:
        refused = [rounds.turn.try_take() for _ in range(3)]
        other.release()
        wait_for(rounds.turn)
        held = [not HostLock(host, pytest.fail).try_take() for host in hosts]
    finally:
        rounds.close()

    assert [False] * 3 == refused
    assert [True] * 3 == held
    assert all(HostLock(host, pytest.fail).try_take() for host in hosts)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [((HELD, HELD), HELD), ((HELD, BUSY), BUSY), ((IDLE, HELD), WANTED), ((IDLE, IDLE), IDLE), ((BUSY, IDLE), BUSY)],
)
def test_the_hosts_answer_as_one(answers: tuple[int, int], expected: int) -> None:
    """Held if all are, busy if one is."""
    turns = [TurnWords(wanted=WANTED), TurnWords(), *(TurnWords(most=answer, least=answer) for answer in answers)]

    merged = TurnWords.from_words([max(words) for words in zip(*(one.words() for one in turns), strict=True)])

    assert (WANTED, expected) == (merged.wanted, merged.answer)
