# SPDX-License-Identifier: Apache-2.0
"""Earlier runs of this machine, as one job sees them: read when tuning begins, added to while it goes on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ringtune.system.cache_files import within
from ringtune.system.console import Console
from ringtune.system.counts import counted
from ringtune.tuner import Config, EarlierStudy, Prior, SearchSpace, StudyStore, earlier_studies
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.logs.records import Record
from ringtune.tuner.logs.store import WrittenPart
from ringtune.tuner.priors.origins import origins_text
from ringtune.tuner.priors.warm_start import adopted_config

from .failing_configs import configs_over_limit
from .own_line import write_own_line

FILE_NAME = "studies.jsonl"
OFF = "0"
LIMIT_S = 10.0  # deadline for the file, seconds; only the tuner waits, and a large file takes a busy machine seconds


@dataclass(frozen=True)
class Memory:
    """The file of earlier studies, or none. It never raises.

    Attributes:
        store: The file; None where no study is kept.
        console: Shows faults of the file.
        shown: Kinds of faults that were shown; each is shown once.
    """

    store: StudyStore | None
    console: Console
    shown: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, setting: str | None, cache_folder: Path, console: Console) -> "Memory":
        """Return the memory that `AUTOTUNE_CACHE` asks for; None is the user's own file, in `cache_folder`."""
        if setting == OFF:
            return cls(None, console)
        return cls(StudyStore(cache_folder / FILE_NAME if setting is None else Path(setting)), console)

    def priors(
        self,
        key: Mapping[str, Any],
        space: SearchSpace,
        seed: int,
        models: Sequence[Prior] = (),
    ) -> Sequence[EarlierStudy]:
        """Return earlier studies as priors, the most relevant first, and say on stderr whose they are.

        Args:
            key: Key of this job's study.
            space: The legal configs.
            seed: Seed of the fits.
            models: Priors of this job that need no measurements.
        """
        studies = earlier_studies(self._runs(), key, space, seed, models)
        if studies and self.store is not None:
            samples = f"the search begins with the samples of {origins_text([study.origin for study in studies])}"
            write_own_line(f"ringtune autotune: {samples} ({self.store.path})")
        return studies

    def adopted(self, key: Mapping[str, Any], space: SearchSpace, baseline: Config) -> Config | None:
        """Return the config that the newest run of the same question has adopted, if it is legal now; else None.

        Args:
            key: Key of this job's study.
            space: The legal configs.
            baseline: Config that this job runs without tuning.
        """
        return adopted_config(self._runs(), key, space, baseline)

    def over_limit(self, key: Mapping[str, Any], space: SearchSpace, limit_bytes: int) -> frozenset[Config]:
        """Return the configs that needed too much memory in earlier runs of the same question.

        Args:
            key: Key of this job's study.
            space: The legal configs.
            limit_bytes: Memory limit of this job; a run with a much lower one is no evidence.
        """
        return configs_over_limit(self._runs(), key, space, limit_bytes)

    def keep(self, records: Sequence[Record], written: WrittenPart | None = None) -> WrittenPart | None:
        """Add a run, or its new records.

        Args:
            records: All records of the run so far; without any the call returns None.
            written: The answer of the call before for this run, if there was one.

        Returns:
            The run's part in the file; None where it cannot be kept, after a warning.
        """
        if self.store is None or not records:
            return None
        try:
            return within(LIMIT_S, partial(self.store.keep, records, written))
        except OSError as error:
            self.console.warning(
                f"what was learned cannot be kept in {self.store.path} ({error.strerror or error}); set AUTOTUNE_CACHE "
                "to a file that can be written, or to 0"
            )
            return None

    def _runs(self) -> tuple[RunLog, ...]:
        """Return all earlier runs, after a warning where the file cannot be read, or not all of it."""
        if self.store is None:
            return ()
        try:
            contents = within(LIMIT_S, self.store.contents)
        except OSError as error:
            self._warn_once(
                f"what was learned before cannot be read from {self.store.path} ({error.strerror or error}); the "
                "search begins without it",
                kind="unreadable",
            )
            return ()
        if contents.bad_line_count:
            first = contents.bad_lines[0]
            self._warn_once(
                f"{self.store.path} is damaged: left out {counted(contents.bad_line_count, 'line')} of it, the first "
                f"is line {first.number} ({first.reason}); remove the file to begin anew",
                kind="damaged",
            )
        return contents.runs

    def _warn_once(self, text: str, kind: str) -> None:
        if kind not in self.shown:
            self.shown.add(kind)
            self.console.warning(text)
