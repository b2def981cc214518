# SPDX-License-Identifier: Apache-2.0
"""One question, one answer: the command on the runs of a machine, the REST call, the pages, and a list of studies."""

import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from ringtune.system.counts import counted
from ringtune.tuner import Config, Phase, StudyStore, default_config, search_space
from ringtune.tuner.logs.records import (
    AdoptionRecord,
    EndRecord,
    Record,
    ResultRecord,
    RunRecord,
    record_to_json,
    sample_record,
)
from tests.contract.web.applications import BROWSER, HERE, application_with_pages
from tests.integration.service_link.commands import ringtune
from tests.integration.service_store.run_logs import PAIRS, sample
from tests.unit.service.domain.reported import BETTER, DEFAULT, OTHER

ANY, RACK, SHED = "any", "a" * 64, "d" * 64
NAMES = {RACK: "Rack 7", SHED: "Shed"}


@dataclass(frozen=True)
class Job:
    """A job with one finished run: `adopted`, `kept` after a test, or `ended` with windows alone."""

    verdict: str
    config: Config = BETTER
    ranks: int = 2
    hardware: str = RACK


@dataclass(frozen=True)
class Case:
    """Jobs in their order, the machine that is asked for, and the answer."""

    jobs: tuple[Job, ...]
    source: str
    standing: str
    config: Config = DEFAULT
    reason: str = ""
    hardware: str = RACK


KEPT, ADOPTED = Job("kept"), Job("adopted")
CASES = {
    "kept": Case((KEPT, KEPT), "exact", "default", reason="keeps the default (2 jobs keep the default)"),
    "adopted": Case((ADOPTED,), "exact", "prior", BETTER),
    "adopted twice": Case((ADOPTED, ADOPTED), "exact", "confirmed", BETTER),
    "adopted, then kept": Case((ADOPTED, KEPT), "exact", "default"),
    "kept, then adopted": Case((KEPT, Job("adopted", OTHER)), "exact", "prior", OTHER),
    "windows alone": Case((Job("ended"), Job("kept", ranks=4)), "default", "default"),
    "neighbour's windows": Case((Job("ended", ranks=4), Job("kept", OTHER, ranks=8)), "default", "default"),
    "neighbour adopted": Case((Job("adopted", ranks=4),), "nearest", "prior", BETTER, "nearest: 4 ranks"),
    "own verdict before a neighbour's": Case((KEPT, Job("adopted", ranks=4)), "exact", "default"),
    "any of one machine": Case((ADOPTED,), "exact", "prior", BETTER, "measured on Rack 7", ANY),
    "any of two machines": Case(
        (ADOPTED, Job("kept", hardware=SHED)), "exact", "default", DEFAULT, "measured on Shed; 1 other machine", ANY
    ),
}


def records_of(number: int, job: Job) -> list[Record]:
    """Return the log of a job, a second after the one before it."""
    run_id = f"run-{number}"
    key = {"hardware": job.hardware, "model": "b" * 64, "layout": [job.ranks], "target": "ringtune"}
    header: dict[str, Any] = {"layout": {"ranks_per_host": [job.ranks]}, "versions": {}, "fixed": {}}
    baseline = default_config((job.ranks,))
    run = RunRecord(
        t_s=0.0,
        run_id=run_id,
        schema=1,
        unix_time_s=1.7e9 + number,
        model_name="resnet50",
        key={**key, "surface_version": 1},
        search_space=search_space({}, DEFAULT).to_json(),
        baseline=baseline.to_json(),
        seed=number,
        steps_budget={},
        hardware_name=NAMES[job.hardware],
        **header,
    )
    windows = [(baseline, 100.0, Phase.BASELINE), (job.config, 80.0, Phase.SEARCH), (baseline, 100.0, Phase.BASELINE)]
    windows += [] if job.verdict == "ended" else [(job.config, 80.0, Phase.ADOPTION)]
    samples: list[Record] = [
        sample_record(sample(*item), t_s=1.0, run_id=run_id, window=window) for window, item in enumerate(windows)
    ]
    if job.verdict == "ended":
        return [run, *samples, EndRecord(9.0, run_id, "ended in the search")]
    is_adopted = job.verdict == "adopted"
    low = 0.15 if is_adopted else -0.05
    chosen = job.config if is_adopted else baseline
    test = AdoptionRecord(9.0, run_id, PAIRS, low + 0.05, low, low + 0.1, job.verdict, 0.9)
    return [run, *samples, test, ResultRecord(9.0, run_id, chosen.to_json(), is_adopted, low, 1.0, 10)]


@pytest.mark.parametrize("name", CASES)
def test_the_command_the_interface_and_the_pages_give_one_answer(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same source, standing, config, evidence and reason; settings are pasted where a paired test adopted them."""
    case, cache = CASES[name], tmp_path / "studies.jsonl"
    query = {"model": "resnet50", "world_size": "2"} | ({} if case.hardware == ANY else {"hardware": case.hardware})
    with TestClient(application_with_pages(tmp_path, has_tokens=False), base_url=HERE) as client:
        for number, job in enumerate(case.jobs):
            records = records_of(number, job)
            StudyStore(cache).keep(records)
            body = {"records": [json.loads(json.dumps(record_to_json(record))) for record in records]}
            assert 200 == client.post("/v1/runs", json=body).status_code
        replied = client.get("/v1/recommendations", params=query).json()
        page = html.unescape(client.get("/recommendations", params=query, headers=BROWSER).text)
        listed = html.unescape(client.get("/studies", headers=BROWSER).text)
    outputs = {"log of the service": capsys.readouterr().out}
    for output in ("json", "env"):
        arguments = ("--model", "resnet50", "--world-size", "2", "--hardware", case.hardware, "--cache", str(cache))
        assert 0 == ringtune("recommend", *arguments, "--format", output)
        outputs[output] = capsys.readouterr().out
    commanded = json.loads(outputs["json"])

    assert (case.source, case.standing, case.config) == (replied["source"], replied["standing"], replied["config"])
    assert case.reason in replied["reason"]
    assert comparable(replied) == comparable(commanded) | {"reason": replied["reason"]}
    assert case.source == "default" or replied["reason"] == commanded["reason"]
    assert replied["reason"] in page
    is_pasted = case.standing != "default"
    assert [is_pasted] * 2 == ["export RINGTUNE" in text for text in (page, outputs["env"])]
    assert f'<span class="badge {"none" if case.standing == "default" else case.standing}">' in page
    badges = re.findall(
        r'data-label="A job starts with"><div><span class="figures-of">.*?>(\w+)</span></span>', listed, re.DOTALL
    )
    assert case.source != "exact" or case.standing in badges
    assert mean_gain_of(case.jobs) == "".join(re.findall(r"Mean gain over (.*?), the newest", listed))


def mean_gain_of(jobs: Sequence[Job]) -> str:
    """Return the count of verdicts that a list's mean gain is over; empty where no job came to one."""
    verdicts = [job for job in jobs if job.verdict != "ended"]
    return counted(len(verdicts), "verdict") if verdicts else ""


def comparable(offer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without the service's own parts: ages, seeds of a search, and random digits."""
    evidence = {name: value for name, value in offer["evidence"].items() if name != "age_s"}
    figures = ("speedup", "ci_low", "ci_high")
    rounded = {name: None if evidence[name] is None else round(evidence[name], 6) for name in figures}
    return {**offer, "evidence": {**evidence, **rounded}, "try_first": None}


def test_a_name_of_two_models_is_asked_for_by_fingerprint(tmp_path: Path) -> None:
    """The page links to each of them; until one is chosen none is recommended."""
    with TestClient(application_with_pages(tmp_path, has_tokens=False), base_url=HERE) as client:
        for number, model in enumerate("bc"):
            first, *rest = records_of(number, ADOPTED)
            assert isinstance(first, RunRecord)
            records = [replace(first, key={**first.key, "model": model * 64}), *rest]
            body = {"records": [json.loads(json.dumps(record_to_json(record))) for record in records]}
            assert 200 == client.post("/v1/runs", json=body).status_code
        reply = client.get("/recommendations", params={"model": "resnet50", "world_size": 2}, headers=BROWSER)

    assert (200, 2) == (reply.status_code, len(re.findall(r'href="[^"]*model_fingerprint=([bc]{64})', reply.text)))
    assert "export RINGTUNE" not in reply.text
