# SPDX-License-Identifier: Apache-2.0
"""A tuned job whose world changes in one process: no rank crashes, and the tuner goes on with its samples."""

import json
import re
import secrets
from contextlib import ExitStack
from pathlib import Path

from ringtune.tuner import StudyStore, read_log
from tests.integration.jobs import program, started
from tests.integration.ports import free_port
from tests.integration.worlds import explicit

BEGINS = "ringtune autotune: the search begins with the samples of "


def meeting(world_size: int) -> list[dict[str, str]]:
    """Return the places of a meeting under a new job key."""
    address, key = f"tcp://127.0.0.1:{free_port()}", secrets.token_hex(32)
    return [explicit(rank, world_size, address, RINGTUNE_JOB_KEY=key) for rank in range(world_size)]


def test_a_resized_job_goes_on_with_what_it_has_learned(tmp_path: Path) -> None:
    """Three ranks, then two, then three with a new one: the nearest layout is the prior, the same one is continued."""
    three, two, again = meeting(3), meeting(2), meeting(3)
    places = [[three[0], two[0], again[0]], [three[1], two[1], again[1]], [three[2]], [again[2]]]
    environ = {
        "AUTOTUNE": "1",
        "AUTOTUNE_BASELINE": "fusion_bytes=0,cycle_ms=5",
        "AUTOTUNE_CACHE": str(tmp_path / "studies.jsonl"),
        "AUTOTUNE_LOCK": str(tmp_path / "tuning.lock"),
        "AUTOTUNE_LOG": str(tmp_path / "tuning.jsonl"),
        "AUTOTUNE_STEPS_PER_SAMPLE": "5",
        "AUTOTUNE_WARMUP_STEPS": "5",
    }

    with ExitStack() as stack:
        jobs = [stack.enter_context(started(program("resized_tuned", json.dumps(own)), environ)) for own in places]
        finished = [job.wait() for job in jobs]

    everything = "\n".join(job.text for job in finished)
    assert [0] * 4 == [job.code for job in finished], everything
    smaller, larger = re.findall(f"^{BEGINS}.*$", finished[0].stderr, re.MULTILINE)
    assert "an unfinished run with 3 ranks in place of 2" in smaller, everything
    assert "an unfinished run" in larger, everything  # that of two ranks joins it if it has tried configs enough
    runs = read_log(tmp_path / "tuning.jsonl").runs
    begun = [(sum(run.run.key["layout"]), bool(run.run.begins_with)) for run in runs if run.run is not None]
    assert [(3, False), (2, True), (3, True)] == begun, everything
    assert 3 == len(StudyStore(tmp_path / "studies.jsonl").contents().runs)
