# SPDX-License-Identifier: Apache-2.0
"""The real service with its web pages, in a process of its own, filled by real tuning runs over its real API."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringtune.tuner import DEFAULT_DESIGNER, SilentObserver, TuningRun, default_config, make_designer
from ringtune.tuner.logs.records import record_to_json
from ringtune.tuner.testing import SyntheticTarget
from ringtune.tuning.service_link import NoService, ServiceJob, http_link
from tests.integration.service.server_process import serving
from tests.integration.service_link.jobs import KEY, SPACE, Notes, connect, run_job, run_settings

START_LIMIT_S = 30.0
CLOSE_LIMIT_S = 30.0
HARDWARE = {"c": "4 hosts, 8x A100, 100 Gbit/s", "d": "2 hosts, 64 cores, 25 Gbit/s"}
MODELS = {"1": "resnet50", "2": "bert-large", "3": "gpt2-medium"}


@dataclass(frozen=True)
class WebService:
    """A running service.

    Attributes:
        url: The address where it listens.
        client: Speaks to it, with a token if there is one.
        folder: The folder of its data and of its jobs' spools.
    """

    url: str
    client: httpx.Client
    folder: Path

    def study(self, model: str, hardware: str, layout: list[int] | None = None, **changed: Any) -> str:
        """Create a study of a model and hardware that are each named by a hex digit; returns its id."""
        key = {**KEY, "model": model * 64, "hardware": hardware * 64, "layout": layout or [2, 2]}
        names = {"model_name": MODELS.get(model), "hardware_name": HARDWARE.get(hardware)}
        body = {"key": key, "search_space": SPACE.to_json(), **names, **changed}
        reply = self.client.post("/v1/studies", json=body)
        assert 200 == reply.status_code, reply.text
        return str(reply.json()["id"])

    def tune(self, model: str, hardware: str, *, seed: int, samples: int = 12) -> str:
        """Run a job that tunes and reports, to its end; returns the study's id."""
        study_id = self.study(model, hardware)
        key = {**KEY, "model": model * 64, "hardware": hardware * 64, "layout": [2, 2]}
        settings = run_settings(
            key=key, layout={"ranks_per_host": [2, 2]}, seed=seed, max_samples=samples, model_name=MODELS.get(model)
        )
        notes = Notes()
        link = connect(self.url, self.folder, notes)
        target = SyntheticTarget(baseline=default_config(), seed=seed)
        designer = link.with_start(
            make_designer(DEFAULT_DESIGNER, target.space(), seed), ServiceJob(settings, target.space())
        )
        log = link.report_log()
        TuningRun(target, designer, settings, log, SilentObserver(), clock=target.clock).run()
        link.close()
        assert not notes.warnings, notes.warnings
        return study_id

    def push(self, model: str, hardware: str) -> None:
        """Push a whole log of a run that knew no service."""
        key = {**KEY, "model": model * 64, "hardware": hardware * 64, "layout": [2, 2]}
        job = run_job(NoService(), Notes(), run_settings(key=key, seed=9, model_name=MODELS.get(model), max_samples=4))
        reply = self.client.post("/v1/runs", json={"records": [record_to_json(record) for record in job.records]})
        assert 200 == reply.status_code, reply.text

    def report(self, study_id: str, **changed: Any) -> None:
        """Report one result of the default config."""
        result = {
            "job_id": str(uuid.uuid4()),
            "config": default_config().to_json(),
            "score_bytes_per_s": 1.0e9,
            "step_ms": {"median": 10.0, "mad": 0.1, "mean": 10.1},
            "steps": 40,
            "valid": True,
            **changed,
        }
        reply = self.client.put(f"/v1/studies/{study_id}/trials/{uuid.uuid4()}/result", json=result)
        assert reply.status_code in {200, 201}, reply.text


@contextmanager
def web_service(folder: Path, variables: Mapping[str, str] | None = None, token: str = "") -> Iterator[WebService]:
    """Start a service with pages on a free port; it is killed at the end."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    limit = {"timeout": START_LIMIT_S, "verify": False}
    with serving(folder, variables=variables, headers=headers, **limit) as server:
        yield WebService(server.url, server.client, folder)


@contextmanager
def filled_service(folder: Path) -> Iterator[WebService]:
    """Start a service without tokens, filled with runs of two models on two kinds of hardware.

    One study has two jobs and a log that was pushed, one has no results. However slow the machine is, the jobs wait
    for the service.
    """
    with pytest.MonkeyPatch.context() as patch, web_service(folder) as service:
        patch.setattr(http_link, "START_LIMIT_S", START_LIMIT_S)
        patch.setattr(http_link, "REPORT_LIMIT_S", START_LIMIT_S)
        patch.setattr(http_link, "CLOSE_LIMIT_S", CLOSE_LIMIT_S)
        service.tune("1", "c", seed=1)
        service.tune("1", "c", seed=2)
        service.tune("1", "d", seed=3, samples=6)
        service.tune("2", "c", seed=4, samples=6)
        service.push("1", "c")
        service.study("3", "d", layout=[8])
        yield service
