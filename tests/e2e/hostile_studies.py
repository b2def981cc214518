# SPDX-License-Identifier: Apache-2.0
"""A database in which everything that people read has a hostile name, also what the API would refuse."""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import insert

from ringtune.service.domain import Policy, Service
from ringtune.service.domain.canonical import canonical, digest
from ringtune.service.domain.values import Adoption, ReportedResult, StudyKey
from ringtune.service.store import Database
from ringtune.service.store import tables as schema
from ringtune.tuner import CategoryParameter, Config, Phase, SearchSpace, StepTimes
from tests.unit.dashboards.hostile import hostile_names

SHOWN = (
    "\u202egnp.exe\u202c",
    "x" * 5000,
    "'; DROP TABLE studies; --",
    "a\nb",
    "=cmd|' /C calc'!A0",
    "${7*7}",
    "<%= 7 %>",
)
TARGET = "hostile"


def all_hostile_names() -> list[str]:
    """Return 500 names, some of which would end what they stand in, turn it around, or be very long."""
    names = [name.encode("utf-8", "replace").decode() for name in hostile_names()]
    return [*SHOWN, *names][:500]


def write_hostile_database(folder: Path, names: Sequence[str]) -> list[str]:
    """Make the database of a service whose data folder this is; returns the studies' ids, one per name.

    The first study has results under configs of hostile values, and runs of hostile headers.
    """
    path = folder / "ringtune" / "service.sqlite3"
    path.parent.mkdir()
    database = Database.open(f"sqlite:///{path}")
    service = Service(database, policy=Policy(design_workers=0))
    service.migrate()
    service.start()
    first = _measured(service, [name for name in names if name.isprintable() and len(name) <= 64])
    others = [_row(number, name) for number, name in enumerate(names[1:], start=1)]
    with database.writing() as connection:
        connection.execute(schema.studies.update().values(model_name=names[0], hardware_name=names[0]))
        connection.execute(insert(schema.studies), others)
        connection.execute(insert(schema.runs), [_run(first, number, name) for number, name in enumerate(names[:40])])
        reason = schema.reports.update().where(schema.reports.c.number == 1).values(status_reason=names[3])
        connection.execute(reason)
    service.close()
    return [first, *(str(row["study_id"]) for row in others)]


def _measured(service: Service, values: Sequence[str]) -> str:
    """Report results under a config per value, faster than a baseline, and a paired test."""
    space = SearchSpace([CategoryParameter("mode", ("plain", *values[:60]), "plain")], {})
    key = StudyKey("e" * 64, "f" * 64, (2, 2), TARGET)
    study = service.studies.find_or_create(key, space_json=space.to_json(), model_name="m", hardware_name="h")
    for job_number in range(2):
        job_id = str(uuid.UUID(int=job_number + 1))
        for number, value in enumerate(("plain", "plain", *values[:60])):
            median_ms = 10.0 if number < 2 else 7.0 + 0.01 * number
            phase = Phase.BASELINE if number < 2 else Phase.SEARCH
            result = ReportedResult(
                Config({"mode": value}), job_id, 1e9, StepTimes(median_ms, 0.1, median_ms), 20, phase=phase
            )
            service.ledger.tell(study.study_id, str(uuid.uuid4()), result)
        tested = ReportedResult(
            Config({"mode": values[0]}),
            job_id,
            1e9,
            StepTimes(7.0, 0.1, 7.0),
            20,
            phase=Phase.ADOPTION,
            adoption=Adoption(0.4, 0.35, 0.45, 6),
        )
        service.ledger.tell(study.study_id, str(uuid.uuid4()), tested)
    return study.study_id


def _row(number: int, name: str) -> dict[str, object]:
    key = [f"{number % 50:064x}", f"{number // 2:064x}", [2], TARGET, 1]
    return {
        "study_id": f"{number:032x}",
        "key_digest": digest(canonical([*key, number])),
        "hardware": key[0],
        "model": key[1],
        "layout": "[2]",
        "target": TARGET,
        "surface_version": 1,
        "model_name": name,
        "hardware_name": name,
        "space": json.dumps(SearchSpace([CategoryParameter("mode", ("plain",), "plain")], {}).to_json()),
        "gradient_bytes": "[]",
        "created_unix_s": 1.7e9 + number,
    }


def _run(study_id: str, number: int, name: str) -> dict[str, object]:
    header = {"model_name": name, "seed": name, "steps_budget": {name: name}, "versions": {name: [name]}}
    return {
        "run_id": f"{number}{name}"[:64],
        "study_id": study_id,
        "job_id": name[:64],
        "body_digest": f"{number:064x}",
        "header": json.dumps(header),
        "results": 1,
        "received_unix_s": 1.7e9,
    }
