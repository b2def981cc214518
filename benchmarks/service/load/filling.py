# SPDX-License-Identifier: Apache-2.0
"""A team's ledger: thousands of studies, hundreds of jobs, and the summaries of their results.

Rows go into the service's own tables; the summaries are derived by the service's own code. Every study has a job's
shape: `JOBS` jobs measured their baseline and `CONFIGS` configs, `WINDOWS` windows each.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
from sqlalchemy import Connection, insert

from ringtune.service.domain.canonical import canonical, digest
from ringtune.service.domain.policy import ServiceLimits
from ringtune.service.domain.studies import digest_of
from ringtune.service.domain.summary_updates import rebuild
from ringtune.service.store import Database, migrate, reports, studies
from ringtune.service.store import tables as t
from ringtune.tuner import ENGINE_PARAMETERS, Config, SearchSpace, default_config
from ringtune.tuner.priors.relevance import StudyKey

SEED = 1
ALL_JOBS = 800
JOBS = 5
CONFIGS = 9
WINDOWS = 5
TRIALS_PER_STUDY = JOBS * (CONFIGS + 1) * WINDOWS
HARDWARE_KINDS = 20
RANKS_PER_HOST = (1, 2, 4, 8)
HOSTS = (1, 2, 4, 8, 16)
STUDIES_PER_TRANSACTION = 50
BASELINE_MS = 100.0
TENSOR_BYTES = (9_408_000, 2_359_296, 1_048_576, 4_096) * 40


@dataclass(frozen=True)
class Known:
    """A study that the ledger has.

    Attributes:
        study_id: Its id in the API.
        key: Its key.
    """

    study_id: str
    key: StudyKey

    @property
    def query(self) -> str:
        """The query string that asks for its recommendation."""
        return query_of(self.key)


def query_of(key: StudyKey) -> str:
    """Return the query string that asks for a key's recommendation."""
    ranks = {"world_size": key.world_size, "local_size": key.layout[-1]}
    return urlencode({"model_fingerprint": key.model, "hardware": key.hardware, **ranks})


def known_studies(trials: int) -> list[Known]:
    """Return the studies of a ledger with about that number of trials; the same for every call."""
    layouts = [(ranks,) * hosts for hosts in HOSTS for ranks in RANKS_PER_HOST]
    found = []
    for number in range(max(trials // TRIALS_PER_STUDY, 1)):
        place, layout = divmod(number, len(layouts))
        model, hardware = divmod(place, HARDWARE_KINDS)
        key = StudyKey(_fingerprint("hardware", hardware), _fingerprint("model", model), layouts[layout])
        found.append(Known(uuid.UUID(int=number + 1).hex, key))
    return found


def fill(database: Database, known: Sequence[Known], advance: Callable[[int], None]) -> None:
    """Bring the schema up to date and store all trials, unless they are there already.

    Args:
        database: Database that takes them.
        known: The studies.
        advance: Called with the number of trials that were stored.
    """
    migrate(database)
    with database.looking() as connection:
        there = set(studies.all_ids(connection))
    for start in range(0, len(known), STUDIES_PER_TRANSACTION):
        part = [study for study in known[start : start + STUDIES_PER_TRANSACTION] if study.study_id not in there]
        with database.writing(reports.LOCK) as connection:
            _store(connection, part)
        advance(TRIALS_PER_STUDY * STUDIES_PER_TRANSACTION)


def result_body(job_id: str, config: Config, step_ms: float) -> dict[str, Any]:
    """Return a result as a job's client sends it."""
    return {
        "job_id": job_id,
        "config": config.to_json(),
        "score_bytes_per_s": sum(TENSOR_BYTES) / (step_ms * 1e-3),
        "step_ms": {"median": step_ms, "mad": 0.01 * step_ms, "mean": step_ms},
        "steps": 40,
        "valid": True,
    }


def job_id_of(number: int) -> str:
    """Return the id of a job."""
    return str(uuid.UUID(int=(1 << 96) + number))


def candidates() -> list[Config]:
    """Return the configs that jobs measure beside the default."""
    default = default_config()
    return [
        default.replace({"fusion_bytes": 1 << (20 + number % 6), "cycle_ms": 0.5 * (1 + number // 6)})
        for number in range(CONFIGS)
    ]


def _fingerprint(kind: str, number: int) -> str:
    return hashlib.sha256(f"{kind} {number}".encode()).hexdigest()


def _store(connection: Connection, part: Sequence[Known]) -> None:
    if not part:
        return
    connection.execute(insert(t.studies), [study_row(study) for study in part])
    rows = [row for study in part for row in _report_rows(study)]
    if connection.dialect.name == "postgresql":
        _copy(connection, rows)
    else:
        connection.execute(insert(t.reports), rows)
    rebuild(connection, [study.study_id for study in part], ServiceLimits().max_speedup)


def _copy(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Append to the ledger by COPY: several times as fast as INSERT."""
    driver: Any = connection.connection.driver_connection
    names = tuple(rows[0])
    with driver.cursor().copy(f"COPY reports ({', '.join(names)}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row([row[name] for name in names])


def study_row(study: Known) -> dict[str, Any]:
    """Return a study as its table has it."""
    return {
        **vars(study.key),
        "layout": canonical(study.key.layout),
        "study_id": study.study_id,
        "key_digest": digest_of(study.key),
        "model_name": f"model-{study.key.model[:8]}",
        "hardware_name": None,
        "space": canonical(SearchSpace(ENGINE_PARAMETERS, {}).to_json()),
        "gradient_bytes": canonical(sorted(TENSOR_BYTES)),
        "created_unix_s": 1.7e9 + int(study.study_id, 16),
    }


def _report_rows(study: Known) -> Iterator[dict[str, Any]]:
    """Yield the reports of the study's jobs; each config has its own speed-up, each window its scatter."""
    rng = np.random.default_rng((SEED, int(study.study_id, 16)))
    factors = [1.0, *rng.uniform(0.8, 1.25, CONFIGS)]
    configs = [canonical(config.to_json()) for config in (default_config(), *candidates())]
    scatter = iter(rng.lognormal(0.0, 0.02, TRIALS_PER_STUDY).tolist())
    number = 0
    for job in rng.choice(ALL_JOBS, JOBS, replace=False).tolist():
        of_job = {"study_id": study.study_id, "job_id": job_id_of(job)}
        for config, factor in zip(configs, factors, strict=True):
            phase = "baseline" if config == configs[0] else "search"
            for _ in range(WINDOWS):
                step_ms = BASELINE_MS * factor * next(scatter)
                yield {**of_job, "trial_id": f"{study.study_id[-12:]}-{number}", **_columns(config, phase, step_ms)}
                number += 1


def _columns(config: str, phase: str, step_ms: float) -> dict[str, Any]:
    return {
        "run_id": None,
        "body_digest": digest(f"{config} {step_ms}"),
        "status": "new",
        "phase": phase,
        "config": config,
        "config_digest": digest(config),
        "score_bytes_per_s": sum(TENSOR_BYTES) / (step_ms * 1e-3),
        "median_step_ms": step_ms,
        "mad_step_ms": 0.01 * step_ms,
        "mean_step_ms": step_ms,
        "steps": 40,
        "valid": True,
        "received_unix_s": 1.7e9,
    }
