# SPDX-License-Identifier: Apache-2.0
"""Elastic training with TensorFlow and Keras: losses and newcomers do not change the weights."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from ringtune.meeting.rendezvous.roster import RangeRoster
from ringtune.meeting.rendezvous.server import Patience
from tests.integration.forked_ranks import Forked, ForkedProcess
from tests.integration.jobs import DEADLINE_S, JobOf, started_by_fork
from tests.integration.rendezvous_servers import joining, served
from tests.tensorflow.launching import forked
from tests.tensorflow.step_file import wait_for_steps

QUIET_S = 3.0  # forked workers come within milliseconds, on a busy machine within a second
PATIENCE = Patience(meeting_s=DEADLINE_S, grace_s=DEADLINE_S)


def program(way: str, folder: Path, least_ranks: int, first_step: int = 0) -> Forked:
    """Return the program of a worker, which may join after some steps of the others."""
    return forked("elastic", way, str(folder), str(least_ranks), str(first_step))


def check(workers: list[JobOf[ForkedProcess]]) -> None:
    """Check that all workers end with the weights of an undisturbed training."""
    ends = [worker.wait() for worker in workers]
    assert all(end.code == 0 for end in ends), "\n".join(end.text for end in ends)
    expected = [[f"rank {rank} of {len(ends)}: right"] for rank in range(len(ends))]
    assert expected == sorted(end.stdout.splitlines()[-1:] for end in ends)


@pytest.mark.parametrize("way", ["fit", "tape"])
def test_training_goes_on_without_a_lost_worker(tmp_path: Path, way: str) -> None:
    """The survivors restore the last commit."""
    with served(RangeRoster(1, 3, QUIET_S), patience=PATIENCE) as server, ExitStack() as stack:
        environ = joining(server.address)
        workers = [stack.enter_context(started_by_fork(program(way, tmp_path, 1), environ)) for _ in range(3)]
        wait_for_steps(tmp_path / "steps", 10)
        workers.pop().process.kill()
        check(workers)


@pytest.mark.parametrize("way", ["fit", pytest.param("tape", marks=pytest.mark.long)])
def test_a_newcomer_gets_the_state(tmp_path: Path, way: str) -> None:
    """No training of the others is lost, and the newcomer goes on from there."""
    with served(RangeRoster(1, 2, 0.0), patience=PATIENCE) as server, ExitStack() as stack:
        environ = joining(server.address)
        check([stack.enter_context(started_by_fork(program(way, tmp_path, 2, step), environ)) for step in (0, 10)])
