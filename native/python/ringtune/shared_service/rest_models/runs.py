# SPDX-License-Identifier: Apache-2.0
"""A whole tuning log at once."""

from typing import Annotated, Any, TypeAlias

from pydantic import Field

from .fields import MAX_RECORDS, Count, Name, Reply, ShownText, Text, Uuid, WireModel

LogRecord: TypeAlias = Annotated[
    dict[str, Any], Field(description="A record of the tuning log, schema 1, as its line has it.", min_length=1)
]


class TuningLog(WireModel):
    """The records of a tuning log, in their order; one log may hold several runs."""

    job_id: Annotated[Uuid | None, Field(description="Job of the runs; without it, each run counts as a job.")] = None
    records: Annotated[
        list[LogRecord],
        Field(
            min_length=1,
            max_length=MAX_RECORDS,
            examples=[[{"type": "run", "run_id": "3f2a", "schema": 1}, {"type": "sample", "run_id": "3f2a"}]],
        ),
    ]


class StoredRun(Reply):
    """Outcome of one run of the log; `same` counts results that were here already."""

    run_id: Name
    study_id: ShownText | None
    new: Count = 0
    same: Count = 0
    quarantined: Count = 0
    reason: Text | None = None


class StoredRuns(Reply):
    """Outcome of each run."""

    runs: list[StoredRun]
