# SPDX-License-Identifier: Apache-2.0
"""Tables as CSV (RFC 4180), for spreadsheets and programs: plain numbers, units in the names of the columns.

Reported texts go into spreadsheets, which take some for formulas: those get an apostrophe in front.
"""

import csv
import io
import unicodedata
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence

from starlette.responses import Response, StreamingResponse

from ringtune.service.domain.jobs import StudyJob
from ringtune.service.domain.overview import BestConfig, JobPart, LedgerResult, ListedStudy, MeanGain
from ringtune.tuner import Value

from .study_jobs import job_row
from .wording import STATES, finding_of, name_of

Cell = Value | None
Row = Mapping[str, Cell]
FORMULA_MARKS = ("=", "+", "-", "\N{MINUS SIGN}", "@", "\t", "\r", "\n")
MARK_CHARACTERS = 4
"""First characters of a text that are looked at: a sign may be several, as one with a mark that is joined to it."""
KNOB = "config."
MEDIA_TYPE = "text/csv; charset=utf-8"


def csv_reply(name: str, rows: Sequence[Row]) -> Response:
    """Return rows as a file to keep; its columns are the keys of all rows in their order."""
    text = "".join(csv_lines([rows]))
    return Response(text, headers=_to_keep(name), media_type=MEDIA_TYPE)


def csv_stream(name: str, parts: AsyncIterable[str]) -> StreamingResponse:
    """Return a file to keep whose parts are made as they are sent."""
    return StreamingResponse(parts, headers=_to_keep(name), media_type=MEDIA_TYPE)


def csv_lines(chunks: Iterable[Iterable[Row]], knobs: Iterable[str] = ()) -> Iterator[str]:
    """Yield the text of a table, a part for each chunk of its rows.

    Args:
        chunks: The rows. All have the same columns as those of the first chunk, but for knobs.
        knobs: Names of the knobs of all rows, which cannot be known before the last.
    """
    columns: list[str] = []
    for chunk in chunks:
        rows = list(chunk)
        text = io.StringIO()
        writer = csv.writer(text)
        if rows and not columns:
            columns = list(dict.fromkeys([*(key for row in rows for key in row), *map(knob_column, knobs)]))
            writer.writerow(columns)
        writer.writerows([_written(row.get(column)) for column in columns] for row in rows)
        yield text.getvalue()


def knob_column(name: str) -> str:
    """Return the column of a knob, which is no other column's, whatever the knob is called."""
    return f"{KNOB}{name}"


def knob_cells(config: Mapping[str, Value]) -> dict[str, Cell]:
    """Return the cells of a config: of every table that has one."""
    return {knob_column(name): value for name, value in config.items()}


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
            **_mean_gain(study.gain),
            "default_step_ms": study.baseline_step_ms,
            "results": study.trials,
            "jobs": study.jobs,
            **{f"jobs_{state}": study.states.get(state, 0) for state in STATES},
            "idle_s": study.idle_s,
            "age_s": study.age_s,
            "model_fingerprint": study.key.model,
            "hardware_fingerprint": study.key.hardware,
        }
        for study in studies
    ]


def job_table(jobs: Iterable[tuple[StudyJob, JobPart]]) -> list[Row]:
    """Return a study's jobs, each with its results in the study, as rows."""
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
        for row in (job_row(*item) for item in jobs)
    ]


def config_table(configs: Iterable[BestConfig]) -> list[Row]:
    """Return a study's configs as rows; a speed-up is that of a confirmed config alone."""
    return [
        {
            "confirmed": item.is_confirmed,
            "prior": item.is_promising and item.evidence.adopted > 0 and not item.is_confirmed,
            **_gain(item),
            "results": item.evidence.trials,
            "jobs": item.evidence.jobs,
            "age_s": item.evidence.age_s,
            **knob_cells(item.config),
        }
        for item in configs
    ]


def result_table(results: Iterable[LedgerResult]) -> list[Row]:
    """Return a study's results as rows."""
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
            **knob_cells(item.config),
        }
        for item in results
    ]


def _mean_gain(gain: MeanGain) -> dict[str, Cell]:
    mean = gain.interval
    figures = (None, None, None) if mean is None else (mean.speedup, mean.low, mean.high)
    names = ("mean_gain", "mean_gain_ci_low", "mean_gain_ci_high")
    return {**dict(zip(names, figures, strict=True)), "mean_gain_jobs": gain.jobs}


def _gain(best: BestConfig | None) -> dict[str, Cell]:
    known = best.evidence if best is not None and best.is_confirmed else None
    return {name: None if known is None else getattr(known, name) for name in ("speedup", "ci_low", "ci_high")}


def _written(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return f"'{cell}" if _is_like_formula(cell) else cell
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _is_like_formula(text: str) -> bool:
    """Tell whether a spreadsheet may take a text for a formula; some read wide and small signs as the plain ones."""
    return unicodedata.normalize("NFKC", text[:MARK_CHARACTERS]).startswith(FORMULA_MARKS)


def _to_keep(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}.csv"'}
