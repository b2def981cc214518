# SPDX-License-Identifier: Apache-2.0
"""Reader of a tuning log of any size in bounded memory: keeps the newest runs, and the first windows of a huge run.

The rest is counted. A run's first record, its adoption test and its result are always kept.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ringtune.tuner.logs.reader import MAX_BAD_LINES, BadLine, RunLog, parse_line
from ringtune.tuner.logs.records import Record, RecordError, SampleRecord, SuggestionRecord

MAX_KEPT_BYTES = 8 << 20
"""Maximum size of the lines that are kept, some twenty thousand windows; in memory they take about eight times that."""


@dataclass
class BadLines:
    """Lines that could not be read: the first ones by number, and the total count."""

    first: list[BadLine] = field(default_factory=list)
    count: int = 0

    def add(self, number: int, reason: str) -> None:
        """Record a line; only count it if there are too many."""
        self.count += 1
        if len(self.first) < MAX_BAD_LINES:
            self.first.append(BadLine(number, reason))


@dataclass
class KeptRuns:
    """Runs of a log, in order of appearance.

    Attributes:
        runs: Runs that are kept, by run id.
        windows_left_out: Number of windows of kept runs that were only counted, by run id.
        runs_left_out: Number of older runs that were dropped.
    """

    runs: dict[str, RunLog] = field(default_factory=dict)
    windows_left_out: Counter[str] = field(default_factory=Counter)
    runs_left_out: int = 0
    _sizes: Counter[str] = field(default_factory=Counter)
    _total: int = 0

    def add(self, record: Record, size: int) -> None:
        """Add a record whose line has `size` bytes."""
        run = self.runs.setdefault(record.run_id, RunLog(record.run_id))
        is_window = isinstance(record, SampleRecord | SuggestionRecord)
        self._make_room(record.run_id, size)
        if is_window and self._total + size > MAX_KEPT_BYTES:
            self.windows_left_out[record.run_id] += isinstance(record, SampleRecord)
            return
        self._sizes[record.run_id] += size
        self._total += size
        run.add(record)

    def _make_room(self, run_id: str, size: int) -> None:
        """Drop other runs, the oldest first, until the record fits."""
        while self._total + size > MAX_KEPT_BYTES:
            oldest = next((other for other in self.runs if other != run_id), None)
            if oldest is None:
                return
            del self.runs[oldest], self.windows_left_out[oldest]
            self._total -= self._sizes.pop(oldest, 0)
            self.runs_left_out += 1


def keep_runs(lines: Iterable[tuple[int, bytes | None]], bad: BadLines) -> KeptRuns:
    """Read the lines of ringtune's own log; lines that are not records go to `bad`.

    Args:
        lines: Lines with their numbers from 1; None for a line that is too long.
        bad: Collects the lines that cannot be read.
    """
    kept = KeptRuns()
    for number, line in lines:
        try:
            record = parse_line(line)
        except RecordError as error:
            bad.add(number, str(error))
            continue
        if record is not None:
            kept.add(record, len(line or b""))
    return kept
