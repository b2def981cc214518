# SPDX-License-Identifier: Apache-2.0
"""Jobs and machines in an export: written as they are kept, and checked when they are taken."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection

from ringtune.service.store import job_facts
from ringtune.service.store.rows import JobFactsRow

from .canonical import canonical
from .jobs import JobReport, machines_in
from .machines import described
from .submission import check_id


def take_job(connection: Connection, study_id: str, data: Mapping[str, Any], past: Callable[[float], float]) -> None:
    """Keep an export's facts of a job, unless the job is known here.

    Args:
        connection: Connection to the database.
        study_id: The study's id here.
        data: The line.
        past: Returns a time that is not in the future; raises InvalidRequest for a value that is no time.

    Raises:
        InvalidRequest: If it cannot be.
    """
    check_id("job_id", data["job_id"])
    tags = json.loads(data["tags"])
    if not all(isinstance(tag, str) for tag in tags):
        raise TypeError("a tag is no text")
    JobReport(data["state"], data["verdict"], data["name"], tuple(tags), data["code_commit"]).check()
    row = JobFactsRow(
        study_id=study_id,
        job_id=data["job_id"],
        state=data["state"],
        verdict=data["verdict"],
        name=data["name"],
        tags=canonical(tags),
        code_commit=data["code_commit"],
        begun_unix_s=past(data["begun_unix_s"]),
        heard_unix_s=past(data["heard_unix_s"]),
    )
    if job_facts.get(connection, study_id, data["job_id"]) is None:
        job_facts.put(connection, row)


def machine_columns(data: Mapping[str, Any]) -> dict[str, str | None]:
    """Return a study's columns for its machines; None in exports from before they were kept.

    Raises:
        InvalidRequest: If a fact cannot be.
    """
    machines = machines_in(data.get("machines"))
    JobReport(machines=tuple(machines)).check()
    return {"machines": data.get("machines") if machines else None, "machines_text": described(machines) or None}
