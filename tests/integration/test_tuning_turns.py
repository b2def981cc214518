# SPDX-License-Identifier: Apache-2.0
"""Real jobs that take turns at tuning: on one host, and on several that share no memory."""

import os
import re
from pathlib import Path

import pytest

from ringtune.tuner import read_log
from ringtune.tuning.job.host_lock import HostLock
from tests.integration.jobs import launched, started
from tests.integration.quick_tuning import QUICK, UNTIL_DECIDED

WAITS = "is tuning; this one waits its turn, training with the default"


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_job_tunes_once_the_lock_is_free(tmp_path: Path, transport: str) -> None:
    """Training goes on meanwhile, and every sum stays exact; over TCP each rank is a host, and all have one lock."""
    lock = HostLock(tmp_path / "lock", pytest.fail)
    assert lock.try_take()
    environ = {
        **QUICK,
        "AUTOTUNE_LOCK": str(tmp_path / "lock"),
        "AUTOTUNE_LOG": str(tmp_path / "log.jsonl"),
        "RINGTUNE_TRANSPORT": transport,
    }

    with started(launched(2, "tuned", "6", UNTIL_DECIDED, "marked"), environ) as job:
        assert job.process.stderr is not None
        first = job.process.stderr.readline()
        has_begun = (tmp_path / "log.jsonl").read_bytes() != b""
        lock.release()
        finished = job.wait()

    assert f"another job of this host (pid {os.getpid()}) {WAITS}" in first, finished.text
    assert not has_begun
    assert 0 == finished.code, finished.text
    assert 2 == len(re.findall(r"exact steps, epoch [1-9]", finished.stdout)), finished.text
    (run,) = read_log(tmp_path / "log.jsonl").runs
    assert run.result is not None
    assert HostLock(tmp_path / "lock", pytest.fail).try_take()
