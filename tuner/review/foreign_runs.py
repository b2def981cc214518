# SPDX-License-Identifier: Apache-2.0
"""Foreign log as a tuning run: infers the chosen row, which neither Horovod nor Bagua marks, and judges its score."""

import math

from .foreign_rows import ForeignRow, Table
from .summary import BAGUA, HOROVOD, RunReview, TriedSample

NO_BASELINE = "its log has no measurement without tuning, so nobody knows whether it helped"


def foreign_run(table: Table, number: int) -> RunReview:
    """Return a table of at least one row as a run; `number` identifies it within its log."""
    is_last_kept = table.last is None or table.first[-1] is table.last
    rows = table.first if is_last_kept or table.last is None else [*table.first, table.last]
    is_closed = table.source == HOROVOD and _is_closed(rows)
    tried = tuple(_tried(index, row) for index, row in enumerate(rows[:-1] if is_closed else rows, start=1))
    best = _best(rows[:-1] if is_closed else rows)
    chosen = rows[-1].config if is_closed else None if best is None else best.config
    return RunReview(
        run_id=f"{table.source}-{number}",
        verdict=_verdict(table.source, best, is_closed=is_closed),
        is_complete=is_closed,
        adopted=False,
        baseline=None,
        chosen=chosen,
        speedup=None,
        ci_low=None,
        ci_high=None,
        pairs=0,
        cost_s=None,
        payback_steps=None,
        unix_time_s=None,
        seconds=0.0,
        tried=tried,
        source=table.source,
        target=table.source,
        windows_left_out=table.row_count - len(rows),
    )


def _is_closed(rows: list[ForeignRow]) -> bool:
    """Return whether the last row is Horovod's choice: it repeats an earlier row and has the highest score."""
    if len(rows) < 2:
        return False
    best, last = _best(rows[:-1]), rows[-1]
    return best is not None and (best.score == last.score) and any(row.config == last.config for row in rows[:-1])


def _best(rows: list[ForeignRow]) -> ForeignRow | None:
    usable = [row for row in rows if _is_usable(row.score)]
    return max(usable, key=lambda row: row.score, default=None)


def _is_usable(score: float) -> bool:
    return math.isfinite(score) and score > 0


def _verdict(source: str, best: ForeignRow | None, *, is_closed: bool) -> str:
    name = source.capitalize()
    if best is None:
        return f"no verdict: no row of this {name} log has a usable score"
    row = f"line {best.line}, the highest single score, {best.score / 1e6:,.0f} MB/s"
    if is_closed:
        return f"no verdict: {name} took {row}; {NO_BASELINE}"
    reason = "Bagua never marks its choice" if source == BAGUA else "the closing row is missing: the search did not end"
    return f"no verdict: {reason}; best so far is {row}, and {NO_BASELINE}"


def _tried(index: int, row: ForeignRow) -> TriedSample:
    is_usable = _is_usable(row.score)
    return TriedSample(
        trial_id=index,
        phase="search",
        config=row.config,
        score_bytes_per_s=row.score if is_usable else None,
        step_ms=None,
        steps=0,
        valid=is_usable,
        reason=None if is_usable else "invalid_score",
        expected_score=None,
        line=row.line,
    )
