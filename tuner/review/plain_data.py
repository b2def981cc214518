# SPDX-License-Identifier: Apache-2.0
"""Review as plain data for programs, the output of `ringtune review --json`."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ringtune.tuner.space.config import Config

from .advice import advice
from .analysis import Analysis, analyse
from .settings_text import settings_to_paste
from .summary import Review, RunReview

MAX_ANALYSED = 20
"""Maximum number of runs that are analysed, the newest; older runs are output without an analysis."""


def to_json(review: Review) -> dict[str, Any]:
    """Return the review as plain data for `json.dumps`; a number that JSON cannot represent becomes None."""
    newest = len(review.runs) - MAX_ANALYSED
    data: dict[str, Any] = _finite(
        {
            "path": review.path,
            "runs": [_run(run, is_analysed=index >= newest) for index, run in enumerate(review.runs)],
            "bad_lines": [asdict(bad) for bad in review.bad_lines],
            "bad_line_count": review.bad_line_count,
            "runs_left_out": review.runs_left_out,
        }
    )
    return data


def _finite(value: Any) -> Any:
    """Return plain data with None for infinities and NaN, which a damaged record may contain anywhere."""
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _run(run: RunReview, *, is_analysed: bool) -> dict[str, Any]:
    data = asdict(run)
    data["steps"] = run.steps
    data["steps_per_s"] = dict(zip(("baseline", "adopted"), run.steps_per_s, strict=True))
    data["baseline"] = _config(run.baseline)
    data["chosen"] = _config(run.chosen)
    data["tried"] = [asdict(sample) | {"config": sample.config.to_json()} for sample in run.tried]
    data["settings"] = settings_to_paste(run)
    data["analysis"] = _analysis(run, analyse(run)) if is_analysed else None
    return data


def _analysis(run: RunReview, analysis: Analysis) -> dict[str, Any]:
    return {
        "best": _config(analysis.best),
        "gap": None if analysis.gap is None else asdict(analysis.gap),
        "noise": None if analysis.noise is None else asdict(analysis.noise),
        "drift": None if analysis.drift is None else asdict(analysis.drift),
        "trials": [
            asdict(trial) | {"config": trial.config.to_json(), "void": dict(trial.void)} for trial in analysis.trials
        ],
        "improvements": [{"windows": count, "trial_id": trial.trial_id} for count, trial in analysis.improvements],
        "sensitivity": [asdict(item) | {"finding": item.finding} for item in analysis.sensitivities],
        "advice": advice(run, analysis),
    }


def _config(config: Config | None) -> dict[str, Any] | None:
    return None if config is None else config.to_json()
