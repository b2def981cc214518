# SPDX-License-Identifier: Apache-2.0
"""Records of a run that adopted a config, as its log has them."""

import json
from typing import Any

from ringtune.tuner import Config, Phase, Sample, StepTimes, VoidReason, search_space
from ringtune.tuner.logs.records import AdoptionRecord, Record, ResultRecord, RunRecord, record_to_json, sample_record
from tests.unit.service.domain.reported import BETTER, DEFAULT, KEY, OTHER, STEP_BYTES

PAIRS = [{"baseline_step_ms": 100.0, "challenger_step_ms": 83.0}] * 6


def sample(config: Config, step_ms: float, phase: Phase, reason: VoidReason | None = None) -> Sample:
    """Return a sample of twenty steps."""
    times = StepTimes(step_ms, 0.01 * step_ms, step_ms)
    return Sample(0, config, phase, 1, STEP_BYTES / (step_ms * 1e-3), times, 20, reason)


SAMPLES = (
    sample(DEFAULT, 300.0, Phase.WARMUP),
    sample(DEFAULT, 100.0, Phase.BASELINE),
    sample(DEFAULT, 100.0, Phase.BASELINE),
    sample(BETTER, 82.0, Phase.SEARCH),
    sample(OTHER, 95.0, Phase.SEARCH),
    sample(OTHER, 9500.0, Phase.SEARCH, VoidReason.PAUSE),
    sample(DEFAULT, 100.0, Phase.ADOPTION),
    sample(BETTER, 83.0, Phase.ADOPTION),
)


def log_of(run_id: str, *, is_finished: bool = True) -> list[dict[str, Any]]:
    """Return the records of a run that adopted `BETTER`, as their JSON lines read."""
    key = {**vars(KEY), "layout": list(KEY.layout)}
    run = RunRecord(
        t_s=0.0,
        run_id=run_id,
        schema=1,
        unix_time_s=1.7e9,
        model_name="resnet50",
        key=key,
        layout={"ranks_per_host": [2]},
        versions={"ringtune": "0.1.0"},
        search_space=search_space({}, DEFAULT).to_json(),
        fixed={},
        baseline=DEFAULT.to_json(),
        seed=0,
        steps_budget={},
    )
    samples: list[Record] = [
        sample_record(item, t_s=1.0, run_id=run_id, window=number) for number, item in enumerate(SAMPLES)
    ]
    ending: list[Record] = [
        AdoptionRecord(9.0, run_id, PAIRS, 0.2, 0.15, 0.25, "adopted"),
        ResultRecord(9.0, run_id, BETTER.to_json(), adopted=True, speedup=0.2, cost_s=1.0, payback_steps=10),
    ]
    records: list[Record] = [run, *samples, *(ending if is_finished else [])]
    return [json.loads(json.dumps(record_to_json(record))) for record in records]
