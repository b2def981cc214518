# SPDX-License-Identifier: Apache-2.0
"""Limits of elastic jobs: below the smallest number and back, the number of resets; and where their output goes."""

import os
import signal
import sys
from pathlib import Path

from tests.integration.elastic_jobs import elastic_job
from tests.integration.jobs import wait_for_line


def test_a_job_below_its_smallest_number_waits_and_goes_on(tmp_path: Path) -> None:
    """The survivor keeps its step until the lost worker's successor is there."""
    with elastic_job(tmp_path, "-np", "2", "--min-np", "2", "--max-np", "2") as job:
        world = job.until_size(2)
        job.kill(world[1])
        again = job.until_replaced(world[1])
        finished = job.finish()

    assert 0 == finished.code, finished.text
    assert world[0].pid == again[0].pid
    assert 2 == finished.stderr.count("2 workers meet")


def test_no_more_resets_than_allowed(tmp_path: Path) -> None:
    """A second loss ends the job; new workers were not taken in after the first."""
    with elastic_job(tmp_path, "-np", "3", "--min-np", "1", "--reset-limit", "1") as job:
        first, second, _ = job.until_size(3)
        step = job.kill(first)
        job.until_size(2, after_step=step)
        job.kill(second)
        finished = job.job.wait()

    assert 1 == finished.code, finished.text
    assert "the job has failed: its workers have changed once more than --reset-limit 1 allows" in finished.stderr
    assert "Started: 3 workers, 1 reset;" in finished.stderr


def test_lines_have_the_number_of_their_worker_and_files_too(tmp_path: Path) -> None:
    """The number stays, whatever becomes of the rank."""
    output = tmp_path / "output"
    with elastic_job(tmp_path, "-np", "2", "--min-np", "1", "--output-filename", str(output)) as job:
        first, second = job.until_size(2)
        job.kill(first)
        job.until_replaced(first)
        finished = job.finish()

    lines = (output / f"worker.{second.worker}" / "stdout").read_text(encoding="utf-8").splitlines()
    assert 0 == finished.code, finished.text
    assert lines == [
        line.removeprefix(f"[{second.worker}] ")
        for line in finished.stdout.splitlines()
        if line.startswith(f"[{second.worker}] ")
    ]
    assert "rank 0 of " in "".join(lines)


def test_a_message_to_the_launcher_reaches_the_workers(tmp_path: Path) -> None:
    """SIGUSR1, by which schedulers tell that the time is nearly over, goes to the process that is the worker."""
    text = (
        "import pathlib, signal, sys, time\n"
        "from ringtune.session.session import SESSION\n"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))\n"
        "SESSION.init()\n"
        f"pathlib.Path('{tmp_path}', f'ready.{{SESSION.require().rank}}').write_text('x\\n')\n"
        "while True: time.sleep(0.01)\n"
    )
    with elastic_job(tmp_path, "-np", "2", "--min-np", "2", command=[sys.executable, "-c", text]) as job:
        for rank in range(2):
            wait_for_line(tmp_path / f"ready.{rank}")
        os.kill(job.job.process.pid, signal.SIGUSR1)
        finished = job.job.wait()

    assert 0 == finished.code, finished.text
