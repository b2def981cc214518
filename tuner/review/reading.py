# SPDX-License-Identifier: Apache-2.0
"""Reader of tuning logs of any origin: ringtune's JSON Lines, Horovod's CSV and Bagua's CSV."""

import itertools
import os

from ringtune.tuner.logs.earlier import joined
from ringtune.tuner.logs.file import reading
from ringtune.tuner.logs.reader import RunLog, bounded_lines

from .foreign_rows import find_header, read_rows
from .foreign_runs import foreign_run
from .kept_runs import BadLines, KeptRuns, keep_runs
from .summary import Review, review_run

HEADER_LINES = 20
"""Number of first lines that are searched for a CSV header."""

MOST_JOINED = 20_000
"""Maximum number of windows that runs take over from those they go on from, the newest first, to bound memory."""

Line = tuple[int, bytes | None]


def review_log(path: str | os.PathLike[str]) -> Review:
    """Read and summarise a tuning log in bounded memory.

    Raises:
        OSError: If the file cannot be read, or has no end; its contents never cause an error.
    """
    bad = BadLines()
    with reading(path, takes_pipes=True) as stream:
        numbered = enumerate(bounded_lines(stream), start=1)
        first = list(itertools.islice(numbered, HEADER_LINES))
        header = find_header(first)
        lines = itertools.chain(first, numbered)
        if header is None:
            kept = keep_runs(lines, bad)
            runs = tuple(review_run(run, kept.windows_left_out[run.run_id]) for run in _joined(kept))
            return Review(os.fspath(path), runs, tuple(bad.first), bad.count, kept.runs_left_out)
        tables = read_rows(lines, header, bad)
    if not any(table.row_count for table in tables):
        bad.add(header.line, "a header without rows: the job ended before the first sample was complete")
    runs = tuple(foreign_run(table, number) for number, table in enumerate(tables, start=1) if table.row_count)
    return Review(os.fspath(path), runs, tuple(bad.first), bad.count, is_table=True)


def _joined(kept: KeptRuns) -> list[RunLog]:
    """Return the runs with the windows of those that they go on from."""
    whole: list[RunLog] = []
    left = MOST_JOINED
    for run in reversed(kept.runs.values()):
        whole.insert(0, joined(run, kept.runs) if left > 0 else run)
        left -= len(whole[0].samples) - len(run.samples)
    return whole
