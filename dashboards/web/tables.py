# SPDX-License-Identifier: Apache-2.0
"""Tables as CSV (RFC 4180), for spreadsheets and programs: plain numbers, units in the names of the columns.

Reported texts go into spreadsheets, which take some for formulas: those get an apostrophe in front.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from starlette.responses import Response

from ringtune.service.domain.overview import BestConfig, ListedStudy, ShownStudy
from ringtune.tuner import Value

from .study_jobs import job_rows
from .wording import finding_of, name_of

Cell = Value | None
Row = Mapping[str, Cell]
FORMULA_MARKS = ("=", "+", "-", "@", "\t", "\r")


def csv_reply(name: str, rows: Sequence[Row]) -> Response:
    """Return rows as a file to keep; its columns are the keys of all rows in their order."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([_written(row.get(column)) for column in columns] for row in rows)
    headers = {"content-disposition": f'attachment; filename="{name}.csv"'}
    return Response(text.getvalue(), headers=headers, media_type="text/csv; charset=utf-8")


def study_table(studies: Iterable[ListedStudy]) -> list[Row]:
    """Return studies as rows."""
    return [
        {
            "study": study.study_id,
            "model": name_of(study),
            "machine_name": study.hardware_name,
            "machines": study.machines,
            "ranks": study.key.world_size,
            "hosts": len(study.key.layout),
            "target": study.key.target,
            "finding": finding_of(study).label,
            **_gain(study.best),
            "default_step_ms": study.baseline_step_ms,
            "results": study.trials,
            "jobs": study.jobs,
            **{f"jobs_{state}": count for state, count in study.states.items()},
            "idle_s": study.idle_s,
            "age_s": study.age_s,
            "model_fingerprint": study.key.model,
            "hardware_fingerprint": study.key.hardware,
        }
        for study in studies
    ]


def job_table(shown: ShownStudy) -> list[Row]:
    """Return a study's jobs as rows."""
    return [
        {
            "job": row.job.job_id,
            "name": row.job.name,
            "tags": ", ".join(row.job.tags),
            "commit": row.job.commit,
            "state": row.state,
            "detail": row.detail,
            "results": row.job.results,
            "default_step_ms": row.baseline_ms,
            "fastest_step_ms": row.fastest_ms,
            "age_s": row.job.age_s,
            "idle_s": row.job.idle_s,
        }
        for row in job_rows(shown)
    ]


def config_table(shown: ShownStudy) -> list[Row]:
    """Return a study's configs as rows; a speed-up is that of a confirmed config alone."""
    return [
        {
            "confirmed": item.is_confirmed,
            "prior": item.is_promising and not item.is_confirmed,
            **_gain(item),
            "results": item.evidence.trials,
            "jobs": item.evidence.jobs,
            "age_s": item.evidence.age_s,
            **item.config,
        }
        for item in shown.configs
    ]


def result_table(shown: ShownStudy) -> list[Row]:
    """Return a study's newest results as rows, the newest first."""
    return [
        {
            "number": item.number,
            "trial": item.trial_id,
            "job": item.job_id,
            "phase": item.phase,
            "used": item.counts and item.valid,
            "reason": item.status_reason or item.void_reason,
            "median_step_ms": item.median_step_ms,
            "mad_step_ms": item.mad_step_ms,
            "score_bytes_per_s": item.score_bytes_per_s,
            "steps": item.steps,
            "tested_speedup": item.speedup,
            "tested_ci_low": item.ci_low,
            "tested_ci_high": item.ci_high,
            "pairs": item.pairs,
            "age_s": item.age_s,
            **item.config,
        }
        for item in reversed(shown.results)
    ]


def _gain(best: BestConfig | None) -> dict[str, Cell]:
    known = best.evidence if best is not None and best.is_confirmed else None
    return {name: None if known is None else getattr(known, name) for name in ("speedup", "ci_low", "ci_high")}


def _written(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return f"'{cell}" if cell.startswith(FORMULA_MARKS) else cell
    return str(cell).lower() if isinstance(cell, bool) else str(cell)
