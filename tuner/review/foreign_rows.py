# SPDX-License-Identifier: Apache-2.0
"""Rows of Horovod's and Bagua's CSV logs, converted to ringtune's names and units.

Horovod writes a stray space, and its columns vary by version. Columns are therefore found by name, and unknown ones are
kept as numbers. Bagua begins with a score of minus infinity.
"""

import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameters import MIB

from .kept_runs import BadLines
from .summary import BAGUA, HOROVOD

MAX_COLUMNS = 32
MAX_ROWS = 20_000
"""Maximum number of rows kept of a log; further ones are counted, and the last one is always kept."""
MAX_CYCLE_MS = 1e6
MAX_MIB = 2**40
MAX_POWER = 62
SCORE_UNIT: Mapping[str, float] = types.MappingProxyType({HOROVOD: 1e6, BAGUA: 1e9})
"""Factor from a foreign score to bytes per second: Horovod's is bytes per microsecond, Bagua's gigabytes per second."""
TRUE_WORDS, FALSE_WORDS = frozenset({"1", "true"}), frozenset({"0", "false"})

T = TypeVar("T")
Line: TypeAlias = tuple[int, bytes | None]
Reader: TypeAlias = Callable[[str], Value]


@dataclass(frozen=True)
class ForeignRow:
    """Row of a foreign log: its line, its config, and its score in bytes per second, which may not be finite."""

    line: int
    config: Config
    score: float


@dataclass
class Table:
    """Rows below one header: `first` holds the rows kept, `last` the very last row."""

    source: str
    columns: tuple[str, ...]
    first: list[ForeignRow] = field(default_factory=list)
    last: ForeignRow | None = None
    row_count: int = 0

    def add(self, row: ForeignRow) -> None:
        """Add a row."""
        self.row_count += 1
        self.last = row
        if len(self.first) < MAX_ROWS:
            self.first.append(row)


@dataclass(frozen=True)
class Header:
    """CSV header of a foreign log: its line, the tuner that wrote it, and its columns."""

    line: int
    source: str
    columns: tuple[str, ...]


def find_header(lines: Iterable[Line]) -> Header | None:
    """Return the first header of a foreign log among the lines; None if the log is not foreign."""
    for number, line in lines:
        header = _header(number, line)
        if header is not None:
            return header
    return None


def read_rows(lines: Iterable[Line], header: Header, bad: BadLines) -> list[Table]:
    """Read all rows; each header begins a table. Other lines go to `bad`, except comments and empty lines.

    Args:
        lines: Lines with their numbers from 1; None for a line that is too long.
        header: The first header.
        bad: Collects the lines that cannot be read.
    """
    tables: list[Table] = []
    for number, line in lines:
        if line is not None and (not line.strip() or line.lstrip().startswith(b"#")):
            continue
        another = _header(number, line)
        if another is not None:
            tables.append(Table(another.source, another.columns))
        elif number < header.line:
            bad.add(number, "comes before the header")
        else:
            _add_row(tables[-1], number, line, bad)
    return tables


def _add_row(table: Table, number: int, line: bytes | None, bad: BadLines) -> None:
    try:
        table.add(_row(table, number, line))
    except ValueError as error:
        bad.add(number, str(error))


def _header(number: int, line: bytes | None) -> Header | None:
    cells = _cells(line)
    if "score" not in cells or len(cells) > MAX_COLUMNS or len(set(cells)) < len(cells):
        return None
    for source, mark in ((BAGUA, "bucket_size_2p"), (HOROVOD, "cycle_time_ms"), (HOROVOD, "tensor_fusion_threshold")):
        if any(cell.startswith(mark) for cell in cells):
            return Header(number, source, tuple(cells))
    return None


def _cells(line: bytes | None) -> list[str]:
    return [] if line is None else [cell.strip() for cell in line.decode("utf-8", "replace").split(",")]


def _row(table: Table, number: int, line: bytes | None) -> ForeignRow:
    """Return the row of a line; raises ValueError if it is not a row."""
    cells = _cells(line)
    if len(cells) != len(table.columns):
        raise ValueError(f"{len(cells)} values, the header has {len(table.columns)}; perhaps torn by a kill")
    values: dict[str, Value] = {}
    score = math.nan
    for column, cell in zip(table.columns, cells, strict=True):
        if column == "score":
            score = _read(column, cell, float) * SCORE_UNIT[table.source]
        elif column != "train_iter":
            name, reader = _READERS.get(column, (column[:80], _number))
            values[name] = _read(column, cell, reader)
    return ForeignRow(number, Config(values), score)


def _read(column: str, cell: str, reader: Callable[[str], T]) -> T:
    try:
        return reader(cell)
    except ValueError as error:
        raise ValueError(f"{column[:80]}={cell[:40]!r} is not possible") from error


def _number(cell: str) -> Value:
    number = float(cell)
    if not math.isfinite(number):
        raise ValueError(cell)
    return number


def _between(cell: str, low: float, high: float) -> float:
    number = float(cell)
    if not low <= number <= high:
        raise ValueError(cell)
    return number


def _switch(cell: str) -> Value:
    word = cell.lower()
    if word not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError(cell)
    return word in TRUE_WORDS


def _mebibytes(cell: str) -> Value:
    return round(_between(cell, 0.0, MAX_MIB) * MIB)


def _milliseconds(cell: str) -> Value:
    return _between(cell, 0.0, MAX_CYCLE_MS)


def _power_of_two(cell: str) -> Value:
    return round(2 ** _between(cell, 0.0, MAX_POWER))


_READERS: Mapping[str, tuple[str, Reader]] = types.MappingProxyType(
    {
        "hierarchical_allreduce": ("hierarchical_allreduce", _switch),
        "hierarchical_allgather": ("hierarchical_allgather", _switch),
        "torus_allreduce": ("torus_allreduce", _switch),
        "cache_enabled": ("response_cache", _switch),
        "cycle_time_ms": ("cycle_ms", _milliseconds),
        "tensor_fusion_threshold": ("fusion_bytes", _mebibytes),
        "tensor_fusion_threshold_mb": ("fusion_bytes", _mebibytes),
        "bucket_size_2p": ("bucket_bytes", _power_of_two),
        "is_hierarchical_reduce": ("hierarchical_reduce", _switch),
    }
)
