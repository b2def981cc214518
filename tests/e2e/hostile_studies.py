# SPDX-License-Identifier: Apache-2.0
"""A database in which every displayed name is hostile, also names that the API would refuse."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, insert, select

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.canonical import canonical, digest
from ringtune.service.domain.values import PairedTestResult, ReportedResult
from ringtune.service.store import Database
from ringtune.service.store import tables as schema
from ringtune.service.store.said_names import OPEN
from ringtune.service.store.summaries import BASELINE
from ringtune.tuner import CategoryParameter, Config, Phase, SearchSpace, StepTimes
from ringtune.tuner.priors.relevance import StudyKey
from tests.unit.dashboards.hostile import hostile_names
from tests.unit.service.domain.reported import tell

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
    """Return 500 names, some of which would end the text around them, reverse it, or be very long."""
    names = [name.encode("utf-8", "replace").decode() for name in hostile_names()]
    return [*SHOWN, *names][:500]


GROUP = 20
"""Studies of one model, and models whose fingerprints begin alike: as many as a page shows at once."""
VALUES = 60
COMMIT_S = 150.0
"""However busy the disk is."""


@dataclass(frozen=True)
class HostileStudies:
    """Contents of the database; the name with number n is the model's and the hardware's of both studies n.

    Attributes:
        of_values: Studies with results under configs of hostile values, 60 names each.
        alone: Studies of a model each.
        together: Studies of models that 20 kinds of hardware share.
    """

    of_values: tuple[str, ...]
    alone: tuple[str, ...]
    together: tuple[str, ...]

    @property
    def model_beginnings(self) -> list[str]:
        """Beginnings of fingerprints of models; each one is that of as many models as a list shows."""
        return [f"a{group:02x}" for group in range(-(-len(self.alone) // GROUP))]

    @property
    def models(self) -> list[str]:
        """The models that several kinds of hardware share."""
        return [_model_together(number) for number in range(0, len(self.together), GROUP)]

    def of_one_model(self, count: int) -> list[tuple[str, ...]]:
        """Return the studies that share a model, so many at once at most."""
        groups = [self.together[begin : begin + GROUP] for begin in range(0, len(self.together), GROUP)]
        return [group[begin : begin + count] for group in groups for begin in range(0, len(group), count)]


def write_hostile_database(
    folder: Path, names: Sequence[str], *, is_every_name_a_value: bool = False
) -> HostileStudies:
    """Make the database of a service whose data folder this is.

    All studies have a config with a speed-up, so that figures show their names; those of values have runs of hostile
    headers and a hostile reason besides.
    """
    path = folder / "ringtune" / "service.sqlite3"
    path.parent.mkdir()
    database = Database.open(f"sqlite:///{path}")
    service = Service(database, policy=ServiceLimits(design_workers=0, commit_timeout_s=COMMIT_S))
    service.migrate()
    service.start()
    values = list(dict.fromkeys(name[:64] for name in names if name[:64].isprintable()))
    last = len(values) if is_every_name_a_value else VALUES
    of_values = tuple(_measured(service, values[begin : begin + VALUES]) for begin in range(0, last, VALUES))
    with database.writing() as connection:
        studies = _write_rows(connection, names, of_values)
    service.close()
    return studies


def _write_rows(connection: Connection, names: Sequence[str], of_values: tuple[str, ...]) -> HostileStudies:
    """Write studies, runs and a reason as the API would never take them."""
    alone = [_row(number, name, model=_model_alone(number)) for number, name in enumerate(names)]
    together = [_row(number, name, model=_model_together(number)) for number, name in enumerate(names)]
    connection.execute(schema.studies.update().values(model_name=names[0], hardware_name=names[0]))
    connection.execute(insert(schema.studies), [*alone, *together])
    connection.execute(schema.said_names.update().values(model_name=names[0], hardware_name=names[0]))
    connection.execute(insert(schema.said_names), [_said(row) for row in (*alone, *together)])
    _copy_best(connection, of_values[0], [str(row["study_id"]) for row in (*alone, *together)])
    runs = [_run(of_values[0], number, name) for number, name in enumerate(names[:40])]
    connection.execute(insert(schema.runs), runs)
    connection.execute(schema.reports.update().where(schema.reports.c.number == 1).values(status_reason=names[3]))
    return HostileStudies(of_values, *(tuple(str(row["study_id"]) for row in rows) for rows in (alone, together)))


def _said(study: Mapping[str, object]) -> dict[str, object]:
    """Return the names of a study as sent without a token."""
    names = {column: study[column] for column in ("study_id", "model_name", "hardware_name")}
    return {**names, "token_id": OPEN, "said_unix_s": study["created_unix_s"]}


def _model_alone(number: int) -> str:
    return f"a{number // GROUP:02x}{number:061x}"


def _model_together(number: int) -> str:
    return f"b{number // GROUP:063x}"


def _copy_best(connection: Connection, source: str, study_ids: Sequence[str]) -> None:
    """Have studies a config with a speed-up, and jobs that measured the baseline: those of another study."""
    configs, jobs, records = schema.config_summaries, schema.job_summaries, schema.job_records
    best = select(configs).where(configs.c.study_id == source, configs.c.speedup.is_not(None)).limit(1)
    digests = (connection.execute(best).mappings().one()["config_digest"], BASELINE)
    own = select(jobs).where(jobs.c.study_id == source, jobs.c.config_digest.in_(digests))
    for table, query in ((configs, best), (jobs, own), (records, select(records).where(records.c.study_id == source))):
        rows = connection.execute(query).mappings().all()
        connection.execute(insert(table), [{**row, "study_id": study_id} for study_id in study_ids for row in rows])


def _measured(service: Service, values: Sequence[str]) -> str:
    """Report results under a config per value, faster than a baseline, and a paired test; returns the study's id."""
    space = SearchSpace([CategoryParameter("mode", ("plain", *values), "plain")], {})
    key = StudyKey("e" * 64, digest(canonical(list(values))), (2, 2), TARGET)
    study = service.studies.find_or_create(key, space_json=space.to_json(), model_name="m", hardware_name="h")
    for job_number in range(2):
        job_id = str(uuid.UUID(int=job_number + 1))
        for number, value in enumerate(("plain", "plain", *values)):
            median_ms = 10.0 if number < 2 else 7.0 + 0.01 * number
            phase = Phase.BASELINE if number < 2 else Phase.SEARCH
            result = ReportedResult(
                Config({"mode": value}), job_id, 1e9, StepTimes(median_ms, 0.1, median_ms), 20, phase=phase
            )
            tell(service, study.study_id, str(uuid.uuid4()), result)
        tested = ReportedResult(
            Config({"mode": values[0]}),
            job_id,
            1e9,
            StepTimes(7.0, 0.1, 7.0),
            20,
            phase=Phase.ADOPTION,
            adoption=PairedTestResult(0.4, 0.35, 0.45, 6),
        )
        tell(service, study.study_id, str(uuid.uuid4()), tested)
    return study.study_id


def _row(number: int, name: str, *, model: str) -> dict[str, object]:
    hardware = f"c{number:063x}"
    key_digest = digest(canonical([hardware, model]))
    return {
        "study_id": key_digest[:32],
        "key_digest": key_digest,
        "hardware": hardware,
        "model": model,
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
