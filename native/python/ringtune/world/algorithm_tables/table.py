# SPDX-License-Identifier: Apache-2.0
"""The algorithm table as a value: rows by size, the key that they were measured for, and both as JSON.

The engine itself checks whether it can serve every message by the rows (`Engine.set_algorithm_table`).
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

SCHEMA = 1
UNCHUNKED = ("direct",)
"""Algorithms that post their messages and know no chunks."""
RING, HIERARCHICAL = "ring", "hierarchical"
"""The algorithms between hosts that the cost model knows."""
BUSY_LOAD = 4.0
CALM_LOAD = 1.5
"""Per core, far enough apart that a machine is not taken for either by turns."""
_MAX_NUMBER = 1e9  # seconds or programs, far above any
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")  # name of an algorithm
_KIB = 2**10
_MIB = 2**20


class TableRow(NamedTuple):
    """Algorithm and chunk for messages that no row before it holds.

    Attributes:
        max_bytes: The largest message that it holds; None: any.
        algorithm: A name of the engine's registry.
        chunk_bytes: Bytes that are moved at once.
    """

    max_bytes: int | None
    algorithm: str
    chunk_bytes: int


class CallTime(NamedTuple):
    """Duration of an allreduce while the table was measured, with the compiled-in algorithm and chunk.

    Attributes:
        size_bytes: Size of the message.
        call_s: Seconds per call.
    """

    size_bytes: int
    call_s: float


@dataclass(frozen=True)
class TableKey:
    """Conditions under which a table holds: another value of any of these is another table.

    Attributes:
        version: Version of ringtune.
        compiled_in: The compiled-in rows for the layout, in words: an engine with other ones has changed since.
        hardware: The fingerprint of the job's machines.
        usable_cores: Cores that rank 0 may run on: ranks that share cores want other chunks.
        layout: Ranks per host, sorted.
        carrier: `shm`, `tcp`, `tls` or `mpi`.
        between_hosts: `hierarchical` where algorithms that go host by host were measured, else `ring`; None in a world
            of one host.
    """

    version: str
    compiled_in: str
    hardware: str
    usable_cores: int
    layout: tuple[int, ...]
    carrier: str
    between_hosts: str | None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values by name."""
        return {**asdict(self), "layout": list(self.layout)}


@dataclass(frozen=True)
class AlgorithmTable:
    """Rows in order, of which the first that holds a message is used.

    Attributes:
        key: Conditions under which they hold, as JSON values.
        rows: The rows.
        measured_s: Duration of the measurement, seconds.
        load: Programs that wanted a core when it began, per core of rank 0's machine.
        calls: Durations of allreduces, by size; empty where they are not known.
    """

    key: Mapping[str, Any]
    rows: tuple[TableRow, ...]
    measured_s: float
    load: float
    calls: tuple[CallTime, ...] = ()

    def is_of_busier_times(self, load: float) -> bool:
        """Return whether it was measured on a machine that had much more to do: that favours few synchronizations.

        Args:
            load: Load of the machine now.
        """
        return self.load > BUSY_LOAD and load < CALM_LOAD

    def summary(self) -> str:
        """Return its key and its rows, for people."""
        where = f"{self.key.get('layout')} ranks per host over {self.key.get('carrier')}"
        return f"{where}, ringtune {self.key.get('version')}, at a load of {self.load:g}: {describe(self.rows)}"

    def to_json(self) -> dict[str, Any]:
        """Return the table as JSON; the inverse of `from_json`."""
        rows = [row._asdict() for row in self.rows]
        calls = [call._asdict() for call in self.calls]
        numbers = {"measured_s": self.measured_s, "load": self.load}
        return {"schema": SCHEMA, "key": dict(self.key), **numbers, "rows": rows, "calls": calls}

    @classmethod
    def from_json(cls, data: object) -> "AlgorithmTable":
        """Return the table that `to_json` wrote; ValueError names the part that is wrong."""
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise ValueError(f"it has no 'schema' of {SCHEMA}")
        key, rows, calls = data.get("key"), data.get("rows"), data.get("calls", [])
        if not isinstance(key, dict) or not isinstance(rows, list) or not isinstance(calls, list):
            raise ValueError("'key' or 'rows' is missing, or 'calls' is no list")  # noqa: TRY004  (a file's content)
        _check_key(key)
        numbers = _number(data, "measured_s"), _number(data, "load")
        return cls(key, tuple(map(_row, rows)), *numbers, tuple(map(_call, calls)))


def describe(rows: Sequence[TableRow]) -> str:
    """Return the rows for people: `direct to 16 KiB, then reduce_scatter_allgather in chunks of 128 KiB`.

    Between hosts the config chooses between two kinds of algorithm, each with rows for any size: each is described for
    itself.
    """
    kinds = [
        [row for row in rows if row.algorithm.startswith(HIERARCHICAL) == is_by_host] for is_by_host in (False, True)
    ]
    has_both = all(any(row.max_bytes is None for row in kind) for kind in kinds)
    return "; ".join(map(_by_size, kinds)) if has_both else _by_size(rows)


def _by_size(rows: Sequence[TableRow]) -> str:
    return ", then ".join(
        row.algorithm
        + ("" if row.algorithm in UNCHUNKED else f" in chunks of {_size(row.chunk_bytes)}")
        + ("" if row.max_bytes is None else f" to {_size(row.max_bytes)}")
        for row in rows
    )


def _number(data: Mapping[str, object], name: str) -> float:
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < _MAX_NUMBER:
        raise ValueError(f"'{name}' is missing, or no number of seconds or programs")
    return float(value)


def _check_key(key: Mapping[str, object]) -> None:
    """Raise ValueError for texts that would do something to a terminal: they are shown to people."""
    for name, value in key.items():
        if isinstance(value, str) and not value.isprintable():
            raise ValueError(f"the key's {name!r} is no printable text")


def _row(data: object) -> TableRow:
    if not isinstance(data, dict):
        raise ValueError(f"the row {data!r:.200} is none")  # noqa: TRY004  (a file's content, not a caller's type)
    max_bytes, algorithm, chunk_bytes = (data.get(name) for name in TableRow._fields)
    is_bounded = max_bytes is None or _is_size(max_bytes)
    is_named = isinstance(algorithm, str) and _NAME.fullmatch(algorithm) is not None
    if not is_bounded or not is_named or not _is_size(chunk_bytes):
        raise ValueError(f"the row {data!r:.200} is none")
    return TableRow(max_bytes, str(algorithm), int(chunk_bytes or 0))


def _call(data: object) -> CallTime:
    if isinstance(data, dict):
        size_bytes, call_s = data.get("size_bytes"), data.get("call_s")
        if _is_size(size_bytes) and isinstance(call_s, float) and 0.0 < call_s < math.inf:
            return CallTime(int(size_bytes or 0), call_s)
    raise ValueError(f"the call {data!r:.200} is none")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def _size(size_bytes: int) -> str:
    if size_bytes % _MIB == 0:
        return f"{size_bytes // _MIB} MiB"
    return f"{size_bytes // _KIB} KiB" if size_bytes % _KIB == 0 else f"{size_bytes} B"
