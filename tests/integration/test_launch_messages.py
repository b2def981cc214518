# SPDX-License-Identifier: Apache-2.0
"""Signals that tell a job something, without ending it: the launcher passes them on to the ranks of all hosts."""

import os
import signal
from pathlib import Path

import pytest

from tests.integration.jobs import program, started, wait_for_line
from tests.integration.remote_shells import CALLS, ONE, READY, WAIT, launch, lines_of, wait_until_ready


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGQUIT, signal.SIGRTMIN + 3])
def test_a_message_reaches_every_rank_and_the_job_goes_on(tmp_path: Path, number: int) -> None:
    """A scheduler's warning is passed on to all hosts; their reaction, and the exit code, is theirs."""
    script = f"trap 'echo got it; exit 0' {int(number)}; {READY} {WAIT}"

    with started(launch(tmp_path, f"localhost,{ONE}", 2, script)) as job:
        wait_until_ready(tmp_path, 2)
        os.kill(job.process.pid, number)
        finished = job.wait()

    assert 0 == finished.code, finished.text
    assert [["got it"]] * 2 == [lines_of(rank, finished.stdout) for rank in range(2)]


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGXCPU])
def test_a_message_is_for_the_process_that_joined(tmp_path: Path, number: int) -> None:
    """A signal that they do not know ends neither the shell that started the process nor its children."""
    script = f"{' '.join(program('heeds_signal'))} $0; exit $?"

    with started(launch(tmp_path, f"localhost,{ONE}", 2, script)) as job:
        wait_until_ready(tmp_path, 2)
        os.kill(job.process.pid, number)
        finished = job.wait()

    assert 0 == finished.code, finished.text
    assert [[f"heard {int(number)}, the child lives"]] * 2 == [lines_of(rank, finished.stdout) for rank in range(2)]


def test_a_message_that_ends_the_ranks_is_their_failure(tmp_path: Path) -> None:
    """A rank without a handler dies of it, as it would without a launcher, and is named."""
    with started(launch(tmp_path, "localhost:2", 2, f"{READY} exec sleep 600")) as job:
        wait_until_ready(tmp_path, 2)
        os.kill(job.process.pid, signal.SIGUSR1)
        finished = job.wait()

    assert 128 + signal.SIGUSR1 == finished.code, finished.text
    assert "was killed by SIGUSR1, the first to fail" in finished.stderr


def test_a_message_before_any_rank_runs_does_not_end_the_launcher(tmp_path: Path) -> None:
    """A warning has no rank to go to yet; SIGQUIT ends the wait for hosts."""
    with started(launch(tmp_path, "hanging@127.0.0.4", 1, "true", "--start-timeout", "600")) as job:
        wait_for_line(tmp_path / CALLS)
        os.kill(job.process.pid, signal.SIGUSR1)
        os.kill(job.process.pid, signal.SIGQUIT)
        finished = job.wait()

    assert 128 + signal.SIGQUIT == finished.code, finished.text
