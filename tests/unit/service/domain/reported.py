# SPDX-License-Identifier: Apache-2.0
"""Studies and results as jobs would report them."""

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ringtune.service.domain import Service
from ringtune.service.domain.jobs import JobReport
from ringtune.service.domain.machines import MachineKind
from ringtune.service.domain.values import (
    PairedTestResult,
    RecommendationQuery,
    ReportedResult,
    StudyRecord,
)
from ringtune.shared_service.rest_models import StoredResult
from ringtune.tuner import Config, Phase, StepTimes, default_config, search_space
from ringtune.tuner.priors.relevance import StudyKey

HARDWARE, MODEL = "a" * 64, "b" * 64
GRADIENT_BYTES = (4_000_000,) * 10
STEP_BYTES = sum(GRADIENT_BYTES)
KEY = StudyKey(HARDWARE, MODEL, (2,))
QUERY = RecommendationQuery(hardware=HARDWARE, world_size=2, local_size=2, model=MODEL)
DEFAULT = default_config()
BETTER = DEFAULT.replace({"fusion_bytes": 8 << 20})
MACHINE = MachineKind(hosts=2, cpu_model="EPYC", cores=64, gpus=("A100",), link_kind="tcp", link_bits_per_s=10**10)
FACTS = JobReport("keeping_default", "keeping default: no gain", "räsnet", ("a", "b"), "9fceb02", "Rack 7", (MACHINE,))
OTHER = DEFAULT.replace({"fusion_bytes": 4 << 20})


def study_of(service: Service, key: StudyKey = KEY, name: str | None = "resnet50") -> StudyRecord:
    """Return the study of a key, with the engine's search space."""
    space = search_space({}, DEFAULT).to_json()
    return service.studies.find_or_create(key, space_json=space, model_name=name, gradient_bytes=GRADIENT_BYTES)


def new_id() -> str:
    """Return an id as clients make them."""
    return str(uuid.uuid4())


def result(
    job_id: str,
    config: Config = DEFAULT,
    step_ms: float = 100.0,
    *,
    phase: Phase = Phase.SEARCH,
    adoption: PairedTestResult | None = None,
    fencing_token: int | None = None,
    token_id: str | None = None,
) -> ReportedResult:
    """Return a valid result of twenty steps that scatter by a percent."""
    return ReportedResult(
        config=config,
        job_id=job_id,
        score_bytes_per_s=STEP_BYTES / (step_ms * 1e-3),
        step_ms=StepTimes(step_ms, 0.01 * step_ms, step_ms),
        steps=20,
        phase=phase,
        adoption=adoption,
        fencing_token=fencing_token,
        token_id=token_id,
    )


def tell(service: Service, study_id: str, trial_id: str, told: ReportedResult) -> StoredResult:
    """Report a result, and return once it is durable, or raise the service's error; within a running loop, too."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, service.ledger.tell(study_id, trial_id, told)).result()


def paired(speedup: float, half_width: float = 0.01) -> PairedTestResult:
    """Return a paired test's result: a speed-up with its 90 % interval, of the given width to either side."""
    return PairedTestResult(speedup, speedup - half_width, speedup + half_width, 8, 0.9)


def look(service: Service, study: StudyRecord, job_id: str, config: Config, step_ms: float) -> None:
    """Report two windows of a config, each between two of the job's baseline of 100 ms; no paired test."""
    baseline, window = result(job_id, phase=Phase.BASELINE), result(job_id, config, step_ms)
    results = (baseline, window, baseline, window, baseline)
    service.ledger.tell_batch(study.study_id, [(new_id(), item) for item in results])


def measure(service: Service, study: StudyRecord, job_id: str, config: Config, step_ms: float) -> None:
    """Report the results of `look`, and the paired test of the config that follows from it."""
    look(service, study, job_id, config, step_ms)
    test = paired(100.0 / step_ms - 1.0)
    tell(service, study.study_id, new_id(), result(job_id, config, step_ms, phase=Phase.ADOPTION, adoption=test))


def adopt(service: Service, study: StudyRecord, token_id: str | None, config: Config, speedup: float) -> str:
    """Report a new job's baseline and its paired test of a config, with a token; returns the job's id."""
    job_id = new_id()
    tested = result(job_id, config, 100.0 / (1.0 + speedup), phase=Phase.ADOPTION, adoption=paired(speedup))
    for item in (result(job_id, phase=Phase.BASELINE), tested):
        tell(service, study.study_id, new_id(), replace(item, token_id=token_id))
    return job_id
