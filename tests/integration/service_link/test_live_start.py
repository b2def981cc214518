# SPDX-License-Identifier: Apache-2.0
"""Real jobs on the real engine beside the real service: the next job begins with the config that others confirmed."""

import json
import uuid
from pathlib import Path
from typing import Any

from ringtune.client import ServiceClient
from ringtune.tuner import default_config
from ringtune.tuner.logs.reader import RunLog, read_log
from ringtune.tuning.service_link.results import study_of
from tests.integration.jobs import ranks, run_job
from tests.integration.quick_tuning import UNTIL_DECIDED
from tests.integration.service_link.real_service import RealService

QUICK = {
    "AUTOTUNE": "1",
    "AUTOTUNE_MAX_SAMPLES": "3",
    "AUTOTUNE_WARMUP_STEPS": "5",
    "AUTOTUNE_STEPS_PER_SAMPLE": "5",
    "RINGTUNE_LOG_LEVEL": "info",
}
KNOWN = {**default_config().to_json(), "fusion_bytes": 3 << 20, "cycle_ms": 0.4}
ATTEMPTS = 3
"""On a busy machine the service may need longer than a job waits for it."""


def job_of(folder: Path, url: str, count: int) -> tuple[RunLog, str]:
    """Run a real job of so many ranks to its end; return its log and its output."""
    log = folder / f"{uuid.uuid4().hex}.jsonl"
    environ = {**QUICK, "AUTOTUNE_LOG": str(log), "AUTOTUNE_SERVICE_URL": url}
    finished = run_job(ranks(count, "tuned", "6", UNTIL_DECIDED, "marked"), environ)
    assert 0 == finished.code, finished.text
    return read_log(log).runs[0], finished.stderr


def confirm(client: ServiceClient, first: RunLog) -> None:
    """Report that two jobs of the key of a real job adopted KNOWN, a quarter faster than the default."""
    assert first.run is not None
    study = client.find_or_create_study(study_of(first.run))
    for _ in range(2):
        job_id = str(uuid.uuid4())
        test = {"speedup": 0.25, "ci_low": 0.24, "ci_high": 0.26, "pairs": 8, "ci_level": 0.9}
        begun = measured(job_id, "baseline", default_config().to_json(), 100.0)
        results = [begun, {**measured(job_id, "adoption", KNOWN, 80.0), "adoption": test}]
        assert {"new"} == {item.status for item in client.tell_batch(study.id, results).items}


def measured(job_id: str, phase: str, config: Any, step_ms: float) -> dict[str, Any]:
    """Return a result as a job's client sends it."""
    times = {"median": step_ms, "mad": 0.01 * step_ms, "mean": step_ms}
    facts = {"score_bytes_per_s": 1e9, "steps": 20, "valid": True, "reason": None}
    return {
        "trial_id": str(uuid.uuid4()),
        "job_id": job_id,
        "phase": phase,
        "config": config,
        "step_ms": times,
        **facts,
    }


def test_a_real_job_begins_with_what_two_others_confirmed(tmp_path: Path) -> None:
    """The offered config is tested first, under the service's name: with the same key, and at another layout."""
    service = RealService(tmp_path)
    service.start()
    try:
        client = ServiceClient(service.url)
        first, _ = job_of(tmp_path, service.url, 2)
        assert first.run is not None
        assert ["service"] != [suggestion.designer for suggestion in first.suggestions[:1]]
        (study,) = client.studies().items
        assert first.run.key["model"] == study.key.model
        assert study.trials > 0
        confirm(client, first)
        for count in (2, 3):
            begun_with, output = started(tmp_path, service.url, count)
            assert KNOWN == begun_with, output
    finally:
        service.kill()


def started(folder: Path, url: str, count: int) -> tuple[dict[str, Any] | None, str]:
    """Return the config that the service gave a job to begin with, None if it gave none, and the job's output."""
    output = ""
    for _ in range(ATTEMPTS):
        log, output = job_of(folder, url, count)
        newest = log.suggestions[0] if log.suggestions else None
        if newest is not None and newest.designer == "service":
            return json.loads(json.dumps(newest.config)), output
    return None, output
