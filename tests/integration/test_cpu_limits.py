# SPDX-License-Identifier: Apache-2.0
"""Ranks in a container with a limit of CPUs: the kernel stops whoever uses more, so that more threads only wait."""

import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.jobs import ringtune, run_job
from tests.integration.memory_groups import MOUNT

PERIOD_US = 100_000


@pytest.fixture
def group() -> Iterator[Path]:
    """Give the folder of a control group with the time of one CPU, as a pod with `limits.cpu: 1` has."""
    is_first = (MOUNT / "cpu").is_dir()
    folder = MOUNT / ("cpu" if is_first else "") / f"ringtune-test-{uuid.uuid4().hex}"
    quota = {"cpu.cfs_quota_us": str(PERIOD_US)} if is_first else {"cpu.max": f"{PERIOD_US} {PERIOD_US}"}
    try:
        folder.mkdir()
        for name, text in quota.items():
            (folder / name).write_text(text, encoding="ascii")
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"NOT RUN: no control group with a CPU limit can be made here ({error.strerror}; needs root)")
    yield folder
    with suppress(OSError):  # a process that is still ending keeps it
        folder.rmdir()


def inside(group: Path, *command: str) -> list[str]:
    """Return the command line that runs a command in a control group."""
    return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group), *command]


def test_a_rank_has_no_more_threads_than_its_container_has_cpus(group: Path) -> None:
    """The launcher shares out the CPUs of the limit, and not the machine's."""
    shows = ["sh", "-c", "echo $OMP_NUM_THREADS"]

    finished = run_job(inside(group, "env", "-u", "OMP_NUM_THREADS", *ringtune("run", "-np", "1", *shows)))

    assert 0 == finished.code, finished.text
    assert "1\n" == finished.stdout


def test_the_doctor_counts_the_cpus_of_the_limit(group: Path) -> None:
    """The report of a container says how many of the machine's cores can be used."""
    finished = run_job(inside(group, *ringtune("doctor", "--json")))

    assert "1 usable of " in json.dumps(json.loads(finished.stdout)), finished.text
