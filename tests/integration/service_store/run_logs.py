# SPDX-License-Identifier: Apache-2.0
"""Records of a run that adopted a config, as its log has them."""

import json
from collections.abc import Sequence
from typing import Any

from ringtune.tuner import Config, Phase, Sample, StepTimes, VoidReason, search_space
from ringtune.tuner.logs.records import AdoptionRecord, Record, ResultRecord, RunRecord, record_to_json, sample_record
from ringtune.tuner.priors.relevance import StudyKey
from tests.unit.service.domain.reported import BETTER, DEFAULT, KEY, OTHER, STEP_BYTES

PAIRS = [{"baseline_step_ms": 100.0, "challenger_step_ms": 83.0}] * 6


def sample(config: Config, step_ms: float, phase: Phase, reason: VoidReason | None = None) -> Sample:
    """Return a sample of twenty steps."""
    times = StepTimes(step_ms, 0.01 * step_ms, step_ms)
    return Sample(0, config, phase, 1, STEP_BYTES / (step_ms * 1e-3), times, 20, reason)


def log_of(
    run_id: str,
    *,
    is_finished: bool = True,
    key: StudyKey = KEY,
    default: Config = DEFAULT,
    adopted: Config = BETTER,
    others: Sequence[Config] = (OTHER,),
) -> list[dict[str, Any]]:
    """Return the records of a run that adopted a config, as their JSON lines read."""
    run = RunRecord(
        t_s=0.0,
        run_id=run_id,
        schema=1,
        unix_time_s=1.7e9,
        model_name="resnet50",
        key={**vars(key), "layout": list(key.layout)},
        layout={"ranks_per_host": list(key.layout)},
        versions={"ringtune": "0.1.0"},
        search_space=search_space({}, default).to_json(),
        fixed={},
        baseline=default.to_json(),
        seed=0,
        steps_budget={},
    )
    measured = (
        sample(default, 300.0, Phase.WARMUP),
        sample(default, 100.0, Phase.BASELINE),
        sample(default, 100.0, Phase.BASELINE),
        sample(adopted, 82.0, Phase.SEARCH),
        *(sample(config, 95.0, Phase.SEARCH) for config in others),
        sample(others[0], 9500.0, Phase.SEARCH, VoidReason.PAUSE),
        sample(default, 100.0, Phase.ADOPTION),
        sample(adopted, 83.0, Phase.ADOPTION),
    )
    samples: list[Record] = [
        sample_record(item, t_s=1.0, run_id=run_id, window=number) for number, item in enumerate(measured)
    ]
    ending: list[Record] = [
        AdoptionRecord(9.0, run_id, PAIRS, 0.2, 0.15, 0.25, "adopted"),
        ResultRecord(9.0, run_id, adopted.to_json(), adopted=True, speedup=0.2, cost_s=1.0, payback_steps=10),
    ]
    records: list[Record] = [run, *samples, *(ending if is_finished else [])]
    return [json.loads(json.dumps(record_to_json(record))) for record in records]
