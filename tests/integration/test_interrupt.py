# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while another rank does not move, which the job's own limit would notice much later."""

import os
import signal
from pathlib import Path

import pytest

from tests.integration.jobs import launched, launched_by, started, wait_for_line


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_ctrl_c_ends_a_rank_whose_peer_is_stopped(tmp_path: Path, transport: str) -> None:
    """A waiting rank gets a KeyboardInterrupt and ends, wherever it waits, long before RINGTUNE_TIMEOUT_S."""
    command = launched_by("prompt_launcher", launched(2, "reduces_for_ever", str(tmp_path)))
    with started(command, {"RINGTUNE_TRANSPORT": transport}) as job:
        pids = [int(wait_for_line(tmp_path / f"pid.{rank}")) for rank in range(2)]
        os.kill(pids[1], signal.SIGSTOP)

        os.kill(pids[0], signal.SIGINT)
        finished = job.wait()

    assert "rank 0 was interrupted" in finished.stdout, finished.text
    assert 128 + signal.SIGINT == finished.code, finished.text
