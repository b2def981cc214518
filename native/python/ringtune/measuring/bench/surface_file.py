# SPDX-License-Identifier: Apache-2.0
"""The file of a recorded surface, and the journal that it grows from.

A *surface* is gzip-compressed JSON Lines. The first line is the header: an object with `schema`, the workload's name
and `gradient_bytes`, `compute_ms` of a step, `ranks_per_host`, `link_bits_per_s` (null on one host), `machine`,
`versions`, `baseline`, `repeats`, and `calls`, the durations of allreduces at the start ([bytes, seconds] each). Each
further line is a config: `config` holds its differences from the baseline, `windows` its measurements in the order in
which they were made, each with `repeat`, `launch`, `at_s` (since the launch began) and `step_ms`, one number per step.

The *journal* has the same header and one line per window. It is appended to and flushed window by window, so that a
recording that was ended at any moment goes on where it stood; a torn last line is dropped.
"""

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ringtune.errors import ConfigError, RingtuneError
from ringtune.system.durable_lines import append_to, whole_lines
from ringtune.system.output_files import write_output_file

SCHEMA = 1
JOURNAL_SUFFIX = ".part"
_VARYING = ("calls",)
"""Fields that differ between two starts of one recording."""

_BEGINNING = b'{"schema":'
"""Schema of every journal."""

Header = Mapping[str, Any]


@dataclass(frozen=True)
class RecordedWindow:
    """Consecutive steps of one config.

    Attributes:
        number: Number of the config, in the order of the grid.
        repeat: Repeat of the grid.
        launch: Launch in which it was measured.
        at_s: When, in seconds since the launch began.
        step_ms: Duration of each step, milliseconds.
        is_extra: Whether it is the baseline's at the beginning of a launch, which is not part of the grid.
    """

    number: int
    repeat: int
    launch: int
    at_s: float
    step_ms: tuple[float, ...]
    is_extra: bool = False


class SurfaceJournal:
    """Windows recorded so far; the file is there once a header was written.

    Attributes:
        windows: All of them, in the order in which they were measured.
    """

    def __init__(self, path: Path, header: Header) -> None:
        """Begin, or go on.

        Args:
            path: File of the journal.
            header: Header of this recording; that of an earlier start must be the same.

        Raises:
            ConfigError: If it is another recording's, or cannot be read or written.
        """
        self._path = path
        self._header = header
        self.windows: list[RecordedWindow] = []
        try:
            self._read()
        except OSError as error:
            raise ConfigError(f"{path}, where a surface is recorded, cannot be used ({error.strerror})") from error

    @property
    def header(self) -> Header:
        """The recording's header, as its first start has written it."""
        return self._header

    @property
    def launches(self) -> int:
        """Number of launches that have measured something."""
        return 1 + max((window.launch for window in self.windows), default=-1)

    def done(self, repeat: int) -> set[int]:
        """Return the numbers of the configs that a repeat has measured."""
        return {window.number for window in self.windows if window.repeat == repeat and not window.is_extra}

    def add(self, window: RecordedWindow) -> None:
        """Write a window, so that it outlives this process.

        Raises:
            RingtuneError: If it cannot be written; earlier windows are kept.
        """
        self.windows.append(window)
        self._append(asdict(window))

    def begin(self, calls: Sequence[Sequence[float]]) -> None:
        """Write the header, if there is none yet, with the durations of allreduces at the start; raises as `add`."""
        if not self._path.exists():
            self._header = {**self._header, "calls": [list(call) for call in calls]}
            self._append(self._header)

    def _append(self, record: Mapping[str, Any]) -> None:
        try:
            append_to(self._path, json.dumps(record, separators=(",", ":")))
        except OSError as error:
            raise RingtuneError(
                f"{self._path} takes no more windows ({error.strerror}); what it has is kept: make room, and give the "
                "same command again to go on"
            ) from error

    def _read(self) -> None:
        if not self._path.exists():
            return
        text = self._path.read_bytes()
        whole = whole_lines(text)
        if not _BEGINNING.startswith(text[: len(_BEGINNING)]):
            raise self._refusal()
        if not whole:
            self._path.unlink()
            return
        try:
            first, *rest = (json.loads(line) for line in whole.splitlines())
            windows = [RecordedWindow(**{**record, "step_ms": tuple(record["step_ms"])}) for record in rest]
        except (ValueError, TypeError, KeyError) as error:
            raise self._refusal() from error
        self._check_same(first)
        if len(whole) < len(text):
            os.truncate(self._path, len(whole))
        self._header, self.windows = first, windows

    def _refusal(self) -> ConfigError:
        return ConfigError(f"{self._path} is no journal of a recording, or is damaged; give another file, or remove it")

    def _check_same(self, first: Header) -> None:
        compared = [name for name in self._header if name not in _VARYING]
        differing = sorted(name for name in compared if first.get(name) != self._header[name])
        if differing:
            raise ConfigError(
                f"{self._path} is of another recording, for its {', '.join(differing)} differ; give another file, or "
                "remove it"
            )


def write_surface(path: Path, journal: SurfaceJournal, configs: Sequence[Mapping[str, Any]]) -> None:
    """Write the compressed file at once, or not at all.

    Args:
        path: File of the surface.
        journal: Journal of the windows.
        configs: Differences from the baseline, by the config's number.

    Raises:
        RingtuneError: If it cannot be written; the journal is as it was.
    """
    lines: list[Mapping[str, Any]] = [journal.header]
    for number, config in enumerate(configs):
        windows = [
            {"repeat": w.repeat, "launch": w.launch, "at_s": w.at_s, "step_ms": list(w.step_ms)}
            for w in journal.windows
            if w.number == number
        ]
        lines.append({"config": dict(config), "windows": windows})
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    try:
        write_output_file(path, gzip.compress(text.encode(), mtime=0))  # the same windows give the same bytes
    except OSError as error:
        raise RingtuneError(
            f"{path} cannot be written ({error.strerror}); all windows are kept in the journal beside it: make room, "
            "and give the same command again"
        ) from error


def read_surface(path: Path) -> tuple[Header, list[Mapping[str, Any]]]:
    """Return the header, and the further lines.

    Raises:
        ConfigError: If it is no surface, or of a schema that is not known.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            header, *configs = map(json.loads, file)
    except (OSError, EOFError, ValueError) as error:
        raise ConfigError(f"{path} is no recorded surface ({error}); record it again") from error
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        raise ConfigError(f"{path} is no recorded surface of schema {SCHEMA}; record it again")
    return header, configs
