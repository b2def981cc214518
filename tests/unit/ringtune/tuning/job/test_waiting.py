# SPDX-License-Identifier: Apache-2.0
"""A job that waits for its turn: the config that it trains with, its lines, and the end of the wait."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ringtune.system.console import Console
from ringtune.tuner import Config, KeepingLog, RunSettings, StudyStore, default_config, search_space
from ringtune.tuner.testing import Disturbances, SyntheticTarget, poor_baseline
from ringtune.tuning.job import waiting as module
from ringtune.tuning.job.memory import Memory
from ringtune.tuning.job.tuning_end import TuningEnd
from ringtune.tuning.job.waiting import Standby, TurnWait
from tests.unit.tuner.recording import tune

KEY = {"hardware": "h", "model": "m", "layout": [2], "target": "ringtune", "surface_version": 1}
OTHER = "another job of this host (pid 12)"


@dataclass
class CountedTurn:
    """A turn that comes at an attempt.

    Attributes:
        comes_at: Number of the attempt, from 1; 0 for never.
        closing: Set after `most` attempts, as if the job had ended.
        most: See above.
    """

    comes_at: int
    closing: TuningEnd = field(default_factory=TuningEnd)
    most: int = 5
    attempts: int = 0

    def try_take(self) -> bool:
        """Count an attempt."""
        self.attempts += 1
        if self.attempts >= self.most:
            self.closing.set()
        return self.attempts == self.comes_at

    def release(self) -> None:
        """Ignore it, as no lock is held."""


class People:
    """Notes all lines, and marks those that stay on the terminal.

    Attributes:
        said: The lines.
    """

    def __init__(self) -> None:
        self.said: list[str] = []

    def waiting(self, text: str) -> None:
        """Note a line that another one may replace."""
        self.said.append(text)

    def warned(self, text: str) -> None:
        """Note a line that stays."""
        self.said.append(f"stays: {text}")


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for the turn as fast as possible."""
    monkeypatch.setattr(module, "POLL_S", 0.001)


def adopted_in(store: StudyStore, *, run_id: str = "run", key: dict[str, object] = KEY) -> Config:
    """Put a run that has adopted a config into a file; return the config."""
    log = KeepingLog()
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=Disturbances(step_noise=0.002), seed=1)
    outcome = tune(target, settings=RunSettings(run_id=run_id, key=key), log=log)
    assert outcome.result.adopted, outcome.result.verdict
    store.keep(log.finished_run())
    return outcome.result.config


def wait(turn: CountedTurn, store: StudyStore, target: SyntheticTarget, holders: list[str]) -> tuple[bool, list[str]]:
    """Wait for a turn; return whether it came, and the lines of the display."""
    people = People()
    waiting = TurnWait(turn, Memory(store, Console(0)), people, turn.closing)
    came = waiting.wait(lambda: Standby(target, KEY), lambda: holders.pop(0) if len(holders) > 1 else holders[0])
    return came, people.said


@pytest.fixture
def target() -> SyntheticTarget:
    """A job with a poor default."""
    return SyntheticTarget(baseline=poor_baseline(), seed=2)


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    """A file without runs."""
    return StudyStore(tmp_path / "studies.jsonl")


def test_a_job_whose_turn_it_is_says_nothing(store: StudyStore, target: SyntheticTarget) -> None:
    """No other job tunes: the search begins at once."""
    assert (True, []) == wait(CountedTurn(1), store, target, [OTHER])


def test_without_a_decision_it_trains_with_the_default(store: StudyStore, target: SyntheticTarget) -> None:
    """One line says so, and another one that the turn has come."""
    came, lines = wait(CountedTurn(4), store, target, [OTHER])

    assert came
    assert f"{OTHER} is tuning; this one waits its turn, training with the default" == lines[0]
    assert lines[1].startswith("the turn of this job has come after")
    assert 2 == len(lines)
    assert poor_baseline() == target.applied[-1]


def test_it_trains_with_what_an_earlier_run_has_adopted(store: StudyStore, target: SyntheticTarget) -> None:
    """The same question was answered on this machine by a paired test."""
    adopted = adopted_in(store)

    _, lines = wait(CountedTurn(2), store, target, [OTHER])

    assert adopted == target.applied[-1]
    assert "training with what an earlier run has adopted: fusion_bytes" in lines[0]


@pytest.mark.parametrize("changed", [{"hardware": "i"}, {"model": "n"}, {"layout": [4]}])
def test_what_was_adopted_elsewhere_is_not_enough(
    store: StudyStore, target: SyntheticTarget, changed: dict[str, object]
) -> None:
    """Another machine, model or layout: no test has shown a gain here."""
    adopted_in(store, key={**KEY, **changed})

    _, lines = wait(CountedTurn(2), store, target, [OTHER])

    assert poor_baseline() == target.applied[-1]
    assert lines[0].endswith("training with the default")


def test_a_decision_that_comes_meanwhile_is_taken_over(store: StudyStore, target: SyntheticTarget) -> None:
    """The first job decides, and a third one has its turn: this one trains with the decision from then on."""
    found: list[Config] = []

    class Deciding(CountedTurn):
        def try_take(self) -> bool:
            if self.attempts == 2:
                found.append(adopted_in(store))
            return super().try_take()

    _, lines = wait(Deciding(0), store, target, [OTHER, OTHER, OTHER, OTHER, "another job of this host (pid 13)"])

    assert found[0] == target.applied[-1]
    assert 3 == len(lines)
    assert "(pid 13) is tuning" in lines[1]
    assert "has trained with what an earlier run has adopted: fusion_bytes" in lines[2]


def test_a_job_that_ends_first_has_no_turn(store: StudyStore, target: SyntheticTarget) -> None:
    """No search begins; its last line stays on the terminal, and names the tuning job and its own config."""
    came, lines = wait(CountedTurn(0), store, target, [OTHER])

    assert not came
    assert 2 == len(lines)
    last = (
        rf"stays: the turn of this job never came in \d+ s, for {re.escape(OTHER)} was tuning; it was not tuned, and "
        "has trained with the default"
    )
    assert re.fullmatch(last, lines[1])


def test_a_job_with_nothing_to_tune_waits_for_nobody(store: StudyStore) -> None:
    """Its run ends before it measures anything."""
    fixed = search_space(dict(default_config()), default_config())

    assert (True, []) == wait(CountedTurn(0), store, SyntheticTarget(space=fixed), [OTHER])


def test_a_damaged_file_costs_one_warning(
    store: StudyStore, target: SyntheticTarget, capfd: pytest.CaptureFixture[str]
) -> None:
    """However often it is read."""
    adopted_in(store)
    with store.path.open("ab") as file:
        file.write(b"nonsense\n")

    wait(CountedTurn(0), store, target, [OTHER, "a", "b", "c", "d", "e"])

    assert 1 == capfd.readouterr().err.count("is damaged")
