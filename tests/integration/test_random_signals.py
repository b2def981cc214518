# SPDX-License-Identifier: Apache-2.0
"""Signals at random moments, to a rank or to the launcher: the right exit code, and no process is left."""

import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.jobs import Job, launched, started, wait_for_line

RANKS = 2
LIMIT_S = 15
TUNED = {"AUTOTUNE": "1", "AUTOTUNE_CACHE": "0"}
AFTER_S = 1.5
"""Longest time from the first step, or from the launch, to the signal."""
ERRORS = {1, 3}
"""Exit codes of a rank that has got an error because another does not go on."""
SHORT, LONG = 6, 60


@dataclass(frozen=True)
class Strike:
    """One signal.

    Attributes:
        number: The signal.
        is_for_launcher: Whether the launcher gets it, or a rank.
        is_early: Whether it comes before the ranks have met.
        delay_s: Time from the launch, or from the first step, to the signal.
        is_tuned: Whether the job tunes itself.
    """

    number: signal.Signals
    is_for_launcher: bool
    is_early: bool
    delay_s: float
    is_tuned: bool

    @classmethod
    def drawn(cls, seed: int) -> "Strike":
        """Return the strike of a seed; consecutive seeds go through all signals, and a third of the jobs is tuned."""
        drawn = random.Random(seed)
        numbers = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP]
        number = numbers[seed % len(numbers)]
        is_for_launcher = number != signal.SIGSTOP and drawn.random() < 0.5
        return cls(number, is_for_launcher, drawn.random() < 0.3, drawn.uniform(0, AFTER_S), seed % 3 == 0)

    @property
    def codes(self) -> set[int]:
        """Exit codes of the launcher that are right."""
        if self.number == signal.SIGSTOP:
            return ERRORS
        if self.is_for_launcher and self.number == signal.SIGKILL:
            return {-signal.SIGKILL}
        interrupted = {128 + self.number}
        if self.number == signal.SIGINT and not self.is_for_launcher:
            return (
                interrupted | ERRORS
            )  # an interrupted rank leaves politely, and another one may fail before it has left
        return interrupted


def processes_of(job: Job) -> list[int]:
    """Return the job's processes besides the launcher, once a rank has been started."""
    while not (found := [pid for pid in job.processes() if pid != job.process.pid]):
        time.sleep(0.01)  # the launcher has not come so far
    return found


@pytest.mark.parametrize(
    "seed",
    [*range(SHORT), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(SHORT, LONG))],
)
def test_a_signal_at_a_random_moment_ends_the_job(tmp_path: Path, seed: int) -> None:
    """`started` finds no process, socket or file of the job afterwards."""
    strike = Strike.drawn(seed)
    environ = {"RINGTUNE_TIMEOUT_S": str(LIMIT_S), **(TUNED if strike.is_tuned else {})}

    with started(launched(RANKS, "steps_for_ever", str(tmp_path)), environ) as job:
        victims = processes_of(job)
        if not strike.is_early:
            ready = [tmp_path / f"ready.{rank}" for rank in range(RANKS)]
            victims = [int(wait_for_line(file)) for file in ready]
        time.sleep(strike.delay_s)
        victim = job.process.pid if strike.is_for_launcher else random.Random(seed).choice(victims)
        os.kill(victim, strike.number)
        finished = job.wait()

    assert finished.code in strike.codes, f"{strike}\n{finished.text}"
