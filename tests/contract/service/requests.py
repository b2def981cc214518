# SPDX-License-Identifier: Apache-2.0
"""Bodies that the service takes."""

from typing import Any

from ringtune.tuner import ENGINE_PARAMETERS, SearchSpace, default_config
from ringtune.tuner.logs.records import RunRecord, SampleRecord, record_to_json

UUIDS = tuple(f"00000000-0000-4000-8000-{number:012x}" for number in range(4))
KEY = {"hardware": "a" * 64, "model": "b" * 64, "layout": [2], "target": "ringtune", "surface_version": 1}
STUDY_BODY: dict[str, Any] = {
    "key": KEY,
    "model_name": "digits",
    "hardware_name": None,
    "search_space": SearchSpace(ENGINE_PARAMETERS, {}).to_json(),
}


def result_body(job_id: str, **changed: Any) -> dict[str, Any]:
    """Return a result of the default config."""
    return {
        "job_id": job_id,
        "config": default_config().to_json(),
        "score_bytes_per_s": 1.0e9,
        "step_ms": {"median": 10.0, "mad": 0.1, "mean": 10.1},
        "steps": 40,
        "valid": True,
        **changed,
    }


def _run_records() -> list[dict[str, Any]]:
    """Return the records of a run with a valid sample, as a log has them."""
    config = default_config().to_json()
    space = SearchSpace(ENGINE_PARAMETERS, {}).to_json()
    run = RunRecord(0.0, "4f2a", 1, 1.7e9, "digits", KEY, {"ranks_per_host": [2]}, {}, space, {}, config, 0, {})
    step_ms = {"median": 10.0, "mad": 0.1, "mean": 10.1}
    sample = SampleRecord(1.0, "4f2a", 0, 0, "baseline", 0, config, 1.0e9, step_ms, 40, valid=True, reason=None)
    return [record_to_json(run), record_to_json(sample)]


RUN_RECORDS = _run_records()
