# SPDX-License-Identifier: Apache-2.0
"""Finished runs of this machine, as one job sees them: read when tuning begins, added to when it has ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ringtune.cache_files import within
from ringtune.console import Console
from ringtune.tuner import Prior, SearchSpace, StudyStore, earlier_studies
from ringtune.tuner.logs.records import Record

FILE_NAME = "studies.jsonl"
OFF = "0"
LIMIT_S = 10.0  # deadline for the file, seconds; only the tuner waits, and a large file takes a busy machine seconds


@dataclass(frozen=True)
class Memory:
    """The file of earlier studies, or none. It never raises.

    Attributes:
        store: The file; None where nothing is kept.
        console: Shows what is in the way.
    """

    store: StudyStore | None
    console: Console

    @classmethod
    def of(cls, setting: str | None, cache_folder: Path, console: Console) -> "Memory":
        """Return the memory that `AUTOTUNE_CACHE` asks for; None is the user's own file, in `cache_folder`."""
        if setting == OFF:
            return cls(None, console)
        return cls(StudyStore(cache_folder / FILE_NAME if setting is None else Path(setting)), console)

    def priors(
        self, key: Mapping[str, Any], space: SearchSpace, seed: int, models: Sequence[Prior] = ()
    ) -> Sequence[Prior]:
        """Return earlier studies as priors, the most relevant first.

        Args:
            key: Key of this job's study.
            space: The legal configs.
            seed: Seed of the fits.
            models: Priors of this job that need no measurements.
        """
        if self.store is None:
            return ()
        try:
            contents = within(LIMIT_S, self.store.contents)
        except OSError as error:
            self.console.warning(
                f"what was learned before cannot be read from {self.store.path} ({error.strerror or error}); the "
                "search begins without it"
            )
            return ()
        if contents.bad_line_count:
            first = contents.bad_lines[0]
            self.console.warning(
                f"{self.store.path} is damaged: {contents.bad_line_count} of its lines are left out, the first is line "
                f"{first.number} ({first.reason}); remove the file to begin anew"
            )
        studies = earlier_studies(contents.runs, key, space, seed, models)
        if studies:
            self.console.info(f"the search begins with what earlier runs found ({len(studies)} of {self.store.path})")
        return studies

    def keep(self, records: Sequence[Record]) -> None:
        """Add a finished run, if there is one."""
        if self.store is None or not records:
            return
        try:
            within(LIMIT_S, partial(self.store.keep, records))
        except OSError as error:
            self.console.warning(
                f"what was learned cannot be kept in {self.store.path} ({error.strerror or error}); set AUTOTUNE_CACHE "
                "to a file that can be written, or to 0"
            )
