# SPDX-License-Identifier: Apache-2.0
"""Results of a job that were delivered to a service, or wait in its spool."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ringtune.tuner.logs.records import AdoptionRecord, Record, SampleRecord
from ringtune.tuning.service_link.results import ADOPTION_WINDOW, trial_uuid
from ringtune.tuning.service_link.spool import Spool
from ringtune.tuning.service_link.spool_format import payloads


def trial_ids(records: Sequence[Record]) -> set[str]:
    """Return the ids under which a log is reported: a result per window, and one for the adoption test."""
    windows = {trial_uuid(record.run_id, record.window) for record in records if isinstance(record, SampleRecord)}
    tests = {trial_uuid(record.run_id, ADOPTION_WINDOW) for record in records if isinstance(record, AdoptionRecord)}
    return windows | tests


def spooled(folder: Path, url: str) -> list[bytes]:
    """Return the spooled records of a service, also while a job has its file open or removes a delivered one."""
    held: list[bytes] = []
    for path in Spool(folder, url).folder.glob("*"):
        with suppress(FileNotFoundError):
            held.extend(payloads(path.read_bytes()))
    return held
