# SPDX-License-Identifier: Apache-2.0
"""Ranks that stop, die, fork or never come: every case ends, with an error that names the event."""

import os
import re
import signal
from pathlib import Path

import pytest

from tests.integration.jobs import launched, launched_by, program, ranks, ringtune, run_job, started, wait_for_line
from tests.waiting import wait_until


def latenesses(text: str) -> list[float]:
    """Return the seconds after which survivors heard of a loss."""
    return [float(seconds) for seconds in re.findall(r"after ([0-9.]+) s", text)]


def test_a_tensor_that_one_rank_never_submits_ends_with_its_name() -> None:
    """First a warning, then an error on every rank, naming tensor, missing rank, limit and variable."""
    environ = {"RINGTUNE_STALL_WARN_S": "0.5", "RINGTUNE_TIMEOUT_S": "8"}

    finished = run_job(launched(2, "never_submitted"), environ)

    assert 0 == finished.code, finished.text
    assert "warning" in finished.stderr, finished.text
    assert "only_on_rank_0" in finished.stderr, finished.text
    for rank in (0, 1):
        (line,) = [line for line in finished.stdout.splitlines() if line.startswith(f"rank {rank} timed out")]
        assert "RINGTUNE_TIMEOUT_S" in line
        assert "'only_on_rank_0' waits for rank 1" in line, line


def test_a_rank_that_is_busy_elsewhere_is_one_warning(tmp_path: Path) -> None:
    """The warning names the rank, a tensor of the user's and their number; none that the optimizer itself sends."""
    go, stderr = tmp_path / "go", tmp_path / "out" / "rank.0" / "stderr"
    command = ringtune("run", "-np", "2", "--output-filename", str(tmp_path / "out"))
    with started([*command, *program("busy_elsewhere", str(go))], {"RINGTUNE_STALL_WARN_S": "4"}) as job:
        wait_until(lambda: stderr.exists() and "for rank 1 " in stderr.read_text("utf-8"))
        go.touch()
        finished = job.wait()

    assert 0 == finished.code, finished.text
    (warning,) = [line for line in finished.stderr.splitlines() if "warning" in line]
    assert "2 tensors, 'gradient." in warning, warning
    assert "and others, wait for rank 1 (1 of 2 ranks have submitted them)" in warning, warning
    assert "optimizer" not in warning, warning


def test_a_killed_rank_is_noticed_long_before_the_limit(tmp_path: Path) -> None:
    """Survivors get PeerLostError, now and on later calls; the launcher's code is the killed rank's."""
    finished = run_job(launched_by("patient_launcher", launched(3, "lost_rank", "SIGKILL", str(tmp_path / "moment"))))

    assert 128 + signal.SIGKILL == finished.code, finished.text
    assert 2 == len(re.findall(r"got PeerLostError after", finished.stdout)), finished.text
    assert 2 == len(re.findall(r"then got PeerLostError", finished.stdout)), finished.text
    assert max(latenesses(finished.stdout)) < 22.0, finished.text
    assert "rank 1 of 3" in finished.stderr
    assert "was killed by SIGKILL" in finished.stderr


def test_the_engine_refuses_to_work_in_a_forked_child() -> None:
    """A child gets ForkedProcessError for every call, and its end does not disturb the parent."""
    finished = run_job(launched(2, "forked_child"))

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("the parent goes on"), finished.text


def test_a_data_loader_may_fork_workers() -> None:
    """Worker processes of a data loader live beside the engine."""
    finished = run_job(ranks(2, "data_loader"))

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("trained"), finished.text


def test_a_killed_rank_is_noticed_although_its_workers_live(tmp_path: Path) -> None:
    """A data loader's workers hold none of their parent's descriptors, and do not survive the job."""
    finished = run_job(launched_by("patient_launcher", launched(2, "data_loader", str(tmp_path / "moment"))))

    assert 128 + signal.SIGKILL == finished.code, finished.text
    (line,) = [line for line in finished.stdout.splitlines() if line.startswith("lost after")]
    assert latenesses(line)[0] < 22.0, finished.text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_survives_the_launcher(tmp_path: Path, number: signal.Signals) -> None:
    """However the launcher ends, ranks and their processes end with it.

    A killed launcher takes the ranks with it; the processes of these are then on their own.
    """
    with started(launched(2, "sleeper", str(tmp_path))) as job:
        for rank in range(2):
            wait_for_line(tmp_path / f"ready.{rank}")

        os.kill(job.process.pid, number)
        if number == signal.SIGKILL:
            end_orphans(job.processes())
        finished = job.wait()

    assert finished.code == (-number if number == signal.SIGKILL else 128 + number), finished.text


@pytest.mark.parametrize("code", [0, 1])
def test_what_a_rank_started_ends_with_the_job(code: int) -> None:
    """A process that a rank left in the background does not survive the job, however the rank ended."""
    script = f"sleep 600 >/dev/null 2>&1 & exit {code}"

    finished = run_job(ringtune("run", "-np", "2", "sh", "-c", script))

    assert code == finished.code, finished.text


def end_orphans(pids: list[int]) -> None:
    """End the `sleep` processes, which no launcher can end any more."""
    for pid in pids:
        try:
            is_orphan = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "sleep"
        except OSError:
            continue
        if is_orphan:
            os.kill(pid, signal.SIGKILL)
