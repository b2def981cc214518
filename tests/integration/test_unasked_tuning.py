# SPDX-License-Identifier: Apache-2.0
"""`AUTOTUNE=auto`: a short job runs as without a tuner, and a long one says only that a config was adopted."""

import json
import re
from pathlib import Path

import pytest

from tests.integration.jobs import ranks, run_job

POOR = "fusion_bytes=0,cycle_ms=20"
LIMIT_S = 1200


def test_a_short_job_hears_of_no_tuner(tmp_path: Path) -> None:
    """No line, no record, no window; and no program waits for it."""
    log = tmp_path / "tune.jsonl"

    finished = run_job(ranks(2, "trains_for", "1"), {"AUTOTUNE": "auto", "AUTOTUNE_LOG": str(log)})

    assert 0 == finished.code, finished.text
    assert "" == finished.stderr
    assert 2 == finished.stdout.count("tuning is finished: True")
    assert "" == log.read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.timeout(LIMIT_S)
def test_a_long_job_is_tuned_after_a_minute_and_says_so_once(tmp_path: Path) -> None:
    """A default that is far from the best is left; the verdict is all that is shown."""
    log = tmp_path / "tune.jsonl"
    variables = {"AUTOTUNE": "auto", "AUTOTUNE_LOG": str(log), "AUTOTUNE_CACHE": "0", "AUTOTUNE_BASELINE": POOR}

    finished = run_job(ranks(2, "trains_for", str(LIMIT_S / 2), str(log)), variables, deadline_s=LIMIT_S)

    assert 0 == finished.code, finished.text
    assert re.fullmatch(r"ringtune autotune: adopted: \+.*(\n  .*)+\n", finished.stderr), finished.stderr
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert {"run", "sample", "result"} <= {record["type"] for record in records}
